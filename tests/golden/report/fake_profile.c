/* fake_profile.c: a profile that is always the same, in place of the model (src/model): the golden
 * texts show its contents.
 *
 * The name of the trace selects the contents: jq, threads, hostile, damaged, empty, deep, and
 * forum, which has function counters (fake_runtimes.c) and no blocks; a trace of any other name
 * cannot be opened. The sums of sites and trees are added up here from the stacks, in a slow and
 * obvious way. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtimes.h"
#include "model/answers/blamed_lines.h"
#include "model/answers/blocks.h"
#include "model/answers/findings.h"
#include "model/answers/lifetimes.h"
#include "model/answers/types.h"
#include "model/metric.h"
#include "model/process_merge.h"
#include "model/profile.h"
#include "writer/writer.h"

/* No runtime is needed, because nothing is symbolized here. */
const struct ag_runtime ag_runtimes[] = {{.name = NULL}};

enum { MOST_FRAMES = 600, MOST_STACKS = 8, MOST_NODES = 4096, KIB = 1024, MIB = 1024 * KIB };
#define MS UINT64_C(1000000)

/* A frame whose label does not name a runtime; only exports and the page print such labels. */
#define FRAME(function, ...) \
    { function, __VA_ARGS__, function }
static const struct ag_frame frames[] = {
    FRAME("jv_mem_alloc", "/build/jq-1.6/src/jv_alloc.c", "jq", "c", 144, false, true),
    FRAME("jv_string_new", "/build/jq-1.6/src/jv.c", "jq", "c", 412, false, true),
    FRAME("stream_token", "/build/jq-1.6/src/jv_parse.c", "jq", "c", 118, true, true),
    FRAME("jv_parser_next", "/build/jq-1.6/src/jv_parse.c", "jq", "c", 700, false, true),
    FRAME("process", "/build/jq-1.6/src/main.c", "jq", "c", 170, false, true),
    FRAME("main", "/build/jq-1.6/src/main.c", "jq", "c", 400, false, true),
    FRAME("__libc_start_call_main", NULL, "libc.so.6", "c", 0, false, true),
    FRAME(
        "std::vector<std::pair<std::__cxx11::basic_string<char>, int>, std::allocator<std::pair<std::__cxx11::"
        "basic_string<char>, int> > >::_M_realloc_insert(std::pair<std::__cxx11::basic_string<char>, int>&&)",
        "/usr/include/c++/12/bits/vector.tcc", "jq", "c", 459, false, true),
    FRAME("evil\x1b[31m\nname\xff\xe2\x80\xae\"", "/tmp/\x1b]0;owned\x07.c",
          "\xc2\x9b"
          "31m.so",
          "c", 7, false, true),
    FRAME("lists:map/2", "lists.erl", "lists.beam", "erl", 1594, false, true),
    FRAME("0x1234 [libunknown.so]", NULL, "libunknown.so", "c", 0, false, false),
    FRAME("recurse", "/src/recursion.c", "recursion", "c", 12, false, true),
    FRAME("start_thread", "./nptl/pthread_create.c", "libc.so.6", "c", 442, false, true),
    FRAME("tls_record_1_3:encode_tls_cipher_text/2", "tls_record_1_3.erl", "[beam]", "beam", 61,
          false, true),
    FRAME("erlang:setelement/3", NULL, "[beam]", "beam", 0, false, true),
    FRAME("tls_sender:connection/3", "tls_sender.erl", "[beam]", "beam", 233, false, true),
    FRAME("ssl_cipher:nonce\x1b[2J/1", "ssl_cipher.erl", "[beam]", "beam", 7, false, true),
};
enum { FUNCTION_RECURSE = 11 };

struct fake_stack {
    struct ag_stack_row row;
    uint32_t frames[MOST_FRAMES];
    size_t n_frames;
};

