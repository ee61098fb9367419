/* crystal_types.h: which type the objects of a Crystal program are, from the number that each
 * begins with. Called by the thread that the event is of. */
#ifndef AG_CRYSTAL_TYPES_H
#define AG_CRYSTAL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

extern bool ag_crystal_types_are_wanted AG_HIDDEN;
void ag_crystal_types_take(uintptr_t address);
void ag_crystal_types_look(void);
void ag_crystal_types_look_at(uintptr_t address);

/* What the thread did last was to tell the alloc of this block. */
AG_FAST void ag_crystal_types_allocated(uintptr_t address) {
    if (AG_UNLIKELY(ag_crystal_types_are_wanted)) {
        ag_crystal_types_take(address);
    }
}
/* The thread comes back: its last object is begun by now. */
AG_FAST void ag_crystal_types_return(void) {
    if (AG_UNLIKELY(ag_crystal_types_are_wanted)) {
        ag_crystal_types_look();
    }
}
AG_FAST void ag_crystal_types_freeing(uintptr_t address) {
    if (AG_UNLIKELY(ag_crystal_types_are_wanted)) {
        ag_crystal_types_look_at(address);
    }
}
/* Memory that the collector does not clear: what an object was before must not be taken for what it
 * is. Its contents are nobody's yet. */
AG_FAST void ag_crystal_types_prepare(uintptr_t address, size_t bytes) {
    if (AG_UNLIKELY(ag_crystal_types_are_wanted) && address != 0 && bytes >= sizeof(uint32_t)) {
        *(volatile uint32_t *)address = 0;
    }
}
/* A collection begins. */
void ag_crystal_types_collecting(void);

#endif
