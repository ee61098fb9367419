/* test_format_events.c: events that are encoded to a chunk (the unit of a trace file) and decoded
 * must be equal to the original events. Damaged bytes must be refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/encode.h"
#include "format/trace_layout.h"
#include "format_samples.h"

/* A temporary trace with one chunk, and a decoder that reads it. */
struct one_chunk {
    char path[64];
    struct ag_trace_file *file;
    const struct ag_chunk_entry *entry;
    struct ag_chunk_decoder *decoder;
};

static void chunk_make(struct one_chunk *chunk, const void *body, size_t n_bytes,
                       const struct ag_chunk_info *info) {
    snprintf(chunk->path, sizeof(chunk->path), "/tmp/test_format_events.XXXXXX");
    const int fd = mkstemp(chunk->path);
    assert_true(fd >= 0);
    struct ag_trace_writer *writer;
    assert_int_equal(ag_trace_writer_new(fd, &(struct ag_trace_header){.session = 1}, &writer), 0);
    assert_int_equal(ag_trace_writer_chunk(writer, info, body, n_bytes), 0);
    assert_int_equal(ag_trace_writer_finish(writer, NULL), 0);
    assert_null(ag_trace_writer_free(writer));

    struct ag_decode_error error;
    assert_int_equal(ag_trace_file_open(chunk->path, &chunk->file, &error), 0);
    assert_null(ag_trace_file_damage(chunk->file));
    assert_int_equal(ag_trace_file_chunks(chunk->file, &chunk->entry), 2); /* the second one is the
                                                                            * index */
    chunk->decoder = ag_chunk_decoder_new();
    assert_non_null(chunk->decoder);
    assert_int_equal(ag_chunk_decoder_start(chunk->decoder, chunk->file, chunk->entry, &error), 0);
}

static void chunk_done(struct one_chunk *chunk) {
    assert_null(ag_chunk_decoder_free(chunk->decoder));
    assert_null(ag_trace_file_close(chunk->file));
    unlink(chunk->path);
}

static void assert_same_event(const struct ag_event *found, const struct ag_event *expected,
                              size_t at) {
    if (memcmp(found, expected, sizeof(*found)) != 0) {
        fail_msg(
            "event %zu: kind %u address %llx size %llu stack %u via %u, not %u %llx %llu %u %u", at,
            found->kind, (unsigned long long)found->address, (unsigned long long)found->size,
            found->stack, found->via, expected->kind, (unsigned long long)expected->address,
            (unsigned long long)expected->size, expected->stack, expected->via);
    }
}

/* Encodes the events, decodes at most `capacity` of them at a time, and compares. */
static void round_trip(struct ag_event_encoder *encoder, const struct ag_event *events,
                       size_t count, size_t capacity) {
    ag_event_encoder_start(encoder, 0);
    assert_int_equal(ag_event_encoder_add(encoder, events, count), 0);
    const struct ag_blob *body = ag_event_encoder_body(encoder);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                       .events = ag_event_encoder_events(encoder)};
    struct one_chunk chunk;
    chunk_make(&chunk, body->data, body->length, &info);

    struct ag_event *found = malloc(capacity * sizeof(*found));
    assert_non_null(found);
    size_t done = 0;
    for (;;) {
        struct ag_record record;
        struct ag_decode_error error;
        const int n = ag_chunk_decoder_next(chunk.decoder, found, capacity, &record, &error);
        assert_true(n >= 0);
        assert_true(record.kind == 0 || record.kind == AG_RECORD_FREE_STACK);
        if (n == 0 && record.kind == 0) {
            break;
        }
        for (int i = 0; i < n; i++) {
            assert_true(done < count);
            assert_same_event(&found[i], &events[done], done);
            done++;
        }
    }
    assert_int_equal(done, count);
    free(found);
    chunk_done(&chunk);
}

static void any_events_are_decoded_the_same(void **state) {
    (void)state;
    static struct ag_event events[20000];
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    assert_non_null(encoder);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct ag_sample_random random = {.state = seed};
        const size_t count = 1 + ag_sample_below(&random, seed % 10 == 0 ? 20000 : 300);
        const size_t capacity = 1 + ag_sample_below(&random, 4096);
        ag_sample_wild_events(&random, events, count);
        round_trip(encoder, events, count, capacity);
    }
    assert_null(ag_event_encoder_free(encoder));
}

static void events_of_a_program_are_decoded_the_same_and_stored_small(void **state) {
    (void)state;
    enum { COUNT = 200000 };
    struct ag_event *events = calloc(COUNT, sizeof(*events));
    assert_non_null(events);
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct ag_sample_random random = {.state = seed};
        ag_sample_program_events(&random, events, COUNT);
        round_trip(encoder, events, COUNT, 1000);
        const struct ag_blob *body = ag_event_encoder_body(encoder);
        assert_true(body->length < 2 * COUNT); /* the size before compression */
        assert_int_equal(ag_event_encoder_events(encoder), COUNT - (COUNT + 63) / 64);
    }
    assert_null(ag_event_encoder_free(encoder));
    free(events);
}

