/* thread_state.h: the state that one thread needs to record events: its position in a chunk of
 * shared memory, its stack walker, and the gate. The gate is a word that shows signal handlers
 * whether they interrupted the recording of an event. The comment at the top of stream.c explains
 * how these parts work together. */
#ifndef AG_THREAD_STATE_H
#define AG_THREAD_STATE_H

#include "process_life.h"
#include "recorder.h"

enum {
    AG_GATE_ABSENT = 2, /* the thread has no state yet: the slow path begins a state */
    AG_GATE_OPEN = 1,   /* the thread is not inside the recorder */
    /* open, but every event takes the slow path, which does more (a self-check, the stack of a
     * free, a label, managed frames, sampling, a filter) */
    AG_GATE_THOROUGH = 4,
    /* another component records the thread's events at present (ag_record_suspend in recorder.h) */
    AG_GATE_SUSPENDED = 8,
    /* open, but inside a call that ag_record_suspend_call has marked, because another component
     * records what happens in it: every event takes the slow path, which checks the marks */
    AG_GATE_MARKED = 32,
    /* Any other value means that the thread is in a hook, the code that records a call of malloc or
     * free. The value is the sp of the hook, plus AG_GATE_APPENDING while words at the cursor are
     * being written. */
    AG_GATE_APPENDING = 1,
    /* the thread is in the hook of a free, in which the gate does not contain an sp */
    AG_GATE_FREEING = 16 | AG_GATE_APPENDING,
};

_Static_assert((int)AG_GATE_OPEN == (int)AG_LIFE_BEGUN &&
                   (int)AG_GATE_ABSENT != (int)AG_LIFE_FORKED,
               "a comparison of a gate with the life of the process is valid");

enum { AG_EVENT_MAX_WORDS = 3 }; /* an ALLOC_BIG has 3 words; `limit` leaves room for them */

struct ag_thread {
    /* The first cache line: all fields that an event uses, besides the chunk and the walker. Only
     * this thread and its signal handlers use them. */
    AG_CACHE_ALIGNED volatile uintptr_t gate;
    uint64_t *cursor; /* next free word; words <= cursor, limit + AG_EVENT_MAX_WORDS <= chunk_end */
    /* when the cursor reaches this, the slow path writes a stamp (the time) or takes a new chunk */
    uint64_t *limit;
    uint64_t tick;   /* value of header.tick (counts milliseconds) at the last stamp */
    uint64_t *words; /* first word of the chunk */
    struct ag_chunk_control *control;
    struct ag_walker *walker;

    uint64_t *chunk_end;
    /* numbers of this chunk and of the next one in the stream, the thread's sequence of chunks */
    uint64_t sequence, next_sequence;
    uint32_t stream;
    uint32_t thread_id; /* kernel tid of the owner, for the trace */
    /* identifies the owner (stream.c, section 1); another thread claims the state by
     * compare-and-swap when the owner is dead. Only the owner, or the claiming thread, changes
     * owner and process_number */
    _Atomic uint64_t owner;
    _Atomic uint32_t process_number; /* ag_recorder.process_number when the owner took the state */
    size_t bytes;                    /* size of the state's mapping */
    /* AG_THREAD_NESTED if this is the nested state of another state, else 0 */
    uint32_t nested_mark;
    struct ag_thread *nested; /* the state for signal handlers that interrupt an append, or NULL */
    struct ag_thread *next;   /* next state in the list ag_recorder.threads */
    /* the last sampling interval written into the chunk; AG_INTERVAL_UNKNOWN: none */
    uint64_t written_interval_bytes;
    uint32_t written_method; /* sampling method of that interval: enum ag_sampling_method */
    /* site (number in the stack tree) of the label that the thread's stacks get; 0: none */
    uint32_t label_site;
    uint32_t recording;              /* ag_recorder.recording when the state was begun */
    struct ag_walk_scratch *scratch; /* memory of managed_frames.c; NULL until it is needed */
};

/* The compiler must not move stores to the gate across the work that the gate guards. Signal
 * handlers run on the same thread, so a compiler fence is enough. */
#define AG_SIGNAL_FENCE() atomic_signal_fence(memory_order_seq_cst)

AG_FAST void ag_thread_set_gate(struct ag_thread *thread, uintptr_t gate) {
    AG_SIGNAL_FENCE();
    thread->gate = gate;
    AG_SIGNAL_FENCE();
}

/* Whether the thread has a state, is not inside a hook, and is not suspended. */
AG_FAST bool ag_thread_is_idle(const struct ag_thread *thread) {
    return thread->gate == AG_GATE_OPEN || thread->gate == AG_GATE_THOROUGH ||
           thread->gate == AG_GATE_MARKED;
}

/* Whether the thread is not inside the recorder, and its events take the fast path. False in a
 * forked child whose recording has not begun. */
AG_FAST bool ag_thread_is_open(const struct ag_thread *thread) {
    return thread->gate == ag_process_life();
}

