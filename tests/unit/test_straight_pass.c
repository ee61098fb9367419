/* test_straight_pass.c: events that are decoded directly into the ledger (src/ledger, which
 * computes sums from events) must give the same sums as events that are decoded into rows first.
 * This must be true for any events, for chunks (units of a trace) of any length, and for damaged
 * bytes up to the damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../bench/random_word.h"
#include "model/pass/straight_pass.h"
#include "trace_builder.h"

enum { EVENTS_MOST = 150000, REST_EVENTS = 64 };

static struct ag_event events[EVENTS_MOST], decoded[EVENTS_MOST + REST_EVENTS];

static uint32_t random_below(uint32_t n) {
    return (uint32_t)(random_word() >> 33) % n;
}

struct shape {
    uint32_t n_addresses, n_stacks, n_sizes;
};

/* Makes events, valid and invalid: also frees of dead addresses, allocs of live ones, failed
 * reallocs. */
static size_t make_events(const struct shape *shape, size_t count) {
    uint64_t clock = 1000;
    size_t n = 0;
    events[n++] = (struct ag_event)STAMP(clock);
    while (n + 2 < count) {
        const uint64_t address = UINT64_C(0x7f0000000000) + random_below(shape->n_addresses) * 16;
        const uint32_t what = random_below(64);
        if (what == 0) {
            clock += random_below(5000);
            events[n++] = (struct ag_event)STAMP(clock);
        } else if (what < 4) {
            events[n++] = (struct ag_event){.kind = AG_RECORD_REALLOC_FREE, .address = address};
            events[n++] =
                (struct ag_event){.kind = what == 1 ? AG_RECORD_FREE : AG_RECORD_UNDO_FREE,
                                  .address = address + (what == 2 ? 16 : 0)};
        } else if (what < 34) {
            events[n++] =
                (struct ag_event)ALLOC(address, random_below(shape->n_sizes),
                                       16 + random_below(random_below(8) ? 40 : shape->n_stacks));
        } else {
            events[n++] = (struct ag_event)FREE(address);
        }
    }
    return n;
}

/* ---- the two ways of decoding ---- */

static void apply_rows(struct ag_ledger *ledger, struct ag_chunk_decoder *decoder,
                       struct ag_decode_error *ret_error) {
    size_t n = 0;
    for (int r = 1; r > 0; n += r > 0) { /* one by one, so that damage loses no other event */
        struct ag_record record = {0};
        assert_true(n < EVENTS_MOST);
        r = ag_chunk_decoder_next(decoder, &decoded[n], 1, &record, ret_error);
        while (r == 0 && record.kind != 0) {
            r = ag_chunk_decoder_next(decoder, &decoded[n], 1, &record, ret_error);
        }
    }
    assert_int_equal(ag_ledger_apply(ledger, 0, decoded, n), 0);
}

static void apply_straight(struct ag_ledger *ledger, struct ag_chunk_decoder *decoder,
                           struct ag_decode_error *ret_error) {
    struct ag_straight_run run = {.limit_ns = 1000 + random_below(100000)};
    for (;;) {
        assert_int_equal(ag_straight_pass_run(ledger, 0, decoder, &run), 0);
        assert_true(run.last_ns < run.limit_ns);
        if (run.next_ns != 0) {
            assert_true(run.next_ns >= run.limit_ns);
            assert_false(run.needs_next);
            run.limit_ns = run.next_ns + 1 + random_below(100000);
        }
        if (run.needs_next) {
            struct ag_record record = {0};
            const int n = ag_chunk_decoder_next(decoder, decoded, REST_EVENTS, &record, ret_error);
            if (n < 0 || (n == 0 && record.kind == 0)) {
                return;
            }
            assert_int_equal(ag_ledger_apply(ledger, 0, decoded, (size_t)n), 0);
        }
    }
}

static void compare_totals(struct ag_ledger *left, struct ag_ledger *right) {
    assert_int_equal(ag_ledger_close(left), 0);
    assert_int_equal(ag_ledger_close(right), 0);
    assert_memory_equal(ag_ledger_summary(left), ag_ledger_summary(right),
                        sizeof(struct ag_summary));
    const struct ag_stack_sum *sums, *other_sums;
    const size_t n = ag_ledger_stack_sums(left, &sums);
    assert_int_equal(n, ag_ledger_stack_sums(right, &other_sums));
    for (size_t i = 0; i < n; i++) {
        assert_memory_equal(&sums[i], &other_sums[i], sizeof(*sums));
    }
    const struct ag_timeline_point *points, *other_points;
    const size_t n_points = ag_ledger_timeline(left, &points);
    assert_int_equal(n_points, ag_ledger_timeline(right, &other_points));
    assert_memory_equal(points, other_points, n_points * sizeof(*points));
}

