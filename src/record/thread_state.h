/* thread_state.h: what one thread needs to record: its place in a chunk, its walker, and the gate
 * that keeps signal handlers out of a half-written event. See the essay in stream.c. */
#ifndef AG_THREAD_STATE_H
#define AG_THREAD_STATE_H

#include "process_life.h"
#include "recorder.h"

enum {
    AG_GATE_ABSENT = 2,    /* no state yet: the slow path sorts it out */
    AG_GATE_OPEN = 1,      /* nobody of this thread is inside the recorder */
    AG_GATE_THOROUGH = 4,  /* open, but every event takes the slow path: it does more there (a
                              self-check, the stack of a free, a label, sampling) */
    AG_GATE_SUSPENDED = 8, /* what happens now is told by somebody else (ag_record_suspend) */
    AG_GATE_MARKED =
        32, /* open, but a call is noted whose own calls are told by somebody else: every
                            event takes the slow path, which asks (ag_record_suspend_call) */
    /* any other value: the sp of the hook that is inside, with AG_GATE_APPENDING while words at the
       cursor are written */
    AG_GATE_APPENDING = 1,
    AG_GATE_FREEING = 16 | AG_GATE_APPENDING, /* instead of an sp: nobody asks for it while words
                                                 are written */
};

_Static_assert((int)AG_GATE_OPEN == (int)AG_LIFE_BEGUN &&
                   (int)AG_GATE_ABSENT != (int)AG_LIFE_FORKED,
               "a gate is compared with the life of the process");

enum { AG_EVENT_MAX_WORDS = 3 }; /* ALLOC_BIG; room that `limit` leaves free */

struct ag_thread {
    /* Line 0: all that an event touches beside the chunk and the walker. Owner: this thread and its
     * signal handlers. */
    AG_CACHE_ALIGNED volatile uintptr_t gate;
    uint64_t *cursor; /* next free word; words <= cursor, limit + AG_EVENT_MAX_WORDS <= chunk_end */
    uint64_t *limit;  /* at or behind it the slow path stamps or takes a new chunk */
    uint64_t tick;    /* header.tick when the last stamp was written */
    uint64_t *words;  /* first word of the chunk */
    struct ag_chunk_control *control;
    struct ag_walker *walker;

    /* Cold. */
    uint64_t *chunk_end;
    uint64_t sequence, next_sequence; /* of this chunk, and of the next one */
    uint32_t stream;
    uint32_t thread_id; /* kernel tid of the owner, for the trace */
    _Atomic uint64_t
        owner; /* see stream.c, 1; claimed by compare-and-swap when the owner is dead. Changed, with
                  process_number, by the owner itself or under a claim */
    _Atomic uint32_t process_number; /* ag_recorder.process_number when the owner took it */
    size_t bytes;                    /* of the state's mapping */
    uint32_t nested_mark;            /* AG_THREAD_NESTED in a state that is another one's nested */
    struct ag_thread *nested;        /* for handlers that interrupt an append */
    struct ag_thread *next;          /* in ag_recorder.threads */
    uint64_t
        written_interval_bytes; /* that the chunk's events are sampled with; AG_INTERVAL_UNKNOWN */
    uint32_t reported_method;   /* and how: enum ag_sampling_method */
    uint64_t lost_stopped;      /* events after recording stopped, not yet added to the slot */
    uint32_t label_site;        /* leaf of all its stacks, 0: none */
    uint32_t recording;         /* ag_recorder.recording when the state was begun */
    struct ag_walk_scratch *scratch; /* of managed_frames.c, NULL until it is needed */
};

/* No hook of this thread is inside. */
AG_FAST bool ag_thread_is_idle(const struct ag_thread *thread) {
    return thread->gate == AG_GATE_OPEN || thread->gate == AG_GATE_THOROUGH ||
           thread->gate == AG_GATE_MARKED;
}

/* Nobody of this thread is inside, and all its events take the fast path. In a forked child whose
 * recording has not begun: no. */