/* Whether the thread is inside a hook: the calling signal handler interrupted the hook, or the hook
 * was left by longjmp. */
AG_FAST bool ag_thread_is_inside(const struct ag_thread *thread) {
    return !ag_thread_is_idle(thread) && thread->gate != AG_GATE_SUSPENDED &&
           thread->gate != AG_GATE_ABSENT;
}

/* Whether the state, and with it its chunk, belongs to this process. */
AG_FAST bool ag_thread_is_own(const struct ag_thread *thread) {
    return atomic_load_explicit(&thread->process_number, memory_order_relaxed) ==
               ag_recorder.process_number &&
           !ag_process_is_forked();
}

/* The calling thread's state. Never NULL: in a thread without a state, it points to a state whose
 * gate is AG_GATE_ABSENT. */
extern __thread struct ag_thread *ag_thread_current __attribute__((tls_model("initial-exec")))
AG_HIDDEN;

/* Finds the offset of tids in thread control blocks. Called by the thread that starts the
 * recorder. */
void ag_threads_start(void);
/* The tid of the calling thread as the C library stores it, read without a system call. 0: the
 * offset is unknown. In a child that was made by a raw system call, it is the tid of the thread
 * that made the child. */
uint32_t ag_thread_tid_in_memory(void);
/* ag_thread_self: a number for the calling thread that no other live thread of the process has.
 * ag_thread_is_gone: whether the thread with the number `owner` has ended, as far as the calling
 * thread, with the number `self`, can determine it without system calls that a sandbox may
 * forbid. */
uint64_t ag_thread_self(void);
bool ag_thread_is_gone(uint64_t owner, uint64_t self);
/* Makes the calling thread's state, or takes over that of a dead thread. NULL: there is no
 * memory. */
struct ag_thread *ag_thread_begin(void);
/* Excludes the state's caches from forked children. Otherwise, after a fork, the kernel copies
 * their pages when parent or child writes to them, which takes some 15 us. Only for the thread that
 * starts the recorder: later a sandbox may forbid the system call. */
void ag_thread_do_not_copy_caches(const struct ag_thread *thread);
/* The calling thread's state, which is begun if there is none yet. In a forked child whose
 * recording has not begun, it begins the recording first. NULL: the event cannot be recorded (it
 * has been counted as lost if the process is recorded). */
struct ag_thread *ag_thread_ready(void);
/* Marks this state, and the states nested in it, so that no thread takes them over. Called in a
 * forked child if an interrupted hook continues there with the state; the hook's event belongs to
 * the parent. */
void ag_thread_abandon(struct ag_thread *thread);
/* Called in a forked child whose recording is begun by a thread without a state: every thread that
 * has a state begins a new state at its next event. Returns false if a thread is inside a hook or
 * suspended (AG_GATE_SUSPENDED), where this is impossible; then this process must not be
 * recorded. */
bool ag_threads_leave_behind(void);
/* Makes a further state, with a stream of its own, for the signal handlers of the calling
 * thread. */
struct ag_thread *ag_thread_begin_nested(void);

/* Writes a stamp (a word with the time), in a new chunk if the old chunk is full. Returns the
 * cursor; NULL: the event cannot be recorded: recording has stopped or there is no chunk (counted
 * as lost), recording is paused, or this process is a forked child to which the state does not
 * belong. Called with AG_GATE_APPENDING in the gate. */
uint64_t *ag_stream_renew_slow(struct ag_thread *thread);
/* Appends a rare record, see ag_recorder_append (recorder.h). Sets AG_GATE_APPENDING itself. */
void ag_stream_append_record(struct ag_thread *thread, const struct ag_record *record);
/* Appends the time, and makes sure that the chunk has room for a record of a mapping after it. Such
 * a record has this time if the thread appends nothing else before it. */
void ag_stream_append_stamp(struct ag_thread *thread);

/* Called after a change of a label, of the sources of frames, or of the filter's effect: sets the
 * gate to the value that it now has outside of hooks. */
void ag_thread_reopen(void);

/* Appends an event of up to AG_EVENT_MAX_WORDS words, from any thread and signal handler.
 * interval_bytes: the sampling interval by which the block was selected, which is written before
 * the event; AG_INTERVAL_UNKNOWN: none. */
void ag_stream_append_words(const uint64_t *words, size_t n_words, uint64_t interval_bytes);
/* Returns STACK with SITE as its innermost node, a leaf (a type or label); with site 0, STACK
 * itself. Returns AG_ROOT_NOT_KEPT if there is no memory for the node. */
uint32_t ag_stack_with_leaf(uint32_t stack, uint32_t site);

void ag_record_lost(enum ag_lost_cause cause, uint64_t events);
/* Maps memory like ag_pages_map (base/pages.h), and adds the bytes to the recorder's count of its
 * private memory. */
void *ag_recorder_map(size_t bytes);

#endif
