/* inspector.h: the interface that a runtime implements to be read from outside.
 *
 * `allogram observe PID` samples a running process with the kernel's perf events: registers and a
 * copy of the stack, taken in the interrupt. It unwinds the native frames. In code of a virtual
 * machine only that machine's inspector knows which stack it belongs to and what the functions are
 * called. An inspector lives in adapters/ and a part of a row in adapters/runtimes.def:
 *
 *     static int open(struct allogram_target *target, void **ret_state, char *ret_problem,
 *                     size_t problem_bytes) {
 *         struct allogram_target_symbol release;
 *         if (allogram_target_symbol(target, "toy_release", &release) < 0) {
 *             return -ENOENT;                    // not this runtime
 *         }
 *         ...                                    // read its version and its code map; refuse
 *                                                // versions that are not known
 *     }
 *     static enum allogram_stack_verdict stack(void *state, const struct allogram_sample *sample,
 *                                              struct allogram_stack *stack) {
 *         for (size_t i = 0; i < sample->n_frames; i++) {
 *             if (is_interpreter(state, sample->frames[i].pc)) {
 *                 allogram_stack_managed(stack, &(struct allogram_managed_frame){"toy:f/1", ...});
 *             } else {
 *                 allogram_stack_native(stack, i);
 *             }
 *         }
 *         return ALLOGRAM_STACK_COMPLETE;
 *     }
 *     const struct allogram_inspector ag_inspector_toy = {
 *         .size = sizeof(struct allogram_inspector), .runtime = "toy", .open = open, ...};
 *
 * GLOSSARY
 *
 * target      the observed process. It is never stopped and nothing in it is changed; it runs while
 *             it is read, so the results of two reads may be inconsistent.
 * sample      one thread at one moment: its registers and the top of its stack, consistent.
 * native      a frame of compiled code of an image; managed: one of a function of the runtime.
 * stale       read so long after the sample that it may describe another moment.
 *
 * RULES
 *
 * The target is untrusted: it may be damaged or hostile, and its memory changes while it is read.
 * Copy once, check, use; bound every loop and every length. An inspector that meets something
 * unknown returns an error; it never guesses, crashes or loops.
 *
 * All functions of one observation are called by one thread. Nothing prints or exits. Pointers
 * passed to a function are valid until it returns; texts passed out are copied. */
#ifndef ALLOGRAM_INSPECTOR_H
#define ALLOGRAM_INSPECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the target: what an inspector can read ------------------------------------------------- */

struct allogram_target;

int allogram_target_pid(const struct allogram_target *target);

/* Copies memory of the target: everything or nothing. 0; -EFAULT: not all of it is mapped; -ESRCH:
 * the target is gone; else a negative errno. 0.8 us for a page, 60 us for a MiB. */
int allogram_target_read(struct allogram_target *target, uint64_t address, void *ret_bytes,
                         size_t n_bytes);
/* Reads several places at once: 0.2 us each. Everything or nothing. */
struct allogram_piece {
    uint64_t address;
    void *bytes; /* destination */
    size_t n_bytes;
};
int allogram_target_read_pieces(struct allogram_target *target, const struct allogram_piece *pieces,
                                size_t n_pieces);
/* The text at ADDRESS up to its zero or to LIMIT - 1 bytes; always terminated. */
int allogram_target_read_text(struct allogram_target *target, uint64_t address, char *ret_text,
                              size_t limit);

struct allogram_target_mapping {
    uint64_t low, high;   /* [low, high) */
    int protection;       /* PROT_READ | PROT_WRITE | PROT_EXEC */
    uint64_t file_offset; /* of low, in the file */
    const char *path;     /* as in /proc/PID/maps; "" for anonymous memory */
};
/* The mapping that contains ADDRESS, as of the last reading of the map, valid until the next; NULL:
 * none. */
const struct allogram_target_mapping *allogram_target_mapping(struct allogram_target *target,
                                                              uint64_t address);
size_t allogram_target_mappings(struct allogram_target *target,
                                const struct allogram_target_mapping **ret_mappings);
/* Reads the map again: 0.1 ms. The observer does so about once a second. */
int allogram_target_refresh_mappings(struct allogram_target *target);

struct allogram_target_symbol {
    uint64_t address; /* in the target's memory */
    uint64_t n_bytes; /* 0: unknown */
};
/* Finds a function or object by its linkage name, in .dynsym and .symtab of all mapped files, the
 * program first. -ENOENT: not defined. */
int allogram_target_symbol(struct allogram_target *target, const char *name,
                           struct allogram_target_symbol *ret_symbol);
