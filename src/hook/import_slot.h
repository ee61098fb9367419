/* import_slot.h: the words through which one loaded object calls functions of others (its GOT).
 *
 * For allocators of which only one caller matters: the malloc calls of one library are seen there,
 * and other callers are not slowed down. An object that was linked with "bind now" has its words
 * filled before its first line runs, and read-only; they are made writable while they are changed.
 * The only libc function that it calls is dl_iterate_phdr, so it cannot allocate. */
#ifndef AG_IMPORT_SLOT_H
#define AG_IMPORT_SLOT_H

#include <stddef.h>
#include <stdint.h>

/* The function that the object containing the address INSIDE calls under NAME: the word in its
 * table, as the loader left it. 0: there is no such object, or it does not call the function. */
uintptr_t ag_import_find(const void *inside, const char *name);

/* From now on the object calls REPLACEMENT; *ret_original is the function that it called, set
 * before the first call can arrive. 0; -ENOENT: as above; -EACCES: the table cannot be changed. */
int ag_import_replace(const void *inside, const char *name, void *replacement, void **ret_original);

/* For objects that the loader bound past an interposed function (RTLD_DEEPBIND): in all objects,
 * imports of `name` that are bound to `passed_by`, or not bound yet, are changed to `wanted`. */
struct ag_import_target {
    const char *name;
    uintptr_t passed_by, wanted;
};
/* If nothing was loaded since VERSION (kept by the caller, 0 at first), it only reads the loader's
 * counters. Objects that define one of the names themselves are left alone. */
void ag_imports_rebind(const struct ag_import_target *targets, size_t n_targets, uint64_t *version);

#endif