AG_FAST bool ag_thread_is_open(const struct ag_thread *thread) {
    return thread->gate == ag_process_life();
}

/* A hook of this thread is inside: it was interrupted by whoever asks, or left by longjmp. */
AG_FAST bool ag_thread_is_inside(const struct ag_thread *thread) {
    return !ag_thread_is_idle(thread) && thread->gate != AG_GATE_SUSPENDED &&
           thread->gate != AG_GATE_ABSENT;
}

/* The state is of this process, and so is its chunk. */
AG_FAST bool ag_thread_is_own(const struct ag_thread *thread) {
    return atomic_load_explicit(&thread->process_number, memory_order_relaxed) ==
               ag_recorder.process_number &&
           !ag_process_is_forked();
}

/* Never NULL: threads without a state point at one whose gate is ABSENT. */
extern __thread struct ag_thread *ag_thread_current __attribute__((tls_model("initial-exec")))
AG_HIDDEN;

/* Where the tids of threads lie is found out here, in whichever thread starts the recorder. */
void ag_threads_start(void);
/* The tid that the C library keeps of the calling thread, read without a system call. 0: not known
 * where. In a child of a raw system call it is that of the thread that made it. */
uint32_t ag_thread_tid_in_memory(void);
/* The calling thread as a number that no other thread of the process has while it lives; and
 * whether the one of this number is gone, as far as thread `self` can say without a system call
 * that a sandbox forbids. */
uint64_t ag_thread_self(void);
bool ag_thread_is_gone(uint64_t owner, uint64_t self);
/* Makes (or inherits from a dead thread) the calling thread's state. NULL: no memory, or recording
 * has stopped. */
struct ag_thread *ag_thread_begin(void);
/* Its caches are not for a forked child: without this, fork costs their copy where parent and child
 * write there, some 15 us. Only for the thread that starts the recorder: a sandbox that begins
 * later may forbid the system call. */
void ag_thread_do_not_copy_caches(const struct ag_thread *thread);
/* The calling thread's state, begun where it has none yet; in a forked child that is the first to
 * ask, its recording too. NULL: nothing is recorded (an event that is not was counted). */
struct ag_thread *ag_thread_ready(void);
/* Nobody takes over this state, or those nested in it, any more: the hook that is inside goes on in
 * a forked child, and what it records is its parent's. */
void ag_thread_abandon(struct ag_thread *thread);
/* In a forked child that is begun by a thread without a state: every thread that has one begins
 * anew at its next event. false: one is inside a hook, where it cannot be stopped; then this
 * process may not be recorded. */
bool ag_threads_leave_behind(void);
/* A further stream of the calling thread, for its signal handlers. */
struct ag_thread *ag_thread_begin_nested(void);

/* Writes a stamp, in a new chunk when the old one is full. Returns the cursor, NULL when recording
 * has stopped or there is no chunk (counted as lost). Called with AG_GATE_APPENDING in the gate. */
uint64_t *ag_stream_renew_slow(struct ag_thread *thread);
/* Appends a rare record: a struct and up to three byte strings. Sets AG_GATE_APPENDING itself. */
void ag_stream_append_wide(struct ag_thread *thread, enum ag_wide_kind kind,
                           const struct ag_wide_part *parts, size_t n_parts);

/* What its gate has to be when nobody is inside may have changed: a label, a source of frames. */
void ag_thread_reopen(void);

/* An event of up to AG_EVENT_MAX_WORDS words, from any thread and handler. sampled: the interval
 * that the block it is about was chosen with, to stand before it, or AG_INTERVAL_UNKNOWN. */
void ag_stream_append_words(const uint64_t *words, size_t n_words, uint64_t interval_bytes);
/* STACK with a leaf (site 0: none); AG_ROOT_NOT_KEPT where there is no memory for the node. */
uint32_t ag_stack_with_leaf(uint32_t stack, uint32_t site);

void ag_record_lost(enum ag_lost_cause cause, uint64_t events);

#endif
