/* profile.h: a profile is the contents of a trace in the form that reports and exporters read. The
 * functions return numbers and names; the callers format them for users.
 *
 * An unfiltered profile of a sealed (completed) trace is read from the index at the trace's end
 * (the sums of all events), without reading the events. Filters that need events (time window,
 * thread, --within, --tail), a reset, a sampled trace, a profile of mappings, and a trace without
 * an index need a pass over the events. The memory of a pass is bounded by the largest number of
 * blocks that the program had in use; several threads decode the chunks (the compressed pieces of
 * the trace). */
#ifndef AG_PROFILE_H
#define AG_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "schema/records.h"

struct ag_decoder;
struct ag_decoder_types;
struct ag_progress;
struct ag_symbol_options;
/* How the view of function counters (counts of calls, made by a runtime or virtual machine) groups
 * the call paths. */
enum ag_call_group {
    AG_CALLS_TOGETHER,
    /* by the name of the runtime's process (such as an Erlang process); the paths of a process
     * without a name are grouped by the thread that counted them */
    AG_CALLS_BY_PROCESS,
    AG_CALLS_BY_INITIAL_CALL,
    AG_CALLS_BY_OS_PROCESS, /* by trace */
};
struct ag_profile_options {
    size_t size; /* sizeof(struct ag_profile_options) where the caller was compiled */
    /* time window, since the start of the recording; to_ns 0: until the end of the recording */
    uint64_t from_ns, to_ns;
    int64_t thread; /* kernel tid; -1: all threads */
    /* --within: a block is temporary if it is freed before its thread has made more than this many
     * other allocations */
    uint32_t temporary_within;
    /* --focus and --ignore: POSIX extended regular expressions that select and exclude stacks by
     * any of their frames. NULL: none. */
    const char *focus, *ignore;
    const char *runtime; /* --runtime; NULL: stacks of all runtimes */
    /* --tail: rows do not count blocks that were allocated in the last tail_percent of the
     * recording's time; 0: rows count all blocks */
    double tail_percent;
    bool force_pass; /* compute all sums from the events, even if the trace has an index */
    /* must be valid until the profile is closed; NULL: defaults */
    const struct ag_symbol_options *symbol;
    /* types: names of the type numbers that a runtime records. types_decoder: the decoder of the
     * runtime's symbol names (symbol/decoder.h), which can read `types`. NULL: no names. */
    const struct ag_decoder *types_decoder;
    const struct ag_decoder_types *types;
    /* The file to read in place of the PATH given to ag_profile_open, for example a completed copy
     * of the trace. Reports show PATH nevertheless. NULL: PATH is read. */
    const char *contents;
    /* A time window that begins at from_ns > 0 counts only blocks that were allocated inside the
     * window, and reads only the chunks that overlap the window. If counts_older is true, blocks
     * that were allocated before the window also count: as in use, at the peak, and as freed. Then
     * all chunks before the window are read, too. */
    bool counts_older;
    enum ag_call_group call_group;
    /* The blocks of the profile are mappings instead of allocated blocks: each mapping that the
     * program made by mmap, mremap, brk or sbrk is a block of its size. Mappings of a recorded
     * allocator are not included. See model/answers/program_mappings.h. */
    bool of_mappings;
    /* Its function is called while the trace is read, to report how much was read. Must be valid
     * until the profile is closed. NULL: no reports. */
    const struct ag_progress *progress;
};
struct ag_profile;
/* Opens the trace PATH. OPTIONS NULL: defaults. Returns 0, or a negative errno with the reason in
 * ret_message. */
int ag_profile_open(const char *path, const struct ag_profile_options *options,
                    struct ag_profile **ret_profile, char ret_message[512]);
struct ag_profile *ag_profile_close(struct ag_profile *profile);

enum { AG_METRICS = 9 };
/* the numbers of a site (where blocks were allocated), of a tree node, of a stack or of the whole
 * profile */
