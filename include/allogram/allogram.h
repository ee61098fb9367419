/* allogram.h: for programs, allocators and runtimes that report their own memory. It is one long
 * file because it is the only one that they include.
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
 *         (void)allogram_start(NULL, NULL);    // a trace beside the program; not needed under
 *         ...                                  // `allogram run`
 *         allogram_alloc(nodes, (uintptr_t)block, bytes, tree_node);    // after the allocation
 *         ...
 *         allogram_free(nodes, (uintptr_t)block);                       // before the free
 *         ...
 *         (void)allogram_stop();
 *     }
 *
 *     cc program.c $(pkg-config --cflags --libs allogram)
 *
 * Without the library and without the profiler the program still links and runs: every function
 * below then only tests an address that is NULL. Under `allogram run` the preloaded agent
 * implements the library's functions: one trace contains malloc and the heaps of the program.
 *
 * GLOSSARY
 *
 * block       one live allocation of a heap: an address and a size.
 * site        where blocks come from: a stack of calls, with the type and the heap.
 * heap        one allocator, or one space of a garbage collector; each heap has an address space of
 *             its own, so a block may lie inside a block of another heap, or in memory that no CPU
 *             sees. domain: the kind of memory (cpu, gpu, external). backing: memory that holds
 *             other heaps' blocks, and is not counted with them.
 * type        what a block is, in the program's terms. label: the current work (a request, a
 *             phase), which is attached to the blocks that a thread allocates.
 * sample, interval   a sampled block represents others; interval is the mean number of bytes
 *             between samples.
 * allocated, in use, freed   all blocks ever allocated; those that are live; those that are dead.
 * move, promote, collect   operations of a garbage collector: a block gets another address and
 *             stays the same block; it moves to a generation that lives longer; it is found dead.
 *             free is the program's own operation.
 * open, closed, ghost   allocated and never freed; allocated and freed; freed, but its allocation
 *             was never seen.
 * session     the time between start and stop; it writes one trace.
 * function    one of the program, or of the virtual machine in it, whose calls are counted.
 * counters    a counter set: how often functions called each other in one thread, or in one process
 *             of a virtual machine; own: of a function itself, without its callees.
 * tracker     the program's own callbacks for sampled blocks.
 *
 * RULES FOR ALL FUNCTIONS
 *
 * Threads: any thread may call any function at any time, without registration. Events of several
 * threads at one address must be reported in the order in which they happen: report an allocation
 * after it, a free before it.
 *
 * Signals: the events (alloc ... gc_end, except block_type), mark and label_set may be called from
 * a signal handler, whatever it interrupted; the other functions may not. Function counters: see
 * there.
 *
 * Errors: 0, or a negative errno. Events have no result: an event that could not be recorded is
 * counted by its cause in the trace. errno is unchanged. Before start, after stop and while paused,
 * events do nothing. exit stops the session in the library's own destructor: events of the
 * program's exit handlers and destructors that run before it are recorded.
 *
 * Strings are copied. Sizes are in bytes. An options struct begins with its own size; zero means
 * default in every field. */
#ifndef ALLOGRAM_H
#define ALLOGRAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ALLOGRAM_WEAK_ __attribute__((weak, visibility("default")))
/* Always inlined and artificial: stacks begin at the function that calls them. */
#define ALLOGRAM_INLINE_ static __inline__ __attribute__((always_inline, artificial, unused))

/* ---- sessions ---------------------------------------------------------------------------- */

struct allogram_options {
    size_t size;
    const char *output; /* of the trace: %e program, %p pid, %t time; NULL: allogram.%e.%p.allogram
                           in the current folder. Never overwrites: "-2" is put before the
                           extension. */
    uint32_t depth;     /* frames kept of a stack; 0: 256 */
    uint32_t threads;   /* ALLOGRAM_THIS_THREAD: what the thread that starts it allocates; the end
                           of such a block counts by whatever thread */
    const char *filter; /* what is recorded, decided before any cost: domain=cpu|gpu|external,
                           allocator=NAME, heap=NAME, size=LOW..HIGH (bytes, both inclusive, one of
                           them may be missing), type=GLOB (* any text, ? any character; of a block
                           whose type is not known yet only "!type=" holds), joined by commas, all
                           must hold, "!" before a term negates it. NULL: all. With sizes, types or
                           one thread each recorded block is remembered: at most 5.6 million live
                           ones, the others are lost. Under `allogram run` its --filter counts */
};
enum { ALLOGRAM_ALL_THREADS = 0, ALLOGRAM_THIS_THREAD = 1 };

