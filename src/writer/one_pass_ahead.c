/* one_pass_ahead.c: prefetches table entries for the next events of the one pass.
 *
 * When the tables are larger than the caches, each event would wait for memory up to four times in
 * sequence: the slot of its tuple, the tuple, the entry of its stack or the slot of its block, and
 * the sum.
 *
 * So a few dozen events are examined before the pass takes them, in steps: each step prefetches the
 * cache lines of all of them, and the next step finds those lines in the cache. All results are
 * guesses: the pass reads the words again, a slot may have changed by then, and a block outside its
 * home slot leads to another block's sum. A wrong guess costs only the line that it fetches.
 * Therefore no result is passed on, and the code does not branch on the kind of an event: a
 * misprediction costs more than the line. */
#include "one_pass_ahead.h"

#include "format/encode_fast.h"
#include "ledger/ledger_state.h"

struct seen {
    uint64_t address;
    uint32_t slot; /* of the event's tuple */
    uint32_t stack;
    uint8_t via;
    bool is_alloc;
};

/* Step 1: prefetches what the words alone determine. */
static uint32_t see_words(const struct ag_chunk_words *words,
                          const struct ag_event_encoder *encoder, const struct ag_ledger *ledger,
                          struct seen *seen) {
    enum {
        TAKEN =
            1 << AG_WORD_ALLOC | 1 << AG_WORD_FREE | 1 << AG_WORD_REALLOC_FREE | 1 << AG_WORD_STAMP
    };
    const uint32_t mask = encoder->tuples_capacity * 2 - 1;
    uint32_t count = 0;
    for (uint32_t at = words->at; count < AG_AHEAD_EVENTS && at + 1 < words->end; count++) {
        const uint64_t word = ag_chunk_word(words, at);
        const uint32_t kind = AG_WORD_KIND(word), is_alloc = kind == AG_WORD_ALLOC;
        if (!(TAKEN >> kind & 1)) {
            break;
        }
        const uint64_t second = ag_chunk_word(words, at + 1) & -(uint64_t)is_alloc;
        const struct ag_event event = {.size = (uint32_t)second,
                                       .stack = ag_stack_checked((uint32_t)(second >> 32)),
                                       .via = (uint8_t)AG_WORD_VIA(word)};
        seen[count] = (struct seen){.address = AG_WORD_ADDRESS(word),
                                    .slot = ag_encoder_tuple_hash(&event) & mask,
                                    .stack = event.stack,
                                    .via = event.via,
                                    .is_alloc = is_alloc};
        __builtin_prefetch(&encoder->slots[seen[count].slot]);
        __builtin_prefetch(ag_sum_index_home(&ledger->sum_index, event.stack, event.via));
        const struct ag_live_block *home =
            &ledger->live.blocks[ag_live_table_home(&ledger->live, seen[count].address)];
        __builtin_prefetch(home, 1);
        /* a removal reads the next slot too, and so does every other search */
        __builtin_prefetch(home + 1, 1);
        at += 1 + is_alloc;
    }
    return count;
}

/* Step 2: prefetches the tuple, and the sum of the stack or block. */
static void see_tuples(const struct ag_event_encoder *encoder, const struct ag_ledger *ledger,
                       const struct seen *seen, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t tuple = (uint32_t)encoder->slots[seen[i].slot];
        const uint32_t of_block =
            ledger->live.blocks[ag_live_table_home(&ledger->live, seen[i].address)].sum;
        const uint32_t of_stack =
            ag_sum_index_guess(&ledger->sum_index, seen[i].stack, seen[i].via);
        __builtin_prefetch(&encoder->tuples[tuple], 1);
        __builtin_prefetch(&ledger->sums[seen[i].is_alloc ? of_stack : of_block], 1);
    }
}

void ag_one_pass_look_ahead(const struct ag_chunk_words *words,
                            const struct ag_event_encoder *encoder,
                            const struct ag_ledger *ledger) {
    struct seen seen[AG_AHEAD_EVENTS];
    const uint32_t count = see_words(words, encoder, ledger, seen);
    see_tuples(encoder, ledger, seen, count);
}
