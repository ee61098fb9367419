/* tracker.h: passes the events of heaps to trackers, which are a program's callbacks for sampled
 * blocks (allogram_start_tracker of allogram.h). The functions are called after the event was
 * recorded. */
#ifndef AG_TRACKER_H
#define AG_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allogram/allogram.h"

/* The largest value of ag_host_left, the bytes after which allogram.h calls the library. One call
 * of about 10 ns for so many bytes is negligible. */
enum { AG_TRACKER_GRANT_BYTES = 16 * 1024 };

/* Decides whether the block is a sample, and calls the callback. */
void ag_tracker_alloc(allogram_heap heap, uint64_t address, size_t bytes, allogram_type type);
/* Changes whenever a tracker starts or stops. */
uint32_t ag_tracker_version(void);
void ag_tracker_free(allogram_heap heap, uint64_t address);
/* The block keeps its value. An earlier block at the new address is treated as freed. */
void ag_tracker_move(allogram_heap heap, uint64_t address, uint64_t new_address);
void ag_tracker_promote(allogram_heap heap, uint64_t address);
/* Called when a session has begun: its recorder may sample, unlike the recorder of the last
 * session. */
void ag_tracker_follow_session(void);
/* Whether a callback of the calling thread runs. */
bool ag_tracker_is_inside(void);
/* Does what ag_tracker_free does, but queues the callback, because no code of the program may run
 * at this moment. */
void ag_tracker_free_later(allogram_heap heap, uint64_t address);
/* Reports that the block is complete; queues the callback if called inside of another callback. */
void ag_tracker_complete(allogram_heap heap, uint64_t address);
/* Calls the queued callbacks. For places where code of the program may run; does nothing inside of
 * a callback. */
void ag_tracker_deliver(void);

#endif