/* Starts a session: every event from now on is recorded in a trace. options NULL: all defaults.
 * ret_message: on failure receives one line, truncated to message_bytes including its NUL, or NULL;
 * untouched on success. 512 bytes hold every line. -EALREADY: a session runs already (also if
 * `allogram run` started it: then nothing is changed and all is recorded there); -EINVAL: an option
 * is wrong; -ENOSPC, -EACCES ...: the trace cannot be written. -ENOSYS: the program is not linked
 * with the library. May allocate with malloc. */
ALLOGRAM_WEAK_ int allogram_session_start(const struct allogram_options *options, char *ret_message,
                                          size_t message_bytes);
/* Ends the session that allogram_start began and seals its trace. Live blocks are open in it.
 * -ENOENT: no session runs, or it is that of `allogram run`, which continues. exit also ends a
 * running session. The events of a killed program are in the trace once `allogram check` has been
 * called on it. */
ALLOGRAM_WEAK_ int allogram_session_stop(void);
/* For `allogram attach`, and for tools that do the same: starts a session into the live file of
 * another process, which writes the trace. stop ends it; its memory is freed when the next one is
 * joined. ret_message, message_bytes and results as for start. No event may be in progress in any
 * thread when a second one is joined. */
ALLOGRAM_WEAK_ int allogram_session_join(const char *live_path, char *ret_message,
                                         size_t message_bytes);
/* Writes the function counters, as the end of the session would: a program that is killed
 * afterwards loses none of them. Takes time in proportion to the number of paths; not for signal
 * handlers. */
ALLOGRAM_WEAK_ void allogram_session_tell(void);
/* The path of the session's trace (of the last session's, if none runs); "" before the first. For a
 * joined session: the live file. */
ALLOGRAM_WEAK_ const char *allogram_session_trace(void);
/* Between pause and resume nothing is recorded, neither allocations nor frees. So blocks that are
 * freed in between stay open in the trace until their address is used again. Not nested: the first
 * resume ends all pauses. Does nothing without a session. */
ALLOGRAM_WEAK_ void allogram_session_pause(void);
ALLOGRAM_WEAK_ void allogram_session_resume(void);
/* Records a moment with a name, for readers of the trace. */
ALLOGRAM_WEAK_ void allogram_session_mark(const char *name);
/* Drops the counts so far: reports begin here, like those of `report --from` with --older. The live
 * blocks stay known: they are in use, and their frees are not ghosts. Earlier events stay in the
 * trace, for reports with --from. May be called again; the last call is valid. 0; -ENOENT: nothing
 * is recorded (no session, or paused). */
ALLOGRAM_WEAK_ int allogram_session_reset(void);

struct allogram_snapshot_options {
    size_t size;
    const char *output; /* the name of a file, as for a session */
    /* Instead of a file: receives the trace's bytes in order, in pieces; a result other than 0 ends
     * the snapshot. Called by the calling thread, while a lock of the library is held: it may
     * report events, but not start or stop a session or take a snapshot. */
    int (*write)(void *context, const void *data, size_t bytes);
    void *context;
};
/* Writes a complete, sealed trace of what the session has recorded so far, while the session
 * continues: all events that this thread reported before, and those that others reported before the
 * call. For other tools: `allogram export SNAPSHOT --to=pprof -o FILE` (or folded, dhat ...). Takes
 * some 20 ns per event, and memory for the tables; other threads continue meanwhile. May allocate
 * with malloc. 0; -ENOENT: there is no session; -ENOTSUP: it is that of `allogram run`, which has
 * --dump-at; -EINVAL: neither or both of output and write, or options of another version;
 * -ECANCELED: write ended it; -ENOSPC ...: it cannot be written. ret_message: as for
 * allogram_start. */
ALLOGRAM_WEAK_ int allogram_session_snapshot(const struct allogram_snapshot_options *options,
                                             char *ret_message, size_t message_bytes);

/* ---- heaps, types, labels ---------------------------------------------------------------- */

typedef uint32_t allogram_heap;  /* 0: no heap; every function accepts it and does nothing */
typedef uint32_t allogram_type;  /* 0: unknown */
typedef uint32_t allogram_label; /* 0: none */