struct ag_profile {
    struct ag_profile_identity identity;
    struct ag_summary summary;
    struct ag_profile_cost cost;
    struct ag_stack_row rows[MOST_STACKS];
    struct fake_stack stacks[MOST_STACKS];
    size_t n_stacks;
    struct ag_metrics total; /* of all rows */
    struct ag_site_row sites[AG_SITE_KEYS][64];
    struct ag_blamed_line blamed_lines[MOST_STACKS];
    struct ag_tree_node nodes[MOST_NODES];
    size_t n_nodes;
    struct ag_timeline_point points[40];
    size_t n_points;
    struct ag_thread_row threads[3];
    size_t n_threads;
    struct ag_thread_pair pairs[1];
    size_t n_pairs;
    struct ag_heap_row heaps[2];
    struct ag_profile_runtime runtimes[2];
    size_t n_runtimes;
    const char *problems[1];
    size_t n_problems;
    uint64_t lost_events;
};

static const char *const jq_command[] = {"jq", "length", "big.json"};
static const char *const hostile_command[] = {"./a\x1b[2Jb", "\xc3\x28", "quote\"back\\slash"};

static void add_stack(struct ag_profile *profile, const char *via, const struct ag_metrics *metrics,
                      const uint32_t *stack_frames, size_t n_frames) {
    struct fake_stack *stack = &profile->stacks[profile->n_stacks];
    stack->n_frames = n_frames;
    memcpy(stack->frames, stack_frames, n_frames * sizeof *stack_frames);
    profile->rows[profile->n_stacks] = (struct ag_stack_row){
        .stack = (uint32_t)profile->n_stacks,
        .via_name = via,
        .heap_name = "malloc",
        .metrics = *metrics,
    };
    profile->n_stacks++;
}
#define ADD_STACK(profile, via, metrics, ...)                                                   \
    add_stack(profile, via, &(const struct ag_metrics)metrics, (const uint32_t[]){__VA_ARGS__}, \
              sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
#define METRICS(...) \
    { __VA_ARGS__ }

static void fill_jq(struct ag_profile *profile) {
    ADD_STACK(profile, "malloc",
              METRICS(.allocated_blocks = 4100000, .allocated_bytes = 412 * (uint64_t)MIB,
                      .freed_blocks = 4099998, .freed_bytes = 412 * (uint64_t)MIB - 64 * KIB,
                      .in_use_blocks = 2, .in_use_bytes = 64 * KIB, .peak_blocks = 300000,
                      .peak_bytes = 88 * MIB, .temporary_blocks = 4000000),
              0, 1, 2, 3, 4, 5, 6);
    ADD_STACK(profile, "realloc",
              METRICS(.allocated_blocks = 8604111, .allocated_bytes = 620 * (uint64_t)MIB,
                      .freed_blocks = 8604110, .freed_bytes = 620 * (uint64_t)MIB - 16 * KIB,
                      .in_use_blocks = 1, .in_use_bytes = 16 * KIB, .peak_blocks = 402330,
                      .peak_bytes = 126 * MIB, .temporary_blocks = 100),
              7, 3, 4, 5, 6);
    ADD_STACK(profile, "malloc",
              METRICS(.allocated_blocks = 1, .allocated_bytes = 32, .freed_blocks = 1,
                      .freed_bytes = 32, .peak_blocks = 1, .peak_bytes = 32),
              10, 5, 6);
    /* A second call on the same line: another stack for the recorder, the same line for the reader.
     */
    ADD_STACK(
        profile, "malloc",
        METRICS(.allocated_blocks = 1, .allocated_bytes = 0, .in_use_blocks = 1, .peak_blocks = 1),
        0, 1, 2, 3, 4, 5, 6);
}

static void fill_threads(struct ag_profile *profile) {
    fill_jq(profile);
    profile->threads[1] = (struct ag_thread_row){
        .stream = 2,
        .thread_id = 4712,
        .name = "worker",
        .sum = {.stream = 2, .thread_id = 4712, .freed_blocks = 5, .freed_bytes = 5 * KIB}};
    profile->n_threads = 2;
    profile->pairs[0] =
        (struct ag_thread_pair){.allocated_by = 1, .freed_by = 2, .blocks = 5, .bytes = 5 * KIB};
    profile->n_pairs = 1;
    profile->summary.threads = 2;
    profile->summary.peak_low_bytes = 213 * MIB;
    profile->summary.peak_high_bytes = 215 * MIB;
}

static void fill_hostile(struct ag_profile *profile) {
    profile->identity.arguments = hostile_command;
    profile->identity.exe = "/tmp/a\x1b[2Jb";
    ADD_STACK(profile, "mal\x1bloc",
              METRICS(.allocated_blocks = UINT64_MAX, .allocated_bytes = UINT64_MAX,
                      .in_use_blocks = UINT64_MAX, .in_use_bytes = UINT64_MAX, .peak_blocks = 1,
                      .peak_bytes = UINT64_MAX),
              8, 9, 10);
    profile->problems[profile->n_problems++] = "libunknown.so: build id differs\x1b[5m";
    profile->runtimes[profile->n_runtimes++] = (struct ag_profile_runtime){
        .name = "jemalloc", .version = "5.3", .note = "inside the executable", .hooked = false};
}

static void fill_deep(struct ag_profile *profile) {
    uint32_t deep[MOST_FRAMES];
    for (size_t i = 0; i < MOST_FRAMES; i++) {
        deep[i] = i + 1 < MOST_FRAMES ? FUNCTION_RECURSE : 5;
    }
    const struct ag_metrics metrics = {
        .allocated_blocks = 3, .allocated_bytes = 48, .in_use_blocks = 3, .in_use_bytes = 48};
    add_stack(profile, "malloc", &metrics, deep, MOST_FRAMES);
    profile->rows[0].state = AG_STACK_CUT;
}

/* Copies the sums of threads and heaps into their metrics: the profile holds both. */
static void fill_metrics(struct ag_profile *profile) {
    for (size_t i = 0; i < profile->n_threads; i++) {
        const struct ag_thread_sum *sum = &profile->threads[i].sum;
        profile->threads[i].metrics = (struct ag_metrics){.allocated_blocks = sum->allocated_blocks,
                                                          .allocated_bytes = sum->allocated_bytes,
                                                          .freed_blocks = sum->freed_blocks,
                                                          .freed_bytes = sum->freed_bytes};
    }
    for (size_t i = 0; i < 2; i++) {
        const struct ag_heap_sum *sum = &profile->heaps[i].sum;
        profile->heaps[i].metrics = (struct ag_metrics){.allocated_blocks = sum->allocated_blocks,
                                                        .allocated_bytes = sum->allocated_bytes,
                                                        .in_use_blocks = sum->in_use_blocks,
                                                        .in_use_bytes = sum->in_use_bytes,
                                                        .peak_bytes = sum->peak_bytes};
    }
}

static void add_heaps(struct ag_profile *profile) {
    const struct ag_summary *summary = &profile->summary;
    profile->heaps[0] = (struct ag_heap_row){.name = "malloc",
                                             .domain = "cpu",
                                             .allocator = "libc",
                                             .runtime = "c",
                                             .kind = "malloc",
                                             .unit = "bytes",
                                             .sum = {.allocated_blocks = summary->allocated_blocks,
                                                     .allocated_bytes = summary->allocated_bytes,
                                                     .in_use_bytes = summary->in_use_bytes,
                                                     .in_use_blocks = summary->in_use_blocks,
                                                     .peak_bytes = summary->peak_bytes},
                                             .memory = {.known = AG_MEMORY_SIZES | AG_MEMORY_FREE,
                                                        .time_ns = 1600 * MS,
                                                        .reserved_bytes = 232 * MIB,
                                                        .committed_bytes = 231 * MIB,
                                                        .free_bytes = 230 * MIB}};
    profile->heaps[1] = (struct ag_heap_row){.name = "mappings",
                                             .domain = "cpu",
                                             .allocator = "kernel",
                                             .runtime = "c",
                                             .kind = "malloc",
                                             .unit = "bytes",
                                             .is_backing = true,
                                             .sum = {.mapped_bytes = 240 * MIB}};
}

static void add_up(struct ag_profile *profile) {
    struct ag_summary *summary = &profile->summary;
    for (size_t i = 0; i < profile->n_stacks; i++) {
        const struct ag_metrics *metrics = &profile->rows[i].metrics;
        ag_metrics_add(&profile->total, metrics);
        summary->allocated_blocks += metrics->allocated_blocks;
        summary->allocated_bytes += metrics->allocated_bytes;
        summary->freed_blocks += metrics->freed_blocks;
        summary->freed_bytes += metrics->freed_bytes;
        summary->in_use_blocks += metrics->in_use_blocks;
        summary->in_use_bytes += metrics->in_use_bytes;
        summary->peak_blocks += metrics->peak_blocks;
        summary->peak_bytes += metrics->peak_bytes;
        summary->temporary_blocks += metrics->temporary_blocks;
    }
    if (summary->threads == 1) {
        summary->peak_low_bytes = summary->peak_high_bytes = summary->peak_bytes;
    }
    for (size_t i = 0; i < profile->n_points; i++) {
        uint64_t part = i < 20 ? i + 1 : 40 - i;
        profile->points[i] = (struct ag_timeline_point){
            .time_ns = i * 40 * MS,
            .in_use_bytes = summary->peak_bytes / 20 * part,
            .in_use_blocks = 35000 * part,
            .allocated_bytes = summary->allocated_bytes / 39 * i,
            .rss_bytes = (17 + 11 * (part < 15 ? part : 15)) * MIB,
        };
    }
    profile->threads[0] = (struct ag_thread_row){
        .stream = 1,
        .thread_id = 4711,
        .name = "jq",
        .sum = {.stream = 1,
                .thread_id = 4711,
                .allocated_blocks = summary->allocated_blocks,
                .allocated_bytes = summary->allocated_bytes,
                .freed_blocks = summary->freed_blocks,
                .freed_bytes = summary->freed_bytes},
    };
    add_heaps(profile);
}

int ag_profile_open(const char *path, const struct ag_profile_options *options,
                    struct ag_profile **ret_profile, char ret_message[512]) {
    (void)options;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    struct ag_profile *profile = calloc(1, sizeof *profile);
    profile->identity = (struct ag_profile_identity){.file = path,
                                                     .format_version = 1,
                                                     .pid = 4711,
                                                     .n_arguments = 3,
                                                     .arguments = jq_command,
                                                     .exe = "/usr/bin/jq",
                                                     .mode = "exact",
                                                     .end = "exit",
                                                     .wait_status_known = 1,
                                                     .file_bytes = 31 * MIB};
    profile->summary = (struct ag_summary){.duration_ns = 1600 * MS,
                                           .time_resolution_ns = 1000,
                                           .peak_time_ns = 930 * MS,
                                           .unique_stacks = 18204,
                                           .threads = 1,
                                           .rss_peak_bytes = 231 * MIB};
    profile->cost = (struct ag_profile_cost){
        .rss_bytes = 9 * MIB, .cpu_ns = 400 * MS, .target_cpu_ns = 1500 * MS};
    profile->runtimes[0] =
        (struct ag_profile_runtime){.name = "libc", .version = "2.36", .note = "", .hooked = true};
    profile->n_runtimes = profile->n_threads = 1;
    profile->n_points = 40;
    if (strcmp(name, "jq.allogram") == 0) {
        fill_jq(profile);
    } else if (strcmp(name, "threads.allogram") == 0) {
        profile->summary.time_resolution_ns = 4000; /* a resolution between two steps of the
                                                     * lifetimes */
        fill_threads(profile);
    } else if (strcmp(name, "hostile.allogram") == 0) {
        fill_hostile(profile);
    } else if (strcmp(name, "deep.allogram") == 0) {
        fill_deep(profile);
    } else if (strcmp(name, "damaged.allogram") == 0) {
        fill_jq(profile);
        profile->identity.is_damaged = true;
        profile->identity.damage = (struct ag_profile_damage){.offset = 4096, .what = "cut short"};
        profile->identity.end = "cut";
        profile->identity.wait_status_known = 0;
        profile->lost_events = 1234;
    } else if (strcmp(name, "empty.allogram") == 0 || strcmp(name, "forum.allogram") == 0) {
        profile->n_points = 0;
    } else {
        free(profile);
        snprintf(ret_message, 512, "%s: no such file", path);
        return -ENOENT;
    }
    add_up(profile);
    fill_metrics(profile);
    *ret_profile = profile;
    return 0;
}

struct ag_profile *ag_profile_close(struct ag_profile *profile) {
    free(profile);
    return NULL;
}

const struct ag_summary *ag_profile_summary(const struct ag_profile *profile) {
    return &profile->summary;
}

const struct ag_profile_identity *ag_profile_identity(const struct ag_profile *profile) {
    return &profile->identity;
}

uint64_t ag_profile_lost(const struct ag_profile *profile, uint32_t cause) {
    return cause == 1 ? profile->lost_events : 0;
}

const char *ag_profile_lost_name(uint32_t cause) {
    static const char *const names[] = {"no_chunk", "back_pressure"};
    return cause < 2 ? names[cause] : NULL;
}

size_t ag_profile_runtimes(const struct ag_profile *profile,
                           const struct ag_profile_runtime **ret_runtimes) {
    *ret_runtimes = profile->runtimes;
    return profile->n_runtimes;
}

const struct ag_profile_cost *ag_profile_cost(const struct ag_profile *profile) {
    return &profile->cost;
}

const struct ag_frame *ag_profile_frame(const struct ag_profile *profile, uint32_t frame) {
    (void)profile;
    return &frames[frame];
}

size_t ag_profile_stacks(struct ag_profile *profile, const struct ag_stack_row **ret_rows) {
    *ret_rows = profile->rows;
    return profile->n_stacks;
}

size_t ag_profile_stack_frames(struct ag_profile *profile, uint32_t stack,
                               const uint32_t **ret_frames) {
    *ret_frames = profile->stacks[stack].frames;
    return profile->stacks[stack].n_frames;
}

static void add_metrics(struct ag_metrics *sum, const struct ag_metrics *more) {
    uint64_t *to = (uint64_t *)(void *)sum;
    const uint64_t *from = (const uint64_t *)(const void *)more;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++) {
        to[i] += from[i];
    }
}

