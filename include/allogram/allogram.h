/* allogram.h: the interface for programs, allocators and runtimes (virtual machines) that report
 * their own memory. Everything is in this one file, so that they need no other header.
 *
 *     #include <allogram/allogram.h>
 *
 *     static allogram_heap nodes;
 *     static allogram_type tree_node;
 *
 *     int main(void) {
 *         struct allogram_heap_options heap = {.size = sizeof(heap), .name = "nodes",
 *                                              .allocator = "arena"};
 *         nodes = allogram_heap_new(&heap);
 *         tree_node = allogram_type_new("tree node", NULL);
 *         (void)allogram_start(NULL, NULL, 0);    // records into a trace file; not needed under
 *         ...                                     // `allogram run`
 *         allogram_alloc(nodes, (uintptr_t)block, bytes, tree_node);    // after the allocation
 *         ...
 *         allogram_free(nodes, (uintptr_t)block);                       // before the free
 *         ...
 *         (void)allogram_stop();
 *     }
 *
 *     cc program.c $(pkg-config --cflags --libs allogram)
 *
 * A program also links without the library. Call the inline functions, such as allogram_start: in a
 * program that is linked without the library and runs without the profiler, each of them only
 * compares an address with NULL and returns. The functions that the inline functions call, such as
 * allogram_session_start, do not exist in such a program. The comment on a function that is called
 * describes the inline function, too. Under `allogram run` the preloaded agent implements the
 * library's functions, and one trace contains the blocks of malloc and those of the program's
 * heaps.
 *
 * GLOSSARY
 *
 * block       one live allocation of a heap: an address and a size.
 * site        where blocks come from: a stack of calls, with the type and the heap.
 * heap        one allocator, or one space of a garbage collector. Each heap has its own addresses,
 *             so a block may lie inside a block of another heap, or in memory that no CPU can
 *             access. domain: the kind of memory (cpu, gpu, external). backing: a heap whose memory
 *             contains blocks of other heaps; sums over all heaps do not include its bytes.
 * type        a name that the program gives to blocks of one kind. label: a name of the work that a
 *             thread does (a request, a phase); the blocks that it allocates get this label.
 * sample, interval   a sampled block also represents blocks that were not sampled; interval is the
 *             mean number of allocated bytes between samples.
 * allocated, in use, freed   all blocks ever allocated; those that are live; those that are dead.
 * move, promote, collect   operations of a garbage collector. move: a block gets another address
 *             and stays the same block. promote: a block moves to a generation that lives longer.
 *             collect: the collector finds a block dead. (free is an operation of the program
 *             itself.)
 * open, closed, ghost   a block that was allocated and never freed; one that was allocated and
 *             freed; one that was freed, but its allocation was not recorded.
 * session     the time between start and stop, which is recorded in one trace.
 * function    a function of the program, or of a virtual machine in it, whose calls are counted.
 * counters    a counter set: how often functions called each other in one thread, or in one process
 *             of a virtual machine. own: the counts of a function itself, without its callees.
 * tracker     the program's own callbacks for sampled blocks.
 *
 * RULES FOR ALL FUNCTIONS
 *
 * Threads: any thread may call any function at any time, without registration. Events of several
 * threads at one address must be reported in the order in which they happen: report an allocation
 * after the allocator has returned, and a free before the allocator is called.
 *
 * Signals: the event functions (allogram_alloc to allogram_gc_end, except allogram_block_type),
 * allogram_mark and allogram_label_set may be called from a signal handler, whatever code the
 * signal interrupted. The other functions must not be called from a signal handler. For function
 * counters see the section of that name below.
 *
 * Errors: functions return 0 or a negative errno. -EDEADLK: the function was called in a signal
 * handler or a callback while the same thread holds the lock that the function needs. Event
 * functions (except allogram_block_type) have no result: the trace contains the number of events
 * that could not be recorded, by cause. No function changes errno. Before start, after stop and
 * during a pause, event functions record nothing. If the program calls exit during a session, the
 * library's destructor ends the session. Events of exit handlers and destructors that run before
 * the library's destructor are recorded.
 *
 * Strings are copied. Sizes are in bytes. An options struct begins with its own size; zero selects
 * the default of every field. */
#ifndef ALLOGRAM_H
#define ALLOGRAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ALLOGRAM_WEAK_ __attribute__((weak, visibility("default")))
/* Functions with these attributes (always_inline, artificial) do not appear in stacks: a stack
 * begins at the function that calls them. */
#define ALLOGRAM_INLINE_ static __inline__ __attribute__((always_inline, artificial, unused))

/* ---- sessions ---------------------------------------------------------------------------- */

struct allogram_options {
    size_t size;
    /* Path of the trace; %e is replaced by the program's name, %p by the pid, %h by the host's
     * name, %t by the start time in seconds since 1970. NULL: allogram.%e.%p.allogram in the
     * current folder. No file is overwritten: if the path exists, "-2" is inserted before the
     * extension. */
    const char *output;
    uint32_t depth; /* largest number of recorded frames of a stack; 0: 256 */
    /* ALLOGRAM_THIS_THREAD: record only blocks that the thread calling start allocates; frees of
     * these blocks are recorded in all threads */
    uint32_t threads;
    /* Selects the blocks that are recorded; NULL: all blocks. A filter consists of terms joined by
     * commas. A block is selected if all terms hold. "!" before a term negates the term. Terms:
     * domain=cpu|gpu|external; allocator=NAME; heap=NAME; size=LOW..HIGH (bytes, both inclusive;
     * LOW or HIGH may be missing); type=GLOB (* is any text, ? any character; if the type of a
     * block is not known yet, only "!type=" holds). The filter is applied before the stack is
     * recorded, so a block that is not selected costs little. If the filter has a size or type
     * term, or if only one thread is recorded, the library keeps a table of the recorded blocks in
     * use. The table has room for 5.6 million blocks; further blocks are lost. Under `allogram run`
     * this field is ignored, and the option --filter of `allogram run` is used. */
    const char *filter;
};
enum { ALLOGRAM_ALL_THREADS = 0, ALLOGRAM_THIS_THREAD = 1 };