/* How its blocks end: freed by the program, or by a garbage collector, which may move live ones. */
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
    const char *runtime;   /* of a virtual machine: "lua"; NULL: none */
    uint32_t domain;       /* enum allogram_domain; another number is -> external */
    uint32_t is_backing;   /* 1: its blocks hold other heaps' blocks */
    /* The following fields are not in the options of programs compiled before they were added. */
    uint32_t kind; /* enum allogram_heap_kind; another number is 0 */
    /* 1: allogram_block_type may be called for its blocks. Each block then costs 56 bytes while it
     * lives, and 2 us */
    uint32_t has_late_types;
    /* the unit of the heap's own counters: "words", "objects"; NULL: "bytes". Shown in reports;
     * sizes passed to this interface are always bytes */
    const char *unit;
};

/* Registers a heap. The same name, allocator and domain give the same handle (kind, unit and the
 * rest are those of the first call). 0: there are too many (192), or there is no library: its
 * events are then ignored. Takes a lock of the library briefly; may be called before and during a
 * session. */
ALLOGRAM_WEAK_ allogram_heap allogram_register_heap(const struct allogram_heap_options *options);
/* The same for a type (at most 65,535; an allocator that gets type tokens from a compiler, as from
 * clang's -fsanitize=alloc-token, reports each token as one: examples/alloc_tokens.c), and for a
 * label (at most 65,535; runtime is not used). */
ALLOGRAM_WEAK_ allogram_type allogram_register_type(const char *name, const char *runtime);
ALLOGRAM_WEAK_ allogram_label allogram_register_label(const char *name);
/* From now on the blocks that this thread allocates, in any heap, carry the label. Returns the
 * previous label, to be restored at the end of the scope, or to be passed to the thread that
 * continues the work. `report --by=label` adds up by labels, `--view=blocks` shows that of each
 * block, and pprof shows them as labels. */
ALLOGRAM_WEAK_ allogram_label allogram_set_label(allogram_label label);

/* ---- trackers ----------------------------------------------------------------------------- */

struct allogram_sample {
    allogram_heap heap;
    allogram_type type;
    uint64_t address;
    size_t bytes;
    /* Points of the sampler that fell into the block, on average (bytes + 1) / interval; the sum of
     * n_samples * interval over all samples estimates the allocated bytes, plus one per block. */
    uint64_t n_samples;
};
enum { ALLOGRAM_EVERY_BLOCK = 1 };
struct allogram_tracker_options {
    size_t size;
    uint64_t interval_bytes; /* mean bytes between samples; 0: 512 KiB; ALLOGRAM_EVERY_BLOCK: each
                                block is a sample, once */
    uint64_t seed;           /* 0: random */
    /* A sampled block was allocated; called by the thread that reported it, on its stack, at once.
     * The result is kept for the block; NULL: no further callbacks for it. */
    void *(*on_alloc)(void *context, const struct allogram_sample *sample);
    /* For a block with a value: it was promoted, is complete, is about to be freed. on_free is
     * called once for each value, by the thread that reported the free. Each may be NULL. For a
     * runtime that `allogram run` records by itself: on_free of blocks that its garbage collector
     * found dead is called when the collection is over and its lock released, by a thread that
     * allocates then. Boehm's collector and Crystal report to trackers; on_complete: the object's
     * type number is set. */
    void (*on_promote)(void *context, void *value);
    void (*on_complete)(void *context, void *value);
    void (*on_free)(void *context, void *value);
    void *context;
};
/* Starts sampling of all heaps and threads, with or without a session. Returns the tracker's
 * number, at least 1. -EALREADY: one samples already; -EAGAIN: 64 are stopped and have blocks;
 * -EINVAL; -ENOSYS: without the library. A thread notices after at most 16 KiB of its allocations,
 * at once with ALLOGRAM_EVERY_BLOCK.
 *
 * Inside a callback everything is allowed: allocating and freeing (the callback's allocations are
 * not sampled), waiting for other threads that run callbacks of their own, stopping, discarding and
 * starting trackers, ending the thread, leaving by longjmp or a C++ exception (then the block is
 * not tracked). If a block is freed while its on_alloc runs, its on_free follows directly.
 * Callbacks run where the event is reported: in a signal handler if it is reported there. */
ALLOGRAM_WEAK_ int allogram_start_tracker(const struct allogram_tracker_options *options);
/* Ends sampling; callbacks for blocks with a value continue until they are freed, and the number
 * stays the tracker's until then. -ENOENT: none samples. */
