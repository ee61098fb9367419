/* allogram.h: for programs, allocators and runtimes that report their own memory. Long because it
 * is all that they include.
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
 *         allogram_free(nodes, (uintptr_t)block);                       // before the block goes
 *         ...
 *         (void)allogram_stop();
 *     }
 *
 *     cc program.c $(pkg-config --cflags --libs allogram)
 *
 * Without the library and without the profiler the program links and runs all the same: every
 * function below is then a test of an address that is not there. Under `allogram run` the preloaded
 * agent answers instead of the library: one trace has malloc and the heaps of the program.
 *
 * GLOSSARY
 *
 * block       one live allocation of a heap: an address and a size.
 * site        where blocks come from: a stack of calls, with the type and the heap.
 * heap        one allocator, or one space of a garbage collector; each heap has addresses of its
 *             own, so that a block may lie inside a block of another heap, or in memory that no CPU
 *             sees. domain: the kind of memory (cpu, gpu, external). backing: memory that holds
 *             other heaps' blocks, and is not counted with them.
 * type        what a block is, in the program's words. label: the work at hand (a request, a
 *             phase), which sticks to what a thread allocates.
 * sample, interval   a sampled block stands for others; interval is the mean number of bytes
 *             between samples.
 * allocated, in use, freed   all that was ever allocated; what of it lives; what of it is dead.
 * move, promote, collect   what a garbage collector does: a block gets another address and stays
 * the same block; it is put where it lives longer; it is found dead. free is the program's own act.
 * open, closed, ghost   allocated and never freed; allocated and freed; freed and never seen
 *             allocated.
 * session     the time between start and stop; it writes one trace.
 * function    one of the program, or of the virtual machine in it, whose calls are counted.
 * counters    a counter set: how often functions called each other in one thread, or in one process
 *             of a virtual machine; own: of a function itself, without what it called.
 * tracker     the program's own callbacks on sampled blocks.
 *
 * RULES FOR ALL FUNCTIONS
 *
 * Threads: any thread may call any function at any time, registered nowhere before. Events of
 * several threads at one address must happen in the order in which they are told: tell an
 * allocation after it, a free before it.
 * Signals: the events (alloc ... gc_end, but block_type), mark and label_set may be called from a
 * signal handler, whatever it interrupted; the other functions may not. Function counters: see
 * there. Errors: 0, or a negative errno. Events have no result: what could not be recorded is
 * counted by its cause in the trace. errno is left as it was. Before start, after stop and while
 * paused: events do nothing. exit is a stop once it has come to the library's own destructor: what
 * the program's exit handlers and destructors tell comes before that, and is recorded. Strings are
 * copied. Sizes are in bytes. An options struct begins with its own size; zero means default in
 * every field. */
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

/* Starts a session: every event from here on goes to a trace. options NULL: all defaults.
 * ret_message: gets one line on failure, cut to message_bytes with its NUL, or NULL; untouched on
 * success. 512 bytes hold every line. -EALREADY: one runs already (also where `allogram run`
 * started it: then nothing is changed and all is recorded there); -EINVAL: an option is wrong;
 * -ENOSPC, -EACCES ...: the trace cannot be written. -ENOSYS: the program is not linked with the
 * library. May allocate with malloc. */
ALLOGRAM_WEAK_ int allogram_session_start(const struct allogram_options *options, char *ret_message,
                                          size_t message_bytes);
/* Ends the session that allogram_start began and seals its trace. Blocks that live on are open in
 * it. -ENOENT: none runs, or it is that of `allogram run`, which goes on. exit does the same for
 * whom it surprises; what a killed program has told is in the trace once `allogram check` has been
 * called on it. */
ALLOGRAM_WEAK_ int allogram_session_stop(void);
/* For `allogram attach`, and for who does the same: starts a session into the live file of another
 * process, which writes the trace. stop ends it; its memory is given back when the next one is
 * joined. ret_message, message_bytes and results as those of start. No event may be under way in
 * any thread when a second one is joined. */
ALLOGRAM_WEAK_ int allogram_session_join(const char *live_path, char *ret_message,
                                         size_t message_bytes);
