/* test_findings.c: findings (lines of a summary that name a likely fault of the program) about the
 * heaps of runtimes. Findings about native programs are tested with
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collector_frees_nothing_for_other_threads),
        cmocka_unit_test(only_blocks_that_survived_a_collection_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
