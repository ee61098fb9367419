/* test_model.c: writes traces with the real encoder, opens them as profiles, and compares the
 * numbers with those computed by hand. */
#include <errno.h>
#include <link.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/skip.h"
#include "base/stack_tree.h"
#include "format/segment.h"
#include "ledger/ledger.h"
#include "model/answers/blocks.h"
#include "model/answers/lifetimes.h"
#include "model/answers/types.h"
#include "model/interval.h"
#include "model/metric.h"
#include "model/profile.h"
#include "trace_builder.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct ag_profile_options all(void) {
    return (struct ag_profile_options){.size = sizeof(struct ag_profile_options), .thread = -1};
}

static struct ag_profile *open_with(const struct trace_builder *trace,
                                    const struct ag_profile_options *options) {
    struct ag_profile *profile = NULL;
    char message[512] = "";
    const int r = ag_profile_open(trace->path, options, &profile, message);
    if (r < 0) {
        print_error("%s\n", message);
    }
    assert_int_equal(r, 0);
    return profile;
}

static struct ag_profile *open_all(const struct trace_builder *trace) {
    const struct ag_profile_options options = all();
    return open_with(trace, &options);
}

static const char *name_of(const struct ag_profile *profile, uint32_t frame) {
    return ag_profile_frame(profile, frame)->function;
}

static const struct ag_site_row *site(struct ag_profile *profile, enum ag_site_key by,
                                      const char *function) {
    const struct ag_site_row *rows;
    size_t n;
    assert_int_equal(ag_profile_sites(profile, by, &rows, &n), 0);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(by == AG_BY_THREAD || by == AG_BY_HEAP ? rows[i].label
                                                          : name_of(profile, rows[i].frame),
                   function) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Stacks by the id of their innermost node: main 100 (0x1000) calls parse 101 (0x2000). Parse calls
 * itself, 102 (0x2000), and this inner call calls token 103 (0x3000). Main also calls print 104
 * (0x4000). Without an image a function is named by its address. */
static const struct ag_node nodes[] = {
    {.id = 100, .parent = 0, .pc = 0x1000},   {.id = 101, .parent = 100, .pc = 0x2000},
    {.id = 102, .parent = 101, .pc = 0x2000}, {.id = 103, .parent = 102, .pc = 0x3000},
    {.id = 104, .parent = 100, .pc = 0x4000},
};

/* The program has two threads, and allocates 6 blocks. Thread 1 frees a block of thread 0. */
static void write_program(struct trace_builder *trace, uint64_t start_ns) {
    trace_begin(trace, start_ns);
    trace_nodes(trace, nodes, COUNT(nodes));
    trace_thread(trace, 0, "main");
    trace_thread(trace, 1, "worker");
    TRACE_EVENTS(trace, 0, STAMP(start_ns + 10), ALLOC(0x10, 100, 103), ALLOC(0x20, 200, 102),
                 STAMP(start_ns + 20), ALLOC(0x30, 50, 104), FREE(0x30), STAMP(start_ns + 30));
    TRACE_EVENTS(trace, 1, STAMP(start_ns + 40), FREE(0x10), ALLOC(0x40, 400, 104),
                 STAMP(start_ns + 50));
    TRACE_EVENTS(trace, 0, STAMP(start_ns + 60), ALLOC(0x50, 7, 101), FREE(0x50), ALLOC(0x60, 1, 0),
                 FREE(0x99), STAMP(start_ns + 70));
    trace_finish(trace, start_ns + 100, NULL);
}

static void a_trace_without_an_index_is_read_event_by_event(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace, 1000);
    struct ag_profile *profile = open_all(&trace);
    const struct ag_summary *summary = ag_profile_summary(profile);
    assert_int_equal(summary->allocated_blocks, 6);
    assert_int_equal(summary->allocated_bytes, 758);
    assert_int_equal(summary->freed_blocks, 3);
    assert_int_equal(summary->freed_bytes, 157);
    assert_int_equal(summary->in_use_blocks, 3);
    assert_int_equal(summary->in_use_bytes, 601);
    assert_int_equal(summary->peak_bytes, 607);
    assert_int_equal(summary->peak_time_ns, 60); /* since the start of the process */
    assert_int_equal(summary->duration_ns, 100);
    assert_int_equal(summary->temporary_blocks, 2);
    assert_int_equal(summary->ghost_frees, 1);
    assert_int_equal(summary->unique_stacks, 5);
    assert_int_equal(summary->threads, 2);
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    assert_int_equal(identity->pid, 4711);
    assert_int_equal(identity->n_arguments, 3);
    assert_string_equal(identity->arguments[2], "arguments");
    assert_string_equal(identity->exe, "/usr/bin/program");
    assert_string_equal(identity->end, "exit");
    assert_string_equal(identity->mode, "exact");
    assert_false(identity->is_damaged);
    const struct ag_timeline_point *points;
    const size_t n = ag_profile_timeline(profile, &points);
    assert_int_equal(points[n - 1].time_ns, 100);
    assert_int_equal(points[n - 1].in_use_bytes, 601);
    const struct ag_thread_row *threads;
    assert_int_equal(ag_profile_threads(profile, &threads), 2);
    assert_string_equal(threads[1].name, "worker");
    assert_int_equal(threads[1].thread_id, 101);
    assert_int_equal(threads[1].sum.freed_bytes, 100);
    const struct ag_thread_pair *pairs;
    assert_int_equal(ag_profile_thread_pairs(profile, &pairs), 1);
    assert_int_equal(pairs[0].bytes, 100);
    const struct ag_heap_row *heaps;
    assert_int_equal(ag_profile_heaps(profile, &heaps), 1);
    assert_string_equal(heaps[0].name, "malloc");
    assert_int_equal(heaps[0].sum.allocated_bytes, 758);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void sites_count_a_stack_once_however_often_a_function_recurs(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace, 0);
    struct ag_profile *profile = open_all(&trace);
    const struct ag_site_row *parse = site(profile, AG_BY_FUNCTION, "0x2000");
    assert_non_null(parse);
    assert_int_equal(parse->own.allocated_bytes, 207);   /* 200 by node 102, 7 by node 101 */
    assert_int_equal(parse->total.allocated_bytes, 307); /* plus 100 through token */
    assert_int_equal(parse->total.allocated_blocks, 3);
    const struct ag_site_row *whole = site(profile, AG_BY_FUNCTION, "0x1000");
    assert_int_equal(whole->total.allocated_bytes, 757);
    assert_int_equal(whole->own.allocated_bytes, 0);
    const struct ag_site_row *none = site(profile, AG_BY_FUNCTION, "[no stack]");
    assert_int_equal(none->own.allocated_bytes, 1);
    assert_int_equal(site(profile, AG_BY_LINE, "0x3000")->own.in_use_bytes, 0);
    assert_int_equal(site(profile, AG_BY_HEAP, "malloc")->own.allocated_bytes, 758);
    assert_int_equal(site(profile, AG_BY_THREAD, "main (100)")->own.allocated_bytes, 358);
    assert_int_equal(site(profile, AG_BY_THREAD, "main (100)")->own.in_use_bytes, 201);
    assert_int_equal(site(profile, AG_BY_THREAD, "worker (101)")->own.peak_bytes, 400);
    const struct ag_site_row *rows;
    size_t n;
    assert_int_equal(ag_profile_sites(profile, AG_BY_STACK, &rows, &n), 0);
    assert_int_equal(n, 5);
    ag_profile_close(profile);
    trace_end(&trace);
}

