/* thread_state.h: the state that one thread needs to record: its position in a chunk of shared
 * memory, its walker (of stacks), and the gate that keeps signal handlers out of a half-written
 * event. The head of stream.c explains how they work together. */
#ifndef AG_THREAD_STATE_H
#define AG_THREAD_STATE_H

#include "process_life.h"
#include "recorder.h"

enum {
    AG_GATE_ABSENT = 2, /* no state yet: the slow path begins one */
    AG_GATE_OPEN = 1,   /* the thread is not inside the recorder */
    /* open, but every event takes the slow path, which does more (a self-check, the stack of a
     * free, a label, sampling) */
    AG_GATE_THOROUGH = 4,
    AG_GATE_SUSPENDED = 8, /* another component records the current events (ag_record_suspend) */
    /* open, but in a marked call whose inner calls are recorded by another component: every event
     * takes the slow path, which checks the marks (ag_record_suspend_call) */
    AG_GATE_MARKED = 32,
    /* any other value: the sp of the hook that the thread is in, plus AG_GATE_APPENDING while words
     * at the cursor are written */
    AG_GATE_APPENDING = 1,
    /* instead of an sp, which is not needed while words are written */
    AG_GATE_FREEING = 16 | AG_GATE_APPENDING,
};

_Static_assert((int)AG_GATE_OPEN == (int)AG_LIFE_BEGUN &&
                   (int)AG_GATE_ABSENT != (int)AG_LIFE_FORKED,
               "a gate is compared with the life of the process");

enum { AG_EVENT_MAX_WORDS = 3 }; /* of ALLOC_BIG; `limit` leaves room for them */

struct ag_thread {
    /* Line 0: everything that an event touches besides the chunk and the walker. Owner: this thread
     * and its signal handlers. */
    AG_CACHE_ALIGNED volatile uintptr_t gate;
    uint64_t *cursor; /* next free word; words <= cursor, limit + AG_EVENT_MAX_WORDS <= chunk_end */
    uint64_t *limit;  /* from here on the slow path writes a stamp or takes a new chunk */
    uint64_t tick;    /* header.tick at the last stamp */
    uint64_t *words;  /* first word of the chunk */
    struct ag_chunk_control *control;
    struct ag_walker *walker;

    uint64_t *chunk_end;
    uint64_t sequence, next_sequence; /* of this chunk, and of the next one */
    uint32_t stream;
    uint32_t thread_id; /* kernel tid of the owner, for the trace */
    /* see stream.c, 1; claimed by compare-and-swap when the owner is dead. Changed, together with
     * process_number, by the owner itself or under a claim */
    _Atomic uint64_t owner;
    _Atomic uint32_t process_number; /* ag_recorder.process_number when the owner took the state */
    size_t bytes;                    /* of the state's mapping */
    uint32_t nested_mark;            /* AG_THREAD_NESTED in the nested state of another one */
    struct ag_thread *nested;        /* for handlers that interrupt an append */
    struct ag_thread *next;          /* in ag_recorder.threads */
    uint64_t written_interval_bytes; /* interval of the chunk's next events; AG_INTERVAL_UNKNOWN */
    uint32_t written_method;         /* the sampling method in the chunk: enum ag_sampling_method */
    uint32_t label_site;             /* the leaf of all its stacks, 0: none */
    uint32_t recording;              /* ag_recorder.recording when the state was begun */
    struct ag_walk_scratch *scratch; /* of managed_frames.c, NULL until needed */
};

/* The compiler must not move stores to the gate across the work that the gate guards. Signal
 * handlers run on the same thread, so a compiler fence is enough. */
#define AG_SIGNAL_FENCE() atomic_signal_fence(memory_order_seq_cst)

AG_FAST void ag_thread_set_gate(struct ag_thread *thread, uintptr_t gate) {
    AG_SIGNAL_FENCE();
    thread->gate = gate;
    AG_SIGNAL_FENCE();
}

/* The thread is not inside a hook. */
AG_FAST bool ag_thread_is_idle(const struct ag_thread *thread) {
    return thread->gate == AG_GATE_OPEN || thread->gate == AG_GATE_THOROUGH ||
           thread->gate == AG_GATE_MARKED;
}

