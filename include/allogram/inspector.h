/* inspector.h: the interface that the inspector of a runtime (virtual machine) implements, so that
 * `allogram observe` can read the runtime's stacks, heaps and garbage collections from outside of
 * the process.
 *
 * `allogram observe PID` samples a running process with the kernel's perf events: registers and a
 * copy of the stack, taken in the interrupt. `allogram observe` unwinds the native frames. The
 * frames and function names of a virtual machine are known only to the inspector of that machine.
 * An inspector is a source file below adapters/ and an entry in its runtime's row of
 * adapters/runtimes.def:
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
 * target      the observed process. The observer never stops the target and changes nothing in it.
 *             The target runs while it is read, so the results of two reads may be inconsistent.
 * sample      the registers of one thread and the top of its stack, all from the same moment.
 * native      a frame of compiled code of an image (the program or a library); managed: a frame of
 *             a function that the runtime executes.
 * stale       data that was read so long after the sample that it may describe another moment.
 *
 * RULES
 *
 * The target is untrusted: it may be damaged or hostile, and its memory changes while it is read.
 * Copy once, check, use; bound every loop and every length. An inspector that meets something
 * unknown returns an error; it never guesses, crashes or loops.
 *
 * During one observation, one thread calls all functions of all inspectors. An inspector must not
 * print or exit. Pointers that are passed to a function are valid until it returns; texts that an
 * inspector passes are copied. */
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

/* Copies memory of the target, all of it or nothing. Returns 0; -EFAULT: not all of it is mapped;
 * -ESRCH: the target has ended; else a negative errno. The copy takes 0.8 us for a page, 60 us for
 * a MiB. */
int allogram_target_read(struct allogram_target *target, uint64_t address, void *ret_bytes,
                         size_t n_bytes);
/* Reads several pieces of memory at once, all of them or nothing. This takes 0.2 us per piece. */
struct allogram_piece {
    uint64_t address;
    void *bytes; /* destination */
    size_t n_bytes;
};
int allogram_target_read_pieces(struct allogram_target *target, const struct allogram_piece *pieces,
                                size_t n_pieces);
/* Reads the text at ADDRESS up to its terminating zero, or LIMIT - 1 bytes of it. The result is
 * always terminated. */
int allogram_target_read_text(struct allogram_target *target, uint64_t address, char *ret_text,
                              size_t limit);

struct allogram_target_mapping {
    uint64_t low, high;   /* [low, high) */
    int protection;       /* PROT_READ | PROT_WRITE | PROT_EXEC */
    uint64_t file_offset; /* offset of `low` in the file */
    const char *path;     /* as in /proc/PID/maps; "" for anonymous memory */
};
/* The mapping that contains ADDRESS, as it was when the map was last read; NULL: none, or out of
 * memory. The result is valid until the next call of this function or of allogram_target_mappings;
 * its path, until the map is read again. */
const struct allogram_target_mapping *allogram_target_mapping(struct allogram_target *target,
                                                              uint64_t address);
/* All mappings in the order of their addresses, as they were when the map was last read. Returns
 * their number; 0: out of memory. The array is valid until the next call of this function or of
 * allogram_target_mapping; the paths in it, until the map is read again. */
size_t allogram_target_mappings(struct allogram_target *target,
                                const struct allogram_target_mapping **ret_mappings);
/* Reads the map of the target again, which takes 0.1 ms. The observer calls this function about
 * once a second. */
int allogram_target_refresh_mappings(struct allogram_target *target);

struct allogram_target_symbol {
    uint64_t address; /* in the target's memory */
    uint64_t n_bytes; /* 0: unknown */
};
/* Finds a function or object by its linkage name, in .dynsym and .symtab of all mapped files, the
 * program first. -ENOENT: no file defines it. */
int allogram_target_symbol(struct allogram_target *target, const char *name,
                           struct allogram_target_symbol *ret_symbol);
/* The path under which this process can open the file that is mapped at ADDRESS (through
 * /proc/PID/root), and the offset of ADDRESS in it, as a uprobe needs them. */
int allogram_target_file(struct allogram_target *target, uint64_t address, char *ret_path,
                         size_t limit, uint64_t *ret_offset);

/* Visits the generated code that the target publishes for debuggers (the list at
 * `__jit_debug_descriptor`). Calls VISIT for each entry, newest first, with a copy of its symbol
 * file; if VISIT returns false, the visit ends. Returns 0; -ENOENT: there is no such list; -EAGAIN:
 * the list changed while it was read; -EBADMSG: the list is damaged or too long. */
typedef bool allogram_code_entry_fn(void *context, uint64_t entry_address, const void *file,
                                    size_t n_bytes);
int allogram_target_code_entries(struct allogram_target *target, allogram_code_entry_fn *visit,
                                 void *context);
/* A number that changes whenever an entry is added to the list of generated code, or the newest
 * entry of the list is removed; 0: there is no list, or it is empty. To limit the cost, the
 * function reports no change after the list was read until 20 times the time that the reading took
 * has passed. */
