/* snapshot.h: traces of what a recording holds so far, whole and sealed, while it goes on. */
#ifndef AG_SNAPSHOT_H
#define AG_SNAPSHOT_H

#include "writer_state.h"

/* Begins what --dump-at and the desk ask for, and looks after what is being written. Once a round
 * of the loop. */
void ag_snapshots_keep(struct ag_writer *writer);
/* Before the writer ends: what is being written gets done, for a bounded time. */
void ag_snapshots_finish(struct ag_writer *writer);

#endif