/* What functions counted until now is written, as the end of the session would: what is killed then
 * has lost nothing of it. Takes time by what was counted; not for signal handlers. */
ALLOGRAM_WEAK_ void allogram_session_tell(void);
/* Where the trace of the session (of the last one, when none runs) is; "" before the first. Of one
 * that was joined: the live file. */
ALLOGRAM_WEAK_ const char *allogram_session_trace(void);
/* Between the two nothing is told: not only allocations, frees as well. So blocks that are freed in
 * between stay open in the trace until their address is used again. Not nested: the first resume
 * ends all. Nothing happens without a session. */
ALLOGRAM_WEAK_ void allogram_session_pause(void);
ALLOGRAM_WEAK_ void allogram_session_resume(void);
/* A moment that has a name, for who reads the trace. */
ALLOGRAM_WEAK_ void allogram_session_mark(const char *name);
/* What was counted so far is dropped: reports begin here, like those of `report --from` with
 * --older. The live blocks stay known: they are in use, and their deaths are no ghosts. What was
 * before stays in the trace, for who asks with --from. May be called again; the last one counts.
 * 0; -ENOENT: nothing is recorded (no session, or paused). */
ALLOGRAM_WEAK_ int allogram_session_reset(void);

struct allogram_snapshot_options {
    size_t size;
    const char *output; /* a file's name, as that of a session */
    /* Instead of a file: gets the trace's bytes in their order, some at a time; another result than
     * 0 ends it. Called by the thread that asked, while a lock of the library's is held: it may
     * tell events, and not start, stop or ask for a snapshot. */
    int (*write)(void *context, const void *data, size_t bytes);
    void *context;
};
/* A whole trace of what the session has recorded so far, sealed, while it goes on: everything that
 * this thread told before, and what others told before it began. For other tools: `allogram export
 * SNAPSHOT --to=pprof -o FILE` (or folded, dhat ...). Takes some 20 ns an event, and memory for the
 * books; other threads go on meanwhile. May allocate with malloc. 0; -ENOENT: there is no session;
 * -ENOTSUP: it is that of `allogram run`, which has --dump-at; -EINVAL: neither or both of output
 * and write, or options of another version; -ECANCELED: write wanted no more; -ENOSPC ...: it
 * cannot be written. ret_message: as that of allogram_start. */
ALLOGRAM_WEAK_ int allogram_session_snapshot(const struct allogram_snapshot_options *options,
                                             char *ret_message, size_t message_bytes);

/* ---- heaps, types, labels ---------------------------------------------------------------- */

typedef uint32_t allogram_heap;  /* 0: none; every function takes it and does nothing */
typedef uint32_t allogram_type;  /* 0: not known */
typedef uint32_t allogram_label; /* 0: none */

/* Who ends its blocks: the program, or a collector, which may move those that live on. */
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
    /* From here on: not in options of a program that was compiled before they were. */
    uint32_t kind;           /* enum allogram_heap_kind; another number is 0 */
    uint32_t has_late_types; /* 1: allogram_block_type may be called for its blocks. Costs each of
                                them 56 bytes while it lives, and 2 us */
    const char *unit; /* what the heap's own counters count: "words", "objects"; NULL: "bytes".
                         For who reads the report: sizes are told in bytes all the same */
};

/* Registers a heap. The same name, allocator and domain give the same handle, whoever asks (kind,
 * unit and the rest are those that were said first). 0 when
 * there are too many (192), or without the library: then its events are nothing. Takes a lock of
 * the library's for a moment; may be called before and during a session. */
ALLOGRAM_WEAK_ allogram_heap allogram_register_heap(const struct allogram_heap_options *options);
/* The same for a type (at most 65,535; an allocator that a compiler hands type tokens, as clang's
 * -fsanitize=alloc-token does, tells each token as one: examples/alloc_tokens.c), and for a label
 * (at most 65,535; runtime is not used). */
