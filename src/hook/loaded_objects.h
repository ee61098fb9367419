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
/* Whether one of the object's segments contains the address. */
bool ag_object_contains(const struct dl_phdr_info *object, uintptr_t address);
/* As ag_symbol_tables_read. */
bool ag_object_tables(const struct dl_phdr_info *object, struct ag_symbol_tables *ret_tables);

#endif
