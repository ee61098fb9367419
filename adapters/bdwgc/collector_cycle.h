/* collector_cycle.h: records the Boehm collector's collections and the blocks that they find
 * dead. */
#ifndef AG_BDWGC_CYCLE_H
#define AG_BDWGC_CYCLE_H

#include <stdint.h>

/* The listener of the collector's events. The collector calls it with its lock held
 * (GC_set_on_collection_event). */
void ag_bdwgc_cycle_event(int event);
/* The bytes of the blocks that are still in the free lists of threads: the program never got
 * them. */
uint64_t ag_bdwgc_cycle_waiting_bytes(void);

#endif
