/* snapshot.h: writes complete, sealed traces of a recording that goes on. */
#ifndef AG_SNAPSHOT_H
#define AG_SNAPSHOT_H

#include "writer_state.h"

/* Starts the dumps that are due or requested, and handles those that have finished. Called once per
 * round of the loop. */
void ag_snapshots_keep(struct ag_writer *writer);
/* Called before the writer ends: waits a bounded time for dumps that are being written. */
void ag_snapshots_finish(struct ag_writer *writer);

#endif
