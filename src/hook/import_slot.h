/* import_slot.h: changes the words through which one loaded object calls functions of other objects
 * (its global offset table, GOT). So only this object's calls of malloc, for instance, are hooked,
 * and other callers are not slowed down. If an object was linked with "bind now", the loader fills
 * the words before the object's code runs, and makes them read-only. Such words are made writable
 * while they are changed. The only libc function called here is dl_iterate_phdr, so this code
 * cannot allocate. */
#ifndef AG_IMPORT_SLOT_H
#define AG_IMPORT_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the address of the function to which calls of NAME in one object currently lead: the word
 * in the object's GOT. The object is the one that contains the address INSIDE. Returns 0 if there
 * is no such object, or the object does not call NAME. */
uintptr_t ag_import_find(const void *inside, const char *name);

/* After this call, the object that contains INSIDE calls REPLACEMENT as NAME. *ret_original, the
 * function that it called before, is set before the first call of REPLACEMENT. Returns 0; -ENOENT:
 * ag_import_find would return 0; -EACCES: the GOT cannot be changed. */
int ag_import_replace(const void *inside, const char *name, void *replacement, void **ret_original);

/* In an object that was loaded with RTLD_DEEPBIND, the loader binds imports of `name` to the
 * definition `passed_by` instead of the interposed definition `wanted`. ag_imports_rebind changes
 * such imports, and imports that are not bound yet, to `wanted` in all objects. */
struct ag_import_target {
    const char *name;
    uintptr_t passed_by, wanted;
};
/* *VERSION is a variable of the caller, 0 at first. If no object was loaded or unloaded since the
 * last call, this function only reads the loader's counters. The function does not change objects
 * that define one of the names. */
void ag_imports_rebind(const struct ag_import_target *targets, size_t n_targets, uint64_t *version);

/* Whether an object, except for the first N_FIRST in load order, calls one of the functions by an
 * import. Imports that are not bound yet do not count. */
bool ag_imports_lead_to(const uintptr_t *functions, size_t n_functions, size_t n_first);

/* Whether an object that does not define the function UNLESS calls one of the functions NAMES by an
 * import that is bound. */
bool ag_imports_have(const char *const *names, size_t n_names, const char *unless);

#endif