ALLOGRAM_WEAK_ allogram_type allogram_register_type(const char *name, const char *runtime);
ALLOGRAM_WEAK_ allogram_label allogram_register_label(const char *name);
/* From here on what this thread allocates, in whatever heap, carries the label. Returns the one
 * before, to be set again at the end of the scope, or to be handed to the thread that goes on with
 * the work. `report --by=label` adds up by them, `--view=blocks` has that of each block, and pprof
 * shows them as labels. */
ALLOGRAM_WEAK_ allogram_label allogram_set_label(allogram_label label);

/* ---- trackers ----------------------------------------------------------------------------- */

struct allogram_sample {
    allogram_heap heap;
    allogram_type type;
    uint64_t address;
    size_t bytes;
    /* Points of the sampler that fell into the block, on average (bytes + 1) / interval; the sum of
     * n_samples * interval over all samples estimates the bytes allocated, and one for each block.
     */
    uint64_t n_samples;
};
enum { ALLOGRAM_EVERY_BLOCK = 1 };
struct allogram_tracker_options {
    size_t size;
    uint64_t interval_bytes; /* mean bytes between samples; 0: 512 KiB; ALLOGRAM_EVERY_BLOCK: each
                                block is a sample, once */
    uint64_t seed;           /* 0: random */
    /* A sampled block was allocated; called by the thread that told it, on its stack, right then.
     * What it returns is kept for the block; NULL: nothing more is to be heard of it. */
    void *(*on_alloc)(void *context, const struct allogram_sample *sample);
    /* Of a block with a value: it was promoted, is whole, is about to be freed. on_free is called
     * once for each value, by the thread that told the free. Each may be NULL. Of a runtime that
     * `allogram run` follows by itself: on_free of what its collector found dead comes when the
     * collection is over and its lock given back, by a thread that allocates then. Boehm's
     * collector and Crystal tell trackers; on_complete: the object's number stands in it. */
    void (*on_promote)(void *context, void *value);
    void (*on_complete)(void *context, void *value);
    void (*on_free)(void *context, void *value);
    void *context;
};
/* Starts sampling, of all heaps and threads; with or without a session. Returns the tracker's
 * number, at least 1. -EALREADY: one samples already; -EAGAIN: 64 are stopped and have blocks;
 * -EINVAL; -ENOSYS: without the library. A thread notices after at most 16 KiB of its allocations,
 * at once with ALLOGRAM_EVERY_BLOCK.
 *
 * Inside a callback everything is allowed: allocating and freeing (what a callback allocates is not
 * sampled), waiting for other threads that run callbacks of their own, stopping, discarding and
 * starting trackers, ending the thread, leaving by longjmp or a C++ exception (then the block is
 * not tracked). A block that is freed while its on_alloc runs has its on_free right after it.
 * Callbacks run where the event is told: in a signal handler when that is one. */
ALLOGRAM_WEAK_ int allogram_start_tracker(const struct allogram_tracker_options *options);
/* No more samples; blocks with a value are told of until they are freed, and the tracker's number
 * is its own until then. -ENOENT: none samples. */
ALLOGRAM_WEAK_ int allogram_stop_tracker(void);
/* Forgets the blocks of a tracker that was stopped; nothing more is heard of them.
 * -EBUSY: it samples; -ENOENT: there is none of this number, or it has no blocks. */
ALLOGRAM_WEAK_ int allogram_discard_tracker(int tracker);

/* ---- function counters --------------------------------------------------------------------
 *
 * For who knows when functions are entered and left: an interpreter, a compiler that instruments,
 * a few functions by hand. `allogram report --view=functions` then has calls, own words and their
 * share, words per call and time of each function; --callers=FUNCTION and --tree have the paths.
 *
 * A counter set is used by one thread at a time (a process of a virtual machine may move from
 * thread to thread); different sets need nothing from each other, and enter and leave take no lock.
 * A signal handler may use a set that is its own. Using one set from two threads at once is an
 * error that the library does not find.
 *
 * It counts while a session runs (so under `allogram run` always), from 0 in each session. It is
 * written into the trace by allogram_stop, at exit, when the set is freed, and by
 * allogram_counters_tell. Under `allogram run` also by _exit, _Exit and quick_exit (before the
 * handlers of that one). What was not written when the program ends otherwise (a signal, exec) is
 * not in the trace. */

