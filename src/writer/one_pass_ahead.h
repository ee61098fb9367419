/* one_pass_ahead.h: prefetches the memory that the next events of the one pass will touch. */
#ifndef AG_ONE_PASS_AHEAD_H
#define AG_ONE_PASS_AHEAD_H

#include "one_pass.h"

enum { AG_AHEAD_EVENTS = 64 }; /* about five cache lines each: half of an L1 cache */

/* Examines the reader's next events, up to AG_AHEAD_EVENTS or the first that the one pass does not
 * handle. Changes nothing but caches. */
void ag_one_pass_look_ahead(const struct ag_chunk_words *words,
                            const struct ag_event_encoder *encoder, const struct ag_ledger *ledger);

#endif
