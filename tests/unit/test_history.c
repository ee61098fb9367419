/* test_history.c: the data that `allogram view` shows over time: slices of time that add up to
 * the whole, outlines (summaries of the stack tree, of limited size), groups (the stacks that
 * end in one node of an outline, and have the same allocation function, type and label). Folding
 * merges groups so that few remain; their sums must stay the same. The data in the page must
 * contain no markup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/stack_tree.h"
#include "model/answers/history.h"
#include "model/answers/lifetimes.h"
#include "model/metric.h"
#include "model/process_merge.h"
#include "page/html_page.h"
#include "page/slice_log.h"
#include "trace_builder.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct ag_profile *open_trace(const struct trace_builder *trace) {
    struct ag_profile *profile = NULL;
    char message[512] = "";
    if (ag_profile_open(trace->path, NULL, &profile, message) < 0) {
        print_error("%s\n", message);
    }
    assert_non_null(profile);
    return profile;
}

/* The function main (node 100) calls parse (node 101) and print (node 102). The 100 ns of the
 * recording are divided into 4 slices of 26 ns (100 / 4 + 1); the events are at 10, 30, 60 and 90
 * ns. */
static void write_small(struct trace_builder *trace) {
    static const struct ag_node nodes[] = {{.id = 100, .parent = 0, .pc = 0x1000},
                                           {.id = 101, .parent = 100, .pc = 0x2000},
                                           {.id = 102, .parent = 100, .pc = 0x3000}};
    trace_begin(trace, 1000);
    trace_nodes(trace, nodes, COUNT(nodes));
    trace_thread(trace, 0, "main");
    trace_thread(trace, 1, "worker");
    TRACE_EVENTS(trace, 0, STAMP(1010), ALLOC(0x10, 100, 101), ALLOC(0x20, 30, 102), FREE(0x20),
                 STAMP(1030), ALLOC(0x30, 1000, 102), STAMP(1040));
    TRACE_EVENTS(trace, 1, STAMP(1060), FREE(0x30), ALLOC(0x40, 8, 101), STAMP(1070));
    TRACE_EVENTS(trace, 0, STAMP(1090), FREE(0x10), STAMP(1095));
    trace_finish(trace, 1100, NULL);
}

struct seen {
    struct ag_history_entry entries[64];
    size_t slices[64], count;
};

static int see(void *context, size_t slice, const struct ag_history_entry *entries, size_t count) {
    struct seen *seen = context;
    for (size_t i = 0; i < count; i++) {
        assert_true(seen->count < COUNT(seen->entries));
        seen->slices[seen->count] = slice;
        seen->entries[seen->count++] = entries[i];
    }
    return 0;
}

static uint32_t group_that_allocated(const struct ag_outline *outline, uint64_t bytes) {
    for (uint32_t i = 0; i < outline->n_groups; i++) {
        if (outline->groups[i].metrics.allocated_bytes == bytes) {
            return i;
        }
    }
    fail_msg("no group allocated %llu bytes", (unsigned long long)bytes);
    return 0;
}

static const struct ag_history_entry *entry(const struct seen *seen, size_t slice, uint32_t group) {
    for (size_t i = 0; i < seen->count; i++) {
        if (seen->slices[i] == slice && seen->entries[i].group == group) {
            return &seen->entries[i];
        }
    }
    fail_msg("slice %zu has no entry of group %u", slice, group);
    return NULL;
}

