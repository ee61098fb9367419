/* profile.h: the contents of a trace as reports and exporters read them. Nothing here is formatted
 * for users.
 *
 * An unfiltered profile of a sealed trace is read from the index, without a pass over the events;
 * filters that need events (time window, thread, --within) or a trace without an index need one
 * streaming pass: memory is bounded by what was in use in the program, chunks are decoded by
 * several threads. */
#ifndef AG_PROFILE_H
#define AG_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/records.h"

struct ag_decoder;
struct ag_decoder_types;
struct ag_symbol_options;
enum ag_call_group { /* the rows above the paths of function counters */
                     AG_CALLS_TOGETHER,
                     AG_CALLS_BY_PROCESS, /* of the runtime, by its name; or the thread that counted
                                           */
                     AG_CALLS_BY_INITIAL_CALL,
};
struct ag_profile_options {
    size_t size;
    uint64_t from_ns, to_ns; /* window of allocations and deaths; to_ns 0: the end */
    int64_t thread;          /* kernel tid, -1: all */
    uint32_t temporary_within;
    /* POSIX extended regular expressions over any frame of a stack; NULL: none */
    const char *focus, *ignore;
    const char *runtime; /* NULL: all */
    double tail_percent; /* blocks allocated in the last PERCENT of the recording do not count; 0:
                            all do */
    bool force_pass;     /* do not trust the index */
    const struct ag_symbol_options *symbol; /* valid until the profile is closed; NULL: defaults */
    /* Has the names of the type numbers that a process of this decoder's runtime recorded; NULL:
     * none. */
    const struct ag_decoder *types_decoder;
    const struct ag_decoder_types *types;
    /* the file to read in place of PATH, for example a completed copy of it; reports still name
     * PATH */
    const char *contents;
    /* A window that begins at FROM_NS counts the blocks that were allocated in it, and reads only
     * the chunks it touches. With this it also counts those from before it: in use at its end, at
     * its peak, and when they die; then everything before is read, too. */
    bool counts_older;
    enum ag_call_group call_group;
};
struct ag_profile;
int ag_profile_open(const char *path, const struct ag_profile_options *options,
                    struct ag_profile **ret_profile, char ret_message[512]);
struct ag_profile *ag_profile_close(struct ag_profile *profile);

enum { AG_METRICS = 9 };
struct ag_metrics { /* of a site, a tree node, a stack or all */
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, in_use_blocks,
        in_use_bytes, peak_blocks, peak_bytes, temporary_blocks;
    /* Of a sampled trace they are estimates: the estimated variance of each, in the order of
     * AG_METRIC_TABLE. 0 where it is known exactly. */
    float variance[AG_METRICS];
    float heaviest; /* of a sampled trace: the most blocks that one sample stands for */
    /* of a sampled trace: the most bytes that the sample of a small block stands for. Blocks that
     * were not sampled are missed in portions of this size. 0: no block can be
     * missed, or the metrics are of no sample; see ag_profile_nothing. */
    float portion_bytes;
};
/* The sum of all rows. */
const struct ag_metrics *ag_profile_total(const struct ag_profile *profile);
/* The metrics of something that was not seen at all: 0, for a sampled trace with its
 * uncertainty. */
struct ag_metrics ag_profile_nothing(const struct ag_profile *profile);
const struct ag_summary *ag_profile_summary(const struct ag_profile *profile);
struct ag_profile_window { /* times since the start of the recording */
    uint64_t from_ns, to_ns;
    uint64_t recording_ns; /* how long the recording lasted, 0: not in the trace */
    bool counts_older;     /* true also if the window begins with the recording: nothing is older */
    bool is_reset;         /* the program reset the recording: what was counted until then was
                            * dropped */
    uint64_t older_frees;  /* deaths inside it of blocks from before it, which are not counted */
    /* of the process when the window began, as fine as the index' timeline; known with an index */
    bool knows_before;
    uint64_t in_use_bytes_before, in_use_blocks_before;
};
/* NULL: the profile is of the whole recording. */
const struct ag_profile_window *ag_profile_window(const struct ag_profile *profile);
/* How long the whole recording lasted: the summary's duration_ns is where its window ends. */
uint64_t ag_profile_recording_ns(const struct ag_profile *profile);

