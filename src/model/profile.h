/* profile.h: a profile, which is the contents of a trace as reports and exporters read them. The
 * functions return numbers and names; the callers format them for users.
 *
 * An unfiltered profile of a sealed (completed) trace is read from the index at the trace's end,
 * without reading the events. Filters that need events (time window, thread, --within), and a trace
 * without an index, need one pass over all events. The memory of a pass is bounded by the largest
 * number of blocks that the program had in use; several threads decode the chunks (the compressed
 * pieces of the trace). */
#ifndef AG_PROFILE_H
#define AG_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "schema/records.h"

struct ag_decoder;
struct ag_decoder_types;
struct ag_symbol_options;
/* Which rows the view of function counters (calls counted by a runtime) has above the call
 * paths. */
enum ag_call_group {
    AG_CALLS_TOGETHER,
    /* a process of the runtime (such as an Erlang process), by its name; without one, the thread
     * that counted */
    AG_CALLS_BY_PROCESS,
    AG_CALLS_BY_INITIAL_CALL,
};
struct ag_profile_options {
    size_t size;
    /* the time window, since the start of the recording; to_ns 0: until its end */
    uint64_t from_ns, to_ns;
    int64_t thread; /* kernel tid; -1: all threads */
    /* --within: a block is temporary if its thread makes at most this many other allocations before
     * it is freed */
    uint32_t temporary_within;
    /* --focus and --ignore: POSIX extended regular expressions that select and exclude stacks by
     * any of their frames. NULL: none. */
    const char *focus, *ignore;
    const char *runtime; /* --runtime; NULL: stacks of all runtimes */
    /* rows leave out blocks that were allocated in the last PERCENT of the recording; 0: none */
    double tail_percent;
    bool force_pass; /* compute all sums from the events, even if the trace has an index */
    const struct ag_symbol_options *symbol; /* valid until the profile is closed; NULL: defaults */
    /* The decoder that has the names of type numbers, and those names. They apply to processes of
     * this decoder's runtime. NULL: none. */
    const struct ag_decoder *types_decoder;
    const struct ag_decoder_types *types;
    /* The file to read in place of the PATH given to ag_profile_open, for example a completed copy
     * of it. Reports still show PATH. */
    const char *contents;
    /* A window that begins at FROM_NS counts only blocks that were allocated inside the window, and
     * reads only the chunks that overlap the window. If counts_older is true, blocks that were
     * allocated before the window also count: in use at its end, at its peak, and when they are
     * freed. Then all chunks before the window are read, too. */
    bool counts_older;
    enum ag_call_group call_group;
};
struct ag_profile;
int ag_profile_open(const char *path, const struct ag_profile_options *options,
                    struct ag_profile **ret_profile, char ret_message[512]);
struct ag_profile *ag_profile_close(struct ag_profile *profile);

enum { AG_METRICS = 9 };
/* of a site (where blocks were allocated), a tree node, a stack or the whole profile */
struct ag_metrics {
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, in_use_blocks,
        in_use_bytes, peak_blocks, peak_bytes, temporary_blocks;
    /* The metrics of a sampled trace are estimates. This is the estimated variance of each, in the
     * order of AG_METRIC_TABLE; 0: the metric is exact. */
    float variance[AG_METRICS];
    /* of a sampled trace: the largest number of blocks that one sample represents */
    float heaviest;
    /* Of a sampled trace: the largest number of bytes that one sample of a small block represents.
     * It determines how many bytes of blocks without a sample may be missing from the metrics. 0:
     * no block can be missed, or the metrics contain no sample (see ag_profile_nothing). */
    float portion_bytes;
};
/* The sum of all rows. */
const struct ag_metrics *ag_profile_total(const struct ag_profile *profile);
/* The metrics of a site that has no row: all are 0. For a sampled trace portion_bytes is set,
 * because blocks of the site may exist although none was sampled. */
struct ag_metrics ag_profile_nothing(const struct ag_profile *profile);
const struct ag_summary *ag_profile_summary(const struct ag_profile *profile);
struct ag_profile_window { /* times since the start of the recording */
    uint64_t from_ns, to_ns;
    uint64_t recording_ns; /* how long the whole recording lasted; 0: the trace does not say */
    /* see ag_profile_options; also true if the window begins with the recording, because then no
     * block is older */
    bool counts_older;
    /* the program reset the recording (allogram_reset): the counts from before the reset were
     * discarded */
    bool is_reset;
    /* frees inside the window, of blocks that were allocated before it; no other number counts
     * them */
    uint64_t older_frees;
    /* What the process had in use when the window began, from the last point of the index's
     * timeline before that. knows_before is false if the trace has no index. */
    bool knows_before;
    uint64_t in_use_bytes_before, in_use_blocks_before;
};
/* NULL: the profile is of the whole recording. */
const struct ag_profile_window *ag_profile_window(const struct ag_profile *profile);
/* How long the whole recording lasted. (With a time window, the summary's duration_ns is the end of
 * the window.) */