static void slices_show_changes_peaks_and_blocks(void **state) {
    (void)state;
    struct trace_builder trace;
    write_small(&trace);
    struct ag_profile *profile = open_trace(&trace);
    struct ag_outline outline;
    struct ag_history history;
    static struct seen seen;
    assert_int_equal(ag_outline_make(profile, 100, 100, &outline), 0);
    assert_int_equal(outline.n_groups, 2);
    const uint32_t parse = group_that_allocated(&outline, 108),
                   print = group_that_allocated(&outline, 1030);
    assert_int_equal(ag_history_make(profile, &outline, 4, see, &seen, &history), 0);
    assert_int_equal(history.slice_ns, 26);
    assert_int_equal(seen.count, 6);
    const struct ag_history_entry *first = entry(&seen, 0, print);
    assert_int_equal(first->allocated_bytes, 30);
    assert_int_equal(first->freed_bytes, 30);
    assert_int_equal(first->temporary_blocks, 1);
    /* the block was in use at the moment of the slice with the most bytes in use */
    assert_int_equal(first->rise_bytes, 30);
    const struct ag_history_entry *second = entry(&seen, 1, print);
    assert_int_equal(second->rise_bytes, 1000);
    assert_int_equal(second->freed_blocks, 0);
    assert_int_equal(entry(&seen, 2, print)->freed_bytes, 1000);
    assert_int_equal(entry(&seen, 2, print)->rise_bytes, 0); /* this slice has its peak at its
                                                              * start */
    assert_int_equal(entry(&seen, 2, parse)->allocated_bytes, 8);
    assert_int_equal(entry(&seen, 3, parse)->freed_bytes, 100);

    static const uint64_t peaks[] = {130, 1100, 1100, 108}, ends[] = {100, 1100, 108, 8};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(history.slices[i].peak_bytes, peaks[i]);
        assert_int_equal(history.slices[i].in_use_bytes, ends[i]);
    }
    assert_int_equal(history.slices[1].peak_time_ns, 30);
    assert_int_equal(history.n_leaks, 1);
    assert_int_equal(history.leaks[0].slice, 2);
    assert_int_equal(history.leaks[0].bytes, 8);
    assert_int_equal(history.n_pairs, 1);
    assert_int_equal(history.pairs[0].bytes, 1000);
    assert_int_equal(history.sizes[0 * AG_HISTORY_ORDERS + 6].blocks, 1);      /* 64 to 127 */
    assert_int_equal(history.sizes[1 * AG_HISTORY_ORDERS + 9].bytes, 1000);    /* 512 to 1023 */
    assert_int_equal(history.lifetimes[0 * AG_HISTORY_ORDERS + 6].bytes, 100); /* 64 to 127 ns */
    ag_history_done(&history);
    ag_outline_done(&outline);
    ag_profile_close(profile);
    trace_end(&trace);
}

/* A second process, which starts 40 ns after the first one, has more in use than the first one at
 * its peak, and ends after 30 ns with a block in use. */
static void write_other(struct trace_builder *trace) {
    static const struct ag_node nodes[] = {{.id = 100, .parent = 0, .pc = 0x1000},
                                           {.id = 101, .parent = 100, .pc = 0x2000}};
    trace_begin_at(trace, 5000, /* realtime_ns= */ 40);
    trace_nodes(trace, nodes, COUNT(nodes));
    trace_thread(trace, 0, "main");
    TRACE_EVENTS(trace, 0, STAMP(5010), ALLOC(0x10, 4000, 101), STAMP(5020), FREE(0x10),
                 ALLOC(0x20, 500, 101), STAMP(5025));
    trace_finish(trace, 5030, NULL);
}

/* The merged slices contain the numbers that each process has in a history of its own, and each
 * group belongs to one process. */