/* Starts a session: every event from now on is recorded in a trace. options NULL: all defaults.
 * ret_message (or NULL): on failure receives one line, truncated to message_bytes including its
 * NUL; untouched on success. 512 bytes are enough for every line. -EALREADY: a session runs already
 * (if it is the session of `allogram run`, it continues and records the program's events); -EINVAL:
 * an option is wrong; -ENOSPC, -EACCES ...: the trace cannot be written; -ENOSYS: the program is
 * not linked with the library. This function may allocate with malloc. */
ALLOGRAM_WEAK_ int allogram_session_start(const struct allogram_options *options, char *ret_message,
                                          size_t message_bytes);
/* Ends the session that allogram_start began and seals (completes) its trace. Blocks that are live
 * then are open blocks of the trace. -ENOENT: no session runs, or the session is that of `allogram
 * run` and continues. exit also ends a running session. If the program is killed, call `allogram
 * check` on the trace to complete it; it then contains all events. */
ALLOGRAM_WEAK_ int allogram_session_stop(void);
/* For `allogram attach`, and for tools that do the same: starts a session that records into the
 * live file (shared memory) of another process, which writes the trace. allogram_stop ends the
 * session; the memory of the session is freed when the next session is joined. ret_message,
 * message_bytes and results are as for allogram_session_start. During a call that joins a further
 * session, no thread may execute an event function. */
ALLOGRAM_WEAK_ int allogram_session_join(const char *live_path, char *ret_message,
                                         size_t message_bytes);
/* Does nothing: the function counters are in shared memory, and nothing of them is lost if the
 * program is killed. It exists for programs compiled with an older version of this header, which
 * call it. */
ALLOGRAM_WEAK_ void allogram_session_tell(void);
/* The path of the session's trace, or of the last session's if none runs; "" before the first
 * session, and always under `allogram run`. The path of a joined session is that of the live
 * file. */
ALLOGRAM_WEAK_ const char *allogram_session_trace(void);
/* Between pause and resume nothing that the program reports is recorded, neither allocations nor
 * frees. So a block that is freed during a pause stays open in the trace until its address is used
 * again. Under `allogram run`, what the agent records itself (the blocks of malloc) is still
 * recorded. Pauses do not nest: the first resume ends all of them. Does nothing without a
 * session. */
ALLOGRAM_WEAK_ void allogram_session_pause(void);
ALLOGRAM_WEAK_ void allogram_session_resume(void);
/* For code that hooks a virtual machine to count calls, and removes its hooks while nothing is
 * counted, so that the program is as fast as without them. is_paused: whether `allogram control`,
 * --delay or --duration have paused or stopped the session. rest(1): the hooks will be removed;
 * after this call, call is_paused again, because the session may have been resumed meanwhile.
 * rest(0): the hooks are set again; `allogram control PID resume` waits for this call. */
ALLOGRAM_WEAK_ int allogram_session_is_paused(void);
ALLOGRAM_WEAK_ void allogram_session_rest(int is_resting);
/* Records the current time under a name. `allogram dump` prints such marks. */
ALLOGRAM_WEAK_ void allogram_session_mark(const char *name);
/* Discards the counts so far: reports begin at the time of this call, as with the options --from
 * and --older of `allogram report`. Blocks that are live then are still in use afterwards, and
 * their frees are not ghosts. Earlier events stay in the trace, for reports with --from. If the
 * function is called several times, reports begin at the last call. Returns 0; -ENOENT: nothing is
 * recorded (there is no session, or it is paused). */
ALLOGRAM_WEAK_ int allogram_session_reset(void);

struct allogram_snapshot_options {
    size_t size;
    const char *output; /* the path of a file, as in allogram_options */
    /* Receives the bytes of the trace in order, in pieces, if no file is written. A result other
     * than 0 ends the snapshot. The thread that takes the snapshot calls the callback and holds a
     * lock of the library meanwhile. So the callback may report events, but must not start or stop
     * a session or take a snapshot. */
    int (*write)(void *context, const void *data, size_t bytes);
    void *context;
};
/* Writes a complete, sealed trace of the session so far, while the session continues. It contains
 * all events that any thread reported before the call. For other tools: `allogram export SNAPSHOT
 * --to=pprof -o FILE` (or folded, dhat ...). A snapshot takes about 20 ns per event, and memory for
 * tables of blocks and stacks; other threads continue meanwhile. This function may allocate with
 * malloc. Returns 0; -ENOENT: there is no session; -ENOTSUP: the session is that of `allogram run`
 * (which has --dump-at for this purpose), or was joined; -EINVAL: neither or both of output and
 * write are set, or options is NULL or of an older version; -ECANCELED: write returned a result
 * other than 0; -ENOSPC ...: the file cannot be written. ret_message: as for allogram_start. */
ALLOGRAM_WEAK_ int allogram_session_snapshot(const struct allogram_snapshot_options *options,
                                             char *ret_message, size_t message_bytes);

/* ---- heaps, types, labels ---------------------------------------------------------------- */

typedef uint32_t allogram_heap;  /* 0: no heap; every function accepts it and does nothing */
typedef uint32_t allogram_type;  /* 0: unknown */
typedef uint32_t allogram_label; /* 0: none */

/* What ends the blocks of a heap: the program frees them, a garbage collector that may move live
 * blocks finds them dead, or a garbage collector that never moves blocks finds them dead. */
enum allogram_heap_kind {
    ALLOGRAM_MALLOC = 0,
    ALLOGRAM_MOVING_COLLECTOR = 1,
    ALLOGRAM_NON_MOVING_COLLECTOR = 2
};
enum allogram_domain { ALLOGRAM_CPU = 0, ALLOGRAM_GPU = 1, ALLOGRAM_EXTERNAL = 2 };

struct allogram_heap_options {
    size_t size;
    const char *name;      /* "nodes"; NULL: the allocator's name */
    const char *allocator; /* "arena"; NULL: "host" */
    const char *runtime;   /* the virtual machine that the heap belongs to: "lua"; NULL: none */
    uint32_t domain;       /* enum allogram_domain; other numbers mean external */
    /* 1: the heap's memory contains blocks of other heaps. Report it with allogram_map and
     * allogram_unmap: events of blocks (allogram_alloc, allogram_free ...) are ignored */
    uint32_t is_backing;
    /* The fields below were added in later versions; programs compiled with an older version of
     * this header pass a smaller `size` without them. */
    uint32_t kind; /* enum allogram_heap_kind; other numbers mean 0 */
    /* 1: allogram_block_type may be called for the heap's blocks. A block that is allocated without
     * a type then costs 56 bytes while it lives, and 2 us of time. */
    uint32_t has_late_types;
    /* the unit in which the allocator itself counts, such as "words" or "objects"; NULL: "bytes".
     * Reports only show this name; sizes passed to this interface are always bytes */
    const char *unit;
};

