/* straight_pass.h: applies the events of one stream (thread) to a ledger while they are decoded. It
 * takes about two thirds of the time of decoding arrays of events first. */
#ifndef AG_STRAIGHT_PASS_H
#define AG_STRAIGHT_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/decode.h"
#include "ledger/ledger.h"

/* Whether ag_straight_pass_run can be used: the ledger must not have a visitor of single steps. */
bool ag_straight_pass_is_for(const struct ag_ledger *ledger);

/* Applies the next events of the chunk, at most some thousands. A run ends before a stamp at
 * limit_ns or later, before a record, before damage, and some bytes before the chunk's end. Where
 * is_at_rest is set, the caller continues with ag_chunk_decoder_next. */
struct ag_straight_run {
    uint64_t limit_ns; /* in: stop before a stamp at this time or later */
    uint64_t last_ns;  /* out: the last stamp that was applied; 0: there was none */
    /* out: the stamp at limit_ns or later that ended the run; 0: it was not reached */
    uint64_t next_ns;
    bool is_at_rest; /* out: the caller has to decode the next event or record */
};
/* 0, or -ENOMEM. */
int ag_straight_pass_run(struct ag_ledger *ledger, uint32_t stream,
                         struct ag_chunk_decoder *decoder, struct ag_straight_run *run);

#endif
