/* die_walk.c: keeps the path of entries from the root. It ends because offsets only grow: an entry
 * whose offset is not greater than the previous one's ends the walk. */
#include "die_walk.h"

void ag_die_walk(const Dwarf_Die *root, struct ag_work_meter *meter, ag_die_visit_fn *visit,
                 void *context) {
    Dwarf_Die path[AG_DIE_DEPTH];
    Dwarf_Die start = *root;
    if (dwarf_child(&start, &path[0]) != 0) {
        return;
    }
    Dwarf_Off last = dwarf_dieoffset(&start);
    for (size_t depth = 0;;) {
        const Dwarf_Off offset = dwarf_dieoffset(&path[depth]);
        if (offset <= last || !ag_work_meter_step(meter)) {
            return;
        }
        last = offset;
        if (visit(context, &path[depth], depth) && depth + 1 < AG_DIE_DEPTH &&
            dwarf_child(&path[depth], &path[depth + 1]) == 0) {
            depth++;
            continue;
        }
        while (!ag_work_meter_step(meter) || dwarf_siblingof(&path[depth], &path[depth]) != 0) {
            if (depth == 0) {
                return;
            }
            depth--;
        }
    }
}