/* Registers a heap. Calls with the same name, allocator, runtime and domain return the same handle
 * (kind, unit and the other options are those of the first call). Returns 0 if there are too many
 * heaps (192), or there is no library; events of heap 0 are ignored. This function takes a lock of
 * the library briefly, and may be called before and during a session. */
ALLOGRAM_WEAK_ allogram_heap allogram_register_heap(const struct allogram_heap_options *options);
/* Register a type (at most 65,535) and a label (at most 65,535), as allogram_register_heap
 * registers a heap. An allocator that gets type tokens from a compiler, as from clang's
 * -fsanitize=alloc-token, registers a type for each token: see examples/alloc_tokens.c. */
ALLOGRAM_WEAK_ allogram_type allogram_register_type(const char *name, const char *runtime);
ALLOGRAM_WEAK_ allogram_label allogram_register_label(const char *name);
/* The blocks that this thread allocates from now on, in any heap, have this label. Returns the
 * previous label, so that the caller can restore it at the end of the work. If another thread
 * continues the work, that thread must set the label itself. `report --by=label` sums blocks by
 * label, `--view=blocks` shows the label of each block, and pprof shows it as a label. */
ALLOGRAM_WEAK_ allogram_label allogram_set_label(allogram_label label);

/* ---- trackers ----------------------------------------------------------------------------- */

struct allogram_sample {
    allogram_heap heap;
    allogram_type type;
    uint64_t address;
    size_t bytes;
    /* The sampler takes random points in the sequence of all allocated bytes. n_samples is the
     * number of points that fell into this block, on average (bytes + 1) / interval. The sum of
     * n_samples * interval over all samples estimates the allocated bytes, plus one byte per
     * block. */
    uint64_t n_samples;
};
enum { ALLOGRAM_EVERY_BLOCK = 1 };
struct allogram_tracker_options {
    size_t size;
    uint64_t interval_bytes; /* mean bytes between samples; 0: 512 KiB; ALLOGRAM_EVERY_BLOCK: every
                              * block is a sample, with n_samples 1 */
    uint64_t seed;           /* 0: random */
    /* Called directly after a sampled block was allocated, on the stack of the thread that reported
     * the allocation. The result is the block's value, which is passed to the callbacks below;
     * NULL: there are no further callbacks for this block. */
    void *(*on_alloc)(void *context, const struct allogram_sample *sample);
    /* Called for a block that has a value: on_promote after the block was promoted, on_complete
     * when the constructor of its object has finished, on_free before the block is freed. Each
     * callback may be NULL. on_free is called once for each value, by the thread that reported the
     * free.
     *
     * Some runtimes (Boehm's collector, Crystal) are recorded by `allogram run` itself, and report
     * to trackers, too. For blocks that their garbage collector found dead, on_free is called after
     * the collection has ended and the collector's lock is released, by a thread that then
     * allocates. on_complete is called when the object's type number is set. */
    void (*on_promote)(void *context, void *value);
    void (*on_complete)(void *context, void *value);
    void (*on_free)(void *context, void *value);
    void *context;
};
/* Starts a tracker, which samples the blocks of all heaps and threads, with or without a session.
 * Returns the tracker's number, at least 1. -EALREADY: another tracker is sampling; -EAGAIN: 64
 * trackers are stopped and still have blocks; -EINVAL: an option is wrong; -ENOSYS: there is no
 * library. In each thread, sampling starts after at most 16 KiB of allocations; with
 * ALLOGRAM_EVERY_BLOCK it starts at once.
 *
 * A callback may do everything: allocate and free (its own allocations are not sampled), wait for
 * other threads that run callbacks of their own, stop, discard and start trackers, end the thread,
 * and leave by longjmp or a C++ exception (then the block is not tracked). If a block is freed
 * while its on_alloc runs, its on_free follows directly. A callback runs in the thread and context
 * of the call that reports the event: if a signal handler reports the event, the callback runs in
 * the signal handler. */
ALLOGRAM_WEAK_ int allogram_start_tracker(const struct allogram_tracker_options *options);
/* Ends sampling. Callbacks are still called for blocks with a value until these blocks are freed;
 * until then the tracker keeps its number. -ENOENT: no tracker is sampling. */
ALLOGRAM_WEAK_ int allogram_stop_tracker(void);
/* Removes the blocks of a stopped tracker: there are no further callbacks for them. -EBUSY: the
 * tracker is sampling; -ENOENT: there is no tracker with this number, or it has no blocks. */
ALLOGRAM_WEAK_ int allogram_discard_tracker(int tracker);

/* ---- function counters --------------------------------------------------------------------
 *
 * For callers that know when functions are entered and left: an interpreter, a compiler that adds
 * calls at the start and end of functions, or a few calls written by hand. A word is a unit of
 * allocated memory, by default 8 bytes. `allogram report --view=functions` shows for each function
 * the calls, the words that the function itself allocated and their share of all words, the words
 * per call and the time; --callers=FUNCTION and --tree show the paths of calls.
 *
 * A counter set is used by one thread at a time (a process of a virtual machine may move from
 * thread to thread). Different sets are independent, and allogram_enter and allogram_leave take no
 * lock. A signal handler may use a set of its own. Using one set from two threads at once is an
 * error that the library does not detect.
 *
 * A set counts while a session runs (under `allogram run` always) and is not paused, and begins at
 * 0 in each session. The trace contains the counts even if the program is killed. Each dump (a
 * trace of the recording so far) contains them, too. `allogram control PID reset` resets them to
 * 0. */

typedef uint32_t allogram_function; /* 0: not a registered function */
/* every function accepts NULL and then does nothing */
typedef struct allogram_counters allogram_counters;

