/* loaded_objects.h: dl_iterate_phdr, the C library's own.
 *
 * Other libraries stand in front of that function (ThreadSanitizer's does) and do work of theirs in
 * it, which needs them to be initialised: we are called before that, in the first malloc of all. */
#ifndef AG_LOADED_OBJECTS_H
#define AG_LOADED_OBJECTS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol_tables.h"

typedef int ag_object_visit_fn(struct dl_phdr_info *object, size_t bytes, void *context);

/* As dl_iterate_phdr: calls VISIT for each loaded object, in load order, until it answers something
 * else than 0, and returns that. Takes the loader's list lock for a moment: hold none of your own.
 * Never allocates. */
int ag_objects_visit(ag_object_visit_fn *visit, void *context);
/* Where that function lies: in the C library. */
uintptr_t ag_objects_visitor(void);
/* Whether one of the object's segments does. */
bool ag_object_contains(const struct dl_phdr_info *object, uintptr_t address);
/* As ag_symbol_tables_read. */
bool ag_object_tables(const struct dl_phdr_info *object, struct ag_symbol_tables *ret_tables);

#endif
