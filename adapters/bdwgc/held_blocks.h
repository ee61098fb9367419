/* held_blocks.h: which addresses of the collector's heap are blocks that the trace knows alive, and
 * which wait in free lists of its threads.
 *
 * Bits, one a granule of 16 bytes, in regions of 1 MiB that are mapped as they are met: no pointer
 * into the collector's heap is kept anywhere, so nothing stays alive because it is profiled. Any
 * thread may call anything at any time. A forked child begins with none (the kernel wipes them). */
#ifndef AG_HELD_BLOCKS_H
#define AG_HELD_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

enum ag_held_kind { AG_HELD_ALIVE, AG_HELD_WAITING, AG_HELD_KINDS };

/* Once, before any other. 0 or -ENOMEM. */
int ag_held_start(void);
/* false: there is no memory. */
bool ag_held_set(enum ag_held_kind kind, uintptr_t address);
/* Whether it was set: of several who take it away one hears yes. */
bool ag_held_clear(enum ag_held_kind kind, uintptr_t address);
bool ag_held_has(enum ag_held_kind kind, uintptr_t address);
/* Visits all of a kind by rising address within each region; visit may clear them. */
typedef void ag_held_fn(void *context, uintptr_t address);
void ag_held_walk(enum ag_held_kind kind, ag_held_fn *visit, void *context);

#endif
