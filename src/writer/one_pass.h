/* one_pass.h: the events of a program with one thread, from raw words into trace and books at once.
 */
#ifndef AG_ONE_PASS_H
#define AG_ONE_PASS_H

#include "chunk_words.h"
#include "format/encode.h"
#include "ledger/ledger.h"
#include "stack_harvest.h"

struct ag_one_pass { /* zero-initialise; one per recording */
    uint32_t
        *sum_of_tuple; /* of the encoder's tuples: the ledger's sum, AG_INDEX_NONE: not asked yet */
    uint32_t n_tuples, capacity;
    uint32_t chunk_number;                  /* of the encoder's chunk whose tuples they are */
    const struct ag_event_encoder *encoder; /* the same */
};
void ag_one_pass_done(struct ag_one_pass *pass);

/* Takes allocations, frees and stamps from the reader until it meets anything else or its last
 * word. What the encoder cannot take is seen at its body, as always. 0, or the ledger's error. */
int ag_one_pass_take(struct ag_one_pass *pass, struct ag_chunk_words *words,
                     struct ag_event_encoder *encoder, struct ag_ledger *ledger,
                     struct ag_stack_harvest *stacks, uint32_t stream);

#endif
