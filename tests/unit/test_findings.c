/* test_findings.c: findings (lines of a summary that name a likely fault of the program) about
 * the heaps of runtimes, and which lines of a native program are a growing leak.
 * tests/conformance/findings_reported.py tests all kinds of findings with
 * tests/programs/libc/faults.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/segment.h"
#include "model/answers/findings.h"
#include "model/profile.h"
#include "trace_builder.h"

enum { BLOCKS = 2000, COLLECTED_VIA = 9, FIRST = 100 };

static struct ag_bytes bytes_of(const char *text) {
    return (struct ag_bytes){.data = text, .length = (uint32_t)strlen(text)};
}

/* Thread 0 allocates blocks, by the allocation function VIA. Thread 1 reports their deaths, by
 * events of KIND. Returns how many blocks the summary shows as freed by another thread. */
static size_t foreign_frees_of(uint8_t via, enum ag_record_kind kind) {
    static struct ag_event births[BLOCKS + 1], deaths[BLOCKS + 1];
    const struct ag_record heap = {.kind = AG_RECORD_HEAP,
                                   .u.heap = {.heap = 9,
                                              .kind = AG_HEAP_NON_MOVING,
                                              .name = bytes_of("wl"),
                                              .allocator = bytes_of("wl"),
                                              .runtime = bytes_of("wl")}};
    const struct ag_record new = {
        .kind = AG_RECORD_VIA, .u.via = {.via = COLLECTED_VIA, .heap = 9, .name = bytes_of("new")}};
    const struct ag_node node = {.id = FIRST, .pc = 0x1000};
    births[0] = (struct ag_event)STAMP(10);
    deaths[0] = (struct ag_event)STAMP(90);
    for (uint64_t i = 1; i <= BLOCKS; i++) {
        births[i] = (struct ag_event)ALLOC(i * 16, 16, FIRST);
        births[i].via = via;
        deaths[i] = (struct ag_event){.kind = (uint8_t)kind, .address = i * 16};
    }
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_record(&trace, &heap);
    trace_record(&trace, &new);
    trace_nodes(&trace, &node, 1);
    trace_thread(&trace, 0, "main");
    trace_thread(&trace, 1, "writer");
    trace_events(&trace, 0, births, BLOCKS + 1);
    trace_events(&trace, 1, deaths, BLOCKS + 1);
    trace_finish(&trace, 100, NULL);

    struct ag_profile *profile = NULL;
    struct ag_findings findings;
    char message[512] = "";
    size_t n = 0;
    assert_int_equal(ag_profile_open(trace.path, NULL, &profile, message), 0);
    assert_int_equal(ag_profile_findings(profile, AG_FINDINGS_ALL, &findings), 0);
    for (size_t i = 0; i < findings.count; i++) {
        n += findings.rows[i].kind == AG_FINDING_FOREIGN_FREES ? findings.rows[i].blocks : 0;
    }
    ag_profile_close(profile);
    trace_end(&trace);
    return n;
}

static void a_collector_frees_nothing_for_other_threads(void **state) {
    (void)state;
    assert_int_equal(foreign_frees_of(/* via= */ 0, AG_RECORD_FREE), BLOCKS);
    assert_int_equal(foreign_frees_of(COLLECTED_VIA, AG_RECORD_FREE), 0);
    assert_int_equal(foreign_frees_of(COLLECTED_VIA, AG_RECORD_COLLECT), 0);
}

/* A line allocates BLOCKS blocks of 32 bytes, one in each ns, and none is freed. The heap's
 * collector collects once, at collection_ns (0: never). Returns the number of blocks that the
 * summary shows as a growing leak. */