ALLOGRAM_WEAK_ int allogram_stop_tracker(void);
/* Forgets the blocks of a stopped tracker; there are no further callbacks for them. -EBUSY: it
 * samples; -ENOENT: there is no tracker with this number, or it has no blocks. */
ALLOGRAM_WEAK_ int allogram_discard_tracker(int tracker);

/* ---- function counters --------------------------------------------------------------------
 *
 * For callers that know when functions are entered and left: an interpreter, a compiler that
 * instruments, or a few calls written by hand. `allogram report --view=functions` then shows calls,
 * own words and their share, words per call and time of each function; --callers=FUNCTION and
 * --tree show the paths.
 *
 * A counter set is used by one thread at a time (a process of a virtual machine may move from
 * thread to thread); different sets are independent, and enter and leave take no lock. A signal
 * handler may use a set of its own. Using one set from two threads at once is an error that the
 * library does not detect.
 *
 * It counts while a session runs (so under `allogram run` always), from 0 in each session. The
 * counts are written into the trace by allogram_stop, at exit, when the set is freed, and by
 * allogram_counters_tell; under `allogram run` also by _exit, _Exit and quick_exit (before the
 * handlers of that one). Counts that are not written when the program ends otherwise (a signal,
 * exec) are not in the trace. */

typedef uint32_t allogram_function; /* 0: not a registered one */
/* every function accepts NULL and does nothing */
typedef struct allogram_counters allogram_counters;

struct allogram_function_options {
    size_t size;
    const char *name;    /* as its programmers write it */
    const char *file;    /* NULL: unknown */
    const char *runtime; /* "lua"; NULL: "c", native code */
    uint32_t line;       /* first line; 0: unknown */
    uint32_t reserved;
};
/* Registers a function. The same name, file, line and runtime give the same handle. 0: there is no
 * name, there are too many (1,048,575), or there is no library: its calls are then counted for [no
 * registered function]. Takes a lock briefly; may be called before and during a session. */
ALLOGRAM_WEAK_ allogram_function
allogram_register_function(const struct allogram_function_options *options);

struct allogram_runtime_options {
    size_t size;
    const char *name, *version; /* "lua", "5.4.6" */
    /* one line: why it is not counted, or what is missing; NULL: none */
    const char *note;
    uint32_t is_hooked; /* 1: it is counted */
    uint32_t reserved;
};
/* Reports a virtual machine of this program, for the first lines of a report; of several with one
 * name the last one is valid. Call it in a session; it is not repeated in the next one. Does
 * nothing if options is NULL or of another version, or without a name. */
ALLOGRAM_WEAK_ void allogram_tell_runtime(const struct allogram_runtime_options *options);

enum { ALLOGRAM_NO_CLOCK = 0, ALLOGRAM_CLOCK = 1 };
enum { ALLOGRAM_EVERY_LEVEL = 0, ALLOGRAM_FOLD_RECURSION = 1 };
struct allogram_counters_options {
    size_t size;
    const char *runtime; /* the runtime of its functions; NULL: "c" */
    /* its name, if it is not a thread; NULL: the name of the first thread that uses it */
    const char *process;
    const char *initial_call; /* the function that the process was started with; NULL: unknown */
    uint32_t word_bytes;      /* 0: 8 */
    /* ALLOGRAM_CLOCK: the library measures the time from step to step; ALLOGRAM_NO_CLOCK:
     * allogram_count_time reports it */
    uint32_t clock;
    /* ALLOGRAM_EVERY_LEVEL: a path for each level of a recursion; ALLOGRAM_FOLD_RECURSION: its
     * levels are one path, as long as the inclusive count of no function changes */
    uint32_t recursion;
    uint32_t reserved;
};
/* Makes a set at 0, outside of all functions. options NULL: all defaults. NULL: no memory, options
 * of another version, or without the library. Costs a page, and 48 bytes for each path of calls
 * from the 64th on. */
ALLOGRAM_WEAK_ allogram_counters *allogram_make_counters(
    const struct allogram_counters_options *options);
/* Writes its counts into the trace and frees it. */
ALLOGRAM_WEAK_ void allogram_free_counters(allogram_counters *set);
/* Writes a snapshot of its counts so far; of several the last one is valid. Called by its user. */
ALLOGRAM_WEAK_ void allogram_tell_counters(allogram_counters *set);
/* Between the two, calls are followed but nothing is counted: neither calls nor words nor time. Not
 * nested. allogram_pause does the same to all sets. Called by its user. */
