/* one_pass.h: moves the events of a single-threaded program from raw words into the trace and into
 * the totals (the running sums of the ledger, which follows the live blocks) in one pass. */
#ifndef AG_ONE_PASS_H
#define AG_ONE_PASS_H

#include "chunk_words.h"
#include "format/encode.h"
#include "ledger/ledger.h"
#include "stack_harvest.h"

struct ag_one_pass { /* zero-initialize; one per recording */
    /* sum_of_tuple[t] is the index of the ledger's sum for tuple t. A tuple (stack, size,
     * allocation function) has its number from the encoder, which compresses the events for the
     * trace. AG_INDEX_NONE: not looked up yet. */
    uint32_t *sum_of_tuple;
    uint32_t n_tuples;
    size_t capacity;
    uint32_t chunk_number;                  /* number of the encoder's chunk, to which the tuples
                                             * belong */
    const struct ag_event_encoder *encoder; /* the encoder to which the tuples belong */
};
void ag_one_pass_done(struct ag_one_pass *pass);

/* Takes allocations, frees and stamps (clock values) from `words`, and stops at a word of another
 * kind, at a free that the next word undoes, or at the last word of the chunk. Returns 0, or the
 * ledger's error; an error of the encoder is stored in the encoder's body (struct ag_blob of
 * format/encode.h). */
int ag_one_pass_take(struct ag_one_pass *pass, struct ag_chunk_words *words,
                     struct ag_event_encoder *encoder, struct ag_ledger *ledger,
                     struct ag_stack_harvest *stacks, uint32_t stream);

#endif