struct allogram_function_options {
    size_t size;
    const char *name;    /* the name as programmers write it */
    const char *file;    /* NULL: unknown */
    const char *runtime; /* "lua"; NULL: "c", native code */
    uint32_t line;       /* first line; 0: unknown */
    /* For runtimes that register each call or allocation of a function separately, with its own
     * line: the expression is in the characters of the line from `column` up to `end_column`,
     * counted from 0; end_column 0: unknown. Programs compiled with an older version of this header
     * pass a smaller `size` without these fields. */
    uint32_t column, end_column;
    uint32_t reserved;
};
/* Registers a function. Calls with the same name, file, line, columns and runtime return the same
 * handle. Returns 0 if there is no name, there are too many functions (1,048,575), or there is no
 * library; calls of function 0 are counted under the name [no registered function]. This function
 * takes a lock of the library briefly, and may be called before and during a session. */
ALLOGRAM_WEAK_ allogram_function
allogram_register_function(const struct allogram_function_options *options);

struct allogram_runtime_options {
    size_t size;
    const char *name, *version; /* "lua", "5.4.6" */
    /* one line that says why the runtime's functions are not counted, or what is missing; NULL:
     * none */
    const char *note;
    uint32_t is_hooked; /* 1: the runtime's functions are counted */
    uint32_t reserved;
};
/* Reports a virtual machine of this program, for the first lines of a report. If the function is
 * called several times with one name, reports use the last call. Call the function during a
 * session, and again in each further session. It does nothing if options is NULL, has a smaller
 * size than the struct, or contains no name. */
ALLOGRAM_WEAK_ void allogram_tell_runtime(const struct allogram_runtime_options *options);

enum { ALLOGRAM_NO_CLOCK = 0, ALLOGRAM_CLOCK = 1 };
enum { ALLOGRAM_EVERY_LEVEL = 0, ALLOGRAM_FOLD_RECURSION = 1 };
struct allogram_counters_options {
    size_t size;
    const char *runtime; /* the runtime of the set's functions; NULL: "c" */
    /* the name of the virtual machine's process that uses the set; NULL: the name of the first
     * thread that uses it */
    const char *process;
    const char *initial_call; /* the function that the process was started with; NULL: unknown */
    uint32_t word_bytes;      /* bytes in a word of the counts; 0: 8 */
    /* ALLOGRAM_CLOCK: the library measures the time between the calls that use the set;
     * ALLOGRAM_NO_CLOCK: the program reports times with allogram_count_time */
    uint32_t clock;
    /* ALLOGRAM_EVERY_LEVEL: each level of a recursion is a path; ALLOGRAM_FOLD_RECURSION: the
     * levels are one path where this does not change the inclusive counts of any function */
    uint32_t recursion;
    uint32_t reserved;
};
/* Makes a set whose counts are 0 and in which no function is entered. options NULL: all defaults.
 * Returns NULL if there is no memory, if the size in options is smaller than in the first version
 * of the struct, or if there is no library. A set needs 2 KiB, and 48 bytes for each path of calls
 * from the 16th on. */
ALLOGRAM_WEAK_ allogram_counters *allogram_make_counters(
    const struct allogram_counters_options *options);
/* Writes the counts of the set into the trace and frees it. */
ALLOGRAM_WEAK_ void allogram_free_counters(allogram_counters *set);
/* Writes a snapshot of the set's counts so far into the trace; of several snapshots the last one is
 * valid. Only the thread that uses the set may call this function and the functions below, up to
 * allogram_visit_counters. */
ALLOGRAM_WEAK_ void allogram_tell_counters(allogram_counters *set);
/* Between pause and resume, the set still follows which functions are entered and left, but counts
 * no calls, words or times. Pauses do not nest. allogram_pause does the same for all sets. */
ALLOGRAM_WEAK_ void allogram_pause_counters(allogram_counters *set);
ALLOGRAM_WEAK_ void allogram_resume_counters(allogram_counters *set);
/* Resets all counts of the set to 0; entered functions stay entered. */
ALLOGRAM_WEAK_ void allogram_reset_counters(allogram_counters *set);
/* Renames the set's process, for example when the virtual machine registers it. */
ALLOGRAM_WEAK_ void allogram_rename_counters(allogram_counters *set, const char *process);
/* Adds COUNT and WORDS to counts of the set that belong to no function. If WORDS is
 * ALLOGRAM_UNKNOWN_WORDS in any call, reports show that these words of the set are not known. */
#define ALLOGRAM_UNKNOWN_WORDS (~(uint64_t)0)
enum allogram_apart {
    ALLOGRAM_MESSAGES = 0,  /* messages that were copied to the process */
    ALLOGRAM_ARGUMENTS = 1, /* arguments that were copied to the process at its start */
    ALLOGRAM_PROFILER = 2,  /* words that the counting itself allocated on the program's heap */
};
ALLOGRAM_WEAK_ void allogram_tell_apart(allogram_counters *set, enum allogram_apart what,
                                        uint64_t count, uint64_t words);
/* Report a collection of the process's own heap, which the current function caused. Use the two
 * functions like allogram_gc_begin and allogram_gc_end; but one thread may call the first and
 * another thread the second. */
ALLOGRAM_WEAK_ void allogram_begin_counters_gc(allogram_counters *set, uint64_t needed_bytes,
                                               uint64_t heap_bytes);
ALLOGRAM_WEAK_ void allogram_end_counters_gc(allogram_counters *set, const char *kind,
                                             uint64_t heap_bytes);
struct allogram_path { /* the counts of a path of calls so far */
    /* node: the number of this path; parent: the number of its caller's path, smaller than node; 0:
     * no counted caller */
    uint32_t node, parent;
    allogram_function function;
    uint32_t reserved;
    uint64_t calls, words, ns;
};
/* Calls VISIT for each counted path, callers before callees; node 0 is the path outside of all
 * functions. ns is 0 with ALLOGRAM_CLOCK. No set may be made, freed or reset until this function
 * returns. */
ALLOGRAM_WEAK_ void allogram_visit_counters(allogram_counters *set, void *context,
                                            void (*visit)(void *context,
                                                          const struct allogram_path *path));

/* ---- frames of a virtual machine ------------------------------------------------------------
 *
 * The native stack of an interpreter does not contain the functions of the program that it runs. A
 * walk callback supplies them whenever this thread's stack is recorded: for the heaps of the
 * program, for malloc, for mappings and for collections. Reports show them between the native
 * frames in the order of the calls, as `[lua] f file:line`, with the runtime of the function. */

