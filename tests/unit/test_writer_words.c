/* test_writer_words.c: a chunk's raw words, whole and damaged, become events and records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "writer/chunk_words.h"

static struct ag_wide wide;

static struct ag_chunk_words reader_of(const uint64_t *words, uint32_t count) {
    return (struct ag_chunk_words){
        .words = words, .end = count, .ns_per_2_32 = UINT64_C(1) << 31, .now_ns = 1000000};
}

static uint64_t alloc_word(uint64_t address) {
    return address << 16 | 3 << 8 | AG_WORD_ALLOC;
}

static void events_keep_their_fields(void **state) {
    (void)state;
    const uint64_t words[] = {
        2000 << 8 | AG_WORD_STAMP,
        alloc_word(0x7f1234567890),
        UINT64_C(77) << 32 | 24,
        UINT64_C(0x7f1234567890) << 16 | AG_WORD_FREE,
        UINT64_C(0x1000) << 16 | AG_WORD_REALLOC_FREE,
        UINT64_C(0x1000) << 16 | AG_WORD_UNDO_FREE,
        UINT64_C(0x2000) << 16 | AG_WORD_ALLOC_BIG,
        UINT64_C(16) << 32,
        UINT64_C(5) << 32,
    };
    struct ag_chunk_words reader = reader_of(words, 9);
    struct ag_event events[16];
    assert_int_equal(ag_chunk_words_next(&reader, events, 16, &wide), 6);
    assert_int_equal(events[0].kind, AG_RECORD_STAMP);
    assert_int_equal(events[0].size, 1000); /* half a ns a unit */
    assert_int_equal(events[1].kind, AG_RECORD_ALLOC);
    assert_int_equal(events[1].address, 0x7f1234567890);
    assert_int_equal(events[1].size, 24);
    assert_int_equal(events[1].stack, 77);
    assert_int_equal(events[1].via, 3);
    assert_int_equal(events[2].kind, AG_RECORD_FREE);
    assert_int_equal(events[3].kind, AG_RECORD_REALLOC_FREE);
    assert_int_equal(events[4].kind, AG_RECORD_UNDO_FREE);
    assert_int_equal(events[5].size, UINT64_C(5) << 32);
    assert_int_equal(events[5].stack, 16);
    assert_int_equal(ag_chunk_words_next(&reader, events, 16, &wide), 0);
    assert_false(reader.is_damaged);
}

static void a_free_says_who_freed(void **state) {
    (void)state;
    const uint64_t words[] = {
        UINT64_C(0x1000) << 16 | AG_WORD_FREE_FROM,
        UINT64_C(77) << 32 | 99, /* what stands where a size would is not looked at */
        UINT64_C(0x2000) << 16 | AG_WORD_REALLOC_FREE_FROM,
        UINT64_C(0xffffffff) << 32,
        UINT64_C(0x3000) << 16 | AG_WORD_FREE,
        UINT64_C(0x4000) << 16 | AG_WORD_FREE_FROM, /* its second word is not there */
    };
    struct ag_chunk_words reader = reader_of(words, 6);
    struct ag_event events[8];
    assert_int_equal(ag_chunk_words_next(&reader, events, 8, &wide), 3);
    assert_int_equal(events[0].kind, AG_RECORD_FREE);
    assert_int_equal(events[0].stack, 77);
    assert_int_equal(events[0].size, 0);
    assert_int_equal(events[1].kind, AG_RECORD_REALLOC_FREE);
    assert_int_equal(events[1].stack, AG_ROOT_INCOMPLETE);
    assert_int_equal(events[2].stack, 0);
    assert_true(reader.is_damaged);
}

static void times_never_go_back_nor_ahead_of_now(void **state) {
    (void)state;
    const uint64_t words[] = {5000 << 8 | AG_WORD_STAMP, 4000 << 8 | AG_WORD_STAMP,
                              UINT64_C(1) << 55 | AG_WORD_STAMP};
    struct ag_chunk_words reader = reader_of(words, 3);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &wide), 3);
    assert_int_equal(events[1].size, 2500);
    assert_int_equal(events[2].size, 1000000);
}