typedef uint32_t allogram_function;                 /* 0: none that is registered */
typedef struct allogram_counters allogram_counters; /* every function takes NULL, does nothing */

struct allogram_function_options {
    size_t size;
    const char *name;    /* as its programmers write it */
    const char *file;    /* NULL: not known */
    const char *runtime; /* "lua"; NULL: "c", native code */
    uint32_t line;       /* where it begins; 0: not known */
    uint32_t reserved;
};
/* Registers a function. The same name, file, line and runtime give the same handle, whoever asks. 0
 * where there is no name, there are too many (1,048,575), or without the library: calls of it are
 * then counted for one that is called [no registered function]. Takes a lock for a moment; before
 * and during a session. */
ALLOGRAM_WEAK_ allogram_function
allogram_register_function(const struct allogram_function_options *options);

struct allogram_runtime_options {
    size_t size;
    const char *name, *version; /* "lua", "5.4.6" */
    const char *note;           /* one line: why it is not counted, or what is not; NULL: none */
    uint32_t is_hooked;         /* 1: it is counted */
    uint32_t reserved;
};
/* What there is of a virtual machine in this program, for the first lines of a report; of several
 * with one name the last one counts. In a session; it is not told again in the next one. Nothing
 * with options NULL or of another version, or without a name. */
ALLOGRAM_WEAK_ void allogram_tell_runtime(const struct allogram_runtime_options *options);

enum { ALLOGRAM_NO_CLOCK = 0, ALLOGRAM_CLOCK = 1 };
enum { ALLOGRAM_EVERY_LEVEL = 0, ALLOGRAM_FOLD_RECURSION = 1 };
struct allogram_counters_options {
    size_t size;
    const char *runtime;      /* as that of its functions; NULL: "c" */
    const char *process;      /* its name, where it is no thread's; NULL: that of the thread that
                                 uses it first */
    const char *initial_call; /* the function that the process was started with; NULL: not known */
    uint32_t word_bytes;      /* 0: 8 */
    uint32_t clock;           /* ALLOGRAM_CLOCK: the library measures the time from step to step;
                                 ALLOGRAM_NO_CLOCK: allogram_count_time tells it */
    uint32_t recursion;       /* ALLOGRAM_EVERY_LEVEL: a path for each level of a recursion;
                                 ALLOGRAM_FOLD_RECURSION: its levels are one path, as long as no
                                 function's share with all that it called becomes another */
    uint32_t reserved;
};
/* A set at 0, outside of all functions. options NULL: all defaults. NULL: no memory, options of
 * another version, or without the library. Costs a page, and 48 bytes for each path of calls from
 * the 64th on. */
ALLOGRAM_WEAK_ allogram_counters *allogram_make_counters(
    const struct allogram_counters_options *options);
/* Writes what it counted into the trace and ends it; it may not be used any more. */
ALLOGRAM_WEAK_ void allogram_free_counters(allogram_counters *set);
/* Writes a snapshot of what it has counted so far; of several the last one counts. By its user. */
ALLOGRAM_WEAK_ void allogram_tell_counters(allogram_counters *set);
/* Between the two calls are followed and nothing is counted: neither calls nor words nor time. Not
 * nested. allogram_pause does the same to all sets. By its user. */
ALLOGRAM_WEAK_ void allogram_pause_counters(allogram_counters *set);
ALLOGRAM_WEAK_ void allogram_resume_counters(allogram_counters *set);
/* All its counters are 0 again; functions that are entered stay entered. By its user. */
ALLOGRAM_WEAK_ void allogram_reset_counters(allogram_counters *set);
/* The process has this name from here on: it was registered. By its user. */
ALLOGRAM_WEAK_ void allogram_rename_counters(allogram_counters *set, const char *process);
/* What is no function's and stands apart from them. */
enum allogram_apart {
    ALLOGRAM_MESSAGES = 0,  /* received from others, copied */
    ALLOGRAM_ARGUMENTS = 1, /* copied for the process when it was started */
    ALLOGRAM_PROFILER = 2,  /* what counting made on the program's heap */
};
ALLOGRAM_WEAK_ void allogram_tell_apart(allogram_counters *set, enum allogram_apart what,
                                        uint64_t count, uint64_t words);