/* The path under which this process can open the file that is mapped at ADDRESS (through
 * /proc/PID/root), and the offset of ADDRESS in it, as a uprobe needs them. */
int allogram_target_file(struct allogram_target *target, uint64_t address, char *ret_path,
                         size_t limit, uint64_t *ret_offset);

/* Visits the generated code that the target publishes for debuggers (`__jit_debug_descriptor`).
 * Calls VISIT for each entry, newest first, with a copy of its symbol file; false ends the walk. 0;
 * -ENOENT: no such list; -EAGAIN: it changed while it was read; -EBADMSG: it is damaged. */
typedef bool allogram_code_entry_fn(void *context, uint64_t entry_address, const void *file,
                                    size_t n_bytes);
int allogram_target_code_entries(struct allogram_target *target, allogram_code_entry_fn *visit,
                                 void *context);
/* Changes whenever an entry is added or the newest one is removed. Reads 16 bytes of the target. 0:
 * no list. */
uint64_t allogram_target_code_stamp(struct allogram_target *target);

/* ---- a sample ---------------------------------------------------------------------------- */

enum { ALLOGRAM_REGISTERS = 17 }; /* by DWARF's numbers */
enum {                            /* x86-64 */
       ALLOGRAM_RBX = 3,
       ALLOGRAM_RBP = 6,
       ALLOGRAM_RSP = 7,
       ALLOGRAM_R12 = 12,
       ALLOGRAM_R13 = 13,
       ALLOGRAM_R14 = 14,
       ALLOGRAM_R15 = 15,
       ALLOGRAM_RIP = 16,
};
struct allogram_registers {
    uint64_t value[ALLOGRAM_REGISTERS];
    /* bit N: value[N] is the register's value in that frame. In a caller only callee-saved
     * registers are known */
    uint32_t known;
};
struct allogram_native_frame { /* innermost first */
    /* a return address, but exact in the first frame and in one interrupted by a signal: see
     * is_exact */
    uint64_t pc;
    uint64_t sp; /* registers.value[ALLOGRAM_RSP] */
    bool is_exact;
    /* claimed by `owns`: the last frame, since only the runtime knows its callers */
    bool is_managed;
    struct allogram_registers registers;
};
enum allogram_walk_end {
    ALLOGRAM_WALK_OUTERMOST, /* at the thread's first frame */
    ALLOGRAM_WALK_MANAGED,   /* at a frame that `owns` claims: frames[n_frames - 1] */
    ALLOGRAM_WALK_UNKNOWN,   /* at code without unwind information */
    ALLOGRAM_WALK_CUT,       /* the copy of the stack ends here */
};
struct allogram_sample {
    size_t size;             /* sizeof(struct allogram_sample) */
    uint32_t thread;         /* tid */
    const char *thread_name; /* the kernel's name */
    uint64_t time_ns;        /* CLOCK_MONOTONIC at the sampled moment */
    uint64_t age_ns;         /* the time since then when the inspector was called */
    const struct allogram_native_frame *frames;
    size_t n_frames; /* at least 1: frames[0] has the sampled registers */
    enum allogram_walk_end walk_end;
    uint64_t stack_address; /* the copy of the stack at the same moment: from rsp upward */
    const void *stack;
    size_t stack_bytes;
};
/* The word at ADDRESS at the time of the sample; false: the copy does not contain it. */
bool allogram_sample_word(const struct allogram_sample *sample, uint64_t address,
                          uint64_t *ret_word);

/* ---- the inspector's results --------------------------------------------------------------- */

struct allogram_managed_frame {
    const char *function; /* as its programmers write it */
    const char *file;     /* or NULL */
    uint32_t line;        /* 0: unknown */
};
struct allogram_stack; /* being built, innermost frame first */
void allogram_stack_native(struct allogram_stack *stack, size_t frame); /* sample->frames[frame] */
void allogram_stack_managed(struct allogram_stack *stack,
                            const struct allogram_managed_frame *frame);

enum allogram_stack_verdict {
    ALLOGRAM_STACK_NATIVE,     /* no frames of the runtime: the native frames are shown */
    ALLOGRAM_STACK_COMPLETE,   /* up to where the runtime's code began */
    ALLOGRAM_STACK_INCOMPLETE, /* some frames are missing; the reported ones are right */
    ALLOGRAM_STACK_STALE,      /* read at another moment: dropped and counted */
};