static void an_impossible_stack_is_an_incomplete_one(void **state) {
    (void)state;
    const uint64_t words[] = {alloc_word(0x1000), UINT64_C(0xffffffff) << 32 | 8,
                              alloc_word(0x1000), UINT64_C(7) << 32 | 8};
    struct ag_chunk_words reader = reader_of(words, 4);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &wide), 2);
    assert_int_equal(events[0].stack, AG_ROOT_INCOMPLETE);
    assert_int_equal(events[1].stack, AG_ROOT_INCOMPLETE);
}

static void an_unknown_word_ends_the_chunk(void **state) {
    (void)state;
    const uint64_t words[] = {UINT64_C(0x1000) << 16 | AG_WORD_FREE, 15,
                              UINT64_C(0x1000) << 16 | AG_WORD_FREE};
    struct ag_chunk_words reader = reader_of(words, 3);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &wide), 1);
    assert_true(reader.is_damaged);
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &wide), 0);
}

static void an_event_cut_by_the_end_is_not_read(void **state) {
    (void)state;
    const uint64_t words[] = {alloc_word(0x1000), 24};
    struct ag_chunk_words reader = reader_of(words, 1);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &wide), 0);
    assert_true(reader.is_damaged);
}

static void a_wide_comes_between_its_neighbours(void **state) {
    (void)state;
    struct {
        struct ag_wide_thread fields;
        char name[8];
    } thread = {{.thread_id = 4711, .name_bytes = 6}, "worker"};
    uint64_t words[8] = {UINT64_C(0x1000) << 16 | AG_WORD_FREE,
                         (uint64_t)sizeof(thread) << 32 | AG_WIDE_THREAD << 16 | AG_WORD_WIDE};
    memcpy(&words[2], &thread, sizeof(thread));
    words[4] = UINT64_C(0x2000) << 16 | AG_WORD_FREE;
    struct ag_chunk_words reader = reader_of(words, 5);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &wide), 1);
    assert_int_equal(wide.kind, 0);
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &wide), 0);
    struct ag_record record;
    assert_true(ag_wide_record(&wide, /* stream= */ 9, &record));
    assert_int_equal(record.kind, AG_RECORD_THREAD);
    assert_int_equal(record.u.thread.stream, 9);
    assert_int_equal(record.u.thread.thread_id, 4711);
    assert_memory_equal(record.u.thread.name.data, "worker", 6);
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &wide), 1);
    assert_int_equal(events[0].address, 0x2000);
}

static void a_wide_whose_strings_do_not_fit_is_refused(void **state) {
    (void)state;
    const struct ag_wide_via via = {.via = 1, .name_bytes = 100};
    wide.kind = AG_WIDE_VIA;
    wide.bytes = sizeof(via);
    memcpy(wide.u.data, &via, sizeof(via));
    struct ag_record record;
    assert_false(ag_wide_record(&wide, 0, &record));
    wide.bytes = sizeof(via) - 1;
    assert_false(ag_wide_record(&wide, 0, &record));
    wide.kind = 99;
    assert_false(ag_wide_record(&wide, 0, &record));
}

static void rows_of_calls_keep_their_fields_or_are_refused(void **state) {
    (void)state;
    static struct ag_call_path paths[AG_WIDE_CALLS_MOST];
    struct {
        struct ag_wide_calls fields;
        struct ag_wide_call rows[2];
    } calls = {{.tree = 3, .snapshot = 4, .n_rows = 2, .time_is_raw = 1},
               {{.node = 1, .frame = 7, .calls = 8, .own_words = 9, .own_time = 10},
                {.node = 2, .parent = 1, .frame = 8}}};
    bool is_raw = false;
    wide.kind = AG_WIDE_CALLS;
    wide.bytes = sizeof(calls);
    memcpy(wide.u.data, &calls, sizeof(calls));
    assert_int_equal(ag_wide_calls(&wide, paths, &is_raw), 2);
    assert_true(is_raw);
    const struct ag_call_path first = {
        .tree = 3, .snapshot = 4, .node = 1, .frame = 7, .calls = 8, .own_words = 9, .own_ns = 10};
    assert_memory_equal(&paths[0], &first, sizeof(first));
    assert_int_equal(paths[1].parent, 1);
    wide.bytes = sizeof(calls) - 1; /* the second row is cut */
    assert_int_equal(ag_wide_calls(&wide, paths, &is_raw), 0);
    wide.bytes = sizeof(calls.fields) - 1;
    assert_int_equal(ag_wide_calls(&wide, paths, &is_raw), 0);
    calls.fields.n_rows = UINT32_MAX;
    wide.bytes = AG_WIDE_MAX_BYTES;
    memcpy(wide.u.data, &calls, sizeof(calls));
    assert_int_equal(ag_wide_calls(&wide, paths, &is_raw), 0);
    struct ag_record record;
    assert_false(ag_wide_record(&wide, 0, &record)); /* it is rows */
}