static void a_merged_profile_keeps_its_processes_apart(void **state) {
    (void)state;
    struct trace_builder traces[2];
    write_small(&traces[0]);
    write_other(&traces[1]);
    struct ag_profile *merged, *parts[] = {open_trace(&traces[0]), open_trace(&traces[1])};
    assert_int_equal(ag_profile_merge(parts, 2, &merged), 0);
    assert_int_equal(ag_profile_n_processes(merged), 2);
    struct ag_outline outline;
    struct ag_history history;
    static struct seen seen;
    seen.count = 0;
    assert_int_equal(ag_outline_make(merged, 100, 100, &outline), 0);
    assert_int_equal(outline.n_groups, 3);
    const uint32_t parse = group_that_allocated(&outline, 108),
                   print = group_that_allocated(&outline, 1030),
                   other = group_that_allocated(&outline, 4500);
    assert_int_equal(outline.groups[parse].process, 0);
    assert_int_equal(outline.groups[print].process, 0);
    assert_int_equal(outline.groups[other].process, 1);
    assert_int_equal(ag_history_make(merged, &outline, 4, see, &seen, &history), 0);
    assert_int_equal(history.slice_ns, 26);
    assert_int_equal(history.n_processes, 2);
    static const uint64_t peaks[] = {130, 1100, 1100, 108}, ends[] = {100, 1100, 108, 8};
    const struct ag_history_process *first = &history.processes[0], *second = &history.processes[1];
    assert_int_equal(first->first_slice, 0);
    assert_int_equal(first->end_slice, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(first->slices[i].peak_bytes, peaks[i]);
        assert_int_equal(first->slices[i].in_use_bytes, ends[i]);
    }
    assert_int_equal(second->first_slice, 1);
    assert_int_equal(second->end_slice, 3);
    assert_int_equal(second->slices[0].peak_bytes, 4000);
    assert_int_equal(second->slices[0].in_use_bytes, 4000);
    assert_int_equal(second->slices[1].peak_bytes, 4000);
    assert_true(second->slices[1].peak_time_ns < 2 * 26); /* the peak is before the slice */
    assert_int_equal(second->slices[1].in_use_bytes, 500);
    assert_int_equal(history.slices[0].in_use_bytes, 100);
    assert_int_equal(history.slices[1].in_use_bytes, 1100 + 4000);
    assert_int_equal(history.slices[1].allocated_bytes, 1000 + 4000);
    assert_int_equal(history.slices[2].in_use_bytes, 108); /* the second process has ended */
    assert_int_equal(history.slices[3].in_use_bytes, 8);
    assert_int_equal(entry(&seen, 1, other)->rise_bytes, 4000);
    assert_int_equal(entry(&seen, 1, print)->rise_bytes, 1000);
    assert_int_equal(entry(&seen, 2, other)->freed_bytes, 4000);
    assert_int_equal(entry(&seen, 2, other)->allocated_bytes, 500);
    assert_int_equal(entry(&seen, 2, parse)->allocated_bytes, 8);
    assert_int_equal(history.n_threads, 3);
    assert_int_equal(history.n_leaks, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(history.leaks[i].slice, 2);
        assert_int_equal(history.leaks[i].bytes, history.leaks[i].group == other ? 500 : 8);
    }
    ag_history_done(&history);
    ag_outline_done(&outline);
    ag_profile_close(merged);
    trace_end(&traces[0]);
    trace_end(&traces[1]);
}

/* Nodes of two processes with the same frames count once for the limit of nodes. */
static void equal_processes_share_the_nodes_of_an_outline(void **state) {
    (void)state;
    struct trace_builder traces[2];
    write_small(&traces[0]);
    write_small(&traces[1]);
    struct ag_profile *merged, *parts[] = {open_trace(&traces[0]), open_trace(&traces[1])};
    assert_int_equal(ag_profile_merge(parts, 2, &merged), 0);
    struct ag_outline outline;
    assert_int_equal(ag_outline_make(merged, /* most_nodes= */ 3, 100, &outline), 0);
    assert_int_equal(outline.n_nodes, 1 + 3); /* the root, main, parse and print */
    assert_int_equal(outline.n_groups, 4);
    for (size_t i = 0; i < outline.n_nodes; i++) {
        assert_int_not_equal(outline.nodes[i].frame, AG_OUTLINE_OTHER);
    }
    ag_outline_done(&outline);
    ag_profile_close(merged);
    trace_end(&traces[0]);
    trace_end(&traces[1]);
}

/* main calls f, which calls itself to a depth of 20 levels; each level calls 10 leaves (functions
 * that call no other). Each leaf at each level allocates (level + 1) * 16 bytes at each of 40
 * times. The blocks of every second leaf are freed. */
enum { LEVELS = 20, LEAVES = 10, TIMES = 40, FIRST = 1000 };

