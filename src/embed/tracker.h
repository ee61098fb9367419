/* tracker.h: the events of a heap, as trackers hear of them. Called for heaps that are recorded,
 * after the trace was told (or before the free). */
#ifndef AG_TRACKER_H
#define AG_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allogram/allogram.h"

/* What allogram.h counts down at most before it calls: a call of some 10 ns each time is nothing.
 */
enum { AG_TRACKER_GRANT_BYTES = 16 * 1024 };

/* Decides whether the block is a sample, and calls back. */
void ag_tracker_alloc(allogram_heap heap, uint64_t address, size_t bytes, allogram_type type);
/* Changes whenever a tracker starts or stops. */
uint32_t ag_tracker_version(void);
void ag_tracker_free(allogram_heap heap, uint64_t address);
/* The block keeps its value; one that lived at the new address is freed. */
void ag_tracker_move(allogram_heap heap, uint64_t address, uint64_t new_address);
void ag_tracker_promote(allogram_heap heap, uint64_t address);
/* A callback of the calling thread's runs. */
bool ag_tracker_is_inside(void);
/* Where no code of the program may run: the block's end is told by who delivers. */
void ag_tracker_free_later(allogram_heap heap, uint64_t address);
/* It is whole. Inside of a callback that is told by who delivers. */
void ag_tracker_complete(allogram_heap heap, uint64_t address);
/* Tells what waits. Where code of the program may run; inside of a callback nothing happens. */
void ag_tracker_deliver(void);

#endif
