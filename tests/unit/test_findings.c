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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collector_frees_nothing_for_other_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