struct allogram_frame {
    /* a function that is not registered is shown as [no registered function] */
    allogram_function function;
    uint32_t line; /* the line being executed; 0: the line of the function */
    /* Any address inside the native frame of the interpreter that executes the function, such as
     * that of a local variable, saved when the function began. Several functions may have the same
     * position. NULL: that of the previous frame in the array. */
    const void *position;
};
/* The position of the array's last frame if its function has no caller and the virtual machine runs
 * generated code on a separate stack. Then all native frames belong to functions that the array's
 * innermost function called, the unwinding of native frames ends at the generated code, and the
 * stack counts as complete. */
#define ALLOGRAM_OUTERMOST ((const void *)UINTPTR_MAX)
/* Writes at most `most` frames, the innermost first, and returns their number. The callback is
 * called during allocations, maybe in a signal handler or while the interpreter changes its own
 * stack. So it may only read, and must not allocate, wait or leave by longjmp; but it may register
 * functions. The variables that it reads should be volatile if the same source file calls malloc,
 * because compilers assume that malloc calls no function of the program. */
typedef size_t (*allogram_walk)(void *context, struct allogram_frame *frames, size_t most);
/* Sets the calling thread's walk callback, replacing the previous one; NULL: none. Each thread has
 * its own callback. Returns 0; -ENOSPC: four virtual machines supply frames of this thread already;
 * -ENOSYS: there is no library. The callback stays set in later sessions and in a forked child. A
 * callback costs about 100 ns per recorded event, and 5 ns for each frame of the stack. */
ALLOGRAM_WEAK_ int allogram_set_walk(allogram_walk walk, void *context);

/* ---- what the inline functions below call -------------------------------------------------- */

/* The bits of allogram_mode_. */
enum {
    ALLOGRAM_TELLS_ = 1,   /* a session records */
    ALLOGRAM_SAMPLES_ = 2, /* a tracker samples */
    ALLOGRAM_FREES_ = 4,   /* a tracker samples or has blocks, so it needs their frees */
    ALLOGRAM_EACH_ = 8,    /* a tracker samples every block */
    ALLOGRAM_COUNTS_ = 16, /* function counters count */
    ALLOGRAM_RATED_ = 32   /* the session samples: it needs only the allocations that are samples */
};
extern ALLOGRAM_WEAK_ volatile uint32_t allogram_mode_;
/* The offset from the thread pointer to the thread's counter of bytes (see allogram_left_). The
 * counter itself cannot be a weak thread-local variable, because in a program without the library
 * the linker assumes a fixed offset for such a variable. */
extern ALLOGRAM_WEAK_ volatile long allogram_left_offset_;
ALLOGRAM_WEAK_ void allogram_tell_alloc_(allogram_heap heap, uint64_t address, size_t bytes,
                                         allogram_type type);
struct allogram_block;
ALLOGRAM_WEAK_ void allogram_tell_allocs_(allogram_heap heap, const struct allogram_block *blocks,
                                          size_t n_blocks);
ALLOGRAM_WEAK_ void allogram_tell_free_(allogram_heap heap, uint64_t address);
ALLOGRAM_WEAK_ void allogram_tell_realloc_(allogram_heap heap, uint64_t address,
                                           uint64_t new_address, size_t bytes, allogram_type type);
ALLOGRAM_WEAK_ void allogram_tell_collect_(allogram_heap heap, uint64_t address);
ALLOGRAM_WEAK_ void allogram_tell_move_(allogram_heap heap, uint64_t address, uint64_t new_address);
ALLOGRAM_WEAK_ int allogram_tell_block_type_(allogram_heap heap, uint64_t address,
                                             allogram_type type);
ALLOGRAM_WEAK_ void allogram_tell_promote_(allogram_heap heap, uint64_t address);
ALLOGRAM_WEAK_ void allogram_tell_complete_(allogram_heap heap, uint64_t address);
ALLOGRAM_WEAK_ void allogram_tell_map_(allogram_heap heap, uint64_t address, size_t bytes);
ALLOGRAM_WEAK_ void allogram_tell_unmap_(allogram_heap heap, uint64_t address, size_t bytes);
ALLOGRAM_WEAK_ void allogram_tell_gc_begin_(allogram_heap heap, uint64_t needed_bytes,
                                            uint64_t heap_bytes);
ALLOGRAM_WEAK_ void allogram_tell_gc_end_(allogram_heap heap, const char *kind,
                                          uint64_t heap_bytes);
ALLOGRAM_WEAK_ void allogram_count_enter_(allogram_counters *set, allogram_function function);
ALLOGRAM_WEAK_ void allogram_count_caller_(allogram_counters *set, allogram_function function);
ALLOGRAM_WEAK_ void allogram_count_leave_(allogram_counters *set);
ALLOGRAM_WEAK_ void allogram_count_leave_to_(allogram_counters *set, uint64_t depth);
ALLOGRAM_WEAK_ void allogram_count_tail_call_(allogram_counters *set, allogram_function function);
ALLOGRAM_WEAK_ void allogram_count_words_(allogram_counters *set, uint64_t words);
ALLOGRAM_WEAK_ void allogram_count_time_(allogram_counters *set, uint64_t ns);
ALLOGRAM_WEAK_ uint64_t allogram_count_depth_(allogram_counters *set);
ALLOGRAM_WEAK_ void allogram_count_step_(allogram_counters *set, uint64_t depth,
                                         allogram_function function, uint64_t words, uint64_t ns);
ALLOGRAM_WEAK_ void allogram_count_calls_(allogram_counters *set, allogram_function function,
                                          uint64_t calls, uint64_t words, uint64_t ns);

/* Whether the library or the agent is present. */
ALLOGRAM_INLINE_ int allogram_is_there_(void) {
    return &allogram_mode_ != NULL;
}

/* The number of bytes that this thread may still allocate before the next allocation must be
 * reported. */
ALLOGRAM_INLINE_ uint64_t *allogram_left_(void) {
    char *thread;
    __asm__("mov %%fs:0, %0" : "=r"(thread));
    return (uint64_t *)(void *)(thread + allogram_left_offset_);
}

/* ---- events ------------------------------------------------------------------------------ */