uint64_t ag_profile_recording_ns(const struct ag_profile *profile);

/* General facts of the trace. Strings live as long as the profile. */
struct ag_profile_identity {
    const char *file; /* path of the trace, as the caller gave it */
    uint32_t format_version, pid, n_arguments;
    const char *const *arguments;
    const char *exe;
    const char *mode; /* "exact" "sample" */
    bool is_sampled;
    uint64_t interval_bytes; /* sampled: mean bytes between samples, as requested */
    uint64_t seed;
    const char *filter; /* describes the blocks that were recorded; NULL: all were recorded */
    /* names of heaps for which the filter could not decide, because the type of a block was not
     * known yet when the block was allocated */
    const char *const *undecided;
    size_t n_undecided;
    const char *end;    /* how the recording ended: "exit" "signal" "detached" "running" "cut" */
    bool is_end_unseen; /* "exit" is assumed: the end of the process was not seen */
    uint32_t wait_status, wait_status_known;
    uint64_t file_bytes, start_realtime_ns;
    /* 1, or the number of merged processes; then the other members describe the first process */
    uint32_t n_processes;
    /* The damage that was found so far: a query that reads the events may find more, so read this
     * again after it. */
    bool is_damaged; /* `damage` describes the first damaged place */
    struct ag_profile_damage {
        uint64_t offset;  /* position in the file, in bytes */
        const char *what; /* such as "cut short" */
    } damage;
    struct ag_profile_missing {
        /* in damaged event chunks, which could not be read; events: at most this number */
        uint64_t chunks, events, bytes;
    } missing;
};
const struct ag_profile_identity *ag_profile_identity(const struct ag_profile *profile);
/* The number of events that the recorder lost by CAUSE, an enum ag_lost_cause. */
uint64_t ag_profile_lost(const struct ag_profile *profile, uint32_t cause);
/* NULL: CAUSE is not below the number of causes */
const char *ag_profile_lost_name(uint32_t cause);
struct ag_profile_runtime {
    const char *name, *version, *note;
    bool hooked;
    /* the allocations of the runtime that were recorded, in the unit of `counted` */
    uint64_t recorded;
    /* the allocations that the runtime itself counted; 0: it does not count them */
    uint64_t counted;
};
size_t ag_profile_runtimes(const struct ag_profile *profile,
                           const struct ag_profile_runtime **ret_runtimes);
struct ag_profile_cost {
    uint64_t rss_bytes, cpu_ns, target_cpu_ns;
};
const struct ag_profile_cost *ag_profile_cost(const struct ag_profile *profile);

struct ag_profile_observed { /* of a process that was observed from outside */
    bool is_there;           /* false: it was not observed; the other members are 0 */
    uint32_t rate_hz;        /* of CPU samples, per second of a thread's CPU time */
    uint64_t samples, lost, stale, complete_stacks;
    uint64_t target_cpu_ns; /* used by the process during the observation */
    /* CPU time that one sample takes from the thread that it interrupts */
    uint64_t sample_cost_ns;
    /* garbage collections that were seen; ag_profile_collections returns all or a sample of them */
    uint64_t collections_seen;
};
const struct ag_profile_observed *ag_profile_observed(const struct ag_profile *profile);
/* Whether the process was observed from outside without recording the growth of its memory: then
 * the trace contains no block. */
bool ag_profile_has_only_samples(const struct ag_profile *profile);
struct ag_profile_sampler { /* of a sampled trace */
    uint64_t cpu_ns;        /* the part of the process's CPU time that was spent on samples */
    /* the limit of --budget: the share of the processes' CPU time that allogram may use; 0: none */
    double budget_percent;
    uint64_t least_interval_bytes, most_interval_bytes; /* that were in effect; 0: not known */
};
const struct ag_profile_sampler *ag_profile_sampler(const struct ag_profile *profile);

/* A frame as shown to users. Frames are interned: two frames with the same function, file, line,
 * image and runtime have the same id. */
struct ag_frame {
    /* file may be NULL. image is the base name of an executable or library; for a function of a
     * virtual machine (a managed frame) it is "[runtime]". */
    const char *function, *file, *image;
    const char *runtime; /* "c" for native */
    uint32_t line;
    bool is_inlined, is_known;
    /* the name shown to users: "[vm] f" with its runtime; for a native function only its name */
    const char *label;
};
static inline bool ag_frame_is_managed(const struct ag_frame *frame) {
    return frame->runtime && (frame->runtime[0] != 'c' || frame->runtime[1] != '\0');
}
const struct ag_frame *ag_profile_frame(const struct ag_profile *profile, uint32_t frame);
/* The part of PATH after its last slash. */
static inline const char *ag_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