/* More different tuples (stack, size, allocation function) than the encoder's table holds: further
 * tuples are written in full.
 */
static void more_tuples_than_the_table_holds(void **state) {
    (void)state;
    enum { COUNT = 3 * AG_TUPLES_MAX };
    struct ag_event *events = calloc(COUNT, sizeof(*events));
    assert_non_null(events);
    for (uint32_t i = 0; i < COUNT; i++) {
        events[i] = (struct ag_event){.kind = AG_RECORD_ALLOC,
                                      .address = 0x10000 + 32 * (uint64_t)i,
                                      .size = i % 100,
                                      .stack = i % (2 * AG_TUPLES_MAX)};
    }
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    round_trip(encoder, events, COUNT, 4096);
    assert_null(ag_event_encoder_free(encoder));
    free(events);
}

/* One encoder writes many chunks. A reader may have only one of them, so no chunk may depend on the
 * one before. */
static void chunks_of_one_encoder_do_not_depend_on_each_other(void **state) {
    (void)state;
    static struct ag_event events[500];
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    struct ag_sample_random random = {.state = 7};
    ag_sample_program_events(&random, events, 500);
    for (unsigned i = 0; i < 20; i++) {
        round_trip(encoder, events + i * 25, 25,
                   100); /* contains frees of blocks that an earlier chunk allocated */
    }
    assert_null(ag_event_encoder_free(encoder));
}

static void the_greatest_numbers(void **state) {
    (void)state;
    const struct ag_event events[] = {
        {.kind = AG_RECORD_STAMP, .size = UINT64_C(1) << 62},
        {.kind = AG_RECORD_ALLOC,
         .address = UINT64_MAX,
         .size = UINT64_C(1) << 63,
         .stack = UINT32_MAX,
         .via = 255},
        {.kind = AG_RECORD_FREE, .address = 1},
        {.kind = AG_RECORD_ALLOC,
         .address = UINT64_C(1) << 63,
         .size = UINT64_MAX,
         .stack = UINT32_MAX,
         .via = 255},
        {.kind = AG_RECORD_FREE, .address = UINT64_C(0x7ffffffffff0)},
        {.kind = AG_RECORD_REALLOC_FREE, .address = UINT64_C(1) << 63},
        {.kind = AG_RECORD_UNDO_FREE, .address = UINT64_C(1) << 63},
        {.kind = AG_RECORD_REALLOC_FREE, .address = 0},
        {.kind = AG_RECORD_STAMP, .size = UINT64_MAX},
    };
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    round_trip(encoder, events, sizeof(events) / sizeof(events[0]), 3);
    assert_null(ag_event_encoder_free(encoder));
}

static void times_never_decrease_if_the_clock_goes_back(void **state) {
    (void)state;
    const struct ag_event events[] = {{.kind = AG_RECORD_STAMP, .size = 500},
                                      {.kind = AG_RECORD_STAMP, .size = 400},
                                      {.kind = AG_RECORD_STAMP, .size = 600}};
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    ag_event_encoder_start(encoder, 450);
    assert_int_equal(ag_event_encoder_add(encoder, events, 3), 0);
    const struct ag_blob *body = ag_event_encoder_body(encoder);
    struct one_chunk chunk;
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS, .first_time_ns = 450};
    chunk_make(&chunk, body->data, body->length, &info);
    struct ag_event found[4];
    struct ag_record record;
    struct ag_decode_error error;
    assert_int_equal(ag_chunk_decoder_next(chunk.decoder, found, 4, &record, &error), 3);
    assert_int_equal(found[0].size, 500);
    assert_int_equal(found[1].size, 500);
    assert_int_equal(found[2].size, 600);
    chunk_done(&chunk);
    assert_null(ag_event_encoder_free(encoder));
}