/* Reads all chunks (units) of the trace both ways. Returns how many were damaged. */
static size_t read_both_ways(const struct trace_builder *trace) {
    struct ag_trace_file *file;
    struct ag_decode_error error;
    assert_int_equal(ag_trace_file_open(trace->path, &file, &error), 0);
    const struct ag_chunk_entry *entries;
    const size_t n = ag_trace_file_chunks(file, &entries);
    struct ag_ledger *ledgers[2] = {ag_ledger_new(), ag_ledger_new()};
    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    size_t n_damaged = 0;
    for (size_t i = 0; i < n; i++) {
        struct ag_decode_error errors[2] = {{0}, {0}};
        if (entries[i].kind == AG_CHUNK_KIND_EVENTS) {
            assert_int_equal(ag_chunk_decoder_start(decoder, file, &entries[i], &errors[0]), 0);
            apply_rows(ledgers[0], decoder, &errors[0]);
            assert_int_equal(ag_chunk_decoder_start(decoder, file, &entries[i], &errors[1]), 0);
            apply_straight(ledgers[1], decoder, &errors[1]);
            assert_int_equal(errors[0].code, errors[1].code);
            n_damaged += errors[0].code != AG_DECODE_OK;
        }
    }
    compare_totals(ledgers[0], ledgers[1]);
    (void)ag_chunk_decoder_free(decoder);
    (void)ag_ledger_free(ledgers[0]);
    (void)ag_ledger_free(ledgers[1]);
    (void)ag_trace_file_close(file);
    return n_damaged;
}

/* ---- the cases ---- */

static void add_chunks(struct trace_builder *trace, const struct shape *shape, size_t n_chunks,
                       size_t events_each) {
    for (size_t i = 0; i < n_chunks; i++) {
        trace_events(trace, 0, events, make_events(shape, events_each));
    }
}

static void sums_are_the_same(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {300, 60, 40},        /* fits into the smallest caches */
        {300, 100000, 40},    /* many sums: decoded into rows */
        {60000, 100, 1000},   /* many blocks: decoded into rows */
        {20, 200000, 100000}, /* more tuples than a chunk's table holds */
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct trace_builder trace;
        trace_begin(&trace, 0);
        add_chunks(&trace, &shapes[i], 2, EVENTS_MOST);
        add_chunks(&trace, &shapes[i], 6, 100);
        for (size_t length = 4; length < 40; length++) { /* too short for the fast loop */
            add_chunks(&trace, &shapes[i], 1, length);
        }
        trace_finish(&trace, UINT64_C(1) << 40, NULL);
        assert_int_equal(read_both_ways(&trace), 0);
        trace_end(&trace);
    }
}

/* Changes a few bytes in the bodies of chunks. The checksums of the file match the changed
 * bytes. */
static void damage_is_seen_at_the_same_place(void **state) {
    (void)state;
    static const struct shape shape = {300, 3000, 40};
    struct trace_builder trace;
    trace_begin(&trace, 0);
    for (int chunk = 0; chunk < 300; chunk++) {
        const size_t n = make_events(&shape, 200 + random_below(2000));
        ag_event_encoder_start(trace.encoder, events[0].size);
        assert_int_equal(ag_event_encoder_add(trace.encoder, events, n), 0);
        const struct ag_blob *body = ag_event_encoder_body(trace.encoder);
        uint8_t *bytes = malloc(body->length);
        assert_non_null(bytes);
        memcpy(bytes, body->data, body->length);
        for (uint32_t i = 1 + random_below(3); i-- > 0;) {
            bytes[random_below((uint32_t)body->length)] = (uint8_t)random_below(256);
        }
        const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                           .sequences = 1,
                                           .events = ag_event_encoder_events(trace.encoder),
                                           .first_sequence = (uint64_t)chunk,
                                           .first_time_ns = events[0].size};
        assert_int_equal(ag_trace_writer_chunk(trace.writer, &info, bytes, body->length), 0);
        free(bytes);
    }
    trace_finish(&trace, UINT64_C(1) << 40, NULL);
    assert_true(read_both_ways(&trace) > 50);
    trace_end(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_same),
        cmocka_unit_test(damage_is_seen_at_the_same_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
