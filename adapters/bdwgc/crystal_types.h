/* crystal_types.h: determines the type of a Crystal program's objects from the number at their
 * begin. Called by the thread of the event. */
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

/* Called when the last event of the thread is the alloc of this block. */
AG_FAST void ag_crystal_types_allocated(uintptr_t address) {
    if (AG_UNLIKELY(ag_crystal_types_are_wanted)) {
        ag_crystal_types_take(address);
    }
}
/* Called when the thread calls again: its last object is initialized by now. */
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
/* For memory that the collector does not clear: the number of an earlier object must not be read as
 * the new one's. The contents are still undefined. */
AG_FAST void ag_crystal_types_prepare(uintptr_t address, size_t bytes) {
    if (AG_UNLIKELY(ag_crystal_types_are_wanted) && address != 0 && bytes >= sizeof(uint32_t)) {
        *(volatile uint32_t *)address = 0;
    }
}
/* A collection begins. */
void ag_crystal_types_collecting(void);

#endif