/* Reports that a block was allocated. Call it after the allocation, in the thread that allocated.
 * The recorded stack begins at the function that calls this one. address: any number whose low 48
 * bits distinguish the heap's live blocks (a pointer, a GPU address, a handle). If the heap has a
 * live block at this address, the free of that block was not reported: that block ends now, and the
 * trace counts a repair. bytes: as requested by the program; a block of 0 bytes is counted, too; a
 * size above 2^48 - 1 is recorded as 2^48 - 1. If the heap was never registered, the event is
 * ignored; if the type was never registered, the type of the block is unknown.
 *
 * Budget: a block that is not recorded costs under 2 ns. Measured (-O2, CPU time, best of 15 rounds
 * of 2 million calls, minus the empty loop): 0 without the library, 0.6 ns without a session, 1.4
 * ns if a tracker or the recording samples and this block is not a sample. */
ALLOGRAM_INLINE_ void allogram_alloc(allogram_heap heap, uint64_t address, size_t bytes,
                                     allogram_type type) {
    if (!allogram_is_there_()) {
        return;
    }
    const uint32_t mode = allogram_mode_;
    if (mode & (ALLOGRAM_TELLS_ | ALLOGRAM_EACH_) && !(mode & ALLOGRAM_RATED_)) {
        allogram_tell_alloc_(heap, address, bytes, type);
    } else if (mode & (ALLOGRAM_SAMPLES_ | ALLOGRAM_RATED_)) {
        uint64_t *counter = allogram_left_();
        const uint64_t left = *counter;
        if (__builtin_expect(left > bytes, 1)) {
            *counter = left - bytes - 1;
        } else {
            allogram_tell_alloc_(heap, address, bytes, type);
        }
    }
}

/* allogram_alloc_together reports several blocks that were allocated together, as when a compiler
 * combines their allocations. Each block is an event with its own stack, and may be a sample if a
 * tracker samples. All blocks are recorded before the first callback runs; if a callback stops the
 * tracker or is left by a jump, the blocks after it are not sampled. pc: an address of code inside
 * the calling function, after the block's own allocation (like a return address), which replaces
 * the function's address in this block's stack; 0: the call of allogram_alloc_together. frames:
 * functions that a virtual machine's compiler inlined into the innermost function of the stack, the
 * innermost first; at most 64 are used, and their positions are ignored. */
struct allogram_block {
    uint64_t address;
    size_t bytes;
    allogram_type type;
    uint32_t n_frames;
    uintptr_t pc;
    const struct allogram_frame *frames;
};
ALLOGRAM_INLINE_ void allogram_alloc_together(allogram_heap heap,
                                              const struct allogram_block *blocks,
                                              size_t n_blocks) {
    if (allogram_is_there_() && allogram_mode_ != 0) {
        allogram_tell_allocs_(heap, blocks, n_blocks);
    }
}

/* Reports that a block is about to be freed. Call it before the free: otherwise another thread
 * could get the address and report its new block first. If the block is unknown (allocated before
 * the session, or freed twice), the event is a ghost: it is counted separately, and changes nothing
 * else. */
ALLOGRAM_INLINE_ void allogram_free(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_free_(heap, address);
    }
}

/* Reports a realloc: one free of the old block and one allocation of the new size, even if the
 * address is the same. Call it when the realloc has succeeded, before another thread can get a
 * block at the old address. */
ALLOGRAM_INLINE_ void allogram_realloc(allogram_heap heap, uint64_t address, uint64_t new_address,
                                       size_t bytes, allogram_type type) {
    if (allogram_is_there_() && allogram_mode_ != 0) {
        allogram_tell_realloc_(heap, address, new_address, bytes, type);
    }
}

/* Report memory that the heap obtained from the system (or from another heap) for its blocks, and
 * memory that the heap returned. Reports show this memory as mapped and do not count it as
 * allocated. */
ALLOGRAM_INLINE_ void allogram_map(allogram_heap heap, uint64_t address, size_t bytes) {
    if (allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_) {
        allogram_tell_map_(heap, address, bytes);
    }
}
ALLOGRAM_INLINE_ void allogram_unmap(allogram_heap heap, uint64_t address, size_t bytes) {
    if (allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_) {
        allogram_tell_unmap_(heap, address, bytes);
    }
}

/* Reports that a garbage collector found the block dead: a free without a caller. Use it like
 * allogram_free. Reports show the numbers of collected and of freed blocks separately, by heap.
 * Call it when the collector is certain: if the block may still be kept by a further check (a
 * finalizer, a weak reference), it is alive until that check. */
ALLOGRAM_INLINE_ void allogram_collect(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_collect_(heap, address);
    }
}

/* Reports that a garbage collector moved a block. The block stays the same block at another
 * address: it keeps its site, type, thread, time of allocation and tracker values. Call it between
 * allogram_gc_begin and allogram_gc_end of the heap, from any thread, after the move and before a
 * thread that uses the heap continues; then the order among threads is exact. Otherwise the order
 * is as exact as the trace's clock. If blocks slide, report them in an order in which each
 * destination is free: a move to the address of a live block ends that block, and the trace counts
 * a repair. A move of an unknown block, or to its own address, is ignored. If a move was not
 * reported, the free of the block is a ghost. Between pause and resume moves are not recorded. */
ALLOGRAM_INLINE_ void allogram_move(allogram_heap heap, uint64_t address, uint64_t new_address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_move_(heap, address, new_address);
    }
}

/* Sets the type of a block whose type was not known when the block was allocated, for example
 * because a virtual machine writes the object's header later. Call it at any time until the block's
 * end, from any thread, but not from a signal handler. Returns 1 if the block has this type now.
 * Then all counts are as if the type had been known at the allocation, with one exception: a peak
 * before this call keeps the block without this type. Returns 0 if nothing was changed: the type
 * was never registered or is 0; the block's heap was registered without has_late_types; the session
 * is paused; or the block is freed or was not recorded. If the function is called several times for
 * one block, the last type is valid. */
ALLOGRAM_INLINE_ int allogram_block_type(allogram_heap heap, uint64_t address, allogram_type type) {
    return allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_
               ? allogram_tell_block_type_(heap, address, type)
               : 0;
}