uint64_t allogram_target_code_stamp(struct allogram_target *target);

/* ---- a sample ---------------------------------------------------------------------------- */

enum { ALLOGRAM_REGISTERS = 17 }; /* index: the register's number in DWARF */
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
    /* bit N is set: value[N] is the register's value in this frame. In the frames of callers only
     * callee-saved registers are known. */
    uint32_t known;
};
struct allogram_native_frame { /* innermost first */
    /* In the first frame, and in a frame that a signal interrupted, the address of the next
     * instruction (is_exact is true); in all other frames a return address. */
    uint64_t pc;
    uint64_t sp; /* registers.value[ALLOGRAM_RSP] */
    bool is_exact;
    /* The inspector's `owns` returned true for the pc of this frame. Then this frame is the last of
     * the array, because only the runtime knows its callers. */
    bool is_managed;
    struct allogram_registers registers;
};
enum allogram_walk_end {
    ALLOGRAM_WALK_OUTERMOST, /* the walk reached the thread's first frame */
    ALLOGRAM_WALK_MANAGED,   /* the last frame is generated code of the runtime (is_managed) */
    ALLOGRAM_WALK_UNKNOWN,   /* the next frame is code without unwind information */
    ALLOGRAM_WALK_CUT,       /* the next frame lies beyond the end of the copied stack */
};
struct allogram_sample {
    size_t size;             /* sizeof(struct allogram_sample) */
    uint32_t thread;         /* tid */
    const char *thread_name; /* the kernel's name */
    uint64_t time_ns;        /* CLOCK_MONOTONIC at the sampled moment */
    uint64_t age_ns;         /* time from the sampled moment to the call of the inspector */
    const struct allogram_native_frame *frames;
    size_t n_frames; /* at least 1: frames[0] has the sampled registers */
    enum allogram_walk_end walk_end;
    /* a copy of the target's stack at the sampled moment, from rsp upward: its address in the
     * target, its bytes and their number */
    uint64_t stack_address;
    const void *stack;
    size_t stack_bytes;
};
/* Returns the word at ADDRESS at the time of the sample; false: the copy of the stack does not
 * contain the word. */
bool allogram_sample_word(const struct allogram_sample *sample, uint64_t address,
                          uint64_t *ret_word);

/* ---- the inspector's results --------------------------------------------------------------- */

struct allogram_managed_frame {
    const char *function; /* the name as programmers write it */
    const char *file;     /* or NULL */
    uint32_t line;        /* 0: unknown */
};
struct allogram_stack; /* the stack that the inspector builds, innermost frame first */
void allogram_stack_native(struct allogram_stack *stack, size_t frame); /* sample->frames[frame] */
void allogram_stack_managed(struct allogram_stack *stack,
                            const struct allogram_managed_frame *frame);
/* Marks a stack that is passed with a process or a collection: some of its frames are missing. */
void allogram_stack_incomplete(struct allogram_stack *stack);

enum allogram_stack_verdict {
    /* the stack has no frames of the runtime: the native frames are shown */
    ALLOGRAM_STACK_NATIVE,
    /* the stack contains all frames from the start of the runtime's code */
    ALLOGRAM_STACK_COMPLETE,
    ALLOGRAM_STACK_INCOMPLETE, /* some frames are missing; the reported ones are correct */
    /* the runtime's state is not that of the sampled moment: the observer drops the stack and
     * counts it as stale */
    ALLOGRAM_STACK_STALE,
};

/* A unit of execution of the runtime (process, fiber, task), for --processes and --stacks. */
struct allogram_process {
    size_t size;
    const char *id;               /* as the runtime prints it */
    const char *name;             /* or NULL */
    const char *current_function; /* or NULL */
    /* a word: 8 bytes; queue: number of waiting messages */
    uint64_t heap_words, stack_words, queue;
    /* binaries outside of the unit's heap to which the unit refers, and their bytes. A binary to
     * which several units refer counts in each. UINT64_MAX: unknown. */
    uint64_t binaries, binary_bytes;
};
/* One instance of an allocator of the runtime. */
struct allogram_allocator {
    size_t size;
    const char *name;
    uint32_t instance;
    /* carriers_bytes: the memory that the allocator obtained from the kernel or from malloc;
     * blocks_bytes: the part of this memory that is in use */
    uint64_t carriers_bytes, blocks_bytes;
    /* addresses of the memory of carriers_bytes, if known: the observer determines how much of this
     * memory is resident */
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
    uint64_t needed_bytes; /* size requested by the allocation that caused the collection */
    /* bytes that `process` allocated since its previous collection */
    uint64_t allocated_bytes;
    /* The weight of the collection's stack: the bytes, allocated by all processes, that this
     * collection represents. If only a sample of the collections is reported, weight_bytes is
     * greater than allocated_bytes. The weights of all reported collections add up to all bytes
     * that were allocated. */
    uint64_t weight_bytes;
    /* Time (CLOCK_MONOTONIC) at which the process wrote to a chosen word (choose_word) in the
     * memory that this collection collects; 0: it wrote to no such word since its previous
     * collection. A collection after such a write is always reported. If it would not be reported
     * otherwise, its weight_bytes are 0. If the process wrote to several such words, the collection
     * is reported once for each word; all of these reports but the first have weight_bytes 0. */
    uint64_t written_ns;
};

