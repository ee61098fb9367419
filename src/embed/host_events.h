/* host_events.h: whether events are wanted. */
#ifndef AG_HOST_EVENTS_H
#define AG_HOST_EVENTS_H

#include <stdint.h>

/* Bits of allogram_mode_ (ALLOGRAM_TELLS_ ...), each the business of one caller under its lock. */
void ag_host_mode(uint32_t set, uint32_t clear);
/* Before something is told that is no event: this thread's state may be of another recording. */
void ag_host_get_ready(void);

/* For adapters, whose collections are not told by the frame that caused them. Times: clock since
 * the session's origin; bytes: 0: not known; stack: who caused it (ag_record_stack). */
struct ag_host_collection {
    uint64_t start_raw, end_raw, needed_bytes, heap_before_bytes, heap_after_bytes;
    uint32_t stack;
};
void ag_host_tell_collection(uint32_t heap, const struct ag_host_collection *collection,
                             const char *kind);
/* The clock now; a recording runs. */
uint64_t ag_host_elapsed_raw(void);

#endif