int ag_profile_sites(struct ag_profile *profile, enum ag_site_key by,
                     const struct ag_site_row **ret_rows, size_t *ret_count) {
    struct ag_site_row *rows = profile->sites[by];
    size_t count = 0;
    memset(rows, 0, sizeof profile->sites[by]);
    for (size_t s = 0; s < profile->n_stacks; s++) {
        for (size_t f = 0; f < profile->stacks[s].n_frames; f++) {
            uint32_t frame = profile->stacks[s].frames[f];
            bool is_repeated = false;
            for (size_t before = 0; before < f; before++) {
                is_repeated = is_repeated || profile->stacks[s].frames[before] == frame;
            }
            size_t row = 0;
            while (row < count && rows[row].frame != frame) {
                row++;
            }
            count += row == count;
            rows[row].frame = frame;
            rows[row].label = "labelled";
            if (!is_repeated) {
                add_metrics(&rows[row].total, &profile->rows[s].metrics);
            }
            if (f == 0) {
                add_metrics(&rows[row].own, &profile->rows[s].metrics);
            }
        }
    }
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

int ag_profile_blamed_lines(struct ag_profile *profile, const struct ag_blamed_line **ret_lines,
                            size_t *ret_n) {
    size_t count = 0;
    memset(profile->blamed_lines, 0, sizeof profile->blamed_lines);
    for (size_t s = 0; s < profile->n_stacks; s++) {
        const uint32_t frame = profile->stacks[s].frames[0];
        size_t line = 0;
        while (line < count && profile->blamed_lines[line].frame != frame) {
            line++;
        }
        count += line == count;
        profile->blamed_lines[line].frame = frame;
        add_metrics(&profile->blamed_lines[line].metrics, &profile->rows[s].metrics);
    }
    *ret_lines = profile->blamed_lines;
    *ret_n = count;
    return 0;
}

static uint32_t child_of(struct ag_profile *profile, uint32_t parent, uint32_t frame) {
    for (uint32_t child = profile->nodes[parent].first_child; child != UINT32_MAX;
         child = profile->nodes[child].next_sibling) {
        if (profile->nodes[child].frame == frame) {
            return child;
        }
    }
    uint32_t child = (uint32_t)profile->n_nodes++;
    profile->nodes[child] =
        (struct ag_tree_node){.frame = frame,
                              .parent = parent,
                              .first_child = UINT32_MAX,
                              .next_sibling = profile->nodes[parent].first_child};
    profile->nodes[parent].first_child = child;
    return child;
}

int ag_profile_tree(struct ag_profile *profile, bool bottom_up,
                    const struct ag_tree_node **ret_nodes, size_t *ret_count) {
    profile->nodes[0] = (struct ag_tree_node){.frame = UINT32_MAX,
                                              .parent = UINT32_MAX,
                                              .first_child = UINT32_MAX,
                                              .next_sibling = UINT32_MAX};
    profile->n_nodes = 1;
    for (size_t s = 0; s < profile->n_stacks; s++) {
        uint32_t node = 0;
        size_t n_frames = profile->stacks[s].n_frames;
        add_metrics(&profile->nodes[0].total, &profile->rows[s].metrics);
        for (size_t f = 0; f < n_frames; f++) {
            node = child_of(profile, node,
                            profile->stacks[s].frames[bottom_up ? f : n_frames - 1 - f]);
            add_metrics(&profile->nodes[node].total, &profile->rows[s].metrics);
        }
        add_metrics(&profile->nodes[node].own, &profile->rows[s].metrics);
    }
    *ret_nodes = profile->nodes;
    *ret_count = profile->n_nodes;
    return 0;
}

const struct ag_profile_sampler *ag_profile_sampler(const struct ag_profile *profile) {
    (void)profile;
    return NULL; /* only sampled profiles have one */
}

struct ag_metrics ag_profile_nothing(const struct ag_profile *profile) {
    (void)profile;
    return (struct ag_metrics){.portion_bytes = 0};
}

const struct ag_profile_observed *ag_profile_observed(const struct ag_profile *profile) {
    static const struct ag_profile_observed from_inside;
    (void)profile;
    return &from_inside;
}

bool ag_profile_has_only_samples(const struct ag_profile *profile) {
    (void)profile;
    return false;
}

const struct ag_metrics *ag_profile_total(const struct ag_profile *profile) {
    return &profile->total;
}

struct ag_metrics ag_profile_pair_metrics(const struct ag_profile *profile, size_t pair) {
    return (struct ag_metrics){.freed_blocks = profile->pairs[pair].blocks,
                               .freed_bytes = profile->pairs[pair].bytes};
}

struct ag_metrics ag_profile_point_metrics(const struct ag_profile *profile, size_t point) {
    return (struct ag_metrics){.in_use_bytes = profile->points[point].in_use_bytes,
                               .in_use_blocks = profile->points[point].in_use_blocks,
                               .allocated_bytes = profile->points[point].allocated_bytes};
}

size_t ag_profile_timeline(const struct ag_profile *profile,
                           const struct ag_timeline_point **ret_points) {
    *ret_points = profile->points;
    return profile->n_points;
}

size_t ag_profile_threads(const struct ag_profile *profile, const struct ag_thread_row **ret_rows) {
    *ret_rows = profile->threads;
    return profile->n_threads;
}

const struct ag_thread_row *ag_profile_thread(const struct ag_profile *profile, uint32_t stream) {
    for (size_t i = 0; i < profile->n_threads; i++) {
        if (profile->threads[i].stream == stream) {
            return &profile->threads[i];
        }
    }
    return NULL;
}

size_t ag_profile_thread_pairs(const struct ag_profile *profile,
                               const struct ag_thread_pair **ret_pairs) {
    *ret_pairs = profile->pairs;
    return profile->n_pairs;
}

/* A finding or two for each trace, so that the texts show all kinds; the hostile trace has the
 * largest numbers. */
enum { FRAME_JV = 0, FRAME_VECTOR = 7, FRAME_HOSTILE = 8 };

static const struct ag_finding jq_findings[] = {
    {.kind = AG_FINDING_TEMPORARY,
     .frame = FRAME_JV,
     .part = 4000000,
     .whole = 12704112,
     .blocks = 4000000},
    {.kind = AG_FINDING_PEAK,
     .frame = FRAME_VECTOR,
     .part = 126 * MIB,
     .whole = 214 * MIB,
     .blocks = 402330,
     .bytes = 126 * MIB},
};
static const struct ag_finding threads_findings[] = {
    {.kind = AG_FINDING_LEAK,
     .frame = FRAME_JV,
     .part = MIB,
     .whole = 3 * MIB,
     .blocks = 500,
     .bytes = MIB},
    {.kind = AG_FINDING_STEPS,
     .frame = FRAME_VECTOR,
     .part = 800 * (uint64_t)MIB,
     .whole = 1032 * (uint64_t)MIB,
     .blocks = 4999,
     .bytes = 800 * (uint64_t)MIB,
     .step_bytes = 64,
     .largest_bytes = 320000},
    {.kind = AG_FINDING_FOREIGN_FREES,
     .frame = UINT32_MAX,
     .part = 20000,
     .whole = 40000,
     .blocks = 20000,
     .bytes = 960000},
};
static const struct ag_finding hostile_findings[] = {
    {.kind = AG_FINDING_LEAK,
     .frame = FRAME_HOSTILE,
     .part = UINT64_MAX,
     .whole = UINT64_MAX,
     .blocks = UINT64_MAX,
     .bytes = UINT64_MAX,
     .knows_half_way = true,
     .half_way_bytes = UINT64_MAX / 2},
    {.kind = AG_FINDING_OUTSIZED,
     .frame = FRAME_HOSTILE,
     .part = 64 * MIB,
     .whole = 256 * MIB,
     .blocks = 3,
     .bytes = 128 * MIB,
     .largest_bytes = 64 * MIB,
     .other_blocks = 1000,
     .other_bytes = 48000},
    {.kind = AG_FINDING_FOREIGN_FREES,
     .frame = FRAME_HOSTILE,
     .part = 1,
     .whole = 3,
     .blocks = 4000,
     .bytes = 4000},
};

static void tell_findings(struct ag_findings *findings, const struct ag_finding *rows,
                          size_t count) {
    memcpy(findings->rows, rows, count * sizeof *rows);
    findings->count = count;
}

int ag_profile_findings(struct ag_profile *profile, enum ag_findings_reach reach,
                        struct ag_findings *ret_findings) {
    const char *file = profile->identity.file;
    struct ag_findings findings = {.is_partial = false};
    if (strcmp(file, "hostile.allogram") == 0) {
        tell_findings(&findings, hostile_findings,
                      sizeof(hostile_findings) / sizeof *hostile_findings);
    } else if (strcmp(file, "threads.allogram") == 0) {
        tell_findings(&findings, threads_findings,
                      sizeof(threads_findings) / sizeof *threads_findings);
        findings.is_partial = reach == AG_FINDINGS_USUAL;
        findings.rows[2].allocated_by = &profile->threads[0];
        findings.rows[2].freed_by = &profile->threads[1];
    } else if (strcmp(file, "jq.allogram") == 0) {
        tell_findings(&findings, jq_findings, sizeof(jq_findings) / sizeof *jq_findings);
    }
    *ret_findings = findings;
    return 0;
}

size_t ag_profile_heaps(const struct ag_profile *profile, const struct ag_heap_row **ret_rows) {
    *ret_rows = profile->heaps;
    return 2;
}

void ag_profile_open_images(struct ag_profile *profile) {
    (void)profile; /* nothing to open: the problems are fixed */
}

size_t ag_profile_problems(const struct ag_profile *profile, const char *const **ret_lines) {
    *ret_lines = profile->problems;
    return profile->n_problems;
}

uint64_t ag_profile_recording_ns(const struct ag_profile *profile) {
    return ag_profile_summary(profile)->duration_ns;
}

const struct ag_profile_window *ag_profile_window(const struct ag_profile *profile) {
    (void)profile;
    return NULL;
}

/* The innermost frame decides type, lifetime and blocks: strings, a vector, and a hostile name. */
const char *ag_profile_stack_type(struct ag_profile *profile, uint32_t stack) {
    switch (profile->stacks[stack].frames[0]) {
    case 0:
        return "jv_string";
    case 7:
        return "std::vector<std::pair<std::string, int>>";
    case 8:
        return "evil\x1b[31m\ntype<\xff>";
    }
    return NULL;
}

/* One stack has a label. */
const char *ag_profile_stack_label(const struct ag_profile *profile, uint32_t stack) {
    return profile->stacks[stack].frames[0] == 7 ? "request 17" : NULL;
}

int ag_profile_types(struct ag_profile *profile, const struct ag_type_row **ret_rows,
                     size_t *ret_count) {
    static struct ag_type_row rows[MOST_STACKS];
    memset(rows, 0, sizeof rows);
    *ret_count = 0;
    for (size_t s = 0; s < profile->n_stacks; s++) {
        const char *type = ag_profile_stack_type(profile, (uint32_t)s);
        size_t at = 0;
        while (at < *ret_count && rows[at].type != type) {
            at++;
        }
        *ret_count += at == *ret_count;
        rows[at].type = type;
        rows[at].runtime = "c";
        add_metrics(&rows[at].metrics, &profile->rows[s].metrics);
    }
    *ret_rows = rows;
    return 0;
}

int ag_profile_lifetimes(struct ag_profile *profile, enum ag_site_key by,
                         const struct ag_lifetimes **ret_lifetimes) {
    static struct ag_lifetime_row rows[MOST_STACKS];
    static const struct ag_lifetime_step steps[] = {{0, 10, 100, 1600},
                                                    {10, 100, 200, 3200},
                                                    {100, 1000, 0, 0},
                                                    {1000, 10000, 4099698, 432013312}};
    static struct ag_lifetimes lifetimes;
    lifetimes = (struct ag_lifetimes){.rows = rows, .steps = steps, .n_steps = 4};
    for (size_t s = 0; s < profile->n_stacks; s++) {
        const struct ag_metrics *metrics = &profile->rows[s].metrics;
        const char *type = ag_profile_stack_type(profile, (uint32_t)s);
        const struct ag_lifetime lifetime = {.blocks = metrics->allocated_blocks,
                                             .bytes = metrics->allocated_bytes,
                                             .ended = metrics->freed_blocks,
                                             .ended_bytes = metrics->freed_bytes,
                                             .min_ns = 10,
                                             .mean_ns = 5000,
                                             .p50_ns = 1200,
                                             .p90_ns = 700 * 1000,
                                             .p99_ns = 2 * MS,
                                             .max_ns = 1400 * MS};
        rows[lifetimes.n_rows++] = (struct ag_lifetime_row){.frame = profile->stacks[s].frames[0],
                                                            .label = by == AG_BY_TYPE ? type : NULL,
                                                            .type = type,
                                                            .lifetime = lifetime};
        lifetimes.all.blocks += lifetime.blocks;
        lifetimes.all.bytes += lifetime.bytes;
        lifetimes.all.ended += lifetime.ended;
        lifetimes.all.ended_bytes += lifetime.ended_bytes;
    }
    *ret_lifetimes = &lifetimes;
    return 0;
}

int ag_profile_blocks(struct ag_profile *profile, unsigned states, ag_block_row_visit *visit,
                      void *context) {
    static const struct ag_block_row blocks[] = {
        {.state = AG_BLOCK_CLOSED,
         .address = 0x55d0c0a012a0,
         .size = 24,
         .allocated_ns = 5 * MS,
         .freed_ns = 5 * MS + 10,
         .domain = "cpu",
         .allocator = "malloc"},
        {.state = AG_BLOCK_CLOSED,
         .address = 0x55d0c0a012c0,
         .size = 4096,
         .allocated_ns = 6 * MS,
         .freed_ns = 900 * MS,
         .stack = 1,
         .free_stack = 1,
         .domain = "cpu",
         .allocator = "malloc"},
        {.state = AG_BLOCK_OPEN,
         .address = 0x7f0000000010,
         .size = 65536,
         .allocated_ns = 7 * MS,
         .freed_ns = UINT64_MAX,
         .freed_by = UINT32_MAX,
         .domain = "cpu",
         .allocator = "malloc"},
        {.state = AG_BLOCK_GHOST,
         .address = 0x10,
         .allocated_ns = UINT64_MAX,
         .freed_ns = 8 * MS,
         .via = UINT32_MAX,
         .allocated_by = UINT32_MAX,
         .free_stack = 1,
         .domain = "",
         .allocator = ""},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (states & blocks[i].state && blocks[i].stack < profile->n_stacks) {
            struct ag_block_row row = blocks[i];
            row.free_profile = profile;
            visit(context, &row);
        }
    }
    return 0;
}

/* The first profile stands for the merged one. */
int ag_profile_merge(struct ag_profile *const *parts, size_t n_parts,
                     struct ag_profile **ret_profile) {
    *ret_profile = parts[0];
    parts[0]->identity.n_processes = (uint32_t)n_parts;
    for (size_t i = 1; i < n_parts; i++) {
        ag_profile_close(parts[i]);
    }
    return 0;
}

/* Functions of other modules, as far as a report calls them. */
int ag_writer_complete_copy(const char *path, int *ret_fd, char ret_message[512]) {
    (void)path;
    (void)ret_fd;
    (void)ret_message;
    return 0;
}