/* The object that collects the results of an inspector. */
struct allogram_answers;
/* Begins a new stack, to be filled and then passed as `stack` with the next result. */
struct allogram_stack *allogram_answers_stack(struct allogram_answers *answers);
void allogram_answers_process(struct allogram_answers *answers,
                              const struct allogram_process *process,
                              const struct allogram_stack *stack /* or NULL */);
void allogram_answers_allocator(struct allogram_answers *answers,
                                const struct allogram_allocator *allocator);
void allogram_answers_collection(struct allogram_answers *answers,
                                 const struct allogram_collection *collection,
                                 const struct allogram_stack *stack /* or NULL */);
/* Reports the number N of collections until now, including those that are not reported. */
void allogram_answers_collections_seen(struct allogram_answers *answers, uint64_t n);
/* Reports N events that the inspector could not read: reports show them as lost, with this
 * cause. */
void allogram_answers_lost(struct allogram_answers *answers, uint64_t n, const char *cause);

/* ---- the inspector ------------------------------------------------------------------------ */

struct allogram_inspector {
    size_t size;         /* sizeof(struct allogram_inspector) */
    const char *runtime; /* the name that reports show in brackets before the runtime's frames */

    /* Checks whether the target contains the runtime. Returns 0 and the inspector's state; -ENOENT:
     * the target does not contain the runtime; another negative errno: the target contains the
     * runtime, but the inspector cannot read it. In the last case, ret_problem has one line with
     * the reason, which the observer prints, and the observation continues without the inspector.
     * `open` is called once, at the start of the observation. */
    int (*open)(struct allogram_target *target, void **ret_state, char *ret_problem,
                size_t problem_bytes);
    void (*close)(void *state);
    /* The version of the runtime, for reports, or NULL. */
    const char *(*version)(void *state);

    /* Whether pc is generated code of the runtime. Called for each pc that is in no image, and for
     * words of the stack that may be return addresses, so it must be fast. */
    bool (*owns)(void *state, uint64_t pc);
    /* Reads the runtime's list of generated code again. Called about once a second, and soon after
     * the target has mapped executable memory. */
    void (*refresh)(void *state);
    /* Passes the frames of a sample to STACK: native and managed frames in the order of their
     * calls, from the innermost outward. If no frame is passed, the native frames are used. */
    enum allogram_stack_verdict (*stack)(void *state, const struct allogram_sample *sample,
                                         struct allogram_stack *stack);

    /* The functions below may be NULL: then the inspector does not support them. Those that get
     * ANSWERS return 0 or a negative errno. */

    /* Loads a BPF program (type perf_event) that copies managed stacks in the interrupt, and
     * returns its descriptor. The observer attaches it to every sampling event; the program must
     * return 1. `stack` then finds the copies by thread and time (bpf_ktime_get_ns is the clock of
     * time_ns). On failure this function returns a negative errno, with one line with the reason in
     * ret_problem; `stack` then has to read the target, after the sample was taken. */
    int (*capture_program)(void *state, char *ret_problem, size_t problem_bytes);

    /* Starts to watch the garbage collector. Returns a descriptor that becomes readable when there
     * are collections to report; or a negative errno, with the reason as one line in
     * ret_problem. */
    int (*watch_collections)(void *state, char *ret_problem, size_t problem_bytes);
    /* Reports the collections since the last call. It is called when the descriptor is readable,
     * and at the end. */
    int (*collections)(void *state, struct allogram_answers *answers);

    /* The two functions below let the observer find out which functions allocate, by random words
     * of the runtime's heaps: the CPU reports the thread that first writes to a word.
     *
     * Chooses a random word, aligned to 8 bytes, of memory in which the runtime will allocate next:
     * with a probability in proportion to the bytes that are allocated there. Returns false if no
     * such word is known. */
    bool (*choose_word)(void *state, uint64_t *ret_address);
    /* Whether the write to ADDRESS, after which SAMPLE was taken, wrote a part of a new object. */
    bool (*is_new_word)(void *state, const struct allogram_sample *sample, uint64_t address);

    /* Pass the runtime's processes, or the instances of its allocators, to ANSWERS. */
    int (*processes)(void *state, struct allogram_answers *answers);
    int (*allocators)(void *state, struct allogram_answers *answers);
    /* Calls VISIT for each function of the generated code that exists now, for the lines of a perf
     * map. If VISIT returns false, the visit ends. The result is not used. */
    int (*code)(void *state,
                bool (*visit)(void *context, uint64_t address, uint64_t n_bytes, const char *name),
                void *context);
};

#ifdef __cplusplus
}
#endif

#endif