struct ag_metrics {
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, in_use_blocks,
        in_use_bytes, peak_blocks, peak_bytes, temporary_blocks;
    /* The metrics of a sampled trace are estimates. `variance` has the estimated variance of each
     * metric, in the order of AG_METRIC_TABLE in metric.h; 0: the metric is exact. */
    float variance[AG_METRICS];
    /* of a sampled trace: the largest number of blocks that one sample represents */
    float heaviest;
    /* Of a sampled trace: the largest number of bytes that one sample of a small block represents.
     * This number determines how many bytes may be missing from the metrics, because blocks may
     * exist of which none was sampled. 0: no block can be missed, or the metrics contain no sample
     * (see ag_profile_nothing). */
    float portion_bytes;
    /* Only in a profile of mappings. half_way_bytes: how many bytes were mapped in the middle of
     * the reported time. resident_bytes, untouched_bytes: of the bytes that were mapped when the
     * writer read the resident memory, how many were resident, and how many were not.
     * (ag_profile_mapping_facts says whether these numbers are known.) */
    uint64_t half_way_bytes, resident_bytes, untouched_bytes;
};
/* The sum of all rows. */
const struct ag_metrics *ag_profile_total(const struct ag_profile *profile);
/* The numbers of the summary as metrics. For a sampled trace: those of ag_profile_total, which also
 * have variances. */
struct ag_metrics ag_profile_sums(const struct ag_profile *profile);
/* The metrics of a site that has no row: all are 0. For a sampled trace portion_bytes is set,
 * because blocks of the site may exist although none was sampled. */
struct ag_metrics ag_profile_nothing(const struct ag_profile *profile);
const struct ag_summary *ag_profile_summary(const struct ag_profile *profile);
struct ag_profile_window { /* times are since the start of the recording */
    uint64_t from_ns, to_ns;
    uint64_t recording_ns; /* duration of the whole recording; 0: not known */
    /* as in struct ag_profile_options; also true if the window begins with the recording, because
     * then no block was allocated before it */
    bool counts_older;
    /* whether the window begins at the last reset (allogram_reset, or `allogram control` with the
     * action reset) */
    bool is_reset;
    /* number of frees inside the window of blocks that were allocated before the window; no other
     * number includes these frees */
    uint64_t older_frees;
    /* What the process had in use when the window began, according to the last point of the index's
     * timeline before from_ns. knows_before is false if the trace has no index; then both numbers
     * are 0. */
    bool knows_before;
    uint64_t in_use_bytes_before, in_use_blocks_before;
};
/* Returns NULL if the profile has no time window. */
const struct ag_profile_window *ag_profile_window(const struct ag_profile *profile);
/* Returns the duration of the whole recording. (In a profile with a time window, duration_ns of the
 * summary is the end of the window.) */
uint64_t ag_profile_recording_ns(const struct ag_profile *profile);

/* How the kernel killed the process for lack of memory. */
struct ag_profile_kill {
    /* 0: the kernel did not kill the process, or this is not known; then all other members are 0 */
    enum ag_kill_certainty certainty;
    enum ag_kill_reason reason;
    uint64_t limit_bytes; /* limit of the cgroup (control group); 0: not known */
    const char *cgroup;   /* the cgroup that reached its limit; NULL: not known */
    /* resident memory of the process when it was killed, from the log of the kernel */
    bool has_sizes;
    uint64_t anonymous_bytes, file_bytes, shmem_bytes;
    /* The last sample of the memory before the kill; `known` 0: there is none. Its time_ns is since
     * the start of the recording of the process. */
    struct ag_memory_sample last;
    /* By how much the resident memory grew in the last growth_ns before `last`, at most 5 s; 0: not
     * known. */
    uint64_t growth_ns;
    int64_t growth_bytes;
};