ALLOGRAM_WEAK_ void allogram_pause_counters(allogram_counters *set);
ALLOGRAM_WEAK_ void allogram_resume_counters(allogram_counters *set);
/* Resets all its counters to 0; entered functions stay entered. Called by its user. */
ALLOGRAM_WEAK_ void allogram_reset_counters(allogram_counters *set);
/* The process has this name from now on: it was registered. Called by its user. */
ALLOGRAM_WEAK_ void allogram_rename_counters(allogram_counters *set, const char *process);
/* Words that belong to no function and are counted separately. */
enum allogram_apart {
    ALLOGRAM_MESSAGES = 0,  /* received from others, copied */
    ALLOGRAM_ARGUMENTS = 1, /* copied for the process at its start */
    ALLOGRAM_PROFILER = 2,  /* allocated on the program's heap by counting */
};
ALLOGRAM_WEAK_ void allogram_tell_apart(allogram_counters *set, enum allogram_apart what,
                                        uint64_t count, uint64_t words);
/* A collection of the process' own heap, caused by the current function. As allogram_gc_begin and
 * _end, but different threads may report the two, one after the other. Called by its user. */
ALLOGRAM_WEAK_ void allogram_begin_counters_gc(allogram_counters *set, uint64_t needed_bytes,
                                               uint64_t heap_bytes);
ALLOGRAM_WEAK_ void allogram_end_counters_gc(allogram_counters *set, const char *kind,
                                             uint64_t heap_bytes);
struct allogram_path {     /* a path of calls as counted so far */
    uint32_t node, parent; /* parent is smaller; 0: no counted caller */
    allogram_function function;
    uint32_t reserved;
    uint64_t calls, words, ns;
};
/* Calls VISIT for each counted path, callers before callees; node 0 is outside of all functions. ns
 * is 0 if the library has the clock. No set is made, freed or reset until it returns. Called by its
 * user. */
ALLOGRAM_WEAK_ void allogram_visit_counters(allogram_counters *set, void *context,
                                            void (*visit)(void *context,
                                                          const struct allogram_path *path));

/* ---- frames of a virtual machine ------------------------------------------------------------
 *
 * An interpreter's native stack says little: readers of a report want the functions of the program
 * that it runs. A walk callback supplies them whenever this thread's stack is recorded: for the
 * heaps of the program, for malloc, for mappings and collections. They are placed among the native
 * frames in the order of the calls, as `[lua] f file:line`, with the runtime of the function. */

struct allogram_frame {
    allogram_function function; /* registered; else shown as [no registered function] */
    uint32_t line;              /* line being executed; 0: the function's own */
    /* Any address inside the native frame that interprets the function, such as that of a local
     * variable of the interpreter's loop, saved when the function began. Several functions may have
     * the same. NULL: as the previous frame in the array. */
    const void *position;
};
/* Fills frames, the innermost first, at most `most`, and returns their number. Called during
 * allocations, maybe in a signal handler or while the interpreter changes its own stack: it only
 * reads, and must not allocate, wait or jump. It may register functions. What it reads should be
 * volatile if the same file calls malloc: compilers assume that malloc calls no other function. */
typedef size_t (*allogram_walk)(void *context, struct allogram_frame *frames, size_t most);
/* Sets the calling thread's walk callback, replacing the previous one; NULL: none. Each thread has
 * its own. 0; -ENOSYS: without the library. It stays across sessions and in a forked child. Costs a
 * recorded event some 100 ns, and 5 ns for each frame of its stack. */
ALLOGRAM_WEAK_ int allogram_set_walk(allogram_walk walk, void *context);

/* ---- what the inline functions below call -------------------------------------------------- */

enum {
    ALLOGRAM_TELLS_ = 1,
    ALLOGRAM_SAMPLES_ = 2,
    ALLOGRAM_FREES_ = 4,
    ALLOGRAM_EACH_ = 8,
    ALLOGRAM_COUNTS_ = 16,
    ALLOGRAM_RATED_ = 32 /* allocations are reported when a sample is due */
};
extern ALLOGRAM_WEAK_ volatile uint32_t allogram_mode_;
/* The offset of a thread's counter from the thread pointer. The counter itself cannot be a weak
 * thread-local variable: in a program without the library a linker would assume a fixed place for
 * it. */
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