static size_t leaked_blocks(uint8_t via, const char *collection, uint64_t collection_ns) {
    static struct ag_event events[2 * BLOCKS];
    const struct ag_record heap = {.kind = AG_RECORD_HEAP,
                                   .u.heap = {.heap = 9,
                                              .name = bytes_of("wl"),
                                              .allocator = bytes_of("wl"),
                                              .runtime = bytes_of("wl")}};
    const struct ag_record new = {
        .kind = AG_RECORD_VIA, .u.via = {.via = COLLECTED_VIA, .heap = 9, .name = bytes_of("new")}};
    const struct ag_record gc = {.kind = AG_RECORD_GC,
                                 .u.gc = {.start_ns = collection_ns,
                                          .runtime = bytes_of("wl"),
                                          .kind = bytes_of(collection)}};
    const struct ag_record runtime = {
        .kind = AG_RECORD_RUNTIME,
        .u.runtime = {.hooked = 1, .name = bytes_of("wl"), .reported = BLOCKS, .counted = BLOCKS}};
    const struct ag_node node = {.id = FIRST, .pc = 0x1000};
    for (uint64_t i = 0; i < BLOCKS; i++) {
        events[2 * i] = (struct ag_event)STAMP(i + 1);
        events[2 * i + 1] = (struct ag_event)ALLOC((i + 1) * 32, 32, FIRST);
        events[2 * i + 1].via = via;
    }
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_record(&trace, &heap);
    trace_record(&trace, &new);
    trace_record(&trace, &runtime);
    if (collection_ns > 0) {
        trace_record(&trace, &gc);
    }
    trace_nodes(&trace, &node, 1);
    trace_thread(&trace, 0, "main");
    trace_events(&trace, 0, events, 2 * (size_t)BLOCKS);
    trace_finish(&trace, BLOCKS + 1, NULL);

    struct ag_profile *profile = NULL;
    struct ag_findings findings;
    char message[512] = "";
    size_t n = 0;
    assert_int_equal(ag_profile_open(trace.path, NULL, &profile, message), 0);
    assert_int_equal(ag_profile_findings(profile, AG_FINDINGS_ALL, &findings), 0);
    for (size_t i = 0; i < findings.count; i++) {
        n += findings.rows[i].kind == AG_FINDING_LEAK ? findings.rows[i].blocks : 0;
    }
    ag_profile_close(profile);
    trace_end(&trace);
    return n;
}

static void only_blocks_that_survived_a_collection_leak(void **state) {
    (void)state;
    assert_int_equal(leaked_blocks(/* via= */ 0, "full", 0), BLOCKS); /* malloc's heap */
    assert_int_equal(leaked_blocks(COLLECTED_VIA, "full", 0), 0);
    assert_int_equal(leaked_blocks(COLLECTED_VIA, "minor", BLOCKS), 0);
    assert_in_range(leaked_blocks(COLLECTED_VIA, "full", BLOCKS + 1), BLOCKS - BLOCKS / 32, BLOCKS);
    /* the recording is divided into 32 parts, and only whole parts count */
    assert_in_range(leaked_blocks(COLLECTED_VIA, "full", BLOCKS / 2 + 2), BLOCKS / 2 - BLOCKS / 32,
                    BLOCKS / 2 + 2);
}

/* ---- which lines grow until the end ---- */

enum { TICKS = 1000, TICK_NS = 10 * 1000 * 1000, OTHER = 101, TYPED = 102, SIZE = 64 };

/* The line FIRST allocates blocks that it keeps, and the line OTHER blocks that it frees. */
enum course {
    SLOW,            /* FIRST: a block in each tick */
    BURSTS,          /* FIRST: 100 blocks in each 125th tick */
    FREED_AT_EXIT,   /* SLOW; then half of the blocks are freed */
    BUILT_ONCE,      /* FIRST: a block in each of the first 600 ticks. OTHER works until the end */
    BUILT_THEN_IDLE, /* as BUILT_ONCE, but OTHER stops with FIRST */
    BOUNDED,  /* FIRST: a block in each of the first 700 ticks. Later each new block replaces one of
              * the younger half of its blocks */
    AT_START, /* FIRST: 700 blocks in the first 50 ticks. OTHER works until the end */
};

static struct ag_event course_events[8 * TICKS];
static size_t n_course_events;

static void course_alloc(uint64_t number, uint32_t line) {
    course_events[n_course_events++] = (struct ag_event)ALLOC(
        (number + 1) * SIZE + (line == OTHER) * UINT64_C(0x1000000), SIZE, line);
}

static void course_free(uint64_t number, uint32_t line) {
    course_events[n_course_events++] =
        (struct ag_event)FREE((number + 1) * SIZE + (line == OTHER) * UINT64_C(0x1000000));
}

/* Gives a block of the line FIRST its type, which moves it to the line TYPED. */
static void course_type(uint64_t number) {
    course_events[n_course_events++] = (struct ag_event){
        .kind = AG_RECORD_BLOCK_TYPE, .address = (number + 1) * SIZE, .size = SIZE, .stack = TYPED};
}