static void a_frame_without_a_possible_number_is_refused(void **state) {
    (void)state;
    struct ag_wide_frame frame = {.frame = AG_FRAME_MOST, .line = 5};
    struct ag_record record;
    wide.kind = AG_WIDE_FRAME;
    wide.bytes = sizeof(frame);
    memcpy(wide.u.data, &frame, sizeof(frame));
    assert_true(ag_wide_record(&wide, 0, &record));
    assert_int_equal(record.u.frame.line, 5);
    frame.frame = AG_FRAME_MOST + 1;
    memcpy(wide.u.data, &frame, sizeof(frame));
    assert_false(ag_wide_record(&wide, 0, &record));
    frame.frame = 0;
    memcpy(wide.u.data, &frame, sizeof(frame));
    assert_false(ag_wide_record(&wide, 0, &record));
}

static void a_wide_longer_than_its_chunk_ends_it(void **state) {
    (void)state;
    const uint64_t words[] = {UINT64_C(4096) << 32 | AG_WIDE_THREAD << 16 | AG_WORD_WIDE, 0, 0};
    struct ag_chunk_words reader = reader_of(words, 3);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &wide), 0);
    assert_true(reader.is_damaged);
    assert_int_equal(wide.kind, 0);
}

/* Every word of noise either is read or ends the chunk; the addresses stay within 48 bits. */
static void noise_ends_in_bounds(void **state) {
    (void)state;
    enum { CHUNKS = 20000, WORDS = 64 };
    srandom(4711);
    for (int i = 0; i < CHUNKS; i++) {
        uint64_t words[WORDS];
        for (int w = 0; w < WORDS; w++) {
            words[w] = (uint64_t)random() << 33 | (uint64_t)random() << 4 |
                       (uint64_t)(random() % (i % 2 ? 8 : 16));
        }
        struct ag_chunk_words reader = reader_of(words, WORDS);
        struct ag_event events[8];
        struct ag_record record;
        size_t rounds = 0, count = 0;
        do {
            count = ag_chunk_words_next(&reader, events, 8, &wide);
            if (wide.kind != 0) {
                (void)ag_wide_record(&wide, 0, &record);
            }
            assert_true(reader.at <= WORDS);
            assert_true(++rounds <= WORDS + 1);
        } while (count > 0 || wide.kind != 0);
        assert_int_equal(reader.at, WORDS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_keep_their_fields),
        cmocka_unit_test(a_free_says_who_freed),
        cmocka_unit_test(times_never_go_back_nor_ahead_of_now),
        cmocka_unit_test(an_impossible_stack_is_an_incomplete_one),
        cmocka_unit_test(an_unknown_word_ends_the_chunk),
        cmocka_unit_test(an_event_cut_by_the_end_is_not_read),
        cmocka_unit_test(a_wide_comes_between_its_neighbours),
        cmocka_unit_test(a_wide_whose_strings_do_not_fit_is_refused),
        cmocka_unit_test(rows_of_calls_keep_their_fields_or_are_refused),
        cmocka_unit_test(a_frame_without_a_possible_number_is_refused),
        cmocka_unit_test(a_wide_longer_than_its_chunk_ends_it),
        cmocka_unit_test(noise_ends_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
