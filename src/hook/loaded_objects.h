/* loaded_objects.h: the C library's own dl_iterate_phdr, and searches of the objects that it lists.
 *
 * Other libraries interpose dl_iterate_phdr (ThreadSanitizer, for example), and their version only
 * works after they are initialized. The agent (the library that is loaded into the profiled
 * process) needs the function earlier, in the process' first malloc. */
#ifndef AG_LOADED_OBJECTS_H
#define AG_LOADED_OBJECTS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol_tables.h"

typedef int ag_object_visit_fn(struct dl_phdr_info *object, size_t bytes, void *context);

/* Calls VISIT for each loaded object, in load order, until VISIT returns a value other than 0, and
 * returns that value, like dl_iterate_phdr. Takes the lock of the loader's list, so the caller must
 * hold no lock of its own. Never allocates. */
int ag_objects_visit(ag_object_visit_fn *visit, void *context);
/* The address of the C library's dl_iterate_phdr. */
uintptr_t ag_objects_visitor(void);
/* The object's loaded segment that contains the address; NULL: there is none. */
const ElfW(Phdr) * ag_object_segment(const struct dl_phdr_info *object, uintptr_t address);
static inline bool ag_object_contains(const struct dl_phdr_info *object, uintptr_t address) {
    return ag_object_segment(object, address) != NULL;
}
/* Finds the loaded segment that contains the address, in any object. Returns false if there is
 * none. */
struct ag_loaded_segment {
    uintptr_t low, high; /* [low, high) */
    bool in_program;     /* the segment belongs to the executable */
};
bool ag_objects_segment(uintptr_t address, struct ag_loaded_segment *ret_segment);
/* A number that changes when objects are loaded or unloaded, and is never 0: the number of objects
 * ever loaded, plus that of objects ever unloaded, plus 1. The first two are the loader's own
 * counters (since glibc 2.4), which dl_iterate_phdr reports with every object. The 1 is needed for
 * musl, whose counters begin at 0. */
static inline uint64_t ag_object_version(const struct dl_phdr_info *object) {
    return object->dlpi_adds + object->dlpi_subs + 1;
}
uint64_t ag_objects_version(void);
/* Reads the symbol tables of an object, as ag_symbol_tables_read does. */
bool ag_object_tables(const struct dl_phdr_info *object, struct ag_symbol_tables *ret_tables);

#endif
