/* import_slot.h: the words through which one loaded object calls functions of others (its GOT).
 *
 * For allocators of which only one caller matters: what a library asks malloc for is seen there,
 * and nobody else's calls are slower. An object that was linked with "bind now" has its words
 * filled before its first line runs, and read-only; they are made writable for the moment of the
 * change. Calls nothing of libc but its dl_iterate_phdr, so it cannot allocate. */
#ifndef AG_IMPORT_SLOT_H
#define AG_IMPORT_SLOT_H

#include <stddef.h>
#include <stdint.h>

/* What the object that holds the address INSIDE calls by NAME: the word in its table, as the loader
 * left it. 0: the object is not there, or does not call it. */
uintptr_t ag_import_find(const void *inside, const char *name);

/* From here on the object calls REPLACEMENT instead; *ret_original is what it called, set before
 * the first call can arrive. 0; -ENOENT: as above; -EACCES: the table cannot be changed. */
int ag_import_replace(const void *inside, const char *name, void *replacement, void **ret_original);

/* For objects that the loader bound past who stands in front of a function (RTLD_DEEPBIND): in all
 * objects, imports of `name` that are `passed_by`, or are not bound yet, become `wanted`. */
struct ag_import_target {
    const char *name;
    uintptr_t passed_by, wanted;
};
/* Costs a look at the loader's counters where nothing was loaded since VERSION, which is the
 * caller's, 0 at first. Objects that define one of the names themselves are left alone. */
void ag_imports_rebind(const struct ag_import_target *wishes, size_t n_targets, uint64_t *version);

#endif