/* General facts about the trace. The strings are valid until the profile is closed. */
struct ag_profile_identity {
    const char *file; /* path of the trace, as the caller gave it */
    uint32_t format_version, pid, n_arguments;
    /* Both pids are those that the process sees in its PID namespace. parent_pid 0: not known. */
    uint32_t parent_pid;
    /* Random numbers. process_identity identifies this process and its program; parent_identity
     * identifies the process that forked, executed or spawned it (see `origin`). 0: unknown. */
    uint64_t process_identity, parent_identity;
    uint32_t origin; /* enum ag_process_origin */
    /* The name of the process when the writer last read it: the command line if the program has
     * changed it, or else the name of the main thread if the program has set it. NULL: unknown, or
     * unchanged. */
    const char *title;
    /* The user that ran the process when the writer last read `title`, by name or, if the name is
     * unknown, only by number. NULL: not in the trace. */
    const char *user;
    uint32_t user_id;
    uint64_t address_space_limit_bytes; /* UINT64_MAX: none, or unknown */
    /* A random number, the same in all traces of one `allogram run`. 0: the trace has none. */
    uint64_t session;
    uint64_t start_ns; /* start of the process's recording, since the start of the session */
    const char *const *arguments;
    const char *host; /* name of the machine; empty: unknown */
    /* Path of the process' cgroup (control group), as the writer saw it. NULL: unknown. See
     * ag_container_of (definitions/container_id.h). */
    const char *cgroup;
    const char *exe;
    const char *mode; /* "exact" or "sample" */
    bool is_sampled;
    /* of a sampled trace: mean number of bytes between two samples, as the user requested */
    uint64_t interval_bytes;
    uint64_t seed;
    /* the filter that selected the blocks to record; NULL: all blocks were recorded */
    const char *filter;
    /* names of the heaps for which the filter could not be decided, because the type of a block was
     * not known when the block was allocated */
    const char *const *undecided;
    size_t n_undecided;
    /* how the recording ended: "exit", "signal", "detached" or "cut" (the recording was stopped, or
     * the trace is damaged and contains no end); "running": the trace contains no end, and is not
     * damaged */
    const char *end;
    /* true: the end of the process was not observed, so it is only assumed that `end` is "exit" */
    bool is_end_unseen;
    uint32_t wait_status, wait_status_known;
    struct ag_profile_kill kernel_kill;
    uint64_t file_bytes, start_realtime_ns;
    /* number of processes; if it is more than 1, profiles were merged, and most other members
     * describe the first process */
    uint32_t n_processes;
    /* The damage that was found so far. A query that reads the events may find more, so call
     * ag_profile_identity again after such a query. */
    bool is_damaged; /* `damage` describes the first damaged place */
    struct ag_profile_damage {
        uint64_t offset;  /* position in the file, in bytes */
        const char *what; /* such as "cut short" */
    } damage;
    struct ag_profile_missing {
        /* contents of the damaged chunks, which could not be read; up to `events` events are
         * missing */
        uint64_t chunks, events, bytes;
        /* true: the sums of the profile come from the trace's index and include these events */
        bool has_sums;
    } missing;
    bool is_file_cut; /* the end of the file is missing; its size is not known */
};
const struct ag_profile_identity *ag_profile_identity(const struct ag_profile *profile);
/* The number of events that the recorder (allogram's code in the profiled process) lost by CAUSE,
 * an enum ag_lost_cause. */
uint64_t ag_profile_lost(const struct ag_profile *profile, uint32_t cause);
/* Returns the name of CAUSE; NULL: CAUSE is not below the number of causes. */
const char *ag_profile_lost_name(uint32_t cause);
struct ag_profile_runtime {
    const char *name, *version, *note;
    bool hooked; /* its allocations are recorded; if not, `note` has the reason */
    /* number of allocations of the runtime that were recorded, in the unit of `counted` */
    uint64_t recorded;
    /* number of allocations that the runtime itself counted; 0: the runtime does not count them */
    uint64_t counted;
};
size_t ag_profile_runtimes(const struct ag_profile *profile,
                           const struct ag_profile_runtime **ret_runtimes);