/* A collection of the process' own heap, caused by the function at hand. As allogram_gc_begin and
 * _end, but the two may be told by different threads, one after the other; by its user. */
ALLOGRAM_WEAK_ void allogram_begin_counters_gc(allogram_counters *set, uint64_t needed_bytes,
                                               uint64_t heap_bytes);
ALLOGRAM_WEAK_ void allogram_end_counters_gc(allogram_counters *set, const char *kind,
                                             uint64_t heap_bytes);
struct allogram_path {     /* of calls, as it was counted so far */
    uint32_t node, parent; /* parent is smaller; 0: called by nothing that is counted */
    allogram_function function;
    uint32_t reserved;
    uint64_t calls, words, ns;
};
/* Calls VISIT for each path that was counted, callers before what they call; outside of all
 * functions is node 0. ns is 0 where the library has the clock. Until it returns no set is made,
 * freed or reset. By its user. */
ALLOGRAM_WEAK_ void allogram_visit_counters(allogram_counters *set, void *context,
                                            void (*visit)(void *context,
                                                          const struct allogram_path *path));

/* ---- frames of a virtual machine ------------------------------------------------------------
 *
 * An interpreter's stack of native frames says little: who reads a report wants the functions of
 * the program that it runs. A walk callback tells them whenever this thread's stack is recorded: of
 * the heaps of the program, of malloc, of mappings and collections. They stand among the native
 * frames in the order of the calls, as `[lua] f file:line`, with the runtime of the function. */

struct allogram_frame {
    allogram_function function; /* registered; else it is shown as [no registered function] */
    uint32_t line;              /* that is executed now; 0: the function's own */
    /* Any address inside of the native frame that interprets the function, such as that of a local
     * variable of the interpreter's loop, kept when it began. Several functions may have the same.
     * NULL: as the frame before it in the array. */
    const void *position;
};
/* Fills frames, the innermost first, at most `most`, and returns how many. Called inside of
 * allocations, maybe in a signal handler or while the interpreter changes its own stack: it reads,
 * and does not allocate, wait or jump. It may register functions. What it reads should be volatile
 * where the same file calls malloc: compilers know that malloc calls nobody back. */
typedef size_t (*allogram_walk)(void *context, struct allogram_frame *frames, size_t most);
/* The calling thread's from here on, in place of the one before; NULL: none. Each thread has its
 * own. 0; -ENOSYS: without the library. Lasts beyond sessions and into a forked child. Costs a
 * recorded event some 100 ns, and 5 ns for each frame of its stack. */
ALLOGRAM_WEAK_ int allogram_set_walk(allogram_walk walk, void *context);

/* ---- what the inline functions below call -------------------------------------------------- */

enum {
    ALLOGRAM_TELLS_ = 1,
    ALLOGRAM_SAMPLES_ = 2,
    ALLOGRAM_FREES_ = 4,
    ALLOGRAM_EACH_ = 8,
    ALLOGRAM_COUNTS_ = 16,
    ALLOGRAM_RATED_ = 32 /* of allocations a sample is told */
};
extern ALLOGRAM_WEAK_ volatile uint32_t allogram_mode_;
/* Where in a thread's own memory its counter lies, from the thread pointer. The counter itself
 * cannot be a weak thread-local variable: in a program without the library a linker would take its
 * place for known. */
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

/* The library or the agent is there. */
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