/* Bytes that this thread may still allocate before the next call. */
ALLOGRAM_INLINE_ uint64_t *allogram_left_(void) {
    char *thread;
    __asm__("mov %%fs:0, %0" : "=r"(thread));
    return (uint64_t *)(void *)(thread + allogram_left_offset_);
}

/* ---- events ------------------------------------------------------------------------------ */

/* A block was allocated: call it after the allocation, in the thread that made it. The recorded
 * stack begins at the function that calls this one. address: any number whose low 48 bits
 * distinguish the heap's live blocks (a pointer, a GPU address, a handle). A block at the address
 * of a live one means that the free of that one was not reported: it ends here, and the repair is
 * counted. bytes: as requested by the program; 0 is a block too; more than 2^48 - 1 counts as that.
 * If the heap was never registered the event is ignored; if the type was not, it is unknown.
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

/* Several blocks that were allocated together, as compilers combine them: each is an event and,
 * with a tracker, a sample of its own, and each has a stack of its own. All are recorded before the
 * first callback runs; if that callback stops the tracker or is left by a jump, the others are not
 * sampled. pc: an address of code inside the calling function, after the block's own allocation
 * (like a return address), which replaces the function's address in this block's stack; 0: the call
 * of allogram_alloc_together. frames: functions inside of all others in this block's stack (those
 * that a virtual machine's compiler inlined), the innermost first, positions ignored; at most 64
 * are used. */
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

/* A block is about to be freed: call it before the free, so that no other thread can report the
 * address first. An unknown block (allocated before the session, or freed twice) is a ghost: it is
 * counted separately, and changes nothing else. */
ALLOGRAM_INLINE_ void allogram_free(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_free_(heap, address);
    }
}

/* One free of the old block and one allocation of the new size, moved or not. Call it when the
 * realloc has succeeded, before the old address can become another block. */
ALLOGRAM_INLINE_ void allogram_realloc(allogram_heap heap, uint64_t address, uint64_t new_address,
                                       size_t bytes, allogram_type type) {
    if (allogram_is_there_() && allogram_mode_ != 0) {
        allogram_tell_realloc_(heap, address, new_address, bytes, type);
    }
}

/* Memory that the heap obtained from the system (or its parent) for its blocks, and returned. It is
 * shown as mapped, not counted as allocated. */
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

/* A garbage collector found the block dead: a free without a caller. As allogram_free; the report
 * counts the two separately, by heap. Report it when the collector is certain: a block whose death
 * depends on a further check (a finalizer, a weak reference) lives until then. */
ALLOGRAM_INLINE_ void allogram_collect(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_collect_(heap, address);
    }
}

/* A garbage collector moved a block: it stays the same block at another address, with its site,
 * type, thread, time of allocation and tracker values. Report it between allogram_gc_begin and
 * allogram_gc_end of the heap, from any thread, after the move and before a thread that uses the
 * heap continues; then the order among threads is exact, otherwise it is as exact as the trace's
 * clock. Report blocks that slide in an order in which each destination is free: a move onto a live
 * block ends that one, as an allocation there does, and the repair is counted. A move of an unknown
 * block, or to its own address, is ignored; the free of a block that moved unreported is a ghost.
 * Between pause and resume moves are not recorded either. */
ALLOGRAM_INLINE_ void allogram_move(allogram_heap heap, uint64_t address, uint64_t new_address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_move_(heap, address, new_address);
    }
}

/* The type of a block is known now, and was not when it was allocated: a virtual machine writes the
 * header after the allocator has returned, a constructor runs later. At any time until the block's
 * end, from any thread. 1: it has this type from its allocation on, wherever blocks are counted. 0:
 * the type was never registered (0: still unknown), or the block cannot be changed (its heap was
 * registered without has_late_types; allocated before the session, paused, not recorded; freed):
 * nothing has changed, and it may be called again. Of several types of one block the last is valid.
 * The contents of the peak are fixed when it is over: a type that comes later is not included. Not
 * for signal handlers. */
ALLOGRAM_INLINE_ int allogram_block_type(allogram_heap heap, uint64_t address, allogram_type type) {
    return allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_
               ? allogram_tell_block_type_(heap, address, type)
               : 0;
}

/* A collection begins and ends, both reported by the thread that runs it; call begin where memory
 * is needed, so that its stack is that of the allocation that caused the collection. Report dead
 * blocks with allogram_collect in between. needed_bytes: size of the request for which there was no
 * room; heap_bytes: in use before, and after; 0: unknown. kind: "minor", "major" ... A begin
 * without an end is not recorded, nor is an end without a begin. */
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