static const struct ag_tree_node *child(const struct ag_profile *profile,
                                        const struct ag_tree_node *tree, uint32_t of,
                                        const char *function) {
    for (uint32_t at = tree[of].first_child; at != UINT32_MAX; at = tree[at].next_sibling) {
        if (strcmp(name_of(profile, tree[at].frame), function) == 0) {
            return &tree[at];
        }
    }
    fail_msg("no %s", function);
    return NULL;
}

static void trees_add_up_in_both_directions(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace, 0);
    struct ag_profile *profile = open_all(&trace);
    const struct ag_tree_node *tree;
    size_t n;
    assert_int_equal(ag_profile_tree(profile, /* bottom_up= */ false, &tree, &n), 0);
    assert_int_equal(n, 6);
    assert_int_equal(tree[0].total.allocated_bytes, 758);
    assert_int_equal(tree[0].own.allocated_bytes, 1); /* of the stack without frames */
    const struct ag_tree_node *whole = child(profile, tree, 0, "0x1000");
    const struct ag_tree_node *parse = child(profile, tree, (uint32_t)(whole - tree), "0x2000");
    const struct ag_tree_node *again = child(profile, tree, (uint32_t)(parse - tree), "0x2000");
    const struct ag_tree_node *token = child(profile, tree, (uint32_t)(again - tree), "0x3000");
    assert_int_equal(whole->total.allocated_bytes, 757);
    assert_int_equal(parse->total.allocated_bytes, 307);
    assert_int_equal(parse->own.allocated_bytes, 7);
    assert_int_equal(again->total.allocated_bytes, 300);
    assert_int_equal(token->own.freed_bytes, 100);
    assert_int_equal(ag_profile_tree(profile, /* bottom_up= */ true, &tree, &n), 0);
    assert_int_equal(tree[0].total.allocated_bytes, 758);
    const struct ag_tree_node *print = child(profile, tree, 0, "0x4000");
    assert_int_equal(print->total.allocated_bytes, 450);
    assert_int_equal(print->own.allocated_bytes, 450);
    assert_int_equal(
        child(profile, tree, (uint32_t)(print - tree), "0x1000")->total.allocated_bytes, 450);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void frames_of_a_stack_begin_with_the_innermost(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace, 0);
    struct ag_profile *profile = open_all(&trace);
    const uint32_t *frames;
    assert_int_equal(ag_profile_stack_frames(profile, 103, &frames), 4);
    assert_string_equal(name_of(profile, frames[0]), "0x3000");
    assert_string_equal(name_of(profile, frames[3]), "0x1000");
    assert_int_equal(frames[1], frames[2]); /* equal frames have one number */
    assert_int_equal(ag_profile_stack_frames(profile, 0, &frames), 0);
    assert_int_equal(ag_profile_stack_frames(profile, 999999, &frames), 0);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void focus_and_ignore_keep_and_drop_whole_stacks(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace, 0);
    struct ag_profile_options options = all();
    options.focus = "^0x2000$";
    struct ag_profile *profile = open_with(&trace, &options);
    assert_int_equal(ag_profile_summary(profile)->allocated_bytes, 307);
    assert_int_equal(ag_profile_summary(profile)->unique_stacks, 3);
    assert_null(site(profile, AG_BY_FUNCTION, "0x4000"));
    assert_int_equal(site(profile, AG_BY_FUNCTION, "0x1000")->total.allocated_bytes, 307);
    assert_int_equal(site(profile, AG_BY_THREAD, "main (100)")->own.allocated_bytes, 307);
    assert_null(site(profile, AG_BY_THREAD, "worker (101)"));
    ag_profile_close(profile);
    options.ignore = "0x3000";
    profile = open_with(&trace, &options);
    assert_int_equal(ag_profile_summary(profile)->allocated_bytes, 207);
    ag_profile_close(profile);
    options.focus = "(";
    char message[512];
    assert_int_equal(ag_profile_open(trace.path, &options, &profile, message), -EINVAL);
    assert_non_null(strstr(message, "--focus=("));
    trace_end(&trace);
}