/* Report that a collection begins and ends; the thread that runs the collection calls both. Call
 * allogram_gc_begin in the function that needs memory, so that the recorded stack is that of the
 * allocation that caused the collection. Between the two calls, report dead blocks with
 * allogram_collect. needed_bytes: size of the request for which there was no room. heap_bytes:
 * bytes in use before the collection, and after it; 0: unknown. kind: "minor", "major" ... A begin
 * without an end, or an end without a begin, is not recorded. */
ALLOGRAM_INLINE_ void allogram_gc_begin(allogram_heap heap, uint64_t needed_bytes,
                                        uint64_t heap_bytes) {
    if (allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_) {
        allogram_tell_gc_begin_(heap, needed_bytes, heap_bytes);
    }
}
ALLOGRAM_INLINE_ void allogram_gc_end(allogram_heap heap, const char *kind, uint64_t heap_bytes) {
    if (allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_) {
        allogram_tell_gc_end_(heap, kind, heap_bytes);
    }
}

/* Reports that a garbage collector promoted the block to a generation that lives longer. Promotions
 * are counted by heap, and trackers are called. If the block was also moved, report the move first;
 * address is then the new address. */
ALLOGRAM_INLINE_ void allogram_promote(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_promote_(heap, address);
    }
}
/* Reports that a constructor has finished the object in this block. Only trackers are called;
 * nothing is recorded. */
ALLOGRAM_INLINE_ void allogram_complete(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & ALLOGRAM_FREES_) {
        allogram_tell_complete_(heap, address);
    }
}

/* ---- counting ----------------------------------------------------------------------------- */

ALLOGRAM_INLINE_ int allogram_is_counted_(const allogram_counters *set) {
    return set != NULL && allogram_is_there_() && (allogram_mode_ & ALLOGRAM_COUNTS_) != 0;
}

/* The current function called `function`. Measured (-O2, CPU time, best of 3 rounds of 20 million):
 * 25 ns for an enter with its leave, 63 ns with the clock. The depth of calls is limited only by
 * the number of paths of a set (1,048,559; each level of a recursion is a path). If this number is
 * reached or there is no memory, a call is counted as lost, and its counts are added to the
 * innermost function that has a path. */
ALLOGRAM_INLINE_ void allogram_enter(allogram_counters *set, allogram_function function) {
    if (allogram_is_counted_(set)) {
        allogram_count_enter_(set, function);
    }
}
/* Like allogram_enter, but counts no call: `function` is the caller of the function that is entered
 * next, and its own call was not reported. */
ALLOGRAM_INLINE_ void allogram_enter_caller(allogram_counters *set, allogram_function function) {
    if (allogram_is_counted_(set)) {
        allogram_count_caller_(set, function);
    }
}
/* The current function returned. The call is ignored if no function is entered, because the session
 * may have begun after the function was entered. */
ALLOGRAM_INLINE_ void allogram_leave(allogram_counters *set) {
    if (allogram_is_counted_(set)) {
        allogram_count_leave_(set);
    }
}
/* The current function ended with a tail call of `function`, which replaces it: the caller stays
 * the same, and one leave ends both. If no function is entered, allogram_tail_call acts as
 * allogram_enter. */
ALLOGRAM_INLINE_ void allogram_tail_call(allogram_counters *set, allogram_function function) {
    if (allogram_is_counted_(set)) {
        allogram_count_tail_call_(set, function);
    }
}
/* The number of functions that are entered and not left. A function that will catch an exception
 * saves this number for allogram_leave_to. 0 if nothing is counted. */
ALLOGRAM_INLINE_ uint64_t allogram_depth(allogram_counters *set) {
    return allogram_is_counted_(set) ? allogram_count_depth_(set) : 0;
}
/* An exception ended functions: leaves functions until `depth` functions remain. It does nothing if
 * at most `depth` functions are entered. */
ALLOGRAM_INLINE_ void allogram_leave_to(allogram_counters *set, uint64_t depth) {
    if (allogram_is_counted_(set)) {
        allogram_count_leave_to_(set, depth);
    }
}
/* The current function itself allocated `words`. If no function is entered, the words are counted
 * under the name [no registered function]. */
ALLOGRAM_INLINE_ void allogram_count_words(allogram_counters *set, uint64_t words) {
    if (allogram_is_counted_(set)) {
        allogram_count_words_(set, words);
    }
}
/* The current function itself took `ns`. The call is ignored if no function is entered, and with
 * ALLOGRAM_CLOCK. */
ALLOGRAM_INLINE_ void allogram_count_time(allogram_counters *set, uint64_t ns) {
    if (allogram_is_counted_(set)) {
        allogram_count_time_(set, ns);
    }
}

/* Has the effect of allogram_count_words, allogram_count_time, allogram_leave_to and
 * allogram_enter, for tracers of a virtual machine: the current function allocated `words` and took
 * `ns`; then functions are left until `depth` remain; then `function` is entered, unless it is 0.
 * It costs a third of the time of the four calls. words may be (uint64_t)-N if the function gave
 * back N words that were counted for it; ns may be (uint64_t)-N if N ns too many were counted. No
 * count becomes negative. */
ALLOGRAM_INLINE_ void allogram_step(allogram_counters *set, uint64_t depth,
                                    allogram_function function, uint64_t words, uint64_t ns) {
    if (allogram_is_counted_(set)) {
        allogram_count_step_(set, depth, function, words, ns);
    }
}

/* For programs that read a virtual machine's own counters: adds these counts to `function`, as
 * called by the current function, without entering `function`. The counts are those since the last
 * report of this function. ns is ignored with ALLOGRAM_CLOCK. */
ALLOGRAM_INLINE_ void allogram_count_calls(allogram_counters *set, allogram_function function,
                                           uint64_t calls, uint64_t words, uint64_t ns) {
    if (allogram_is_counted_(set)) {
        allogram_count_calls_(set, function, calls, words, ns);
    }
}

/* ---- wrappers that also work without the library -------------------------------------------- */

