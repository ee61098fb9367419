/* straight_pass.h: applies the events of one stream (thread) of a trace to a ledger (the table of
 * live blocks with its sums) while the events are decoded. This takes about two thirds of the time
 * that is needed if the events are first decoded to arrays. */
#ifndef AG_STRAIGHT_PASS_H
#define AG_STRAIGHT_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/decode.h"
#include "ledger/ledger.h"

/* Whether ag_straight_pass_run can be used. It cannot be used if the ledger reports the births and
 * deaths of blocks to a visitor (a callback). */
bool ag_straight_pass_is_for(const struct ag_ledger *ledger);

/* ag_straight_pass_run applies the next events of the decoder's chunk (a compressed piece of the
 * trace), at most some thousands. It stops before a stamp (a record with a time) at limit_ns or
 * later, before any other record, before damage, and some bytes before the end of the chunk. If it
 * sets needs_next, the caller continues with ag_chunk_decoder_next (format/decode.h). */
struct ag_straight_run {
    uint64_t limit_ns; /* in: stop before a stamp at this time or later */
    uint64_t last_ns;  /* out: time of the last stamp that was applied; 0: no stamp was applied */
    /* out: time of the stamp at limit_ns or later that ended the run; 0: the run ended earlier */
    uint64_t next_ns;
    bool needs_next; /* out: the caller has to decode the next event or record */
};
/* Returns 0 or -ENOMEM. */
int ag_straight_pass_run(struct ag_ledger *ledger, uint32_t stream,
                         struct ag_chunk_decoder *decoder, struct ag_straight_run *run);

#endif