static void write_wide(struct trace_builder *trace) {
    static struct ag_node nodes[1 + LEVELS * (1 + LEAVES)];
    static struct ag_event events[2 + LEVELS * LEAVES * 3];
    size_t n = 0;
    nodes[n++] = (struct ag_node){.id = 100, .parent = 0, .pc = 0x1000};
    for (uint32_t level = 0; level < LEVELS; level++) {
        const uint32_t id = FIRST + level * 100;
        nodes[n++] = (struct ag_node){.id = id, .parent = level > 0 ? id - 100 : 100, .pc = 0x2000};
        for (uint32_t leaf = 1; leaf <= LEAVES; leaf++) {
            nodes[n++] =
                (struct ag_node){.id = id + leaf, .parent = id, .pc = 0x3000 + leaf * 0x100};
        }
    }
    trace_begin(trace, 0);
    trace_nodes(trace, nodes, n);
    trace_thread(trace, 0, "main");
    uint64_t address = 0x100000;
    for (uint64_t time = 0; time < TIMES; time++) {
        n = 0;
        events[n++] = (struct ag_event)STAMP(100 + time * 100);
        for (uint32_t level = 0; level < LEVELS; level++) {
            for (uint32_t leaf = 1; leaf <= LEAVES; leaf++, address += 0x1000) {
                events[n++] =
                    (struct ag_event)ALLOC(address, (level + 1) * 16, FIRST + level * 100 + leaf);
                if (leaf % 2 == 0) {
                    events[n++] = (struct ag_event)FREE(address);
                }
            }
        }
        events[n++] = (struct ag_event)STAMP(150 + time * 100);
        trace_events(trace, 0, events, n);
    }
    trace_finish(trace, TIMES * 100 + 100, NULL);
}

/* Own bytes of the function named FUNCTION, summed over the groups. */
static uint64_t own_of(const struct ag_profile *profile, const struct ag_outline *outline,
                       const char *function) {
    uint64_t sum = 0;
    for (size_t i = 0; i < outline->n_groups; i++) {
        const uint32_t frame = outline->nodes[outline->groups[i].node].frame;
        if (frame < AG_OUTLINE_OTHER &&
            strcmp(ag_profile_frame(profile, frame)->function, function) == 0) {
            sum += outline->groups[i].metrics.allocated_bytes;
        }
    }
    return sum;
}

static struct ag_metrics sum_of(const struct ag_outline *outline) {
    struct ag_metrics sum = {0};
    for (size_t i = 0; i < outline->n_groups; i++) {
        ag_metrics_add(&sum, &outline->groups[i].metrics);
    }
    return sum;
}

static void an_outline_keeps_total_and_own_sums(void **state) {
    (void)state;
    struct trace_builder trace;
    write_wide(&trace);
    struct ag_profile *profile = open_trace(&trace);
    struct ag_outline whole;
    assert_int_equal(ag_outline_make(profile, 10000, 10000, &whole), 0);
    assert_int_equal(whole.n_groups, LEVELS * LEAVES);
    const struct ag_metrics wanted = sum_of(&whole);
    assert_int_equal(wanted.allocated_blocks, LEVELS * LEAVES * TIMES);
    static const size_t limits[] = {100, 40, 12};
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct ag_outline cut;
        assert_int_equal(ag_outline_make(profile, 10000, limits[i], &cut), 0);
        assert_true(cut.n_groups < whole.n_groups && cut.n_groups <= limits[i]);
        const struct ag_metrics sum = sum_of(&cut);
        assert_memory_equal(&sum, &wanted, sizeof(sum));
        const struct ag_site_row *rows;
        size_t n;
        assert_int_equal(ag_profile_sites(profile, AG_BY_FUNCTION, &rows, &n), 0);
        for (size_t k = 0; k < n; k++) {
            const char *function = ag_profile_frame(profile, rows[k].frame)->function;
            assert_int_equal(own_of(profile, &cut, function), rows[k].own.allocated_bytes);
        }
        ag_outline_done(&cut);
    }
    ag_outline_done(&whole);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void folding_leaves_few_entries_and_keeps_the_sums(void **state) {
    (void)state;
    struct trace_builder trace;
    write_wide(&trace);
    struct ag_profile *profile = open_trace(&trace);
    struct ag_outline outline;
    struct ag_history history;
    struct ag_slice_log log = {0};
    enum { SLICES = 41, MOST = 1000 };
    assert_int_equal(ag_outline_make(profile, 10000, 10000, &outline), 0);
    const struct ag_metrics wanted = sum_of(&outline);
    assert_int_equal(ag_slice_log_init(&log, SLICES, outline.n_groups), 0);
    assert_int_equal(ag_history_make(profile, &outline, SLICES, ag_slice_log_add, &log, &history),
                     0);
    assert_int_equal(log.n_entries, LEVELS * LEAVES * TIMES);
    const size_t n_before = outline.n_groups;
    uint32_t *target = calloc(n_before, sizeof(*target));
    assert_int_equal(ag_slice_log_fold(&log, &outline, MOST, target), 0);
    const struct ag_metrics sum = sum_of(&outline);
    assert_memory_equal(&sum, &wanted, sizeof(sum));
    size_t n_targets = 0;
    for (size_t i = 0; i < outline.n_groups; i++) {
        n_targets += outline.groups[i].metrics.allocated_blocks > 0;
        assert_true(outline.nodes[outline.groups[i].node].parent < outline.groups[i].node);
    }
    assert_true(n_targets * TIMES <= MOST);
    for (size_t i = 0; i < n_before; i++) { /* the allocating function of each group is still the
                                             * same */
        assert_int_equal(outline.nodes[outline.groups[i].node].frame,
                         outline.nodes[outline.groups[target[i]].node].frame);
    }
    free(target);
    ag_slice_log_done(&log);
    ag_history_done(&history);
    ag_outline_done(&outline);
    ag_profile_close(profile);
    trace_end(&trace);
}