/* cpu_ns: CPU time of the writer, the process that made the trace. rss_bytes: largest resident
 * memory of the writer, plus the private memory of the recorder in the recorded process.
 * target_cpu_ns: CPU time of the recorded process. */
struct ag_profile_cost {
    uint64_t rss_bytes, cpu_ns, target_cpu_ns;
    /* how long all threads waited in total because the writer process was slower than the program,
     * and how often */
    uint64_t waited_ns, n_waits;
};
const struct ag_profile_cost *ag_profile_cost(const struct ag_profile *profile);

struct ag_profile_observed { /* facts about a process that was observed from outside */
    bool is_there;           /* false: the process was not observed; all other members are 0 */
    uint32_t rate_hz;        /* CPU samples per second of a thread's CPU time */
    /* numbers of CPU samples: recorded; lost for lack of buffer space; dropped because the stack
     * was read too late; recorded with a complete stack */
    uint64_t samples, lost, stale, complete_stacks;
    uint64_t target_cpu_ns; /* CPU time that the process used during the observation */
    /* CPU time that one sample takes from the thread that it interrupts */
    uint64_t sample_cost_ns;
    /* garbage collections that were seen; ag_profile_collections returns all or a sample of them */
    uint64_t collections_seen;
};
const struct ag_profile_observed *ag_profile_observed(const struct ag_profile *profile);
/* Whether the trace contains CPU samples of an observed process, but no block, because the growth
 * of its memory was not recorded. */
bool ag_profile_has_only_samples(const struct ag_profile *profile);
struct ag_profile_sampler { /* of a sampled trace */
    uint64_t cpu_ns;        /* CPU time that the process spent on taking samples */
    /* limit of --budget: the percentage of the processes' CPU time that allogram may use; 0: no
     * limit */
    double budget_percent;
    /* smallest and largest sampling interval that was in effect; 0: not known */
    uint64_t least_interval_bytes, most_interval_bytes;
};
const struct ag_profile_sampler *ag_profile_sampler(const struct ag_profile *profile);

/* A frame as shown to users. Frames are interned: frames with the same function, file, line,
 * columns, image, runtime and is_inlined have the same id. */