/* A block came to life: call it after the allocation, in the thread that made it. The stack that is
 * recorded begins at the function that calls this one. address: any number that tells the heap's
 * living blocks apart by its low 48 bits (a pointer, a GPU's address, a handle). A block at the
 * address of a living one means that the free of that one was not told: it ends here, and the
 * repair is counted. bytes: as the program asked for; 0 is a block too; more than 2^48 - 1 counts
 * as that. A heap or type that was never registered: the event is nothing, the type is not known.
 *
 * Budget: a block that is not recorded costs under 2 ns. Measured (-O2, CPU time, best of 15 rounds
 * of 2 million calls, less the empty loop): 0 without the library, 0.6 ns without a session, 1.4 ns
 * where a tracker or the recording samples and this block is none. */
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
 * with a tracker, a sample of its own, and each has a stack of its own. All are told before the
 * first callback runs; when that stops the tracker or is left by a jump, the others are no samples.
 * pc: an address of code inside the calling function, behind the block's own allocation (as a
 * return address is), which stands for the function's place in this block's stack; 0: the call of
 * allogram_alloc_together. frames: functions that stand inside of all others in this block's stack
 * (of a virtual machine: those that its compiler inlined), the innermost first, positions not
 * looked at; at most 64 count. */
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

/* A block is about to go: call it before, so that no other thread can be told of the address first.
 * A block that is not known (allocated before the session, freed twice) is a ghost: counted, told
 * apart, and changes nothing else. */
ALLOGRAM_INLINE_ void allogram_free(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_free_(heap, address);
    }
}

/* One free of the old block and one allocation of the new size, moved or not. Call it when it has
 * succeeded, before the old address can become another block. */
ALLOGRAM_INLINE_ void allogram_realloc(allogram_heap heap, uint64_t address, uint64_t new_address,
                                       size_t bytes, allogram_type type) {
    if (allogram_is_there_() && allogram_mode_ != 0) {
        allogram_tell_realloc_(heap, address, new_address, bytes, type);
    }
}

/* Memory that the heap took from the system (or its parent) to make blocks of, and gave back. It is
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

/* A collector found the block dead: a free that nobody called. As allogram_free; the report counts
 * them apart, by heap. Tell it when the collector knows: a block of whose death it cannot be sure
 * until it looks (a finalizer, a weak reference) lives until then. */
ALLOGRAM_INLINE_ void allogram_collect(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_collect_(heap, address);
    }
}

/* A collector moved a block: it is the same one at another address, with its site, its type, its
 * thread, its time of birth and its trackers' values. Told between allogram_gc_begin and
 * allogram_gc_end of the heap, by any thread, after the block is where it is told to be and before
 * a thread that uses the heap goes on; then the order among threads is exact, else it is as fine as
 * the trace's clock. Of blocks that slide, in an order in which each place is free when it is
 * taken: a move onto a living block ends that one, as an allocation there does, and the repair is
 * counted. Of a block that is not known, or to where it is: nothing; the death of one that moved
 * unseen is a ghost. Between pause and resume moves are not told either. */
ALLOGRAM_INLINE_ void allogram_move(allogram_heap heap, uint64_t address, uint64_t new_address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_move_(heap, address, new_address);
    }
}

/* A block's type is known now, which it was not when it was told: a virtual machine writes the
 * header after the allocator has returned, a constructor runs later. At any time until the block's
 * end, by any thread. 1: it is of this type from its birth on, wherever blocks are counted. 0: the
 * type was never registered (0: not known yet), or the block is none that can be told of (its heap
 * was registered without has_late_types; allocated before the session, paused, not recorded; dead):
 * nothing has changed, and it may be asked again. Of several types of one block the last counts.
 * What the highest moment was made of is settled when that is over: a type that comes later is not
 * in it. Not for signal handlers. */
ALLOGRAM_INLINE_ int allogram_block_type(allogram_heap heap, uint64_t address, allogram_type type) {
    return allogram_is_there_() && allogram_mode_ & ALLOGRAM_TELLS_
               ? allogram_tell_block_type_(heap, address, type)
               : 0;
}

/* A collection begins and ends, both told by the thread that runs it; begin by who needs the
 * memory, so that its stack is that of the allocation that caused it. What it finds dead is told
 * with allogram_collect in between. needed_bytes: what was asked for when there was no room;
 * heap_bytes: in use before it, and after it; 0: not known. kind: "minor", "major" ... A beginning
 * without an end is not told, nor an end without a beginning. */
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

