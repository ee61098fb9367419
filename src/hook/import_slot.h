/* import_slot.h: changes the words through which one loaded object calls functions of others (its
 * global offset table, GOT), so that only this object's calls of malloc, for instance, are hooked
 * and other callers are not slowed down. In an object that was linked with "bind now" the words are
 * filled before its first line runs, and are read-only; they are made writable while they are
 * changed. The only libc function called here is dl_iterate_phdr, so this code cannot allocate. */
#ifndef AG_IMPORT_SLOT_H
#define AG_IMPORT_SLOT_H

#include <stddef.h>
#include <stdint.h>

/* The function that is called as NAME in the object that contains the address INSIDE: the current
 * word of its GOT. 0: there is no such object, or it does not call the function. */
uintptr_t ag_import_find(const void *inside, const char *name);

/* From now on the object calls REPLACEMENT instead of *ret_original, which is set before the first
 * such call. 0; -ENOENT: ag_import_find would return 0; -EACCES: the GOT cannot be changed. */
int ag_import_replace(const void *inside, const char *name, void *replacement, void **ret_original);

/* With RTLD_DEEPBIND, the loader binds imports of `name` to `passed_by` instead of the interposed
 * `wanted`. In all objects, such imports, and imports not bound yet, are changed to `wanted`. */
struct ag_import_target {
    const char *name;
    uintptr_t passed_by, wanted;
};
/* VERSION is kept by the caller, 0 at first. If nothing was loaded since the last call, this only
 * reads the loader's counters. Objects that define one of the names are left alone. */
void ag_imports_rebind(const struct ag_import_target *targets, size_t n_targets, uint64_t *version);

#endif