/* General facts of the trace. Strings live as long as the profile. */
struct ag_profile_identity {
    const char *file; /* path as given */
    uint32_t format_version, pid, n_arguments;
    const char *const *arguments;
    const char *exe;
    const char *mode; /* "exact" "sample" */
    bool is_sampled;
    uint64_t interval_bytes; /* sampled: mean bytes between samples, as requested */
    uint64_t seed;
    const char *filter; /* only these blocks were recorded; NULL: all */
    /* heaps whose blocks' types were not known when the filter asked for them */
    const char *const *undecided;
    size_t n_undecided;
    const char *end;    /* "exit" "signal" "detached" "running" "cut" */
    bool is_end_unseen; /* "exit" is assumed: the end of the process was not seen */
    uint32_t wait_status, wait_status_known;
    uint64_t file_bytes, start_realtime_ns;
    uint32_t n_processes; /* 1; of a merged profile more, and the rest is that of the first */
    /* As found so far: read it again after a query that reads the events. */
    bool is_damaged; /* first damaged place in damage */
    struct ag_profile_damage {
        uint64_t offset;  /* in the file, bytes */
        const char *what; /* "cut short" */
    } damage;
    struct ag_profile_missing {
        uint64_t chunks, events, bytes; /* of event chunks that are damaged: events at most */
    } missing;
};
const struct ag_profile_identity *ag_profile_identity(const struct ag_profile *profile);
/* Events lost by this enum ag_lost_cause. */
uint64_t ag_profile_lost(const struct ag_profile *profile, uint32_t cause);
const char *ag_profile_lost_name(uint32_t cause); /* NULL behind the last cause */
struct ag_profile_runtime {
    const char *name, *version, *note;
    bool hooked;
    uint64_t told;    /* how much of what the runtime counted was recorded */
    uint64_t counted; /* what the runtime itself counted; 0: it does not count */
};
size_t ag_profile_runtimes(const struct ag_profile *profile,
                           const struct ag_profile_runtime **ret_runtimes);
struct ag_profile_cost {
    uint64_t rss_bytes, cpu_ns, target_cpu_ns;
};
const struct ag_profile_cost *ag_profile_cost(const struct ag_profile *profile);

struct ag_profile_observed { /* of a process that was observed from outside */
    bool is_there;           /* false: it was not; the rest is 0 */
    uint32_t rate_hz;        /* of CPU samples, by a thread's CPU time */
    uint64_t samples, lost, stale, complete_stacks;
    uint64_t target_cpu_ns;    /* used by the process during the observation */
    uint64_t sample_cost_ns;   /* of one to the thread that it interrupted */
    uint64_t collections_seen; /* ag_profile_collections returns all of these, or a sample */
};
const struct ag_profile_observed *ag_profile_observed(const struct ag_profile *profile);
/* Observed from outside, but without the growth of its memory: it contains no block. */
bool ag_profile_has_only_samples(const struct ag_profile *profile);
struct ag_profile_sampler { /* of a sampled trace */
    uint64_t cpu_ns;        /* of target_cpu_ns: spent on samples */
    double budget_percent;  /* of the processes' CPU, that allogram was to keep under; 0: none */
    uint64_t least_interval_bytes, most_interval_bytes; /* 0: not known */
};
const struct ag_profile_sampler *ag_profile_sampler(const struct ag_profile *profile);

/* A frame as shown to users; frames are interned: equal (function, file, line, image, runtime) has
 * one id. */