/* Two groups of one function, in stacks of 70,000 nodes. The callers differ up to the root, so the
 * two groups become one only if folding reaches the root. */
static void folding_reaches_the_root_of_deep_stacks(void **state) {
    (void)state;
    enum { DEEP = 70000, GROUPS = 2, ROOM = 1 << 18 }; /* ROOM: a power of two, for AG_ARRAY_ADD */
    struct ag_outline outline = {.nodes = calloc(ROOM, sizeof(*outline.nodes)),
                                 .groups = calloc(16, sizeof(*outline.groups)),
                                 .n_nodes = 1,
                                 .n_groups = GROUPS};
    outline.nodes[0] = (struct ag_outline_node){.frame = AG_OUTLINE_ROOT};
    for (uint32_t i = 0; i < GROUPS; i++) {
        for (uint32_t depth = 0; depth < DEEP; depth++) {
            const uint32_t at = (uint32_t)outline.n_nodes++;
            outline.nodes[at] = (struct ag_outline_node){.parent = depth > 0 ? at - 1 : 0,
                                                         .frame = depth + 1 < DEEP ? i : GROUPS};
        }
        outline.groups[i] = (struct ag_outline_group){.node = (uint32_t)outline.n_nodes - 1};
    }
    static const struct ag_history_entry entries[GROUPS] = {{.group = 0, .allocated_blocks = 1},
                                                            {.group = 1, .allocated_blocks = 1}};
    struct ag_slice_log log = {0};
    assert_int_equal(ag_slice_log_init(&log, 1, GROUPS), 0);
    assert_int_equal(ag_slice_log_add(&log, 0, entries, GROUPS), 0);
    uint32_t target[GROUPS];
    assert_int_equal(ag_slice_log_fold(&log, &outline, 1, target), 0);
    assert_int_equal(target[0], target[1]);
    const uint32_t other = outline.nodes[outline.groups[target[0]].node].parent;
    assert_int_equal(outline.nodes[other].frame, AG_OUTLINE_OTHER);
    assert_int_equal(outline.nodes[other].parent, 0);
    ag_slice_log_done(&log);
    free(outline.nodes);
    free(outline.groups);
}

/* A program that served 2,000 requests, each of which allocated in the same 30 functions. Request i
 * (from 1) allocates i bytes in each function, under the label of the request. Each function also
 * allocates 1,000 bytes without a label. */
enum { REQUESTS = 2000, FUNCTIONS = 30 };