static void a_time_window_counts_the_blocks_born_in_it(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace, 5000);
    struct ag_profile_options options = all();
    options.from_ns = 40;
    options.to_ns = 60;
    struct ag_profile *profile = open_with(&trace, &options);
    const struct ag_summary *summary = ag_profile_summary(profile);
    assert_int_equal(summary->allocated_bytes, 400);
    assert_int_equal(summary->freed_bytes, 0);
    assert_int_equal(summary->in_use_bytes, 400);
    assert_int_equal(summary->peak_bytes, 400);
    assert_int_equal(summary->ghost_frees, 0);
    const struct ag_profile_window *window = ag_profile_window(profile);
    assert_non_null(window);
    assert_int_equal(window->older_frees, 1);
    assert_int_equal(window->recording_ns, 100);
    assert_int_equal(summary->duration_ns, 60); /* until --to */
    assert_int_equal(ag_profile_recording_ns(profile), 100);
    assert_false(window->counts_older);
    ag_profile_close(profile);
    options.to_ns = 0;
    options.from_ns = 60;
    profile = open_with(&trace, &options);
    assert_int_equal(ag_profile_summary(profile)->allocated_bytes, 8);
    assert_int_equal(ag_profile_summary(profile)->temporary_blocks, 1);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void a_time_window_with_older_blocks_keeps_what_was_in_use(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace, 5000);
    struct ag_profile_options options = all();
    options.counts_older = true;
    options.from_ns = 40;
    options.to_ns = 60;
    struct ag_profile *profile = open_with(&trace, &options);
    const struct ag_summary *summary = ag_profile_summary(profile);
    assert_int_equal(summary->allocated_bytes, 400);
    assert_int_equal(summary->freed_bytes, 100);
    /* all blocks that are live at --to, also those allocated before the window */
    assert_int_equal(summary->in_use_bytes, 600);
    assert_int_equal(summary->peak_bytes, 600);
    assert_int_equal(summary->ghost_frees, 0);
    const struct ag_stack_row *rows;
    const size_t n = ag_profile_stacks(profile, &rows);
    uint64_t in_use = 0;
    for (size_t i = 0; i < n; i++) {
        in_use += rows[i].metrics.in_use_bytes;
    }
    assert_int_equal(in_use, 600);
    ag_profile_close(profile);
    options.to_ns = 0;
    options.from_ns = 60;
    profile = open_with(&trace, &options);
    assert_int_equal(ag_profile_summary(profile)->allocated_bytes, 8);
    assert_int_equal(ag_profile_summary(profile)->in_use_bytes, 601);
    assert_int_equal(ag_profile_summary(profile)->temporary_blocks, 1);
    ag_profile_close(profile);
    trace_end(&trace);
}

enum { LIVES = 2000, LIFE_BYTES = 64, LIFE_SECOND_NS = 1000000000, LIFE_INTERVAL_BYTES = 2000 };
struct moment { /* of the birth or death of a block */
    uint64_t time_ns, block;
    bool is_death;
};

static int by_time(const void *a, const void *b) {
    const struct moment *left = a, *right = b;
    return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

static double random_share(uint64_t *state) {
    return ((double)(ag_random_next(state) >> 11) + 0.5) * 0x1p-53;
}

/* Records a sample of LIVES blocks whose lifetimes are distributed exponentially with a mean of one
 * second. The blocks are allocated during 20 seconds, and the recording ends then. */
static void sample_lives(struct trace_builder *trace, uint64_t seed) {
    static struct moment moments[2 * LIVES];
    const double chance = 1 - exp(-(LIFE_BYTES + 1.0) / LIFE_INTERVAL_BYTES);
    const uint64_t end_ns = UINT64_C(20) * LIFE_SECOND_NS;
    size_t n = 0;
    for (uint64_t i = 1; i <= LIVES; i++) {
        const uint64_t birth_ns = 1 + (uint64_t)(random_share(&seed) * (double)end_ns);
        const uint64_t death_ns = birth_ns + (uint64_t)(-log(random_share(&seed)) * LIFE_SECOND_NS);
        if (random_share(&seed) >= chance) {
            continue;
        }
        moments[n++] = (struct moment){.time_ns = birth_ns, .block = i};
        if (death_ns < end_ns) {
            moments[n++] = (struct moment){.time_ns = death_ns, .block = i, .is_death = true};
        }
    }
    qsort(moments, n, sizeof(moments[0]), by_time);
    const struct ag_record sampling = {
        .kind = AG_RECORD_SAMPLING,
        .u.sampling = {.interval_bytes = LIFE_INTERVAL_BYTES, .method = AG_SAMPLING_POISSON_BYTES}};
    const struct ag_node node = {.id = 100, .pc = 0x1000};
    trace_begin(trace, 0);
    trace_record(trace, &sampling);
    trace_nodes(trace, &node, 1);
    trace_thread(trace, 0, "main");
    ag_event_encoder_start(trace->encoder, 1);
    assert_int_equal(ag_event_encoder_add_record(trace->encoder, &sampling), 0);
    for (size_t i = 0; i < n; i++) {
        const struct moment *moment = &moments[i];
        const struct ag_event events[2] = {
            STAMP(moment->time_ns),
            {.kind = moment->is_death ? AG_RECORD_FREE : AG_RECORD_ALLOC,
             .address = moment->block * LIFE_BYTES,
             .size = LIFE_BYTES,
             .stack = moment->is_death ? 0 : 100},
        };
        assert_int_equal(ag_event_encoder_add(trace->encoder, events, 2), 0);
    }
    const struct ag_blob *body = ag_event_encoder_body(trace->encoder);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                       .thread_id = 100,
                                       .sequences = 1,
                                       .events = ag_event_encoder_events(trace->encoder),
                                       .first_time_ns = 1};
    assert_int_equal(ag_trace_writer_chunk(trace->writer, &info, body->data, body->length), 0);
    trace_finish(trace, end_ns, NULL);
}

/* Whether an interval contains the percentile PERCENT of the true distribution of lifetimes. The
 * times of an interval have an error of 3.2 %. */
static bool is_covered(const uint64_t interval_ns[2], double percent) {
    const double truth = -log(1 - percent / 100) * LIFE_SECOND_NS;
    return interval_ns[0] != AG_LIFETIME_UNKNOWN && 0.968 * (double)interval_ns[0] <= truth &&
           (interval_ns[1] == AG_LIFETIME_UNKNOWN || truth <= 1.032 * (double)interval_ns[1]);
}