struct ag_frame {
    /* file may be NULL. image is the base name of an executable or library; for a function of a
     * virtual machine (a managed frame) it is "[runtime]". */
    const char *function, *file, *image;
    const char *runtime; /* name of the virtual machine; "c": native code */
    uint32_t line;
    /* the characters of the line from `column` up to `end_column`, counted from 0; end_column 0:
     * unknown */
    uint32_t column, end_column;
    bool is_inlined, is_known; /* is_known: the name of the function is known */
    /* the name that is shown to users: of a managed frame with its runtime, "[vm] f"; of a native
     * frame only the function */
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
static inline const char *ag_stack_state_name(enum ag_stack_state state) { /* the name of a state in
                                                                            * JSON and CSV */
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
/* Returns a number that identifies the stack as it was recorded. Rows have the same number if they
 * differ only in the allocation function (via), the type or the label of their blocks. Stacks with
 * the same frames have different numbers if their addresses differ. */
uint64_t ag_profile_recorded_stack(const struct ag_profile *profile,
                                   const struct ag_stack_row *row);
/* The sum of the incomplete stacks, whose unwinding stopped before the thread's first frame. */
struct ag_metrics ag_profile_incomplete(const struct ag_profile *profile);
/* Returns the frames of a stack, innermost first, including inlined frames. Names are looked up at
 * the first request, once for each pc. The array is valid until the profile is closed, or folded by
 * ag_profile_fold (answers/blamed_lines.h). */
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
    AG_BY_OS_PROCESS, /* of merged traces: a row for each trace */
    /* AG_BY_PROCESS (of a runtime) and AG_BY_INITIAL_CALL are only for function counters and
     * garbage collections */
    AG_BY_PROCESS,
    AG_BY_INITIAL_CALL,
};
enum { AG_SITE_KEYS = AG_BY_OS_PROCESS + 1 };
/* Whether rows of this key have a name in place of a frame. */
static inline bool ag_site_key_is_named(enum ag_site_key by) {
    return by == AG_BY_THREAD || by == AG_BY_HEAP || by == AG_BY_TYPE || by == AG_BY_LABEL ||
           by == AG_BY_OS_PROCESS;
}
struct ag_site_row {
    /* One of the frames of the row. All frames of a row have the same function, line, image ..., as
     * the key requires. If ag_site_key_is_named, `frame` is a number of the row instead, and
     * `label` is the name of the row (NULL: blocks of unknown type, or blocks without a label). */
    uint32_t frame;
    const char *label;
    /* own: sum over the stacks whose innermost frame belongs to the row. total: sum over the stacks
     * with any frame of the row; a stack counts once even if it contains several such frames. */
    struct ag_metrics own, total;
};
/* The identity of the process of a row of AG_BY_OS_PROCESS; NUMBER: `frame` of the row. */
const struct ag_profile_identity *ag_profile_process(const struct ag_profile *profile,
                                                     uint32_t number);
/* The number of traces whose profiles were merged into this profile; 1: it was not merged. */
size_t ag_profile_n_processes(const struct ag_profile *profile);
/* The number of the process (for ag_profile_process) to which row ROW of ag_profile_stacks
 * belongs. A row of a merged profile always belongs to a single process. */
uint32_t ag_profile_process_of_row(const struct ag_profile *profile, size_t row);
/* The same for a stream (a thread; see struct ag_thread_row). */
uint32_t ag_profile_process_of_stream(const struct ag_profile *profile, uint32_t stream);
/* Returns the name of a process for people, such as "make (4711)". */
const char *ag_profile_process_name(struct ag_profile *profile, uint32_t number);
/* Returns the profile of one process; if profiles were not merged, PROFILE itself. It is closed
 * with PROFILE. */
struct ag_profile *ag_profile_of_process(struct ag_profile *profile, uint32_t number);
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
/* Returns the row of the thread whose events have the number STREAM in the trace; NULL: none. */
const struct ag_thread_row *ag_profile_thread(const struct ag_profile *profile, uint32_t stream);
size_t ag_profile_thread_pairs(const struct ag_profile *profile,
                               const struct ag_thread_pair **ret_pairs);
/* Return the numbers of a row of ag_profile_thread_pairs (freed) and of a point of
 * ag_profile_timeline (in use, allocated) as metrics; in a sampled trace with variances. */
struct ag_metrics ag_profile_pair_metrics(const struct ag_profile *profile, size_t pair);
struct ag_metrics ag_profile_point_metrics(const struct ag_profile *profile, size_t point);
struct ag_heap_memory { /* the memory of a heap, as the runtime last reported it */
    uint32_t known;     /* flags of enum ag_memory_known; 0: nothing was recorded */
    uint64_t time_ns;   /* time of the report since the start of the recording */
    uint64_t reserved_bytes, committed_bytes, free_bytes, of_malloc_bytes;
};
struct ag_heap_row {
    const char *name, *domain, *allocator, *runtime;
    /* kind: "malloc", "moving" or "non_moving"; unit: "bytes", "words" ... */
    const char *kind, *unit;
    bool is_backing; /* the blocks of this heap contain blocks of other heaps */
    struct ag_heap_sum sum;
    struct ag_metrics metrics; /* the numbers of `sum`; in a sampled trace with variances */
    struct ag_heap_memory memory;
};
size_t ag_profile_heaps(const struct ag_profile *profile, const struct ag_heap_row **ret_rows);
/* Returns the problems with symbol files that were found so far, as lines for the user. A file is
 * opened when a name in it is requested for the first time. */
size_t ag_profile_problems(const struct ag_profile *profile, const char *const **ret_lines);

#endif