/* The thread is not inside the recorder, and all its events take the fast path. false in a forked
 * child whose recording has not begun. */
AG_FAST bool ag_thread_is_open(const struct ag_thread *thread) {
    return thread->gate == ag_process_life();
}

/* The thread is inside a hook: the caller interrupted it, or it was left by longjmp. */
AG_FAST bool ag_thread_is_inside(const struct ag_thread *thread) {
    return !ag_thread_is_idle(thread) && thread->gate != AG_GATE_SUSPENDED &&
           thread->gate != AG_GATE_ABSENT;
}

/* The state belongs to this process, and so does its chunk. */
AG_FAST bool ag_thread_is_own(const struct ag_thread *thread) {
    return atomic_load_explicit(&thread->process_number, memory_order_relaxed) ==
               ag_recorder.process_number &&
           !ag_process_is_forked();
}

/* Never NULL: threads without a state point at one whose gate is ABSENT. */
extern __thread struct ag_thread *ag_thread_current __attribute__((tls_model("initial-exec")))
AG_HIDDEN;

/* Finds the offset of tids in thread control blocks. Called by the thread that starts the
 * recorder. */
void ag_threads_start(void);
/* The tid of the calling thread as the C library stores it, read without a system call. 0: the
 * offset is unknown. In a child of a raw system call it is the tid of the thread that made the
 * child. */
uint32_t ag_thread_tid_in_memory(void);
/* A number for the calling thread that no other live thread of the process has; and whether the
 * thread with such a number is gone, as far as thread `self` can find out without a system call
 * that a sandbox forbids. */
uint64_t ag_thread_self(void);
bool ag_thread_is_gone(uint64_t owner, uint64_t self);
/* Makes (or inherits from a dead thread) the calling thread's state. NULL: no memory, or recording
 * has stopped. */
struct ag_thread *ag_thread_begin(void);
/* Excludes the state's caches from forked children: otherwise fork costs their copy when parent and
 * child write to them, some 15 us. Only for the thread that starts the recorder: a sandbox that
 * begins later may forbid the system call. */
void ag_thread_do_not_copy_caches(const struct ag_thread *thread);
/* The calling thread's state, begun if there is none yet; in a forked child whose first event this
 * is, the recording is begun as well. NULL: nothing is recorded (the event has been counted as
 * lost). */
struct ag_thread *ag_thread_ready(void);
/* No thread takes over this state, or those nested in it, any more: the interrupted hook continues
 * in a forked child, and its event belongs to the parent. */
void ag_thread_abandon(struct ag_thread *thread);
/* Called in a forked child whose recording is begun by a thread without a state: every thread that
 * has one begins a new one at its next event. false: a thread is inside a hook, where this is
 * impossible; then this process may not be recorded. */
bool ag_threads_leave_behind(void);
/* Makes a further stream of the calling thread, for its signal handlers. */
struct ag_thread *ag_thread_begin_nested(void);

/* Writes a stamp, in a new chunk when the old one is full. Returns the cursor; NULL: recording has
 * stopped or there is no chunk (counted as lost). Called with AG_GATE_APPENDING in the gate. */
uint64_t *ag_stream_renew_slow(struct ag_thread *thread);
/* Appends a rare record, see ag_recorder_append. Sets AG_GATE_APPENDING itself. */
void ag_stream_append_record(struct ag_thread *thread, const struct ag_record *record);

/* Called after a change of a label or of the sources of frames: sets the gate that the thread has
 * outside of hooks. */
void ag_thread_reopen(void);

/* Appends an event of up to AG_EVENT_MAX_WORDS words, from any thread and signal handler.
 * interval_bytes: the interval that the block was selected with, which is written before the event,
 * or AG_INTERVAL_UNKNOWN. */
void ag_stream_append_words(const uint64_t *words, size_t n_words, uint64_t interval_bytes);
/* STACK with a leaf (site 0: without); AG_ROOT_NOT_KEPT if there is no memory for the node. */
uint32_t ag_stack_with_leaf(uint32_t stack, uint32_t site);

void ag_record_lost(enum ag_lost_cause cause, uint64_t events);
/* As ag_pages_map; the bytes count as memory of the recorder. */
void *ag_recorder_map(size_t bytes);

#endif
