/* test_writer_words.c: converts raw words of a chunk (a buffer in shared memory that a thread
 * writes events to), whole and damaged, to events and records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/decode.h"
#include "format/record_body.h"
#include "writer/chunk_words.h"

static struct ag_copied_record copy;

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
    assert_int_equal(ag_chunk_words_next(&reader, events, 16, &copy), 6);
    assert_int_equal(events[0].kind, AG_RECORD_STAMP);
    assert_int_equal(events[0].size, 1000); /* each unit is half a ns */
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
    assert_int_equal(ag_chunk_words_next(&reader, events, 16, &copy), 0);
    assert_false(reader.is_damaged);
}

static void a_free_has_the_stack_of_the_free(void **state) {
    (void)state;
    const uint64_t words[] = {
        UINT64_C(0x1000) << 16 | AG_WORD_FREE_FROM,
        UINT64_C(77) << 32 | 99, /* the lower half, where an alloc has its size, is ignored */
        UINT64_C(0x2000) << 16 | AG_WORD_REALLOC_FREE_FROM,
        UINT64_C(0xffffffff) << 32,
        UINT64_C(0x3000) << 16 | AG_WORD_FREE,
        UINT64_C(0x4000) << 16 | AG_WORD_FREE_FROM, /* its second word is missing */
    };
    struct ag_chunk_words reader = reader_of(words, 6);
    struct ag_event events[8];
    assert_int_equal(ag_chunk_words_next(&reader, events, 8, &copy), 3);
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
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &copy), 3);
    assert_int_equal(events[1].size, 2500);
    assert_int_equal(events[2].size, 1000000);
}

static void an_impossible_stack_is_an_incomplete_one(void **state) {
    (void)state;
    const uint64_t words[] = {alloc_word(0x1000), UINT64_C(0xffffffff) << 32 | 8,
                              alloc_word(0x1000), UINT64_C(7) << 32 | 8};
    struct ag_chunk_words reader = reader_of(words, 4);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &copy), 2);
    assert_int_equal(events[0].stack, AG_ROOT_INCOMPLETE);
    assert_int_equal(events[1].stack, AG_ROOT_INCOMPLETE);
}

static void an_unknown_word_ends_the_chunk(void **state) {
    (void)state;
    const uint64_t words[] = {UINT64_C(0x1000) << 16 | AG_WORD_FREE, 15,
                              UINT64_C(0x1000) << 16 | AG_WORD_FREE};
    struct ag_chunk_words reader = reader_of(words, 3);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &copy), 1);
    assert_true(reader.is_damaged);
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &copy), 0);
}

static void an_event_cut_by_the_end_is_not_read(void **state) {
    (void)state;
    const uint64_t words[] = {alloc_word(0x1000), 24};
    struct ag_chunk_words reader = reader_of(words, 1);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &copy), 0);
    assert_true(reader.is_damaged);
}

/* Stores the record in COPY, in the form in which the reader stores records. */
static void copy_of(const struct ag_record *record) {
    struct ag_record_layout layout;
    assert_true(ag_record_layout(record->kind, &layout));
    assert_in_range(ag_record_body_most(&layout, record), 0, sizeof(copy.body));
    copy.kind = record->kind;
    copy.bytes = (uint32_t)(ag_record_body_put(copy.body, &layout, record) - copy.body);
}

static void a_record_comes_between_its_neighbours(void **state) {
    (void)state;
    const struct ag_record thread = {
        .kind = AG_RECORD_THREAD,
        .u.thread = {.thread_id = 4711, .name = {.data = "worker", .length = 6}}};
    copy_of(&thread);
    const uint32_t n_words = (copy.bytes + 7) / 8;
    uint64_t words[8] = {UINT64_C(0x1000) << 16 | AG_WORD_FREE,
                         AG_WORD_RECORD_HEAD(AG_RECORD_THREAD, copy.bytes)};
    memcpy(&words[2], copy.body, copy.bytes);
    words[2 + n_words] = UINT64_C(0x2000) << 16 | AG_WORD_FREE;
    struct ag_chunk_words reader = reader_of(words, 3 + n_words);
    struct ag_event events[4];
    struct ag_record record;
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &copy), 1);
    assert_int_equal(copy.kind, 0);
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &copy), 0);
    assert_true(ag_copied_record_decode(&copy, &record));
    assert_int_equal(record.kind, AG_RECORD_THREAD);
    assert_int_equal(record.u.thread.thread_id, 4711);
    assert_int_equal(record.u.thread.name.length, 6);
    assert_memory_equal(record.u.thread.name.data, "worker", 6);
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &copy), 1);
    assert_int_equal(events[0].address, 0x2000);
}

static bool is_accepted(const struct ag_record *record) {
    struct ag_record decoded;
    copy_of(record);
    return ag_copied_record_decode(&copy, &decoded);
}