ALLOGRAM_INLINE_ int allogram_start(const struct allogram_options *options, char *ret_message,
                                    size_t message_bytes) {
    enum { NO_LIBRARY = -38 }; /* -ENOSYS */
    static const char why[] = "the program is not linked with liballogram";
    if (allogram_is_there_()) {
        return allogram_session_start(options, ret_message, message_bytes);
    }
    if (ret_message != NULL && message_bytes > 0) {
        const size_t whole = sizeof(why) - 1;
        const size_t length = whole < message_bytes ? whole : message_bytes - 1;
        __builtin_memcpy(ret_message, why, length);
        ret_message[length] = '\0';
    }
    return NO_LIBRARY;
}
ALLOGRAM_INLINE_ int allogram_stop(void) {
    enum { NO_SESSION = -2 }; /* -ENOENT */
    return allogram_is_there_() ? allogram_session_stop() : NO_SESSION;
}
ALLOGRAM_INLINE_ const char *allogram_trace(void) {
    return allogram_is_there_() ? allogram_session_trace() : "";
}
ALLOGRAM_INLINE_ void allogram_pause(void) {
    if (allogram_is_there_()) {
        allogram_session_pause();
    }
}
ALLOGRAM_INLINE_ void allogram_resume(void) {
    if (allogram_is_there_()) {
        allogram_session_resume();
    }
}
ALLOGRAM_INLINE_ int allogram_reset(void) {
    enum { NO_SESSION = -2 }; /* -ENOENT */
    return allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_ ? allogram_session_reset()
                                                                    : NO_SESSION;
}
ALLOGRAM_INLINE_ int allogram_snapshot(const struct allogram_snapshot_options *options,
                                       char *ret_message, size_t message_bytes) {
    enum { NO_SESSION = -2 }; /* -ENOENT */
    return allogram_is_there_() ? allogram_session_snapshot(options, ret_message, message_bytes)
                                : NO_SESSION;
}
ALLOGRAM_INLINE_ void allogram_mark(const char *name) {
    if (allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_) {
        allogram_session_mark(name);
    }
}
ALLOGRAM_INLINE_ int allogram_tracker_start(const struct allogram_tracker_options *options) {
    enum { NO_LIBRARY = -38 }; /* -ENOSYS */
    return allogram_is_there_() ? allogram_start_tracker(options) : NO_LIBRARY;
}
ALLOGRAM_INLINE_ int allogram_tracker_stop(void) {
    enum { NO_TRACKER = -2 }; /* -ENOENT */
    return allogram_is_there_() ? allogram_stop_tracker() : NO_TRACKER;
}
ALLOGRAM_INLINE_ int allogram_tracker_discard(int tracker) {
    enum { NO_TRACKER = -2 }; /* -ENOENT */
    return allogram_is_there_() ? allogram_discard_tracker(tracker) : NO_TRACKER;
}
ALLOGRAM_INLINE_ allogram_heap allogram_heap_new(const struct allogram_heap_options *options) {
    return allogram_is_there_() ? allogram_register_heap(options) : 0;
}
ALLOGRAM_INLINE_ allogram_type allogram_type_new(const char *name, const char *runtime) {
    return allogram_is_there_() ? allogram_register_type(name, runtime) : 0;
}
ALLOGRAM_INLINE_ allogram_label allogram_label_new(const char *name) {
    return allogram_is_there_() ? allogram_register_label(name) : 0;
}
ALLOGRAM_INLINE_ allogram_label allogram_label_set(allogram_label label) {
    return allogram_is_there_() ? allogram_set_label(label) : 0;
}
ALLOGRAM_INLINE_ int allogram_walk_set(allogram_walk walk, void *context) {
    enum { NO_LIBRARY = -38 }; /* -ENOSYS */
    return allogram_is_there_() ? allogram_set_walk(walk, context) : NO_LIBRARY;
}
ALLOGRAM_INLINE_ allogram_function
allogram_function_new(const struct allogram_function_options *options) {
    return allogram_is_there_() ? allogram_register_function(options) : 0;
}
ALLOGRAM_INLINE_ void allogram_runtime(const struct allogram_runtime_options *options) {
    if (allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_) {
        allogram_tell_runtime(options);
    }
}
ALLOGRAM_INLINE_ allogram_counters *allogram_counters_new(
    const struct allogram_counters_options *options) {
    return allogram_is_there_() ? allogram_make_counters(options) : NULL;
}
ALLOGRAM_INLINE_ void allogram_counters_free(allogram_counters *set) {
    if (set != NULL) {
        allogram_free_counters(set);
    }
}
ALLOGRAM_INLINE_ void allogram_counters_tell(allogram_counters *set) {
    if (set != NULL) {
        allogram_tell_counters(set);
    }
}
ALLOGRAM_INLINE_ void allogram_counters_pause(allogram_counters *set) {
    if (set != NULL) {
        allogram_pause_counters(set);
    }
}
ALLOGRAM_INLINE_ void allogram_counters_resume(allogram_counters *set) {
    if (set != NULL) {
        allogram_resume_counters(set);
    }
}
ALLOGRAM_INLINE_ void allogram_counters_rename(allogram_counters *set, const char *process) {
    if (set != NULL) {
        allogram_rename_counters(set, process);
    }
}
ALLOGRAM_INLINE_ void allogram_count_apart(allogram_counters *set, enum allogram_apart what,
                                           uint64_t count, uint64_t words) {
    if (allogram_is_counted_(set)) {
        allogram_tell_apart(set, what, count, words);
    }
}
ALLOGRAM_INLINE_ void allogram_counters_gc_begin(allogram_counters *set, uint64_t needed_bytes,
                                                 uint64_t heap_bytes) {
    if (allogram_is_counted_(set)) {
        allogram_begin_counters_gc(set, needed_bytes, heap_bytes);
    }
}
ALLOGRAM_INLINE_ void allogram_counters_gc_end(allogram_counters *set, const char *kind,
                                               uint64_t heap_bytes) {
    if (allogram_is_counted_(set)) {
        allogram_end_counters_gc(set, kind, heap_bytes);
    }
}
ALLOGRAM_INLINE_ void allogram_counters_visit(allogram_counters *set, void *context,
                                              void (*visit)(void *context,
                                                            const struct allogram_path *path)) {
    if (set != NULL) {
        allogram_visit_counters(set, context, visit);
    }
}
ALLOGRAM_INLINE_ void allogram_counters_reset(allogram_counters *set) {
    if (set != NULL) {
        allogram_reset_counters(set);
    }
}

#ifdef __cplusplus
}
#endif

#endif
