/* observation.h: observes a running process, the target, from outside for a while. The results show
 * where its threads spend CPU time, which stacks make its memory grow, and what it maps.
 *
 *     ag_observation_open -> ag_observation_run -> queries -> ag_observation_close
 *
 * The target is never stopped and nothing in it is changed. An observation may be used by one
 * thread only. Texts that its functions return are valid until the observation is closed.
 *
 * A runtime is a virtual machine. A frame is managed if a runtime executes its function, for
 * example a function written in Erlang. All other frames are native, including those of the
 * runtime's own C functions. An inspector is the part of allogram for one runtime that reads
 * managed frames and other data from outside (allogram/inspector.h). */
#ifndef AG_OBSERVATION_H
#define AG_OBSERVATION_H

#include <allogram/inspector.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "seen_stacks.h"

enum ag_observe_what { /* bits: what is observed in addition to CPU samples */
                       AG_OBSERVE_GROWTH = 1,
                       AG_OBSERVE_MAPS = 2,
                       AG_OBSERVE_COLLECTIONS = 4,
                       AG_OBSERVE_ALLOCATORS = 8,
                       AG_OBSERVE_PROCESSES = 16,
};
/* the kinds of events */
enum ag_seen_source {
    AG_SEEN_CPU,
    AG_SEEN_GROWTH, /* page faults */
    AG_SEEN_MAP,    /* system calls that map or unmap memory */
    AG_SEEN_WORD    /* a write to a watched word; its stack is not counted with the others */
};

struct ag_runtime;
struct ag_observe_options {
    pid_t pid;
    uint64_t duration_ns;              /* 0: until stopped */
    uint64_t rate;                     /* CPU samples per second of a thread's CPU time */
    unsigned what;                     /* bits of enum ag_observe_what */
    const struct ag_runtime *runtimes; /* base/runtimes.h; NULL: none */
    bool (*is_hurried)(void); /* returns true when looking up names should soon end; may be NULL */
    bool (*is_stopped)(void); /* returns true to end now with the present results; may be NULL */
    /* called at least 20 times a second, as far as possible, while the observation runs; returns
     * false to end now with the present results; may be NULL */
    bool (*tick)(void *context);
    void *context;
};

struct ag_observation;
/* Returns 0, or a negative errno and one line with the cause and the remedy. */
int ag_observation_open(const struct ag_observe_options *options,
                        struct ag_observation **ret_observation, char ret_message[512]);
struct ag_observation *ag_observation_close(struct ag_observation *observation);
/* Runs until the time is over, the target has ended, is_stopped returns true or tick returns false.
 * Returns 0, or a negative errno with one line in ret_message; even after an error the results up
 * to that moment can be queried. */
int ag_observation_run(struct ag_observation *observation, char ret_message[512]);

/* ---- results ---- */
enum ag_observation_end { AG_OBSERVED_TIME_OVER, AG_OBSERVED_STOPPED, AG_OBSERVED_TARGET_ENDED };
struct ag_observation_facts {
    pid_t pid;
    const char *name;
    uint64_t duration_ns, start_ns, start_realtime_ns;
    enum ag_observation_end end;
    uint64_t samples; /* CPU samples that are counted */
    /* events that are not counted. lost: dropped by the kernel or by an inspector; stale: CPU
     * samples whose stacks were read too late */
    uint64_t lost, stale;
    uint64_t complete_stacks; /* counted samples whose stack reaches the outermost frame */
    uint64_t growth_faults;   /* sampled page faults */
    uint64_t map_calls;       /* mmap, munmap, brk, mremap calls */
    /* garbage collections that inspectors noticed; an inspector reports all of them, or only a
     * sample */
    uint64_t collections_seen;
    /* words_watched: number of random words of heaps that were watched, one after the other; 0:
     * none. words_allocated: how many of them became part of a new object */
    uint64_t words_watched, words_allocated;
    uint64_t target_cpu_ns;     /* CPU time of the target's threads during the observation */
    uint64_t own_cpu_ns;        /* CPU time that this process used for the observation */
    double sample_cost_ns;      /* what one sample costs a running thread; measured at the start */
    double record_cost_ns;      /* cost of one recorded page fault or system call */
    double target_cost_percent; /* estimated cost of the events, in percent of target_cpu_ns */
    bool sees_kernel;           /* samples in the kernel are counted, too */
    uint64_t resident_before_bytes, resident_after_bytes;
};
const struct ag_observation_facts *ag_observation_facts(struct ag_observation *observation);
/* Lines to be shown to the user: what could not be read, and why. */
size_t ag_observation_notes(const struct ag_observation *observation,
                            const char *const **ret_notes);

struct ag_observed_frame {
    const char *function, *file, *image; /* image: the mapped file; file, image may be NULL */
    const char *runtime;                 /* "c": native */
    uint32_t line;
    bool is_known;
};
/* Returns the frames of the stack NODE, innermost first; an inlined function has its own frame. (A
 * stack is identified by the number of its innermost node, see seen_stacks.h.) */
