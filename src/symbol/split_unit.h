/* split_unit.h: units whose entries the compiler wrote into a separate file (-gsplit-dwarf,
 * .dwo). */
#ifndef AG_SPLIT_UNIT_H
#define AG_SPLIT_UNIT_H

#include <elfutils/libdw.h>
#include <stdbool.h>

#include "table/index_map.h"
#include "work_meter.h"

/* Whether the unit with first entry DIE is only a skeleton: its lines are here, its functions in
 * the separate file. */
bool ag_split_unit_is_skeleton(Dwarf_Die *die);
/* Opens the file that SKELETON names and returns that unit's first entry. FOLDER: that of the file
 * with the skeleton. Adds what the file occupies to METER (may be NULL), unless it is in COUNTED.
 * False: not found, or not safe to open. The file stays open with the skeleton's Dwarf. */
bool ag_split_unit_open(Dwarf_Die *skeleton, const char *folder, struct ag_index_map *counted,
                        struct ag_work_meter *meter, Dwarf_Die *ret_die);

#endif