/* A garbage collector promoted the block to a generation that lives longer: counted by heap, and
 * reported to trackers. If that moved it, report the move first; address is the new one. */
ALLOGRAM_INLINE_ void allogram_promote(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_promote_(heap, address);
    }
}
/* A constructor has finished the block. Reported to trackers only. */
ALLOGRAM_INLINE_ void allogram_complete(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & ALLOGRAM_FREES_) {
        allogram_tell_complete_(heap, address);
    }
}

/* ---- counting ----------------------------------------------------------------------------- */

ALLOGRAM_INLINE_ int allogram_is_counted_(const allogram_counters *set) {
    return set != NULL && allogram_is_there_() && (allogram_mode_ & ALLOGRAM_COUNTS_) != 0;
}

/* The current function called this one. Measured (-O2, CPU time, best of 3 rounds of 20 million):
 * 25 ns for an enter with its leave, 63 ns with the clock. Depth is limited only by the number of
 * paths of a set (1,048,511; each level of a recursion is one). A call beyond that, or without
 * memory, is counted as lost, and its counts go to the innermost function that has a path. */
ALLOGRAM_INLINE_ void allogram_enter(allogram_counters *set, allogram_function function) {
    if (allogram_is_counted_(set)) {
        allogram_count_enter_(set, function);
    }
}
/* The current function returned. Ignored outside of all functions: a session may have begun inside
 * of some. */
ALLOGRAM_INLINE_ void allogram_leave(allogram_counters *set) {
    if (allogram_is_counted_(set)) {
        allogram_count_leave_(set);
    }
}
/* The current function ended with a call of this one, which replaces it: the caller stays the same,
 * and one leave ends it. Outside of all functions it is an enter. */
ALLOGRAM_INLINE_ void allogram_tail_call(allogram_counters *set, allogram_function function) {
    if (allogram_is_counted_(set)) {
        allogram_count_tail_call_(set, function);
    }
}
/* The number of functions entered and not left: for allogram_leave_to, in the function that will
 * catch an exception. 0 if nothing is counted. */
ALLOGRAM_INLINE_ uint64_t allogram_depth(allogram_counters *set) {
    return allogram_is_counted_(set) ? allogram_count_depth_(set) : 0;
}
/* An exception passed through functions: leaves functions until so many remain. Does nothing if
 * there are no more than that. */
ALLOGRAM_INLINE_ void allogram_leave_to(allogram_counters *set, uint64_t depth) {
    if (allogram_is_counted_(set)) {
        allogram_count_leave_to_(set, depth);
    }
}
/* The current function allocated so many words itself. Outside of all functions they count for [no
 * registered function]. */
ALLOGRAM_INLINE_ void allogram_count_words(allogram_counters *set, uint64_t words) {
    if (allogram_is_counted_(set)) {
        allogram_count_words_(set, words);
    }
}
/* The current function took so long itself. Ignored outside of all functions, and if the library
 * has the clock. */
ALLOGRAM_INLINE_ void allogram_count_time(allogram_counters *set, uint64_t ns) {
    if (allogram_is_counted_(set)) {
        allogram_count_time_(set, ns);
    }
}

/* All parts of an event in one call, for tracers of a virtual machine: the current function
 * allocated words and took ns; then it is left, with its callers, until depth remain; then function
 * is entered, unless it is 0. One third of the cost of the four calls. words may be (uint64_t)-N if
 * the function returned N words that were counted for it. */
ALLOGRAM_INLINE_ void allogram_step(allogram_counters *set, uint64_t depth,
                                    allogram_function function, uint64_t words, uint64_t ns) {
    if (allogram_is_counted_(set)) {
        allogram_count_step_(set, depth, function, words, ns);
    }
}

/* For programs that read a virtual machine's own counters: a function called by the current one did
 * all this since its last report. It is not entered. ns: ignored if the library has the clock. */
ALLOGRAM_INLINE_ void allogram_count_calls(allogram_counters *set, allogram_function function,
                                           uint64_t calls, uint64_t words, uint64_t ns) {
    if (allogram_is_counted_(set)) {
        allogram_count_calls_(set, function, calls, words, ns);
    }
}

/* ---- the same without the library ---------------------------------------------------------- */

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