static void intervals_of_sampled_lifetimes_contain_the_truth(void **state) {
    (void)state;
    enum { TRACES = 200, LEAST = 180 }; /* 95 % are expected */
    int n_p50 = 0, n_p90 = 0, n_blocks = 0, n_known = 0;
    for (uint64_t seed = 1; seed <= TRACES; seed++) {
        struct trace_builder trace;
        struct ag_profile *profile = NULL;
        const struct ag_lifetimes *lifetimes = NULL;
        char message[512] = "";
        sample_lives(&trace, seed);
        assert_int_equal(ag_profile_open(trace.path, NULL, &profile, message), 0);
        assert_int_equal(ag_profile_lifetimes(profile, AG_BY_FUNCTION, &lifetimes), 0);
        assert_int_equal(lifetimes->n_rows, 1);
        const struct ag_lifetime *lifetime = &lifetimes->rows[0].lifetime;
        assert_true(lifetime->has_intervals);
        const struct ag_interval blocks =
            ag_interval_of_metric(&lifetime->metrics, AG_METRIC_ALLOCATED_BLOCKS);
        n_p50 += is_covered(lifetime->p50_interval_ns, 50);
        n_p90 += is_covered(lifetime->p90_interval_ns, 90);
        n_known += lifetime->p50_interval_ns[1] < 4 * lifetime->p50_interval_ns[0];
        n_blocks += blocks.low <= LIVES && LIVES <= blocks.high;
        ag_profile_close(profile);
        trace_end(&trace);
    }
    assert_in_range(n_p50, LEAST, TRACES);
    assert_in_range(n_p90, LEAST, TRACES);
    assert_in_range(n_blocks, LEAST, TRACES);
    assert_in_range(n_known, LEAST, TRACES); /* some 65 samples give narrow intervals */
}

static void one_thread_within_and_tail_need_the_events(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace, 0);
    struct ag_profile_options options = all();
    options.thread = 101;
    struct ag_profile *profile = open_with(&trace, &options);
    assert_int_equal(ag_profile_summary(profile)->allocated_bytes, 400);
    assert_int_equal(ag_profile_summary(profile)->in_use_bytes, 400);
    const struct ag_thread_row *threads;
    assert_int_equal(ag_profile_threads(profile, &threads), 1);
    ag_profile_close(profile);
    options = all();
    options.tail_percent = 50; /* the last 50 of 100 ns */
    profile = open_with(&trace, &options);
    assert_int_equal(ag_profile_summary(profile)->allocated_bytes, 750);
    assert_int_equal(ag_profile_summary(profile)->in_use_bytes, 600);
    ag_profile_close(profile);
    trace_end(&trace);

    trace_begin(&trace, 0);
    trace_nodes(&trace, nodes, COUNT(nodes));
    TRACE_EVENTS(&trace, 0, STAMP(1), ALLOC(0x10, 1, 101), ALLOC(0x20, 1, 101), FREE(0x10),
                 FREE(0x20), STAMP(9));
    trace_finish(&trace, 10, NULL);
    profile = open_all(&trace);
    assert_int_equal(ag_profile_summary(profile)->temporary_blocks, 1);
    ag_profile_close(profile);
    options = all();
    options.temporary_within = 1;
    profile = open_with(&trace, &options);
    assert_int_equal(ag_profile_summary(profile)->temporary_blocks, 2);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void sums_are_from_the_index_unless_the_events_are_requested(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_nodes(&trace, nodes, COUNT(nodes));
    TRACE_EVENTS(&trace, 0, STAMP(1), ALLOC(0x10, 100, 101), STAMP(2));
    struct ag_blob index = {0};
    const struct ag_record summary = {
        .kind = AG_RECORD_SUMMARY,
        .u.summary = {.allocated_bytes = 42, .allocated_blocks = 3, .unique_stacks = 1}};
    const struct ag_stack_sum sum = {
        .stack = 104, .via = 1, .allocated_blocks = 3, .allocated_bytes = 42, .freed_blocks = 5};
    assert_int_equal(ag_record_append(&index, &summary), 0);
    assert_int_equal(ag_record_append_stack_sums(&index, &sum, 1), 0);
    trace_finish(&trace, 10, &index);
    ag_blob_done(&index);
    struct ag_profile *profile = open_all(&trace);
    assert_int_equal(ag_profile_summary(profile)->allocated_bytes, 42);
    const struct ag_stack_row *rows;
    assert_int_equal(ag_profile_stacks(profile, &rows), 1);
    assert_int_equal(rows[0].stack, 104);
    assert_string_equal(rows[0].via_name, "realloc");
    assert_int_equal(rows[0].metrics.in_use_blocks, 0); /* the index has 3 allocated and 5 freed
                                                         * blocks: 0 in use, not -2 */
    ag_profile_close(profile);
    struct ag_profile_options options = all();
    options.force_pass = true;
    profile = open_with(&trace, &options);
    assert_int_equal(ag_profile_summary(profile)->allocated_bytes, 100);
    ag_profile_close(profile);
    trace_end(&trace);
}

/* A point of the timeline at the time at which the window begins may contain events of the window.
 */
static void what_was_in_use_before_a_window_is_read_before_its_beginning(void **state) {
    (void)state;
    static const struct ag_timeline_point points[] = {
        {.time_ns = 5, .in_use_bytes = 100, .in_use_blocks = 1},
        {.time_ns = 10, .in_use_bytes = 1000, .in_use_blocks = 2}};
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_nodes(&trace, nodes, COUNT(nodes));
    TRACE_EVENTS(&trace, 0, STAMP(5), ALLOC(0x10, 100, 101), STAMP(10), ALLOC(0x20, 900, 101),
                 STAMP(12));
    struct ag_blob index = {0};
    const struct ag_record summary = {
        .kind = AG_RECORD_SUMMARY,
        .u.summary = {.allocated_bytes = 1000, .allocated_blocks = 2, .unique_stacks = 1}};
    assert_int_equal(ag_record_append(&index, &summary), 0);
    assert_int_equal(ag_record_append_timeline(&index, points, COUNT(points)), 0);
    trace_finish(&trace, 20, &index);
    ag_blob_done(&index);
    struct ag_profile_options options = all();
    options.from_ns = 10;
    struct ag_profile *profile = open_with(&trace, &options);
    assert_int_equal(ag_profile_summary(profile)->allocated_bytes, 900);
    const struct ag_profile_window *window = ag_profile_window(profile);
    assert_true(window->knows_before);
    assert_int_equal(window->in_use_bytes_before, 100);
    assert_int_equal(window->in_use_blocks_before, 1);
    ag_profile_close(profile);
    trace_end(&trace);
}

/* The type of a stack without a node for its type is in a stack_type record. A type whose name is #
 * and a number has no name: the number is the runtime's own number of the type. */
