/* loaded_objects.h: the C library's own dl_iterate_phdr.
 *
 * Other libraries interpose that function (ThreadSanitizer does), and their version only works when
 * they are initialized. The agent needs it earlier, in the process' first malloc. */
#ifndef AG_LOADED_OBJECTS_H
#define AG_LOADED_OBJECTS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol_tables.h"

typedef int ag_object_visit_fn(struct dl_phdr_info *object, size_t bytes, void *context);

/* As dl_iterate_phdr: calls VISIT for each loaded object, in load order, until it returns a value
 * other than 0, and returns that value. Takes the loader's list lock briefly: hold no lock of your
 * own. Never allocates. */
int ag_objects_visit(ag_object_visit_fn *visit, void *context);
/* The address of the C library's dl_iterate_phdr. */
uintptr_t ag_objects_visitor(void);
/* The object's loaded segment that contains the address; NULL: there is none. */
const ElfW(Phdr) * ag_object_segment(const struct dl_phdr_info *object, uintptr_t address);
static inline bool ag_object_contains(const struct dl_phdr_info *object, uintptr_t address) {
    return ag_object_segment(object, address) != NULL;
}
/* The memory of the loaded segment that contains the address, of any object. Returns whether there
 * is one. */
struct ag_loaded_segment {
    uintptr_t low, high; /* [low, high) */
    bool in_program;     /* the executable has it */
};
bool ag_objects_segment(uintptr_t address, struct ag_loaded_segment *ret_segment);
/* The number of objects ever loaded plus those ever unloaded, by the loader's own counters (since
 * glibc 2.4), which every object reports. Plus one, because musl's counters begin at 0. */
static inline uint64_t ag_object_version(const struct dl_phdr_info *object) {
    return object->dlpi_adds + object->dlpi_subs + 1;
}
uint64_t ag_objects_version(void);
/* As ag_symbol_tables_read. */
bool ag_object_tables(const struct dl_phdr_info *object, struct ag_symbol_tables *ret_tables);

#endif