struct ag_frame {
    const char *function, *file, *image; /* file may be NULL; image is a base name, or of a managed
                                            frame "[runtime]" */
    const char *runtime;                 /* "c" for native */
    uint32_t line;
    bool is_inlined, is_known;
    const char *label; /* the function with its runtime's mark, "[vm] f"; native: the function */
};
static inline bool ag_frame_is_managed(const struct ag_frame *frame) {
    return frame->runtime && (frame->runtime[0] != 'c' || frame->runtime[1] != '\0');
}
const struct ag_frame *ag_profile_frame(const struct ag_profile *profile, uint32_t frame);

struct ag_stack_row { /* one stack with what it did; several vias of one stack are several rows */
    uint32_t stack, via;
    const char *via_name, *heap_name;
    enum { AG_STACK_COMPLETE, AG_STACK_INCOMPLETE, AG_STACK_CUT, AG_STACK_NOT_KEPT } state;
    struct ag_metrics metrics;
};
size_t ag_profile_stacks(struct ag_profile *profile, const struct ag_stack_row **ret_rows);
/* Frames of a stack, innermost first, inlined ones expanded. Symbolizes on demand; each unique pc
 * once. The array stays valid until the profile is closed. */
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
    AG_BY_PROCESS, /* this and the next: of function counters and collections, not of sites */
    AG_BY_INITIAL_CALL,
};
enum { AG_SITE_KEYS = AG_BY_LABEL + 1 };
/* Whether rows of this key have a name of their own, in place of a frame. */
static inline bool ag_site_key_is_named(enum ag_site_key by) {
    return by == AG_BY_THREAD || by == AG_BY_HEAP || by == AG_BY_TYPE || by == AG_BY_LABEL;
}
struct ag_site_row {
    /* a frame that stands for the key (where ag_site_key_is_named: index, and the name in `label`;
     * NULL for the blocks of unknown type, and for those without a label) */
    uint32_t frame;
    const char *label;
    /* own: innermost frame; total: each stack once however often the key recurs */
    struct ag_metrics own, total;
};
int ag_profile_sites(struct ag_profile *profile, enum ag_site_key by,
                     const struct ag_site_row **ret_rows, size_t *ret_count);

struct ag_tree_node {                           /* index 0 is the root; children are linked */
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
    struct ag_metrics metrics; /* the same numbers; those of a sampled trace have variances */
};
size_t ag_profile_threads(const struct ag_profile *profile, const struct ag_thread_row **ret_rows);
size_t ag_profile_thread_pairs(const struct ag_profile *profile,
                               const struct ag_thread_pair **ret_pairs);
/* Estimates with variances: one for each row of ag_profile_thread_pairs (freed), one for each point
 * of ag_profile_timeline (in use, allocated). NULL: the trace is exact. */
const struct ag_metrics *ag_profile_pair_estimates(const struct ag_profile *profile);
const struct ag_metrics *ag_profile_timeline_estimates(const struct ag_profile *profile);
struct ag_heap_memory { /* what a heap holds, as last counted for that heap */
    uint32_t known;     /* flags of enum ag_memory_known; 0: nothing was recorded */
    uint64_t time_ns;   /* since the start of the recording */
    uint64_t reserved_bytes, committed_bytes, free_bytes, of_malloc_bytes;
};
struct ag_heap_row {
    const char *name, *domain, *allocator, *runtime;
    const char *kind, *unit; /* "malloc", "moving", "non_moving"; "bytes", "words" ... */
    bool is_backing;
    struct ag_heap_sum sum;
    struct ag_metrics metrics; /* the same numbers; those of a sampled trace have variances */
    struct ag_heap_memory memory;
};
size_t ag_profile_heaps(const struct ag_profile *profile, const struct ag_heap_row **ret_rows);
/* Symbol problems for the user, one line each: those found so far. Names are looked up on demand;
 * to find missing and changed files before that, call ag_profile_open_images first. */
void ag_profile_open_images(struct ag_profile *profile);
size_t ag_profile_problems(const struct ag_profile *profile, const char *const **ret_lines);

#endif