static void a_stack_type_record_names_the_type_of_a_stack(void **state) {
    (void)state;
    const struct ag_record records[] = {
        {.kind = AG_RECORD_TYPE, .u.type = {.type = 7, .name = {"Leaf", 4}, .runtime = {"toy", 3}}},
        {.kind = AG_RECORD_TYPE, .u.type = {.type = 8, .name = {"#187", 4}, .runtime = {"toy", 3}}},
        {.kind = AG_RECORD_STACK_TYPE, .u.stack_type = {.stack = 101, .type = 7}},
        {.kind = AG_RECORD_STACK_TYPE, .u.stack_type = {.stack = 102, .type = 8}}};
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_nodes(&trace, nodes, COUNT(nodes));
    for (size_t i = 0; i < COUNT(records); i++) {
        trace_record(&trace, &records[i]);
    }
    TRACE_EVENTS(&trace, 0, STAMP(1), ALLOC(0x10, 100, 101), ALLOC(0x20, 30, 102), STAMP(2));
    trace_finish(&trace, 10, NULL);
    struct ag_profile *profile = open_all(&trace);
    assert_string_equal(ag_profile_stack_type(profile, 101), "Leaf");
    assert_null(ag_profile_stack_type(profile, 102));
    const struct ag_type_row *rows;
    size_t n;
    assert_int_equal(ag_profile_types(profile, &rows, &n), 0);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++) {
        const bool is_named = rows[i].type != NULL;
        assert_string_equal(rows[i].runtime, is_named ? "toy" : "c");
        assert_int_equal(rows[i].metrics.allocated_bytes, is_named ? 100 : 30);
    }
    ag_profile_close(profile);
    trace_end(&trace);
}

/* ---- hostile nodes ---- */

