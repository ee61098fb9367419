/* test_writer_one_pass.c: the writer (the process that writes traces) has two ways to handle the
 * words of a chunk (a thread's buffer of events): a loop over single events, and passes over
 * batches. For any words, both must write the same bytes and compute the same sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../bench/random_word.h"
#include "writer/one_pass.h"

enum { ADDRESSES = 300, FEW_STACKS = 1000, MANY_STACKS = 40000 };

static uint32_t n_stacks;

static uint64_t words[AG_CHUNK_WORDS];

static uint32_t random_below(uint32_t n) {
    return (uint32_t)(random_word() >> 33) % n;
}

static uint64_t any_address(void) {
    return UINT64_C(0x7f0000000000) + random_below(ADDRESSES) * 16;
}

/* Makes words of events, valid and invalid: also frees of dead addresses, allocs of live ones,
 * failed reallocs. */
static uint32_t fill_words(uint64_t *clock) {
    uint32_t n = 0;
    words[n++] = *clock << 8 | AG_WORD_STAMP;
    while (n + 8 < AG_CHUNK_WORDS) {
        const uint64_t address = any_address() << 16;
        const uint64_t stack = (AG_NODE_FIRST + random_below(random_below(8) ? 40 : n_stacks));
        switch (random_below(20)) {
        case 0:
            *clock += random_below(5000);
            words[n++] = *clock << 8 | AG_WORD_STAMP;
            break;
        case 1:
            words[n++] = address | AG_WORD_REALLOC_FREE;
            words[n++] = address | (random_below(2) ? AG_WORD_UNDO_FREE : AG_WORD_FREE);
            break;
        case 2:
            words[n++] = address | AG_WORD_ALLOC_BIG;
            words[n++] = stack << 32;
            words[n++] = UINT64_C(5) << 32;
            break;
        case 3:
            words[n++] = address | AG_WORD_REALLOC_FREE;
            break;
        default:
            if (random_below(2)) {
                words[n++] = address | random_below(3) << 8 | AG_WORD_ALLOC;
                words[n++] = stack << 32 | random_below(200);
            } else {
                words[n++] = address | AG_WORD_FREE;
            }
        }
    }
    return n;
}

struct taken {
    struct ag_event_encoder *encoder;
    struct ag_ledger *ledger;
    struct ag_stack_harvest stacks;
    uint64_t last_ns;
};

static void begin(struct taken *taken) {
    *taken = (struct taken){.encoder = ag_event_encoder_new(), .ledger = ag_ledger_new()};
    assert_non_null(taken->encoder);
    assert_non_null(taken->ledger);
    assert_int_equal(ag_stack_harvest_start(&taken->stacks, NULL, AG_TREE_SIZES - 1), 0);
}

static void end(struct taken *taken) {
    (void)ag_event_encoder_free(taken->encoder);
    (void)ag_ledger_free(taken->ledger);
    ag_stack_harvest_done(&taken->stacks);
}

static struct ag_chunk_words reader_of(const struct taken *taken, uint32_t n) {
    return (struct ag_chunk_words){.words = words,
                                   .end = n,
                                   .ns_per_2_32 = UINT64_C(1) << 32,
                                   .now_ns = UINT64_MAX,
                                   .last_ns = taken->last_ns};
}

static bool take_batch(struct taken *taken, struct ag_chunk_words *reader, size_t capacity) {
    static struct ag_copied_record copy;
    struct ag_event events[512];
    const size_t count = ag_chunk_words_next(reader, events, capacity, &copy);
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind == AG_RECORD_ALLOC) {
            ag_stack_harvest_name(&taken->stacks, events[i].stack);
        }
    }
    assert_int_equal(ag_event_encoder_add(taken->encoder, events, count), 0);
    assert_int_equal(ag_ledger_apply(taken->ledger, 0, events, count), 0);
    return count > 0;
}

static void compare_totals(struct taken *left, struct taken *right) {
    assert_int_equal(ag_ledger_close(left->ledger), 0);
    assert_int_equal(ag_ledger_close(right->ledger), 0);
    assert_memory_equal(ag_ledger_summary(left->ledger), ag_ledger_summary(right->ledger),
                        sizeof(struct ag_summary));
    const struct ag_stack_sum *sums, *other_sums;
    const size_t n = ag_ledger_stack_sums(left->ledger, &sums);
    assert_true(n > n_stacks / 2);
    assert_int_equal(n, ag_ledger_stack_sums(right->ledger, &other_sums));
    assert_memory_equal(sums, other_sums, n * sizeof(*sums));
    assert_int_equal(left->stacks.n_stacks, right->stacks.n_stacks);
}

static void compare_ways(uint32_t stacks, int n_chunks, bool are_large) {
    n_stacks = stacks;
    struct taken batches, singles;
    struct ag_one_pass pass = {0};
    uint64_t clock = 1000;
    begin(&batches);
    begin(&singles);
    for (int chunk = 0; chunk < n_chunks; chunk++) {
        const uint32_t n = fill_words(&clock);
        if (chunk % 3 == 0) { /* begins a new trace chunk */
            ag_event_encoder_start(batches.encoder, clock);
            ag_event_encoder_start(singles.encoder, clock);
        }
        struct ag_chunk_words reader = reader_of(&batches, n);
        while (take_batch(&batches, &reader, 512)) {
        }
        batches.last_ns = reader.last_ns;
        reader = reader_of(&singles, n);
        do {
            assert_int_equal(ag_one_pass_take(&pass, &reader, singles.encoder, singles.ledger,
                                              &singles.stacks, 0),
                             0);
        } while (take_batch(&singles, &reader, 1 + random_below(8)));
        singles.last_ns = reader.last_ns;

        const struct ag_blob *body = ag_event_encoder_body(batches.encoder);
        const struct ag_blob *other = ag_event_encoder_body(singles.encoder);
        assert_int_equal(body->length, other->length);
        assert_memory_equal(body->data, other->data, body->length);
        assert_int_equal(ag_event_encoder_events(batches.encoder),
                         ag_event_encoder_events(singles.encoder));
    }
    assert_int_equal(ag_ledger_is_large(singles.ledger), are_large);
    compare_totals(&batches, &singles);
    ag_one_pass_done(&pass);
    end(&batches);
    end(&singles);
}

static void both_ways_give_the_same_results_with_few_stacks(void **state) {
    (void)state;
    compare_ways(FEW_STACKS, 12, /* are_large= */ false);
}

/* If there are many stacks, the writer prefetches the memory for the next events. The results must
 * be the same. */
static void both_ways_give_the_same_results_with_many_stacks(void **state) {
    (void)state;
    compare_ways(MANY_STACKS, 100, /* are_large= */ true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_give_the_same_results_with_few_stacks),
        cmocka_unit_test(both_ways_give_the_same_results_with_many_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