/* A waiting unit of the runtime (process, fiber, task), for --processes and --stacks. */
struct allogram_process {
    size_t size;
    const char *id;               /* as the runtime prints it */
    const char *name;             /* or NULL */
    const char *current_function; /* or NULL */
    uint64_t heap_words, stack_words, queue;
};
/* One instance of an allocator of the runtime. */
struct allogram_allocator {
    size_t size;
    const char *name;
    uint32_t instance;
    uint64_t carriers_bytes,
        blocks_bytes; /* obtained from the kernel or from malloc; the part of it in use */
    /* their addresses, if known: the observer finds out how much of them is resident */
    const struct allogram_range *carriers;
    size_t n_carriers;
};
struct allogram_range {
    uint64_t low, high;
};
/* One run of the garbage collector. */
struct allogram_collection {
    size_t size;
    const char *kind;    /* "minor", "major", or what the runtime calls it */
    const char *process; /* NULL: the whole runtime */
    uint32_t thread;
    uint64_t start_ns, pause_ns; /* CLOCK_MONOTONIC */
    uint64_t heap_before_bytes, heap_after_bytes;
    uint64_t needed_bytes;    /* size requested by the allocation that caused it */
    uint64_t allocated_bytes; /* by its process, since the previous collection of the process */
    /* allocated bytes that it represents, by all processes: the weight of its stack. More than its
     * own if only a sample of the collections is reported, by bytes; the weights of all of them add
     * up to everything that was allocated */
    uint64_t weight_bytes;
};

/* Receives an inspector's results. */
struct allogram_answers;
/* The stack of the next result with `_stack` set; each call begins a new one. */
struct allogram_stack *allogram_answers_stack(struct allogram_answers *answers);
void allogram_answers_process(struct allogram_answers *answers,
                              const struct allogram_process *process,
                              const struct allogram_stack *stack /* or NULL */);
void allogram_answers_allocator(struct allogram_answers *answers,
                                const struct allogram_allocator *allocator);
void allogram_answers_collection(struct allogram_answers *answers,
                                 const struct allogram_collection *collection,
                                 const struct allogram_stack *stack /* or NULL */);
/* The number of collections until now, reported or not. */
void allogram_answers_collections_seen(struct allogram_answers *answers, uint64_t n);
/* Events that the inspector could not count: shown as lost, with this cause. */
void allogram_answers_lost(struct allogram_answers *answers, uint64_t n, const char *cause);

/* ---- the inspector ------------------------------------------------------------------------ */

struct allogram_inspector {
    size_t size;         /* sizeof(struct allogram_inspector) */
    const char *runtime; /* the name in brackets before its frames */

    /* Checks whether the runtime is in the target. 0, with its state; -ENOENT: it is not; another
     * negative errno: it is, and cannot be read: ret_problem has one line why (shown; the
     * observation continues). Called at the start and again when new files are mapped. */
    int (*open)(struct allogram_target *target, void **ret_state, char *ret_problem,
                size_t problem_bytes);
    void (*close)(void *state);
    /* Its version, for the reports, or NULL. */
    const char *(*version)(void *state);

    /* Whether pc is generated code of the runtime. Called for each pc that is in no image; must be
     * cheap. */
    bool (*owns)(void *state, uint64_t pc);
    /* Called when code was added, or after some time (about once a second, and before a batch of
     * samples). */
    void (*refresh)(void *state);
    /* Reports a sample's frames, from the innermost on, native and managed ones in the order of
     * their calls. If it reports none, the native frames are used. */
    enum allogram_stack_verdict (*stack)(void *state, const struct allogram_sample *sample,
                                         struct allogram_stack *stack);

    /* The following may be NULL: not supported. */

    /* A loaded BPF program (type perf_event) that captures managed stacks in the interrupt: its
     * descriptor; or a negative errno, and samples are read later. Attached to every sampling
     * event; must return 1. `stack` finds what it captured by thread and time (bpf_ktime_get_ns is
     * the clock of time_ns). On failure ret_problem has one line why. */
    int (*capture_program)(void *state, char *ret_problem, size_t problem_bytes);

    /* Starts to watch the garbage collector. Returns a descriptor that becomes readable, or a
     * negative errno with one line why in ret_problem. */
    int (*watch_collections)(void *state, char *ret_problem, size_t problem_bytes);
    /* Reports the collections since the last call; called when the descriptor is readable and at
     * the end. */
    int (*collections)(void *state, struct allogram_answers *answers);

    int (*processes)(void *state, struct allogram_answers *answers);
    int (*allocators)(void *state, struct allogram_answers *answers);
    /* Writes the current generated functions as lines of a perf map. */
    int (*code)(void *state,
                bool (*visit)(void *context, uint64_t address, uint64_t n_bytes, const char *name),
                void *context);
};

#ifdef __cplusplus
}
#endif

#endif