static void make_course(enum course course, bool has_types) {
    n_course_events = 0;
    uint64_t n = 0;
    for (uint64_t tick = 0; tick < TICKS; tick++) {
        course_events[n_course_events++] = (struct ag_event)STAMP((tick + 1) * TICK_NS);
        uint64_t made = 0;
        switch (course) {
        case SLOW:
        case FREED_AT_EXIT:
            made = 1;
            break;
        case BURSTS:
            made = tick % 125 == 0 ? 100 : 0;
            break;
        case BUILT_ONCE:
        case BUILT_THEN_IDLE:
            made = tick < 600;
            break;
        case BOUNDED:
            made = 1;
            if (tick >= 700) {
                course_free(tick - 350, FIRST);
            }
            break;
        case AT_START:
            made = tick < 50 ? 14 : 0;
            break;
        }
        for (uint64_t i = 0; i < made; i++) {
            course_alloc(n, FIRST);
            if (has_types) {
                course_type(n);
            }
            n++;
        }
        if (course != BUILT_THEN_IDLE || tick < 600) {
            course_alloc(tick, OTHER);
            course_free(tick, OTHER);
        }
    }
    for (uint64_t i = 0; i < n / 2 && course == FREED_AT_EXIT; i++) {
        course_free(i, FIRST);
    }
}

/* Returns the number of blocks that the summary shows as a growing leak. has_types: each block of
 * the line FIRST gets its type after its allocation. */
static size_t growing_blocks(enum course course, bool has_types) {
    const struct ag_node nodes[] = {
        {.id = FIRST, .pc = 0x1000}, {.id = OTHER, .pc = 0x2000}, {.id = TYPED, .pc = 0x3000}};
    struct trace_builder trace;
    make_course(course, has_types);
    trace_begin(&trace, 0);
    for (uint64_t tick = 0; tick < TICKS; tick += 10) {
        const struct ag_record sample = {
            .kind = AG_RECORD_RESIDENT,
            .u.resident = {.time_ns = (tick + 1) * TICK_NS, .bytes = 1 << 20}};
        trace_record(&trace, &sample);
    }
    trace_nodes(&trace, nodes, 3);
    trace_thread(&trace, 0, "main");
    trace_events(&trace, 0, course_events, n_course_events);
    trace_finish(&trace, (uint64_t)TICKS * TICK_NS + 1, NULL);
    struct ag_profile *profile = NULL;
    struct ag_findings findings;
    char message[512] = "";
    size_t n = 0;
    assert_int_equal(ag_profile_open(trace.path, NULL, &profile, message), 0);
    assert_int_equal(ag_profile_findings(profile, AG_FINDINGS_ALL, &findings), 0);
    for (size_t i = 0; i < findings.count; i++) {
        n += findings.rows[i].kind == AG_FINDING_LEAK ? findings.rows[i].blocks : 0;
    }
    ag_profile_close(profile);
    trace_end(&trace);
    return n;
}

static void check_growing_leaks(bool has_types) {
    assert_int_equal(growing_blocks(SLOW, has_types), TICKS);
    assert_int_equal(growing_blocks(BURSTS, has_types), TICKS / 125 * 100);
    assert_int_equal(growing_blocks(FREED_AT_EXIT, has_types), TICKS / 2);
    assert_int_equal(growing_blocks(BUILT_ONCE, has_types), 0);
    assert_int_equal(growing_blocks(BUILT_THEN_IDLE, has_types), 0);
    assert_int_equal(growing_blocks(BOUNDED, has_types), 0);
    assert_int_equal(growing_blocks(AT_START, has_types), 0);
}

static void a_growing_leak_grows_in_the_last_quarter_of_the_recording(void **state) {
    (void)state;
    check_growing_leaks(/* has_types= */ false);
}

static void a_block_that_gets_its_type_late_counts_once(void **state) {
    (void)state;
    check_growing_leaks(/* has_types= */ true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_growing_leak_grows_in_the_last_quarter_of_the_recording),
        cmocka_unit_test(a_block_that_gets_its_type_late_counts_once),
        cmocka_unit_test(a_collector_frees_nothing_for_other_threads),
        cmocka_unit_test(only_blocks_that_survived_a_collection_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