static void records_between_events_have_their_time_and_place(void **state) {
    (void)state;
    const struct ag_event events[] = {
        {.kind = AG_RECORD_STAMP, .size = 70},
        {.kind = AG_RECORD_ALLOC, .address = 4096, .size = 8, .stack = 20},
        {.kind = AG_RECORD_FREE, .address = 4096},
    };
    const struct ag_record map = {.kind = AG_RECORD_MAP, .u.map = {.address = 8192, .bytes = 4096}};
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    ag_event_encoder_start(encoder, 50);
    assert_int_equal(ag_event_encoder_add_record(encoder, &map), 0);
    assert_int_equal(ag_event_encoder_add(encoder, events, 2), 0);
    assert_int_equal(ag_event_encoder_add_record(encoder, &map), 0);
    assert_int_equal(ag_event_encoder_add_record(encoder, &map), 0);
    assert_int_equal(ag_event_encoder_add(encoder, events + 2, 1), 0);

    const struct ag_blob *body = ag_event_encoder_body(encoder);
    struct one_chunk chunk;
    const struct ag_chunk_info info = {
        .kind = AG_CHUNK_KIND_EVENTS, .stream = 9, .events = 2, .first_time_ns = 50};
    chunk_make(&chunk, body->data, body->length, &info);
    static const struct {
        int n_events;
        enum ag_record_kind kind;
        uint64_t time_ns;
    } expected[] = {{0, AG_RECORD_MAP, 50}, {2, 0, 0}, {0, AG_RECORD_MAP, 70},
                    {0, AG_RECORD_MAP, 70}, {1, 0, 0}, {0, 0, 0}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct ag_event found[8];
        struct ag_record record;
        struct ag_decode_error error;
        assert_int_equal(ag_chunk_decoder_next(chunk.decoder, found, 8, &record, &error),
                         expected[i].n_events);
        assert_int_equal(record.kind, expected[i].kind);
        if (record.kind != 0) {
            assert_int_equal(record.time_ns, expected[i].time_ns);
            assert_int_equal(record.stream, 9);
            assert_int_equal(record.u.map.address, 8192);
        }
    }
    chunk_done(&chunk);
    assert_null(ag_event_encoder_free(encoder));
}

/* ---- bytes that no encoder writes ---- */

static void assert_refused(const void *body, size_t n_bytes, uint32_t n_events,
                           uint64_t body_offset) {
    struct one_chunk chunk;
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS, .events = n_events};
    chunk_make(&chunk, body, n_bytes, &info);
    struct ag_event found[64];
    struct ag_record record;
    struct ag_decode_error error = {0};
    int r;
    do {
        r = ag_chunk_decoder_next(chunk.decoder, found, 64, &record, &error);
    } while (r > 0);
    assert_int_equal(r, -EBADMSG);
    assert_int_equal(error.offset, AG_TRACE_HEADER_BYTES);
    assert_int_equal(error.body_offset, body_offset);
    chunk_done(&chunk);
}

#define HEAD(form, argument) (char)((argument) << AG_FORM_BITS | (form))

static void bytes_that_contradict_themselves_are_refused(void **state) {
    (void)state;
    const char near_of_nothing[] = {HEAD(AG_FORM_FREE_NEAR, 0)};
    assert_refused(near_of_nothing, 1, 1, 0);
    const char expected_of_nothing[] = {HEAD(AG_FORM_ALLOC_FAR_EXPECTED, 0), 2};
    assert_refused(expected_of_nothing, 2, 1, 0);
    const char tuple_beyond[] = {HEAD(AG_FORM_ALLOC_FAR, 0), 1, 9, 8, 7, 2};
    assert_refused(tuple_beyond, 6, 1, 0);
    const char cut_in_the_middle[] = {HEAD(AG_FORM_ALLOC_FAR, 0), 0, 9, 8, 7};
    assert_refused(cut_in_the_middle, 5, 1, 0);
    const char too_far[] = {HEAD(AG_FORM_ALLOC_FAR, 0), 0, 9, 8, 7, 2, HEAD(AG_FORM_FREE_NEAR, 1)};
    assert_refused(too_far, 7, 2, 6);
    const char unknown_other[] = {HEAD(AG_FORM_OTHER, 2), 0};
    assert_refused(unknown_other, 2, 0, 0);
    const char too_many_bits[] = "\x07\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"; /* a time stamp
                                                                                  * whose number has
                                                                                  * over 64 bits */
    assert_refused(too_many_bits, 11, 0, 0);
    const char wide_via[] = {HEAD(AG_FORM_ALLOC_FAR, 0), 0, 9, 8, (char)0x80, 2, 2};
    assert_refused(wide_via, 7, 1, 0);
    const char record_beyond[] = {HEAD(AG_FORM_OTHER, 1), AG_RECORD_MAP, 5, 0};
    assert_refused(record_beyond, 4, 0, 1);
    const char one_event_not_two[] = {HEAD(AG_FORM_FREE_FAR, 0), 2};
    assert_refused(one_event_not_two, 2, 2, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_events_are_decoded_the_same),
        cmocka_unit_test(events_of_a_program_are_decoded_the_same_and_stored_small),
        cmocka_unit_test(more_tuples_than_the_table_holds),
        cmocka_unit_test(chunks_of_one_encoder_do_not_depend_on_each_other),
        cmocka_unit_test(the_greatest_numbers),
        cmocka_unit_test(times_never_decrease_if_the_clock_goes_back),
        cmocka_unit_test(records_between_events_have_their_time_and_place),
        cmocka_unit_test(bytes_that_contradict_themselves_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
