/* straight_pass.h: passes the events of one stream from the bytes of a chunk to a ledger, each
 * decoded and applied before the next one; about a third less work than through rows of events. */
#ifndef AG_STRAIGHT_PASS_H
#define AG_STRAIGHT_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/decode.h"
#include "ledger/ledger.h"

/* Only if the ledger has no visitor of single steps, which needs rows. */
bool ag_straight_pass_is_for(const struct ag_ledger *ledger);

/* Applies the next events of the chunk, some thousand at most. It ends before a window that starts
 * at LIMIT_NS or later, before a record, before damage, and some bytes before the chunk's end: the
 * caller continues there with ag_chunk_decoder_next. */
struct ag_straight_run {
    uint64_t limit_ns; /* in */
    uint64_t last_ns;  /* out: the last stamp that was applied; 0: there was none */
    uint64_t next_ns;  /* out: of the window at the limit; 0: it is not there yet */
    bool is_at_rest;   /* out: the caller has to handle what follows */
};
/* 0, or -ENOMEM. */
int ag_straight_pass_run(struct ag_ledger *ledger, uint32_t stream,
                         struct ag_chunk_decoder *decoder, struct ag_straight_run *run);

#endif
