/* collector_cycle.h: the collector's own account of a collection, and what it found dead. */
#ifndef AG_BDWGC_CYCLE_H
#define AG_BDWGC_CYCLE_H

/* The collector calls it with its lock held (GC_set_on_collection_event). */
void ag_bdwgc_cycle_event(int event);
/* Counts what still waits in free lists as never handed out. */
void ag_bdwgc_cycle_count_waiting(void);

#endif