static void a_record_that_is_cut_or_has_impossible_numbers_is_refused(void **state) {
    (void)state;
    struct ag_record record = {.kind = AG_RECORD_VIA,
                               .u.via = {.via = 1, .name = {.data = "malloc", .length = 6}}};
    struct ag_record decoded;
    assert_true(is_accepted(&record));
    copy.bytes--; /* cuts the name */
    assert_false(ag_copied_record_decode(&copy, &decoded));
    record.u.via.via = AG_VIAS_MOST;
    assert_false(is_accepted(&record));

    record = (struct ag_record){.kind = AG_RECORD_FRAME, .u.frame.frame = AG_FRAME_MOST};
    assert_true(is_accepted(&record));
    record.u.frame.frame++;
    assert_false(is_accepted(&record));
    record.u.frame.frame = 0;
    assert_false(is_accepted(&record));
}

static void a_record_that_only_the_writer_makes_is_refused(void **state) {
    (void)state;
    const struct ag_record end = {.kind = AG_RECORD_END, .u.end.how = AG_END_EXIT};
    assert_false(is_accepted(&end));
    struct ag_record decoded;
    copy.kind = AG_RECORD_ALLOC;
    assert_false(ag_copied_record_decode(&copy, &decoded));
    copy.kind = 0xffff;
    assert_false(ag_copied_record_decode(&copy, &decoded));
}

static void an_impossible_stack_of_a_record_is_an_incomplete_one(void **state) {
    (void)state;
    const struct ag_record gc = {.kind = AG_RECORD_GC, .u.gc.stack = UINT32_MAX};
    struct ag_record decoded;
    copy_of(&gc);
    assert_true(ag_copied_record_decode(&copy, &decoded));
    assert_int_equal(decoded.u.gc.stack, AG_ROOT_INCOMPLETE);
}

static void rows_of_calls_keep_their_fields_or_are_refused(void **state) {
    (void)state;
    static const struct ag_call_path rows[AG_WORD_RECORD_MOST_ROWS + 1] = {
        {.tree = 3, .snapshot = 4, .node = 1, .frame = 7, .calls = 8, .own_words = 9, .own_ns = 10},
        {.tree = 3, .snapshot = 4, .node = 2, .parent = 1, .frame = 8}};
    struct ag_record calls = {.kind = AG_RECORD_CALLS,
                              .u.rows = {.count = 2, .data.data = (const char *)rows}};
    struct ag_record decoded;
    copy_of(&calls);
    assert_true(ag_copied_record_decode(&copy, &decoded));
    struct ag_call_path path;
    size_t cursor = 0;
    assert_int_equal(ag_calls_next(&decoded, &cursor, &path), 1);
    assert_memory_equal(&path, &rows[0], sizeof(path));
    assert_int_equal(ag_calls_next(&decoded, &cursor, &path), 1);
    assert_int_equal(path.parent, 1);
    assert_int_equal(ag_calls_next(&decoded, &cursor, &path), 0);
    copy.bytes--; /* cuts the second row */
    assert_false(ag_copied_record_decode(&copy, &decoded));
    calls.u.rows.count = AG_WORD_RECORD_MOST_ROWS + 1;
    assert_false(is_accepted(&calls));
}

static void a_record_longer_than_its_chunk_ends_it(void **state) {
    (void)state;
    const uint64_t words[] = {AG_WORD_RECORD_HEAD(AG_RECORD_THREAD, 4096), 0, 0};
    struct ag_chunk_words reader = reader_of(words, 3);
    struct ag_event events[4];
    assert_int_equal(ag_chunk_words_next(&reader, events, 4, &copy), 0);
    assert_true(reader.is_damaged);
    assert_int_equal(copy.kind, 0);
}

/* Every random word is decoded or ends the chunk. The reader stops at the end of the words. */
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
            count = ag_chunk_words_next(&reader, events, 8, &copy);
            if (copy.kind != 0) {
                (void)ag_copied_record_decode(&copy, &record);
            }
            assert_true(reader.at <= WORDS);
            assert_true(++rounds <= WORDS + 1);
        } while (count > 0 || copy.kind != 0);
        assert_int_equal(reader.at, WORDS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_keep_their_fields),
        cmocka_unit_test(a_free_has_the_stack_of_the_free),
        cmocka_unit_test(times_never_go_back_nor_ahead_of_now),
        cmocka_unit_test(an_impossible_stack_is_an_incomplete_one),
        cmocka_unit_test(an_unknown_word_ends_the_chunk),
        cmocka_unit_test(an_event_cut_by_the_end_is_not_read),
        cmocka_unit_test(a_record_comes_between_its_neighbours),
        cmocka_unit_test(a_record_that_is_cut_or_has_impossible_numbers_is_refused),
        cmocka_unit_test(a_record_that_only_the_writer_makes_is_refused),
        cmocka_unit_test(an_impossible_stack_of_a_record_is_an_incomplete_one),
        cmocka_unit_test(rows_of_calls_keep_their_fields_or_are_refused),
        cmocka_unit_test(a_record_longer_than_its_chunk_ends_it),
        cmocka_unit_test(noise_ends_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
