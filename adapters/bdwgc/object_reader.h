/* object_reader.h: the interface that the Boehm collector's adapter offers to the adapter of a
 * language whose objects live in the collector's heap. The collector's adapter calls the functions
 * of struct ag_object_reader when the program allocates or frees a block or calls the collector
 * again, and when a collection begins, in the thread that does this. The language's adapter can
 * then read the type from the object. This is the only header of an adapter that other adapters
 * include. */
#ifndef AG_OBJECT_READER_H
#define AG_OBJECT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ag_object_reader {
    /* The collector handed out memory that it does not clear; the program does not have it yet. */
    void (*uncleared)(uintptr_t address, size_t bytes);
    /* The allocation of this block was recorded: it is the newest event of the thread. */
    void (*allocated)(uintptr_t address);
    /* The thread calls the collector again, so the last object that it allocated is usually
     * initialized by now. */
    void (*returned)(void);
    /* The program frees the block. */
    void (*freeing)(uintptr_t address);
    void (*collecting)(void); /* a collection begins */
};
/* Set by the language's adapter before a hooked function of the collector can be called; NULL: the
 * process has no such adapter. */
extern const struct ag_object_reader *ag_object_reader AG_HIDDEN;

/* The heap's id in the trace (allogram.h); 0: the collector is not recorded. */
extern uint32_t ag_bdwgc_heap AG_HIDDEN;
/* Whether the trace has a live block at ADDRESS. */
bool ag_bdwgc_block_is_alive(uintptr_t address);

AG_FAST void ag_object_uncleared(uintptr_t address, size_t bytes) {
    if (AG_UNLIKELY(ag_object_reader)) {
        ag_object_reader->uncleared(address, bytes);
    }
}
AG_FAST void ag_object_allocated(uintptr_t address) {
    if (AG_UNLIKELY(ag_object_reader)) {
        ag_object_reader->allocated(address);
    }
}
AG_FAST void ag_object_returned(void) {
    if (AG_UNLIKELY(ag_object_reader)) {
        ag_object_reader->returned();
    }
}
AG_FAST void ag_object_freeing(uintptr_t address) {
    if (AG_UNLIKELY(ag_object_reader)) {
        ag_object_reader->freeing(address);
    }
}
AG_FAST void ag_object_collecting(void) {
    if (AG_UNLIKELY(ag_object_reader)) {
        ag_object_reader->collecting();
    }
}

#endif