static void write_requests(struct trace_builder *trace) {
    static struct ag_node nodes[FUNCTIONS * (1 + REQUESTS)];
    static struct ag_event events[1 + FUNCTIONS * (1 + REQUESTS)];
    size_t n_nodes = 0, n_events = 0;
    trace_begin(trace, 0);
    events[n_events++] = (struct ag_event)STAMP(10);
    for (uint32_t k = 0; k < FUNCTIONS; k++) {
        const uint32_t id = FIRST + k * (REQUESTS + 1);
        nodes[n_nodes++] = (struct ag_node){.id = id, .parent = 0, .pc = 0x1000 + 0x100 * k};
        events[n_events] = (struct ag_event)ALLOC(0x10u * n_events, REQUESTS / 2, id);
        n_events++;
        for (uint32_t i = 1; i <= REQUESTS; i++) {
            nodes[n_nodes++] =
                (struct ag_node){.id = id + i, .parent = id, .pc = i, .image = AG_IMAGE_LABEL};
            events[n_events] = (struct ag_event)ALLOC(0x10u * n_events, i, id + i);
            n_events++;
        }
    }
    for (uint32_t i = 1; i <= REQUESTS; i++) {
        char name[32];
        const int length = snprintf(name, sizeof(name), "request %u", i);
        trace_record(trace,
                     &(struct ag_record){.kind = AG_RECORD_LABEL,
                                         .u.label = {.label = i, .name = {name, (size_t)length}}});
    }
    trace_nodes(trace, nodes, n_nodes);
    trace_thread(trace, 0, "main");
    trace_events(trace, 0, events, n_events);
    trace_finish(trace, 100, NULL);
}

/* The heaviest labels have groups of their own; all other labels share groups. No stack is folded
 * because of labels, and the sums stay the same. */
