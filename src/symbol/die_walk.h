/* die_walk.h: visiting the tree of debugging entries (DIEs) below one, without recursion and
 * whatever the file says. */
#ifndef AG_DIE_WALK_H
#define AG_DIE_WALK_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>

#include "work_meter.h"

enum { AG_DIE_DEPTH = 256 }; /* what lies deeper is not visited; compilers stay below 100 */

/* Called for each entry, parents first; DEPTH 0 is a child of the root. True: its children are
 * wanted as well. */
typedef bool ag_die_visit_fn(void *context, Dwarf_Die *die, size_t depth);

/* Ends early when METER (may be NULL) is spent. */
void ag_die_walk(const Dwarf_Die *root, struct ag_work_meter *meter, ag_die_visit_fn *visit,
                 void *context);

#endif