size_t ag_observation_stack(struct ag_observation *observation, uint32_t node,
                            const struct ag_observed_frame **ret_frames);
const char *ag_observation_thread_name(struct ag_observation *observation, uint32_t thread);

struct ag_observed_function {
    const struct ag_observed_frame *frame;
    /* samples with the function as the innermost frame; samples with it anywhere in the stack */
    uint64_t own, total;
};
struct ag_observed_stack {
    uint32_t node, thread; /* thread 0: all threads */
    uint64_t samples, bytes;
};
/* The lists of the following functions are sorted, the greatest first, and freed by the caller. The
 * functions return the length, or a negative errno: out of memory. */
ssize_t ag_observation_functions(struct ag_observation *observation,
                                 struct ag_observed_function **ret_functions);
ssize_t ag_observation_stacks(struct ag_observation *observation, enum ag_seen_source source,
                              struct ag_observed_stack **ret_stacks);
/* Counts only samples whose stack contains a native function that matches GLOB. Each of these
 * samples is counted in `own` of one function: the innermost managed caller of the matching
 * function; if there is none, its innermost caller that does not match; if all callers match, the
 * matching function itself. */
ssize_t ag_observation_blame(struct ag_observation *observation, const char *glob,
                             struct ag_observed_function **ret_functions);

struct ag_observed_map { /* memory that one stack mapped and that is still mapped */
    uint32_t node;
    uint64_t bytes, resident_bytes, n_mappings;
};
ssize_t ag_observation_maps(struct ag_observation *observation, struct ag_observed_map **ret_maps);

/* The reports of inspectors (allogram/inspector.h explains their members). mapped_bytes and
 * resident_bytes are those of the carriers that the inspector reported for the allocator. */
struct ag_reported_process {
    const char *id, *name, *current_function, *runtime;
    uint64_t heap_words, stack_words, queue;
    uint64_t binaries, binary_bytes; /* UINT64_MAX: unknown */
    uint32_t node;                   /* node of the process' stack; AG_SEEN_COMPLETE: no stack */
};
struct ag_reported_allocator {
    const char *name;
    uint32_t instance;
    uint64_t carriers_bytes, blocks_bytes, mapped_bytes, resident_bytes;
};
struct ag_reported_collection {
    const char *runtime, *kind, *process;
    uint32_t thread, node;
    uint64_t start_ns, pause_ns, heap_before_bytes, heap_after_bytes, needed_bytes, allocated_bytes;
    /* allocated bytes that this collection represents: allocated_bytes, or more if only a sample of
     * the collections is reported */
    uint64_t weight_bytes;
};
/* The processes with the most memory (heap and binaries) come first. */
size_t ag_observation_processes(const struct ag_observation *observation,
                                const struct ag_reported_process **ret_processes);
size_t ag_observation_allocators(const struct ag_observation *observation,
                                 const struct ag_reported_allocator **ret_allocators);
size_t ag_observation_collections(const struct ag_observation *observation,
                                  const struct ag_reported_collection **ret_collections);

/* A function that allocated or caused collections: the innermost managed function of such
 * stacks. */
struct ag_observed_collector {
    const char *function;
    /* estimates, if only a sample of the collections is reported */
    uint64_t n_collections;
    /* The bytes that the function allocated. They are estimated by random words, of which n_words
     * were written by this function. Where there were too few words, they are the bytes allocated
     * before the collections that the function caused (observed_names.c). */
    uint64_t bytes;
    uint64_t n_words;
};
/* The list is sorted, most bytes first, and freed by the caller. */
ssize_t ag_observation_collectors(struct ag_observation *observation,
                                  struct ag_observed_collector **ret_collectors);

/* Looks up the names of the functions in the stacks seen so far. Returns true when they are known.
 * Otherwise a thread looks them up; call this function again some milliseconds later. Opening a
 * file with much debug information can take seconds, and the kernel drops samples that are not read
 * in time, so the observation goes on meanwhile. A child process that is forked after this function
 * has returned true has the names, and the contents of the files that were opened for them. Without
 * this function, names are looked up when a result is requested. */
bool ag_observation_find_names(struct ag_observation *observation);

/* Writes the observation as a trace. PATTERN: the trace's path, with the placeholders of `run -o`;
 * NULL: the default. */
int ag_observation_write_trace(struct ag_observation *observation, const char *pattern,
                               char ret_path[4096], char ret_message[512]);
/* Writes the target's generated code as a perf map, to /tmp/perf-PID.map, where perf looks for
 * it. */
int ag_observation_write_perf_map(struct ag_observation *observation, char ret_path[4096],
                                  size_t *ret_functions, char ret_message[512]);

#endif