/* A collector put the block into a generation that lives longer: counted by heap, and told to
 * trackers. Where that moved it, the move is told first, and the address is the new one. */
ALLOGRAM_INLINE_ void allogram_promote(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & (ALLOGRAM_TELLS_ | ALLOGRAM_FREES_)) {
        allogram_tell_promote_(heap, address);
    }
}
/* A constructor has finished the block. Only trackers hear of it. */
ALLOGRAM_INLINE_ void allogram_complete(allogram_heap heap, uint64_t address) {
    if (allogram_is_there_() && allogram_mode_ & ALLOGRAM_FREES_) {
        allogram_tell_complete_(heap, address);
    }
}

/* ---- counting ----------------------------------------------------------------------------- */

ALLOGRAM_INLINE_ int allogram_is_counted_(const allogram_counters *set) {
    return set != NULL && allogram_is_there_() && (allogram_mode_ & ALLOGRAM_COUNTS_) != 0;
}

/* The function was called by the one that is at hand. Measured (-O2, CPU time, best of 3 rounds of
 * 20 million): 25 ns for an enter with its leave, 63 ns with the clock. Depth is limited by the
 * number of paths of a set alone (1,048,511, each level of a recursion is one); a call beyond, or
 * without memory, is counted as lost, and what it does counts for the innermost function that is
 * known. */
ALLOGRAM_INLINE_ void allogram_enter(allogram_counters *set, allogram_function function) {
    if (allogram_is_counted_(set)) {
        allogram_count_enter_(set, function);
    }
}
/* The function at hand returned. Outside of all functions it is nothing: a session may have begun
 * inside of some. */
ALLOGRAM_INLINE_ void allogram_leave(allogram_counters *set) {
    if (allogram_is_counted_(set)) {
        allogram_count_leave_(set);
    }
}
/* The function at hand ended with a call of this one, which takes its place: called by who called
 * it, and one leave ends it. Outside of all functions it is an enter. */
ALLOGRAM_INLINE_ void allogram_tail_call(allogram_counters *set, allogram_function function) {
    if (allogram_is_counted_(set)) {
        allogram_count_tail_call_(set, function);
    }
}
/* How many functions are entered and not left: for allogram_leave_to, in the function that will
 * catch. 0 where nothing is counted. */
ALLOGRAM_INLINE_ uint64_t allogram_depth(allogram_counters *set) {
    return allogram_is_counted_(set) ? allogram_count_depth_(set) : 0;
}
/* An exception went through functions: leaves until so many are left. Where there are no more than
 * that it is nothing. */
ALLOGRAM_INLINE_ void allogram_leave_to(allogram_counters *set, uint64_t depth) {
    if (allogram_is_counted_(set)) {
        allogram_count_leave_to_(set, depth);
    }
}
/* The function at hand allocated so many words itself. Outside of all functions they count for [no
 * registered function]. */
ALLOGRAM_INLINE_ void allogram_count_words(allogram_counters *set, uint64_t words) {
    if (allogram_is_counted_(set)) {
        allogram_count_words_(set, words);
    }
}
/* The function at hand took so long itself. Nothing outside of all functions, and where the library
 * has the clock. */
ALLOGRAM_INLINE_ void allogram_count_time(allogram_counters *set, uint64_t ns) {
    if (allogram_is_counted_(set)) {
        allogram_count_time_(set, ns);
    }
}

/* All of an event at once, for who traces a virtual machine: the function at hand allocated words
 * and took ns; then it is left, with those that called it, until depth are left; then function is
 * entered, unless it is 0. One third of the cost of the four calls. words may be (uint64_t)-N where
 * the function gave N words back that it was counted for. */
ALLOGRAM_INLINE_ void allogram_step(allogram_counters *set, uint64_t depth,
                                    allogram_function function, uint64_t words, uint64_t ns) {
    if (allogram_is_counted_(set)) {
        allogram_count_step_(set, depth, function, words, ns);
    }
}

/* For who reads counters that a virtual machine keeps itself: a function that the one at hand calls
 * did all this since it was told last. It is not entered. ns: nothing where the library has the
 * clock. */
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