static void cycles_orphans_and_strange_images_are_harmless(void **state) {
    (void)state;
    static const struct ag_node strange[] = {
        {.id = 200, .parent = 201, .pc = 0x1},                 /* its parent comes later: a cycle */
        {.id = 201, .parent = 200, .pc = 0x2},                 /* the child of an orphan */
        {.id = 202, .parent = 202, .pc = 0x3},                 /* its own parent */
        {.id = 203, .parent = 77777, .pc = 0x4, .image = 999}, /* no such parent or image */
        {.id = 204, .parent = AG_ROOT_CUT, .pc = UINT64_MAX},
        {.id = 204, .parent = 203, .pc = 0x5},                        /* twice: the first counts */
        {.id = 9, .parent = 0, .pc = 0x6},                            /* not a node id */
        {.id = 300, .parent = 300, .pc = 1, .image = AG_IMAGE_TYPE},  /* a type, its own parent */
        {.id = 301, .parent = 302, .pc = 1, .image = AG_IMAGE_TYPE},  /* a type in a cycle ... */
        {.id = 302, .parent = 301, .pc = 1, .image = AG_IMAGE_LABEL}, /* ... with a label */
        {.id = 303, .parent = 204, .pc = UINT64_MAX, .image = AG_IMAGE_TYPE}, /* no such type */
    };
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_nodes(&trace, strange, COUNT(strange));
    TRACE_EVENTS(&trace, 0, STAMP(1), ALLOC(0x10, 1, 200), ALLOC(0x20, 1, 201), ALLOC(0x30, 1, 202),
                 ALLOC(0x40, 1, 203), ALLOC(0x50, 1, 204), ALLOC(0x60, 1, 9), ALLOC(0x70, 1, 5000));
    TRACE_EVENTS(&trace, 0, STAMP(2), ALLOC(0x80, 1, 300), ALLOC(0x90, 1, 301), ALLOC(0xa0, 1, 302),
                 ALLOC(0xb0, 1, 303));
    trace_finish(&trace, 10, NULL);
    struct ag_profile *profile = open_all(&trace);
    const struct ag_summary *summary = ag_profile_summary(profile);
    assert_int_equal(summary->allocated_blocks, 11);
    assert_int_equal(summary->truncated_stacks, 1); /* node 303 is a type; its stack is that of node
                                                     * 204, which was cut */
    assert_int_equal(summary->incomplete_stacks, 9);
    const struct ag_metrics incomplete = ag_profile_incomplete(profile);
    assert_int_equal(incomplete.allocated_blocks, 9);
    assert_int_equal(incomplete.allocated_bytes, 9);
    const uint32_t *frames;
    assert_int_equal(ag_profile_stack_frames(profile, 303, &frames), 1);
    assert_null(ag_profile_stack_type(profile, 303));
    assert_int_equal(ag_profile_stack_frames(profile, 201, &frames), 2);
    assert_int_equal(ag_profile_stack_frames(profile, 202, &frames), 1);
    assert_int_equal(ag_profile_stack_frames(profile, 204, &frames), 1);
    const struct ag_tree_node *tree;
    size_t n;
    assert_int_equal(ag_profile_tree(profile, false, &tree, &n), 0);
    assert_int_equal(tree[0].total.allocated_blocks, 11);
    assert_int_equal(ag_profile_tree(profile, true, &tree, &n), 0);
    assert_int_equal(tree[0].total.allocated_blocks, 11);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void a_stack_too_deep_for_recursion_is_walked_in_loops(void **state) {
    (void)state;
    enum { DEEP = 100000, KEPT = 65536 };
    struct ag_node *chain = calloc(DEEP, sizeof(*chain));
    for (uint32_t i = 0; i < DEEP; i++) {
        chain[i] = (struct ag_node){.id = 1000 + i, .parent = i ? 999 + i : 0, .pc = 0x100 + i % 3};
    }
    struct trace_builder trace;
    trace_begin(&trace, 0);
    trace_nodes(&trace, chain, DEEP);
    TRACE_EVENTS(&trace, 0, STAMP(1), ALLOC(0x10, 5, 1000 + DEEP - 1));
    trace_finish(&trace, 10, NULL);
    struct ag_profile *profile = open_all(&trace);
    const uint32_t *frames;
    assert_int_equal(ag_profile_stack_frames(profile, 1000 + DEEP - 1, &frames), KEPT);
    const struct ag_tree_node *tree;
    size_t n;
    assert_int_equal(ag_profile_tree(profile, false, &tree, &n), 0);
    assert_int_equal(n, KEPT + 1);
    assert_int_equal(ag_profile_tree(profile, true, &tree, &n), 0);
    assert_int_equal(n, KEPT + 1);
    assert_int_equal(tree[0].total.allocated_bytes, 5);
    const struct ag_site_row *rows;
    assert_int_equal(ag_profile_sites(profile, AG_BY_FUNCTION, &rows, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(rows[0].total.allocated_bytes, 5);
    ag_profile_close(profile);
    trace_end(&trace);
    free(chain);
}

/* ---- many chunks ---- */

enum { STREAMS = 7, CHUNKS = 40, CHUNK_EVENTS = 3000 };

/* Writes one stream (a sequence of events) for each thread, with blocks of its own, of which
 * about every fourth is never freed. Also applies the events to the ledger TRUTH. */
static void write_many_chunks(struct trace_builder *trace, struct ag_ledger *truth, uint64_t seed) {
    trace_begin(trace, 0);
    trace_nodes(trace, nodes, COUNT(nodes));
    struct ag_event *events = calloc(CHUNK_EVENTS + 1, sizeof(*events));
    uint64_t random = seed, time_ns = 10;
    ag_ledger_expect_streams(truth);
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
        for (uint32_t stream = 0; stream < STREAMS; stream++) {
            size_t n = 0;
            for (uint64_t i = 0; n < CHUNK_EVENTS; i++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                const uint64_t address =
                    0x1000 + ((stream * (uint64_t)CHUNKS + chunk) * CHUNK_EVENTS + i) * 16;
                if (n % 64 == 0) {
                    events[n++] = (struct ag_event)STAMP(time_ns += 1 + (random >> 40) % 50);
                }
                events[n++] = (struct ag_event)ALLOC(address, (random >> 33) % 1000,
                                                     100 + (uint32_t)(random >> 50) % 5);
                if ((random >> 20) % 4) {
                    events[n++] = (struct ag_event)FREE(address);
                }
            }
            n = n < CHUNK_EVENTS ? n : CHUNK_EVENTS;
            trace_events(trace, stream, events, n);
            assert_int_equal(ag_ledger_apply(truth, stream, events, n), 0);
        }
    }
    free(events);
    trace_finish(trace, time_ns + 5, NULL);
    ag_ledger_reach(truth, time_ns + 5);
    assert_int_equal(ag_ledger_close(truth), 0);
}

static void many_chunks_of_many_streams_give_what_one_ledger_gives(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct trace_builder trace;
        struct ag_ledger *truth = ag_ledger_new();
        write_many_chunks(&trace, truth, seed);
        struct ag_profile *profile = open_all(&trace);
        assert_memory_equal(ag_profile_summary(profile), ag_ledger_summary(truth),
                            offsetof(struct ag_summary, unique_stacks));
        const struct ag_stack_sum *sums;
        const struct ag_stack_row *rows;
        const size_t n = ag_ledger_stack_sums(truth, &sums);
        assert_int_equal(ag_profile_stacks(profile, &rows), n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(rows[i].stack, sums[i].stack);
            assert_int_equal(rows[i].metrics.allocated_bytes, sums[i].allocated_bytes);
            assert_int_equal(rows[i].metrics.peak_bytes, sums[i].peak_bytes);
            assert_int_equal(rows[i].metrics.temporary_blocks, sums[i].temporary_blocks);
        }
        ag_profile_close(profile);
        ag_ledger_free(truth);
        trace_end(&trace);
    }
}

struct naive_window { /* counts by a loop over all blocks */
    uint64_t from_ns, to_ns;
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, ghosts;
};

static void count_naively(void *context, const struct ag_block_row *row) {
    struct naive_window *window = context;
    window->ghosts += row->state == AG_BLOCK_GHOST;
    if (row->state == AG_BLOCK_GHOST || row->allocated_ns < window->from_ns ||
        row->allocated_ns >= window->to_ns) {
        return;
    }
    window->allocated_blocks++;
    window->allocated_bytes += row->size;
    if (row->freed_ns < window->to_ns) {
        window->freed_blocks++;
        window->freed_bytes += row->size;
    }
}

static void expect_window(struct ag_profile *profile, const struct naive_window *naive) {
    const struct ag_summary *summary = ag_profile_summary(profile);
    assert_int_equal(summary->allocated_blocks, naive->allocated_blocks);
    assert_int_equal(summary->allocated_bytes, naive->allocated_bytes);
    assert_int_equal(summary->freed_blocks, naive->freed_blocks);
    assert_int_equal(summary->freed_bytes, naive->freed_bytes);
    assert_int_equal(summary->in_use_blocks, naive->allocated_blocks - naive->freed_blocks);
    assert_int_equal(summary->in_use_bytes, naive->allocated_bytes - naive->freed_bytes);
}

/* With AG_TEST_SCALE=quarter, reads only every fourth window. Under the thread sanitizer all
 * windows would take two minutes. */
static void a_window_over_many_chunks_counts_what_a_naive_count_counts(void **state) {
    (void)state;
    const char *scale = getenv("AG_TEST_SCALE");
    const uint64_t step = scale != NULL && strcmp(scale, "quarter") == 0 ? 4 : 1;
    struct trace_builder trace;
    struct ag_ledger *truth = ag_ledger_new();
    write_many_chunks(&trace, truth, 5);
    const uint64_t duration_ns = ag_ledger_summary(truth)->duration_ns;
    ag_ledger_free(truth);
    struct ag_profile *whole = open_all(&trace);
    for (uint64_t part = 1; part < 20; part += step) {
        struct naive_window naive = {.from_ns = duration_ns * part / 20,
                                     .to_ns = duration_ns * (part + 1 + part % 3) / 20};
        assert_int_equal(ag_profile_blocks(whole, AG_BLOCK_STATES, count_naively, &naive), 0);
        struct ag_profile_options options = all();
        options.from_ns = naive.from_ns;
        options.to_ns = naive.to_ns;
        struct ag_profile *profile = open_with(&trace, &options);
        expect_window(profile, &naive);
        struct naive_window inside = {.to_ns = UINT64_MAX};
        assert_int_equal(ag_profile_blocks(profile, AG_BLOCK_STATES, count_naively, &inside), 0);
        expect_window(profile, &inside);
        ag_profile_close(profile);
    }
    ag_profile_close(whole);
    trace_end(&trace);
}

static void single_blocks_add_up_to_the_summary(void **state) {
    (void)state;
    struct trace_builder trace;
    write_program(&trace, 5000);
    struct ag_profile *profile = open_all(&trace);
    struct naive_window all_blocks = {.to_ns = UINT64_MAX};
    assert_int_equal(ag_profile_blocks(profile, AG_BLOCK_STATES, count_naively, &all_blocks), 0);
    expect_window(profile, &all_blocks);
    assert_int_equal(all_blocks.ghosts, ag_profile_summary(profile)->ghost_frees);
    assert_int_equal(all_blocks.ghosts, 1);
    struct naive_window open_ones = {.to_ns = UINT64_MAX};
    assert_int_equal(ag_profile_blocks(profile, AG_BLOCK_OPEN, count_naively, &open_ones), 0);
    assert_int_equal(open_ones.allocated_bytes, ag_profile_summary(profile)->in_use_bytes);
    assert_int_equal(open_ones.freed_blocks, 0);
    ag_profile_close(profile);
    trace_end(&trace);

    /* A realloc that fails, of a block that was not recorded: its ghost (free of an unknown block)
     * is undone. A block whose free was lost counts as freed, without a stack of the free. */
    trace_begin(&trace, 0);
    trace_nodes(&trace, nodes, COUNT(nodes));
    TRACE_EVENTS(&trace, 0, STAMP(1), FREE(0x90), {.kind = AG_RECORD_REALLOC_FREE, .address = 0x90},
                 ALLOC(0x10, 1, 101), {.kind = AG_RECORD_UNDO_FREE, .address = 0x90},
                 ALLOC(0x10, 2, 101), STAMP(9));
    trace_finish(&trace, 10, NULL);
    profile = open_all(&trace);
    struct naive_window lost = {.to_ns = UINT64_MAX};
    assert_int_equal(ag_profile_blocks(profile, AG_BLOCK_STATES, count_naively, &lost), 0);
    assert_int_equal(lost.ghosts, 1);
    expect_window(profile, &lost);
    assert_int_equal(lost.freed_blocks, 1);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void lifetimes_are_counted_by_site_and_in_all(void **state) {
    (void)state;
    struct trace_builder trace;
    trace_begin(&trace, 500);
    trace_nodes(&trace, nodes, COUNT(nodes));
    TRACE_EVENTS(&trace, 0, STAMP(1000), ALLOC(0x10, 8, 103), ALLOC(0x20, 8, 103),
                 ALLOC(0x30, 8, 103), ALLOC(0x40, 8, 104), ALLOC(0x50, 1, 104), STAMP(1010),
                 FREE(0x10), STAMP(1100), FREE(0x20), STAMP(6000), FREE(0x30), FREE(0x40));
    trace_finish(&trace, 7000, NULL);
    struct ag_profile *profile = open_all(&trace);
    const struct ag_lifetimes *lifetimes;
    assert_int_equal(ag_profile_lifetimes(profile, AG_BY_HEAP, &lifetimes), -EINVAL);
    assert_int_equal(ag_profile_lifetimes(profile, AG_BY_FUNCTION, &lifetimes), 0);
    assert_int_equal(lifetimes->n_rows, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct ag_lifetime *lifetime = &lifetimes->rows[i].lifetime;
        const bool is_token = strcmp(name_of(profile, lifetimes->rows[i].frame), "0x3000") == 0;
        assert_int_equal(lifetime->blocks, is_token ? 3 : 2);
        assert_int_equal(lifetime->ended, is_token ? 3 : 1);
        assert_int_equal(lifetime->min_ns, is_token ? 10 : 5000);
        assert_int_equal(lifetime->max_ns, 5000);
        assert_int_equal(lifetime->mean_ns, is_token ? 5110 / 3 : 5000);
        assert_in_range(lifetime->p50_ns, is_token ? 97 : 4844, is_token ? 103 : 5156);
        assert_in_range(lifetime->p99_ns, 4844, 5000);
    }
    assert_int_equal(lifetimes->all.ended, 4);
    assert_int_equal(lifetimes->all.bytes, 33);
    assert_int_equal(lifetimes->n_steps, 3); /* steps of 10 to 100, to 1000, to 10000 ns */
    assert_int_equal(lifetimes->steps[0].from_ns, 10);
    assert_int_equal(lifetimes->steps[0].blocks, 1);
    assert_int_equal(lifetimes->steps[1].blocks, 1);
    assert_int_equal(lifetimes->steps[2].blocks, 2);
    assert_int_equal(lifetimes->steps[2].bytes, 16);
    ag_profile_close(profile);
    trace_end(&trace);
}

static void a_cut_trace_gives_its_whole_chunks(void **state) {
    (void)state;
    struct trace_builder trace;
    struct ag_ledger *truth = ag_ledger_new();
    write_many_chunks(&trace, truth, 9);
    const uint64_t whole = ag_ledger_summary(truth)->events;
    const off_t bytes = lseek(trace.fd, 0, SEEK_END);
    uint64_t before = whole + 1;
    for (off_t cut = bytes - 1; cut > 30000; cut = cut * 3 / 4) {
        assert_int_equal(ftruncate(trace.fd, cut), 0);
        struct ag_profile *profile = open_all(&trace);
        const struct ag_profile_identity *identity = ag_profile_identity(profile);
        assert_true(identity->is_damaged);
        assert_string_equal(identity->damage.what, ag_decode_code_text(AG_DECODE_CUT));
        assert_in_range(identity->damage.offset, 1, cut);
        assert_string_equal(identity->end, "cut");
        const struct ag_summary *summary = ag_profile_summary(profile);
        assert_int_equal(summary->allocated_blocks, summary->freed_blocks + summary->in_use_blocks);
        assert_true(summary->events < before);
        before = summary->events;
        ag_profile_close(profile);
    }
    ag_ledger_free(truth);
    trace_end(&trace);
}

static void a_flipped_chunk_is_named_and_the_rest_is_read(void **state) {
    (void)state;
    struct trace_builder trace;
    struct ag_ledger *truth = ag_ledger_new();
    write_many_chunks(&trace, truth, 5);
    const off_t at = lseek(trace.fd, 0, SEEK_END) / 2;
    char byte;
    assert_int_equal(pread(trace.fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(trace.fd, &byte, 1, at), 1);
    struct ag_profile *profile = open_all(&trace);
    const struct ag_profile_identity *identity = ag_profile_identity(profile);
    assert_true(identity->is_damaged);
    assert_in_range(identity->damage.offset, at - 100000, at);
    assert_in_range(ag_profile_summary(profile)->events, 1, ag_ledger_summary(truth)->events - 1);
    ag_profile_close(profile);
    ag_ledger_free(truth);
    trace_end(&trace);
}

static void a_missing_file_gives_one_line(void **state) {
    (void)state;
    struct ag_profile *profile;
    char message[512];
    const struct ag_profile_options options = all();
    assert_int_equal(ag_profile_open("/nonexistent/x.allogram", &options, &profile, message),
                     -ENOENT);
    assert_string_equal(message, "/nonexistent/x.allogram: No such file or directory");
    assert_true(ag_profile_open("/proc/self/exe", &options, &profile, message) < 0);
    assert_null(strchr(message, '\n'));
}

/* ---- signals ---- */

/* The names matter: the symbolizer finds them in this program's symbol table. */
void ag_test_interrupted(void);
void ag_test_after_it(void);
__attribute__((noinline, used)) void __restore_rt(void);
__attribute__((noinline, used)) void ag_test_handler(void);
__asm__(".text; .p2align 6; .type ag_test_interrupted, @function; .globl ag_test_interrupted\n"
        "ag_test_interrupted: nop; hlt; .size ag_test_interrupted, . - ag_test_interrupted\n"
        ".type ag_test_after_it, @function; .globl ag_test_after_it\n"
        "ag_test_after_it: nop; ret; .size ag_test_after_it, . - ag_test_after_it\n");
__attribute__((noinline, used, aligned(64))) void __restore_rt(void) {
    __asm__ volatile("nop; nop; ret; .skip 32, 0x90");
}
__attribute__((noinline, used, aligned(64))) void ag_test_handler(void) {
    __asm__ volatile("nop; nop; ret; .skip 32, 0x90");
}

static int find_bias(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    *(uint64_t *)context = info->dlpi_addr;
    return 1; /* stops after the first object, which is the program */
}

static void the_interrupted_instruction_is_looked_up(void **state) {
    (void)state;
    uint64_t bias = 0;
    char path[4096] = "";
    dl_iterate_phdr(find_bias, &bias);
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    struct trace_builder trace;
    trace_begin(&trace, 0);
    const struct ag_record image = {
        .kind = AG_RECORD_IMAGE_LOAD,
        .u.image_load = {.image = 1,
                         .bias = bias,
                         .low = bias,
                         .high = bias + (1 << 28),
                         .path = {.data = path, .length = (uint32_t)strlen(path)}}};
    trace_record(&trace, &image);
    /* The recorder stores the address one byte after the start of the interrupted instruction. This
     * instruction has one byte and is the last of its function, so the stored address is the start
     * of the next function. */
    const struct ag_node stack[] = {
        {.id = 100, .parent = 0, .pc = (uint64_t)(uintptr_t)ag_test_after_it, .image = 1},
        {.id = 101, .parent = 100, .pc = (uint64_t)(uintptr_t)__restore_rt, .image = 1},
        {.id = 102, .parent = 101, .pc = (uint64_t)(uintptr_t)ag_test_handler + 2, .image = 1},
    };
    trace_nodes(&trace, stack, COUNT(stack));
    TRACE_EVENTS(&trace, 0, STAMP(1), ALLOC(0x10, 5, 102));
    trace_finish(&trace, 10, NULL);
    struct ag_profile *profile = open_all(&trace);
    const uint32_t *frames;
    assert_int_equal(ag_profile_stack_frames(profile, 102, &frames), 3);
    assert_string_equal(name_of(profile, frames[0]), "ag_test_handler");
    assert_string_equal(name_of(profile, frames[1]), "__restore_rt");
    assert_string_equal(name_of(profile, frames[2]), "ag_test_interrupted");
    assert_int_equal(site(profile, AG_BY_FUNCTION, "ag_test_interrupted")->total.allocated_bytes,
                     5);
    ag_profile_close(profile);
    trace_end(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_without_an_index_is_read_event_by_event),
        cmocka_unit_test(sites_count_a_stack_once_however_often_a_function_recurs),
        cmocka_unit_test(trees_add_up_in_both_directions),
        cmocka_unit_test(frames_of_a_stack_begin_with_the_innermost),
        cmocka_unit_test(focus_and_ignore_keep_and_drop_whole_stacks),
        cmocka_unit_test(a_time_window_counts_the_blocks_born_in_it),
        cmocka_unit_test(a_time_window_with_older_blocks_keeps_what_was_in_use),
        cmocka_unit_test(a_window_over_many_chunks_counts_what_a_naive_count_counts),
        cmocka_unit_test(single_blocks_add_up_to_the_summary),
        cmocka_unit_test(lifetimes_are_counted_by_site_and_in_all),
        cmocka_unit_test(intervals_of_sampled_lifetimes_contain_the_truth),
        cmocka_unit_test(one_thread_within_and_tail_need_the_events),
        cmocka_unit_test(sums_are_from_the_index_unless_the_events_are_requested),
        cmocka_unit_test(what_was_in_use_before_a_window_is_read_before_its_beginning),
        cmocka_unit_test(a_stack_type_record_names_the_type_of_a_stack),
        cmocka_unit_test(cycles_orphans_and_strange_images_are_harmless),
        cmocka_unit_test(a_stack_too_deep_for_recursion_is_walked_in_loops),
        cmocka_unit_test(many_chunks_of_many_streams_give_what_one_ledger_gives),
        cmocka_unit_test(a_cut_trace_gives_its_whole_chunks),
        cmocka_unit_test(a_flipped_chunk_is_named_and_the_rest_is_read),
        cmocka_unit_test(a_missing_file_gives_one_line),
        cmocka_unit_test(the_interrupted_instruction_is_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