enum ag_stack_state { AG_STACK_COMPLETE, AG_STACK_INCOMPLETE, AG_STACK_CUT, AG_STACK_NOT_KEPT };
static inline const char *ag_stack_state_name(enum ag_stack_state state) { /* for JSON and CSV */
    static const char *const names[] = {"complete", "incomplete", "cut", "not_kept"};
    return names[state];
}

/* The sums of one stack and one via (the allocation function that was called). */
struct ag_stack_row {
    uint32_t stack, via;
    const char *via_name, *heap_name;
    enum ag_stack_state state;
    struct ag_metrics metrics;
};
size_t ag_profile_stacks(struct ag_profile *profile, const struct ag_stack_row **ret_rows);
/* Frames of a stack, innermost first, inlined ones expanded. Names are looked up on demand, once
 * for each different pc. The array stays valid until the profile is closed. */
size_t ag_profile_stack_frames(struct ag_profile *profile, uint32_t stack,
                               const uint32_t **ret_frames);

enum ag_site_key {
    AG_BY_FUNCTION,
    AG_BY_LINE,
    AG_BY_STACK,
    AG_BY_IMAGE,
    AG_BY_THREAD,
    AG_BY_HEAP,
    AG_BY_TYPE,
    AG_BY_LABEL,
    AG_BY_PROCESS, /* this and the next are for function counters and collections only */
    AG_BY_INITIAL_CALL,
};
enum { AG_SITE_KEYS = AG_BY_LABEL + 1 };
/* Whether rows of this key have a name of their own, in place of a frame. */
static inline bool ag_site_key_is_named(enum ag_site_key by) {
    return by == AG_BY_THREAD || by == AG_BY_HEAP || by == AG_BY_TYPE || by == AG_BY_LABEL;
}
struct ag_site_row {
    /* One frame of the row: all frames of a row are equal in the aspect that AG_BY_ names. Where
     * ag_site_key_is_named, `frame` is the row's index, and `label` is its name (NULL for the
     * blocks of unknown type, and for those without a label). */
    uint32_t frame;
    const char *label;
    /* own: the stacks whose innermost frame belongs to the row. total: the stacks with any frame of
     * the row, each counted once even if the stack contains several such frames. */
    struct ag_metrics own, total;
};
int ag_profile_sites(struct ag_profile *profile, enum ag_site_key by,
                     const struct ag_site_row **ret_rows, size_t *ret_count);

/* index 0 is the root; the children of a node are a linked list */
struct ag_tree_node {
    uint32_t frame;                             /* UINT32_MAX at the root */
    uint32_t parent, first_child, next_sibling; /* UINT32_MAX: none */
    struct ag_metrics total, own;
};
int ag_profile_tree(struct ag_profile *profile, bool bottom_up,
                    const struct ag_tree_node **ret_nodes, size_t *ret_count);

size_t ag_profile_timeline(const struct ag_profile *profile,
                           const struct ag_timeline_point **ret_points);
struct ag_thread_row {
    uint32_t stream, thread_id;
    const char *name;
    struct ag_thread_sum sum;
    struct ag_metrics metrics; /* the numbers of `sum`; in a sampled trace with variances */
};
size_t ag_profile_threads(const struct ag_profile *profile, const struct ag_thread_row **ret_rows);
/* The row of the thread with this stream, or NULL. */
const struct ag_thread_row *ag_profile_thread(const struct ag_profile *profile, uint32_t stream);
size_t ag_profile_thread_pairs(const struct ag_profile *profile,
                               const struct ag_thread_pair **ret_pairs);
/* The numbers of a row of ag_profile_thread_pairs (freed), and of a point of ag_profile_timeline
 * (in use, allocated); in a sampled trace with variances. */
struct ag_metrics ag_profile_pair_metrics(const struct ag_profile *profile, size_t pair);
struct ag_metrics ag_profile_point_metrics(const struct ag_profile *profile, size_t point);
struct ag_heap_memory { /* the memory of a heap, as the runtime last reported it */
    uint32_t known;     /* flags of enum ag_memory_known; 0: nothing was recorded */
    uint64_t time_ns;   /* since the start of the recording */
    uint64_t reserved_bytes, committed_bytes, free_bytes, of_malloc_bytes;
};
struct ag_heap_row {
    const char *name, *domain, *allocator, *runtime;
    const char *kind, *unit; /* "malloc", "moving", "non_moving"; "bytes", "words" ... */
    bool is_backing;
    struct ag_heap_sum sum;
    struct ag_metrics metrics; /* the numbers of `sum`; in a sampled trace with variances */
    struct ag_heap_memory memory;
};
size_t ag_profile_heaps(const struct ag_profile *profile, const struct ag_heap_row **ret_rows);
/* The symbol problems found so far, as lines for the user. Names are looked up on demand; to find
 * missing and changed files earlier, call ag_profile_open_images first. */
void ag_profile_open_images(struct ag_profile *profile);
size_t ag_profile_problems(const struct ag_profile *profile, const char *const **ret_lines);

#endif
