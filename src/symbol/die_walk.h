/* die_walk.h: visits the tree of debugging entries (DIEs) below one, without recursion and with any
 * content of the file. */
#ifndef AG_DIE_WALK_H
#define AG_DIE_WALK_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>

#include "work_meter.h"

enum { AG_DIE_DEPTH = 256 }; /* deeper entries are not visited; compilers stay below 100 */

/* Called for each entry, parents first; DEPTH 0 is a child of the root. Returns true if its
 * children are to be visited. */
typedef bool ag_die_visit_fn(void *context, Dwarf_Die *die, size_t depth);

/* Ends early when METER (may be NULL) is spent. */
void ag_die_walk(const Dwarf_Die *root, struct ag_work_meter *meter, ag_die_visit_fn *visit,
                 void *context);

#endif