static void small_labels_are_merged_before_stacks_are_folded(void **state) {
    (void)state;
    struct trace_builder trace;
    write_requests(&trace);
    struct ag_profile *profile = open_trace(&trace);
    struct ag_outline outline;
    enum { MOST = 1200, APART = MOST / 2 / FUNCTIONS };
    assert_int_equal(ag_outline_make(profile, 10000, MOST, &outline), 0);
    assert_int_equal(outline.n_groups, FUNCTIONS * (1 + APART + 1));
    /* bytes without a label, with other labels, with the heaviest labels */
    uint64_t bytes[3] = {0};
    for (size_t i = 0; i < outline.n_groups; i++) {
        const struct ag_outline_group *group = &outline.groups[i];
        assert_true(outline.nodes[group->node].frame < AG_OUTLINE_OTHER);
        assert_int_equal(outline.nodes[group->node].parent, 0);
        if (!group->label || group->label == ag_outline_other_labels) {
            bytes[group->label != NULL] += group->metrics.allocated_bytes;
        } else {
            assert_true(atoi(group->label + strlen("request ")) > REQUESTS - APART);
            bytes[2] += group->metrics.allocated_bytes;
        }
    }
    enum { REST = REQUESTS - APART };
    assert_int_equal(bytes[0], FUNCTIONS * (REQUESTS / 2));
    assert_int_equal(bytes[1], FUNCTIONS * (REST * (REST + 1) / 2));
    assert_int_equal(bytes[2], FUNCTIONS * (REQUESTS * (REQUESTS + 1) / 2) - bytes[1]);
    ag_outline_done(&outline);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void the_data_of_a_page_contain_no_markup(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    static const struct ag_node nodes[] = {{.id = 100, .parent = 0, .pc = 0x1000}};
    trace_nodes(&trace, nodes, COUNT(nodes));
    trace_thread(&trace, 0, "</script>\033[31m");
    TRACE_EVENTS(&trace, 0, STAMP(10), ALLOC(0x10, 100, 100), STAMP(20));
    trace_finish(&trace, 100, NULL);
    struct ag_profile *profile = open_trace(&trace);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(ag_html_page_write(out, profile, profile), 0);
    fclose(out);
    const char *data = strstr(text, "<script type=\"text/plain\" id=\"b0-frames\">");
    assert_non_null(data);
    assert_non_null(strstr(data, "id=\"b1-facts\""));
    for (const char *at = data; (at = strchr(at, '<')) != NULL; at++) {
        /* the end of the data in the page */
        const char *tail = strstr(data, "</script>\n<script>");
        if (tail && at > tail) {
            break;
        }
        assert_true(strncmp(at, "<script type=\"", 14) == 0 || strncmp(at, "</script>\n", 10) == 0);
    }
    assert_null(memchr(text, 033, length));
    free(text);
    ag_profile_close(profile);
    trace_end(&trace);
}

/* Of three blocks, 0x10 never gets a type; 0x20 and 0x30 get one after their allocation. */
static void a_type_that_is_known_late_brings_a_block_to_its_group(void **state) {
    (void)state;
    static const struct ag_node nodes[] = {
        {.id = 100, .parent = 0, .pc = 0x1000},
        {.id = 101, .parent = 100, .pc = 0x2000},
        {.id = 102, .parent = 100, .pc = 0x3000},
        {.id = 103, .parent = 102, .pc = 7, .image = AG_IMAGE_TYPE},
        {.id = 104, .parent = 101, .pc = 7, .image = AG_IMAGE_TYPE}};
    const struct ag_record named = {
        .kind = AG_RECORD_TYPE, .u.type = {.type = 7, .name = {"Leaf", 4}, .runtime = {"wl", 2}}};
    struct trace_builder trace;
    trace_begin(&trace, 1000);
    trace_nodes(&trace, nodes, COUNT(nodes));
    trace_record(&trace, &named);
    TRACE_EVENTS(&trace, 0, STAMP(1010), ALLOC(0x10, 100, 101), ALLOC(0x20, 30, 101),
                 {.kind = AG_RECORD_ALLOC, .address = 0x30, .size = 7, .stack = 102, .via = 1},
                 TYPED(0x20, 30, 104), TYPED(0x30, 7, 103), STAMP(1060), FREE(0x20), FREE(0x30));
    trace_finish(&trace, 1100, NULL);
    struct ag_profile *profile = open_trace(&trace);

    const struct ag_lifetimes *lifetimes;
    assert_int_equal(ag_profile_lifetimes(profile, AG_BY_TYPE, &lifetimes), 0);
    assert_int_equal(lifetimes->n_rows, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct ag_lifetime_row *row = &lifetimes->rows[i];
        assert_int_equal(row->lifetime.blocks, row->type ? 2 : 1);
        assert_int_equal(row->lifetime.ended, row->type ? 2 : 0);
        assert_int_equal(row->lifetime.bytes, row->type ? 37 : 100);
    }
    assert_int_equal(lifetimes->all.blocks, 3);
    assert_int_equal(lifetimes->all.ended, 2);

    struct ag_outline outline;
    struct ag_history history;
    static struct seen seen;
    assert_int_equal(ag_outline_make(profile, 100, 100, &outline), 0);
    assert_int_equal(outline.n_groups, 3);
    assert_int_equal(ag_history_make(profile, &outline, 1, see, &seen, &history), 0);
    for (uint32_t group = 0; group < 3; group++) {
        const uint64_t bytes = outline.groups[group].metrics.allocated_bytes;
        assert_int_equal(history.groups[group].sizes[bytes == 100 ? 6 : bytes == 30 ? 4 : 2], 1);
        assert_int_equal(history.groups[group].lifetimes[5], bytes == 100 ? 0 : 1); /* 50 ns */
    }
    assert_int_equal(history.n_leaks, 1);
    assert_int_equal(history.leaks[0].bytes, 100);
    ag_history_done(&history);
    ag_outline_done(&outline);
    ag_profile_close(profile);
    trace_end(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_show_changes_peaks_and_blocks),
        cmocka_unit_test(a_merged_profile_keeps_its_processes_apart),
        cmocka_unit_test(equal_processes_share_the_nodes_of_an_outline),
        cmocka_unit_test(an_outline_keeps_total_and_own_sums),
        cmocka_unit_test(folding_leaves_few_entries_and_keeps_the_sums),
        cmocka_unit_test(folding_reaches_the_root_of_deep_stacks),
        cmocka_unit_test(small_labels_are_merged_before_stacks_are_folded),
        cmocka_unit_test(a_type_that_is_known_late_brings_a_block_to_its_group),
        cmocka_unit_test(the_data_of_a_page_contain_no_markup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
