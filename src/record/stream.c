/* stream.c: writes a thread's events and rare records into its chunks of shared memory, as a stream
 * of words with stamps (words with the time). This also works in a signal handler that interrupts a
 * hook (the code that records a call of malloc or free).
 *
 * 1. Data. A thread owns one state (thread_state.h); the state owns one chunk. States are mapped
 * and never freed; a new thread takes over the state of a dead thread. So no hook on thread exit is
 * needed, and events of TLS destructors, the last code of a thread, are recorded like any other.
 *
 * A thread is identified by the address of its thread control block and by its tid. Both are read
 * without a system call: the C library stores the tid in the control block, at an offset that it
 * publishes for debuggers, and the kernel clears the tid there when the thread ends. So a state is
 * free if (a) its owner had the same control block as the calling thread, or (b) its owner's
 * control block does not contain the owner's tid. The test of (b) is a futex operation that
 * compares, because the block may be unmapped. If the offset is unknown, only (a) is tested. A
 * vfork child has the control block of the thread that made it, and uses that thread's state while
 * the thread waits.
 *
 * 2. Fork copies all states; process_life.h describes how a child is detected. The child's first
 * event, or the hook of fork, begins its recording (process.c, section 2). The state of the thread
 * that forked is reset and used again. The states of other threads have no owner in the child, and
 * new threads take them over. If the thread was inside a hook (a signal handler interrupted the
 * hook and forked), that hook continues in the child and finishes its event, which belongs to the
 * parent. So the hook keeps its state, which no other code of the child uses, and the part of the
 * parent's memory to which the hook would write is replaced by private memory (forked_hook.c). If
 * the handler makes the child by a raw system call and returns before the child's first event, the
 * hook itself detects that it is in a child, just before it appends. An error remains only if the
 * hook was interrupted between this check and its last store, some 2 ns: then a word of the
 * parent's chunk is written a second time. The first event of such a child may also come from a
 * thread that the child has made. Then the forked thread still refers to the state that it had in
 * the parent. So all such states are marked: their threads begin a new state at their next event,
 * and no thread takes these states over.
 *
 * 3. Signals. The gate, a word in the state, shows whether a hook is interrupted, and where
 *    (thread_state.h lists its other values):
 *
 *        OPEN            no hook is interrupted: record as usual
 *        sp              inside a capture: the walker is in use, the chunk is not:
 *                        walk without the walker's cache, append as usual
 *        sp|APPENDING    inside an append: the words at the cursor are being written:
 *                        append to the stream of the nested state (a further state of the
 *                        thread, for signal handlers)
 *
 * If a handler leaves a hook by longjmp, the gate stays closed. Then later events are slower, but
 * they are not lost, because the slow path records them. If the hook was inside a capture, the gate
 * opens again at an event whose frame is older than that of the hook (its sp is higher on the same
 * stack). If the hook was inside an append, the gate never opens again, because words may be half
 * written. From then on the nested state, which has a walker and a stream of its own, records the
 * thread's events.
 *
 * 4. Back pressure (chunk_supply.c). A thread without a chunk waits for a limited time until the
 * writer process returns a chunk. */
#include "thread_state.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/blocked_signals.h"
#include "base/pages.h"
#include "base/raw_syscall.h"
#include "block_choice.h"
#include "chunk_supply.h"
#include "event_fast.h"
#include "forked_hook.h"
#include "format/record_body.h"
#include "hook/next_symbol.h"
#include "managed_frames.h"
#include "raw_clock.h"
#include "sampled_blocks.h"
#include "self_check.h"

/* ag_thread_current of threads without a state points to this state, which is never written. */
static struct ag_thread absent_thread = {.gate = AG_GATE_ABSENT};
__thread struct ag_thread *ag_thread_current __attribute__((tls_model("initial-exec"))) =
    &absent_thread;

/* A state is one page, followed by its stack walker on separate pages, which can be filled with
 * zeros separately. */
_Static_assert(sizeof(struct ag_thread) <= AG_PAGE_BYTES, "a thread state fits into a page");

static size_t walker_bytes(void) {
    return ag_page_after(ag_recorder.walker_bytes);
}

static size_t state_bytes(void) {
    return AG_PAGE_BYTES + walker_bytes();
}

static void *walker_memory(struct ag_thread *state) {
    return (unsigned char *)state + AG_PAGE_BYTES;
}

void ag_record_lost(enum ag_lost_cause cause, uint64_t events) {
    if (ag_recorder.slot) {
        atomic_fetch_add_explicit(&ag_recorder.slot->lost[cause], events, memory_order_relaxed);
    }
}

/* ---- states ---- */

enum {
    OWNER_TID_BITS = 22,   /* the kernel's tids have at most this number of bits */
    OWNER_BLOCK_SHIFT = 6, /* thread control blocks are aligned to a cache line */
    OWNER_NOBODY = 1,      /* owner word of a state that no thread may take over */
    /* size of by_block: the newest state of each thread control block, by a hash of its address */
    STATES_BY_BLOCK = 1 << 8
};
/* This bit in an owner word means that a thread is taking the state over. The other bits are then
 * the number of the thread's process, not a control block and a tid. */
#define OWNER_CLAIMS (UINT64_C(1) << 63)
static uint32_t tid_offset; /* offset in the thread control block; 0: unknown */
static _Atomic(struct ag_thread *) by_block[STATES_BY_BLOCK];

static uintptr_t own_block(void) {
    uintptr_t block;
    __asm__("mov %%fs:0, %0" : "=r"(block));
    return block;
}

static uint32_t own_tid(void) {
    return tid_offset != 0 ? *(const volatile uint32_t *)(own_block() + tid_offset)
                           : (uint32_t)ag_syscall1(SYS_gettid, 0);
}

uint32_t ag_thread_tid_in_memory(void) {
    return tid_offset != 0 ? own_tid() : 0;
}

static uint64_t owner_of(uintptr_t block, uint32_t tid) {
    return (uint64_t)(block >> OWNER_BLOCK_SHIFT) << OWNER_TID_BITS |
           (tid & ((1u << OWNER_TID_BITS) - 1));
}

static uintptr_t block_of(uint64_t owner) {
    return (uintptr_t)(owner >> OWNER_TID_BITS) << OWNER_BLOCK_SHIFT;
}

static _Atomic(struct ag_thread *) *place_by_block(uintptr_t block) {
    return &by_block[(block * UINT64_C(0x9e3779b97f4a7c15) >> 56) & (STATES_BY_BLOCK - 1)];
}

/* Reads the offset of the tid from a descriptor that the C library publishes for debuggers: {bits
 * of the field, count, offset}. */
void ag_threads_start(void) {
    struct ag_symbol_place place;
    tid_offset = 0;
    if (ag_symbol_find("_thread_db_pthread_tid", AG_SYMBOL_FIRST_DATA, NULL, &place)) {
        const uint32_t *field = place.address;
        const uint32_t tid = (uint32_t)ag_syscall1(SYS_gettid, 0);
        if (field[0] == 32 && field[2] < AG_PAGE_BYTES &&
            *(const volatile uint32_t *)(own_block() + field[2]) == tid) {
            tid_offset = field[2];
        }
    }
}

/* Whether the owner's control block does not contain the owner's tid. The block may be unmapped, so
 * the kernel compares. */
static bool owner_is_dead(uint64_t owner) {
    const uint32_t tid = (uint32_t)owner & ((1u << OWNER_TID_BITS) - 1);
    uint32_t unused = 0;
    if (tid_offset == 0) {
        return false;
    }
    const long r = ag_syscall6(SYS_futex, (long)(block_of(owner) + tid_offset),
                               FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, /* n_wake= */ 0,
                               /* n_requeue= */ 0, (long)&unused, tid);
    return r == -EAGAIN || r == -EFAULT;
}

uint64_t ag_thread_self(void) {
    return owner_of(own_block(), own_tid());
}

bool ag_thread_is_gone(uint64_t owner, uint64_t self) {
    return block_of(owner) == block_of(self) || owner_is_dead(owner);
}

static uint32_t process_of(const struct ag_thread *state) {
    return atomic_load_explicit(&state->process_number, memory_order_relaxed);
}

static uint64_t claim_of(uint32_t process_number) {
    return OWNER_CLAIMS | process_number;
}

/* Whether a thread may take a state over. The state of another process (a parent of this process)
 * has no owner here: either its thread was not forked, or the thread has begun a new state. A state
 * that was being taken over when the parent forked has no owner either. */
static bool is_free(uint64_t owner, uint32_t process_number, uint64_t self) {
    if (owner & OWNER_CLAIMS) {
        return owner != claim_of(ag_recorder.process_number);
    }
    return owner != OWNER_NOBODY && owner != self &&
           (process_number != ag_recorder.process_number || ag_thread_is_gone(owner, self));
}

/* Empties the walker's caches: the stack of the dead thread, which they describe, may be
 * unmapped. */
static void forget_walks(struct ag_thread *state) {
    const size_t bytes = state->bytes - AG_PAGE_BYTES;
    if (ag_syscall3(SYS_madvise, (long)walker_memory(state), (long)bytes, MADV_DONTNEED) != 0) {
        memset(walker_memory(state), 0, bytes); /* a sandbox refuses madvise */
    }
    state->walker = ag_walker_init(walker_memory(state), ag_recorder.depth);
}

/* Removes the chunk from the state. Called if the chunk belongs to another recording or process. */
static void forget_chunk(struct ag_thread *state) {
    state->control = NULL;
    state->cursor = state->limit = state->words = state->chunk_end = NULL;
}

/* Claims a state. The ownership of a state is stored in two words, `owner` and `process_number`. A
 * claim excludes other threads while the two words are written: if `owner` were new and
 * `process_number` old, the state would look free to another thread of a forked child. Returns
 * false if another thread was faster. */
static bool state_claim(struct ag_thread *state, uint64_t owner, uint32_t process_number) {
    uint64_t found = owner;
    if (!atomic_compare_exchange_strong_explicit(&state->owner, &found,
                                                 claim_of(ag_recorder.process_number),
                                                 memory_order_acq_rel, memory_order_relaxed)) {
        return false;
    }
    /* another thread with the same owner word has taken the state meanwhile */
    if (process_of(state) != process_number) {
        atomic_store_explicit(&state->owner, owner, memory_order_release);
        return false;
    }
    return true;
}

static void state_settle(struct ag_thread *state, uint64_t self) {
    atomic_store_explicit(&state->process_number, ag_recorder.process_number, memory_order_relaxed);
    /* release: pairs with the acquire in take_over, so that process_number is valid */
    atomic_store_explicit(&state->owner, self, memory_order_release);
}

static bool take_over(struct ag_thread *state, uint64_t self) {
    const uint64_t owner = atomic_load_explicit(&state->owner, memory_order_acquire);
    const uint32_t process_number = process_of(state);
    if (!is_free(owner, process_number, self) || state->bytes < state_bytes() ||
        !state_claim(state, owner, process_number)) {
        return false;
    }
    if (process_number != ag_recorder.process_number) {
        forget_chunk(state);
    }
    forget_walks(state);
    state_settle(state, self);
    return true;
}

/* Takes over a free state. Examines only a few states, because a program may have a thousand live
 * threads, and each new thread would examine all their states. */
static struct ag_thread *inherit_state(uint64_t self) {
    enum { STATES_LOOKED_AT = 8 };
    static _Atomic(struct ag_thread *) next_look; /* where the last search ended */
    struct ag_thread *state =
        atomic_load_explicit(place_by_block(block_of(self)), memory_order_acquire);
    if (state && take_over(state, self)) {
        return state;
    }
    state = atomic_load_explicit(&next_look, memory_order_relaxed);
    for (int i = 0; i < STATES_LOOKED_AT; i++) {
        if (!state) {
            state = atomic_load_explicit(&ag_recorder.threads, memory_order_acquire);
        }
        if (!state) {
            return NULL;
        }
        if (take_over(state, self)) {
            atomic_store_explicit(&next_look, state->next, memory_order_relaxed);
            return state;
        }
        state = state->next;
    }
    atomic_store_explicit(&next_look, state, memory_order_relaxed);
    return NULL;
}

static struct ag_thread *map_state(uint64_t self) {
    const size_t bytes = state_bytes();
    struct ag_thread *state = ag_recorder_map(bytes);
    if (!state) {
        return NULL;
    }
    state->gate = AG_GATE_ABSENT;
    state->bytes = bytes;
    state->walker = ag_walker_init(walker_memory(state), ag_recorder.depth);
    atomic_store_explicit(&state->owner, self, memory_order_relaxed);
    atomic_store_explicit(&state->process_number, ag_recorder.process_number, memory_order_relaxed);
    atomic_fetch_add_explicit(&ag_recorder.n_states, 1, memory_order_relaxed);
    struct ag_thread *head = atomic_load_explicit(&ag_recorder.threads, memory_order_relaxed);
    do {
        state->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&ag_recorder.threads, &head, state,
                                                    memory_order_release, memory_order_relaxed));
    return state;
}

static bool is_own_active(const struct ag_thread *state, const struct ag_chunk_control *control) {
    return atomic_load_explicit(&control->state, memory_order_relaxed) == AG_CHUNK_ACTIVE &&
           control->slot == ag_recorder.slot_index &&
           control->slot_generation == ag_recorder.slot_generation &&
           control->stream == state->stream;
}

/* Marks the state's chunk as full and detaches it. A signal handler may leave this function by
 * longjmp at any line. Then the next event repeats the handover, which has no effect on a chunk
 * that is not active or belongs to another stream. A handler may also fork, and the child continues
 * here, maybe before its parent. So the number of the next chunk is computed from the state alone,
 * not from the chunk. */
static void hand_over_chunk(struct ag_thread *state) {
    struct ag_chunk_control *control = state->control;
    if (!control || !state->cursor) { /* the chunk never became active */
        return;
    }
    state->limit = state->chunk_end = state->cursor;
    state->next_sequence = state->sequence + 1;
    AG_SIGNAL_FENCE();
    if (is_own_active(state, control)) {
        /* release: pairs with the writer's acquire of `state`, so that the words are complete */
        atomic_store_explicit(&control->state, AG_CHUNK_FULL, memory_order_release);
    }
    AG_SIGNAL_FENCE();
    state->control = NULL;
}

/* Writes a last stamp into the stream of a dead thread. Its last events happened before this
 * moment; without the stamp, a reader would know only that they happened before the end of the
 * process. */
static void end_stream(struct ag_thread *state) {
    if (state->control && state->cursor && state->cursor < state->chunk_end) {
        *state->cursor = ag_raw_clock_elapsed(ag_recorder.header) << 8 | AG_WORD_STAMP;
        ag_stream_commit_fast(state, state->cursor + 1);
    }
    hand_over_chunk(state);
}

static void begin_stream(struct ag_thread *state) {
    end_stream(state);
    forget_chunk(state);
    state->next_sequence = 0;
    state->stream =
        atomic_fetch_add_explicit(&ag_recorder.slot->n_streams, 1, memory_order_relaxed);
}

__thread ag_call_marks ag_suspended_calls __attribute__((tls_model("initial-exec")));

static uintptr_t open_gate(const struct ag_thread *state) {
    if (ag_self_check_is_on() || ag_recorder.has_free_stacks || state->label_site != 0 ||
        ag_frame_sources_are_there() || ag_recorder_is_sampling() || ag_block_choice.asks) {
        return AG_GATE_THOROUGH;
    }
    return ag_suspended_calls ? AG_GATE_MARKED : AG_GATE_OPEN;
}

/* Records the thread. The name is recorded only for the first thread, because to read a thread's
 * name takes a system call, which a sandbox may forbid. The writer reads the names of other threads
 * (writer/recording.c, section 5). */
static void announce_thread(struct ag_thread *state) {
    const struct ag_record record = {
        .kind = AG_RECORD_THREAD,
        .u.thread = {.thread_id = state->thread_id,
                     .name = ag_bytes_of(ag_recorder.first_name, sizeof(ag_recorder.first_name))}};
    ag_stream_append_record(state, &record);
}

/* The state that this thread had in the previous recording or, in a forked child, in the parent. */
static struct ag_thread *state_from_before(uint64_t self) {
    struct ag_thread *state = ag_thread_current;
    const uint64_t owner = atomic_load_explicit(&state->owner, memory_order_relaxed);
    if (block_of(owner) != block_of(self) || state->bytes < state_bytes() ||
        !state_claim(state, owner, process_of(state))) {
        return NULL;
    }
    forget_chunk(state);
    forget_walks(state);
    state_settle(state, self); /* the tid may have changed */
    return state;
}

struct ag_thread *ag_thread_begin(void) {
    const uint32_t thread_id = own_tid();
    const uint64_t self = owner_of(own_block(), thread_id);
    /* a signal handler must not find the state half initialized, and must not fork meanwhile */
    const uint64_t signals = ag_signals_block();
    struct ag_thread *state = state_from_before(self);
    if (!state) {
        state = inherit_state(self);
    }
    if (!state) {
        state = map_state(self);
    }
    if (state) {
        begin_stream(state);
        state->thread_id = thread_id;
        state->nested = NULL;
        state->nested_mark = 0;
        state->label_site = 0;
        state->recording = ag_recorder.recording;
        state->gate = open_gate(state);
        atomic_store_explicit(place_by_block(own_block()), state, memory_order_release);
        ag_thread_current = state;
    }
    ag_signals_restore(signals);
    if (state) {
        announce_thread(state); /* may wait for a chunk */
    } else {
        ag_record_lost(AG_LOST_NO_MEMORY, 1);
    }
    return state;
}

void ag_thread_do_not_copy_caches(const struct ag_thread *thread) {
    size_t bytes = 0;
    void *caches = ag_walker_caches(thread->walker, &bytes);
    /* without MADV_WIPEONFORK, a fork leads to copies of the caches */
    (void)ag_syscall3(SYS_madvise, (long)caches, (long)bytes, MADV_WIPEONFORK);
}

struct ag_thread *ag_thread_begin_nested(void) {
    const uint64_t signals = ag_signals_block();
    const uint32_t thread_id = own_tid();
    struct ag_thread *state = map_state(owner_of(own_block(), thread_id));
    if (state) {
        begin_stream(state);
        state->thread_id = thread_id;
        state->nested_mark = AG_THREAD_NESTED;
        state->recording = ag_recorder.recording;
        state->gate = open_gate(state);
    }
    ag_signals_restore(signals);
    return state;
}

struct ag_thread *ag_thread_ready(void) {
    if (AG_UNLIKELY(ag_process_is_forked())) {
        ag_recorder_child_start();
        if (!ag_recorder_is_active()) {
            return NULL;
        }
    }
    struct ag_thread *thread = ag_thread_current;
    return thread->gate == AG_GATE_ABSENT ? ag_thread_begin() : thread;
}

void ag_thread_abandon(struct ag_thread *thread) {
    for (struct ag_thread *state = thread; state; state = state->nested) {
        atomic_store_explicit(&state->owner, OWNER_NOBODY, memory_order_relaxed);
    }
    if (ag_thread_current == thread) {
        ag_thread_current = &absent_thread;
    }
}

bool ag_threads_leave_behind(void) {
    bool is_all = true;
    struct ag_thread *state = atomic_load_explicit(&ag_recorder.threads, memory_order_acquire);
    for (; state; state = state->next) {
        if (ag_thread_is_idle(state) || state->gate == AG_GATE_ABSENT) {
            state->gate = AG_GATE_ABSENT;
            atomic_store_explicit(&state->owner, OWNER_NOBODY, memory_order_relaxed);
        } else {
            /* the result is not needed, because the child is not recorded in any case */
            (void)ag_forked_hook_part(state);
            is_all = false;
        }
    }
    return is_all;
}

/* ---- chunks and stamps ---- */

/* A signal handler may fork between any two instructions of this function, and the child continues
 * the function. So the function must not write to the chunk, or to its control, before it has
 * checked that both belong to this process. Before this check, the function stores the addresses of
 * both in the state; so a child that is forked after the check knows which memory to replace by
 * private memory.
 *
 * A handler may also leave this function by longjmp. The cursor is set last: if it is not set, the
 * next event begins the chunk again and writes the same values. */
AG_COLD static bool take_new_chunk(struct ag_thread *thread) {
    struct ag_chunk_control *control = thread->control;
    uint64_t *words = thread->words;
    if (!ag_thread_is_own(thread)) {
        return false;
    }
    if (!control || !words || thread->cursor) {
        hand_over_chunk(thread);
        forget_chunk(thread);
        if (ag_chunk_supply_take(thread, &control, &words) < 0) {
            return false;
        }
        thread->words = words;
        thread->control = control;
        AG_SIGNAL_FENCE();
    }
    if (!ag_thread_is_own(thread)) {
        forget_chunk(thread);
        return false;
    }
    control->slot = ag_recorder.slot_index;
    control->slot_generation = ag_recorder.slot_generation;
    control->stream = thread->stream;
    control->thread_id = thread->thread_id | thread->nested_mark;
    control->sequence = thread->sequence = thread->next_sequence;
    atomic_store_explicit(&control->used_words, 0, memory_order_relaxed);
    /* release: the fields above are valid when the writer reads the state */
    atomic_store_explicit(&control->state, AG_CHUNK_ACTIVE, memory_order_release);
    thread->chunk_end = words + AG_CHUNK_WORDS;
    thread->written_interval_bytes = AG_INTERVAL_UNKNOWN;
    AG_SIGNAL_FENCE();
    thread->cursor = words;
    return true;
}

static bool recording_has_stopped(void) {
    return atomic_load_explicit(&ag_recorder.header->stop, memory_order_relaxed) ||
           !ag_recorder_is_active();
}

/* Records a reset of the reports if another process has requested one. The first thread that sees
 * the request records it. */
static void write_reset(struct ag_thread *thread) {
    uint32_t known = atomic_load_explicit(&ag_recorder.n_resets, memory_order_relaxed);
    const uint32_t asked =
        atomic_load_explicit(&ag_recorder.header->n_resets, memory_order_relaxed);
    if (AG_UNLIKELY(asked != known) &&
        atomic_compare_exchange_strong_explicit(&ag_recorder.n_resets, &known, asked,
                                                memory_order_relaxed, memory_order_relaxed)) {
        *thread->cursor = AG_WORD_RESET;
        ag_stream_commit_fast(thread, thread->cursor + 1);
    }
}

enum { STAMP_ROOM = 2 + AG_EVENT_MAX_WORDS }; /* words; a stamp may be followed by a reset */

static uint64_t *write_stamp(struct ag_thread *thread) {
    if (thread->cursor == NULL || thread->chunk_end - thread->cursor < STAMP_ROOM) {
        if (!take_new_chunk(thread)) {
            if (ag_thread_is_own(thread)) {
                ag_record_lost(AG_LOST_RING_FULL, 1);
            }
            return NULL;
        }
    }
    thread->tick = atomic_load_explicit(&ag_recorder.header->tick, memory_order_relaxed);
    *thread->cursor = ag_raw_clock_elapsed(ag_recorder.header) << 8 | AG_WORD_STAMP;
    ag_stream_commit_fast(thread, thread->cursor + 1);
    write_reset(thread);
    uint64_t *limit = thread->cursor + ag_recorder.stamp_words;
    uint64_t *last = thread->chunk_end - AG_EVENT_MAX_WORDS;
    thread->limit = limit < last ? limit : last;
    return thread->cursor;
}

static uint32_t pause_now(void) {
    const uint32_t own = atomic_load_explicit(&ag_recorder.paused, memory_order_relaxed);
    return own != AG_PAUSE_NONE
               ? own
               : atomic_load_explicit(&ag_recorder.header->paused, memory_order_relaxed);
}

void ag_recorder_pause(enum ag_pause pause) {
    struct ag_thread *thread = ag_thread_current;
    atomic_store_explicit(&ag_recorder.paused, pause, memory_order_relaxed);
    if (thread->gate != AG_GATE_ABSENT) {
        thread->tick = 0; /* no tick is 0: the next event takes the slow path */
    }
}

/* The control block of the thread that called _exit. A child of vfork has the same control block as
 * the thread that made it, and the two cannot be distinguished without a system call; so the caller
 * of _exit may be the child. 0: none. */
static _Atomic uintptr_t exiting_block;

/* The caller of _exit may be a child that shares its parent's memory and has no thread-local
 * variables (the sandbox of Chromium makes such a child, by clone with CLONE_SETTLS). So this
 * function must not read thread-local variables before it knows that the thread control block
 * belongs to a thread of this process. */
void ag_recorder_exits_now(void) {
    const uintptr_t block = own_block();
    struct ag_thread *state = atomic_load_explicit(place_by_block(block), memory_order_acquire);
    const uint64_t owner = state ? atomic_load_explicit(&state->owner, memory_order_relaxed) : 0;
    if (state && block_of(owner) == block) {
        atomic_store_explicit(&exiting_block, block, memory_order_relaxed);
        state->tick = 0; /* the next event takes the slow path */
        ag_recorder_exiting();
    } else if ((uint32_t)ag_syscall1(SYS_getpid, 0) == ag_recorder.pid) {
        ag_recorder_exiting();
    }
}

/* Called when a thread that seemed to call _exit has another event: so its child of vfork has
 * called _exit, and the process continues. */
AG_COLD static void take_back_exit(void) {
    atomic_store_explicit(&exiting_block, 0, memory_order_relaxed);
    if (ag_recorder.slot) {
        atomic_store_explicit(&ag_recorder.slot->exiting, AG_SLOT_STAYS, memory_order_relaxed);
    }
}

/* During a pause thread->tick stays 0, so that each event calls this function. The gate shows
 * whether the event is a free (AG_GATE_FREEING). */
AG_COLD uint64_t *ag_stream_renew_slow(struct ag_thread *thread) {
    const uint32_t pause = pause_now();
    if (AG_UNLIKELY(!ag_thread_is_own(thread))) {
        return NULL; /* the parent, in which the event began, records it */
    }
    if (AG_UNLIKELY(atomic_load_explicit(&exiting_block, memory_order_relaxed) == own_block())) {
        take_back_exit();
    }
    if (AG_UNLIKELY(pause != AG_PAUSE_NONE) &&
        (pause >= AG_PAUSE_ALL || thread->gate != AG_GATE_FREEING)) {
        thread->tick = 0;
        return NULL;
    }
    if (recording_has_stopped()) {
        ag_record_lost(AG_LOST_STOPPED, 1);
        hand_over_chunk(thread);
        thread->cursor = thread->limit = thread->chunk_end = NULL;
        return NULL;
    }
    uint64_t *cursor = write_stamp(thread);
    if (AG_UNLIKELY(pause != AG_PAUSE_NONE)) {
        thread->tick = 0; /* the next event may be an allocation, which must not be recorded */
    }
    return cursor;
}

AG_COLD void ag_stream_append_record(struct ag_thread *thread, const struct ag_record *record) {
    struct ag_record_layout layout;
    if (!ag_record_layout(record->kind, &layout)) {
        return;
    }
    const size_t most_words = 1 + (ag_record_body_most(&layout, record) + 7) / 8;
    const uintptr_t gate = thread->gate;
    const uintptr_t inside =
        ag_thread_is_idle(thread) ? (uintptr_t)__builtin_frame_address(0) : gate;
    ag_thread_set_gate(thread, inside | AG_GATE_APPENDING);
    if (!recording_has_stopped() && ag_thread_is_own(thread)) {
        if (thread->cursor == NULL ||
            (size_t)(thread->chunk_end - thread->cursor) < most_words + 1 + AG_EVENT_MAX_WORDS) {
            if (take_new_chunk(thread)) {
                (void)write_stamp(thread); /* cannot fail: a new chunk has room */
            }
        }
        if (thread->cursor) {
            uint8_t *body = (uint8_t *)(thread->cursor + 1);
            const size_t bytes = (size_t)(ag_record_body_put(body, &layout, record) - body);
            *thread->cursor = AG_WORD_RECORD_HEAD(record->kind, bytes);
            ag_stream_commit_fast(thread, thread->cursor + 1 + (bytes + 7) / 8);
            if (thread->limit < thread->cursor) {
                thread->limit = thread->cursor; /* so the next event writes a stamp first */
            }
        } else if (record->kind != AG_RECORD_THREAD &&
                   ag_thread_is_own(
                       /* a THREAD record is no event: its loss is not counted */
                       thread)) {
            ag_record_lost(AG_LOST_RING_FULL, 1);
        }
    }
    ag_thread_set_gate(thread, gate);
}

AG_COLD void ag_stream_append_stamp(struct ag_thread *thread) {
    /* words for the stamp, a reset and a record of a mapping, which has 6 numbers */
    enum { ROOM = STAMP_ROOM + 16 };
    const uintptr_t gate = thread->gate;
    const uintptr_t inside =
        ag_thread_is_idle(thread) ? (uintptr_t)__builtin_frame_address(0) : gate;
    ag_thread_set_gate(thread, inside | AG_GATE_APPENDING);
    if (!recording_has_stopped() && ag_thread_is_own(thread)) {
        const bool has_room = thread->cursor && thread->chunk_end - thread->cursor >= ROOM;
        if (has_room || take_new_chunk(thread)) {
            (void)write_stamp(thread); /* cannot fail: the chunk has room */
        }
    }
    ag_thread_set_gate(thread, gate);
}

/* ---- events from the fast path ---- */

static bool is_on_alternate_stack(void) {
    stack_t current = {0};
    return ag_syscall2(SYS_sigaltstack, 0, (long)&current) != 0 || /* a sandbox refused it */
           (current.ss_flags & SS_ONSTACK);
}

/* Whether both addresses lie in one stack: they are near, or nothing unreadable, such as a guard
 * page, is between them. */
static bool is_one_stack(uintptr_t low, uintptr_t high) {
    enum { PAGE = 4096, NEAR_BYTES = 1 << 20 };
    if (high - low < NEAR_BYTES) {
        return true;
    }
    for (uintptr_t page = low & -(uintptr_t)PAGE; page < high; page += PAGE) {
        if (!ag_readable_word(page)) {
            return false;
        }
    }
    return true;
}

/* Whether the hook that closed the gate was left by longjmp: a frame that is older than the hook's
 * frame (on the same stack, with a higher sp) is running. For a frame on an alternate signal stack
 * the addresses cannot be compared, because that stack may lie anywhere. */
static bool is_left_by_longjmp(uintptr_t gate_sp, uintptr_t sp) {
    enum { STACK_BYTES_MOST = 64 << 20 };
    return sp > gate_sp && sp - gate_sp < STACK_BYTES_MOST && !is_on_alternate_stack() &&
           is_one_stack(gate_sp, sp);
}

/* The first state in the chain of nested states to which no interrupted hook is appending.
 * *ret_can_walk: whether its walker may be used. */
static struct ag_thread *nested_state(struct ag_thread *thread, bool *ret_can_walk) {
    while (!ag_thread_is_idle(thread) && (thread->gate & AG_GATE_APPENDING)) {
        if (!thread->nested) {
            thread->nested = ag_thread_begin_nested();
        }
        if (!thread->nested) {
            ag_record_lost(AG_LOST_NO_MEMORY, 1);
            return NULL;
        }
        thread = thread->nested;
    }
    *ret_can_walk = ag_thread_is_idle(thread);
    return thread;
}

/* The state with which to record an event, and whether its walker may be used. NULL: this event is
 * not recorded (it has been counted as lost, or another component records it). */
static struct ag_thread *usable_state(uintptr_t sp, bool *ret_can_walk) {
    struct ag_thread *thread = ag_record_is_suspended_call(sp) ? NULL : ag_thread_ready();
    *ret_can_walk = true;
    if (!thread) {
        return NULL;
    }
    if (thread->gate == AG_GATE_MARKED && !ag_suspended_calls) {
        thread->gate = open_gate(thread); /* the marked calls have ended */
    }
    if (ag_thread_is_idle(thread)) {
        return thread;
    }
    if (thread->gate == AG_GATE_SUSPENDED) {
        return NULL;
    }
    if (thread->gate & AG_GATE_APPENDING) {
        return nested_state(thread, ret_can_walk);
    }
    if (is_left_by_longjmp(thread->gate, sp)) {
        thread->gate = open_gate(thread);
        return thread;
    }
    *ret_can_walk = false;
    return thread;
}

static uint32_t with_pc(uint32_t stack, uintptr_t pc);

static uint32_t walk_native(struct ag_thread *thread, bool can_walk, const uintptr_t *sp,
                            uintptr_t rbp) {
    if (!can_walk) {
        return ag_walk_plain(ag_recorder.space, sp, rbp);
    }
    const uint32_t stack = ag_walker_capture(thread->walker, ag_recorder.space, sp, rbp);
    if (ag_self_check_is_on()) {
        ag_self_check_stack(stack, sp);
    }
    return stack;
}

/* Returns the node of the stack at sp. pc: as in ag_typed_place. In a signal handler that
 * interrupted a hook, only native frames are recorded. */
static uint32_t walk_stack(struct ag_thread *thread, bool can_walk, const uintptr_t *sp,
                           uintptr_t rbp, uintptr_t pc) {
    if (can_walk && ag_frame_sources_are_there()) {
        return ag_managed_walk(thread, sp, rbp, pc);
    }
    const uint32_t stack = walk_native(thread, can_walk, sp, rbp);
    return pc != 0 ? with_pc(stack, pc) : stack;
}

AG_FAST uint32_t with_leaf(uint32_t stack, uint32_t site) {
    if (site == 0) {
        return stack;
    }
    const uint32_t node = ag_node_intern_fast(&ag_recorder.space->tree, stack, site);
    return node != 0 ? node : AG_ROOT_NOT_KEPT;
}

uint32_t ag_stack_with_leaf(uint32_t stack, uint32_t site) {
    return with_leaf(stack, site);
}

/* The stack with the pc of the innermost frame replaced by PC. */
static uint32_t with_pc(uint32_t stack, uintptr_t pc) {
    struct ag_stack_tree *tree = &ag_recorder.space->tree;
    uint32_t caller = 0, replaced = 0;
    return ag_stack_tree_node(tree, stack, &caller, &replaced) ? ag_stack_push(caller, pc) : stack;
}

static void fill_site(const struct ag_typed_place *place, uint32_t stack, uint64_t interval_bytes) {
    if (place && place->ret_site) {
        *place->ret_site = (struct ag_block_site){stack, interval_bytes};
    }
}

void ag_record_alloc_typed(const uintptr_t *sp, uintptr_t rbp, uintptr_t address, size_t bytes,
                           uint32_t via, const struct ag_typed_place *place) {
    struct ag_thread *thread = ag_thread_current;
    if (AG_UNLIKELY(!ag_thread_is_open(thread) || place->n_frames != 0)) {
        if (ag_recorder_is_active()) {
            ag_record_alloc_slow(sp, rbp, address, bytes, via, place);
        }
        return;
    }
    ag_thread_set_gate(thread, (uintptr_t)sp);
    uint32_t stack = ag_walker_capture_fast(thread->walker, ag_recorder.space, sp, rbp);
    stack = with_leaf(place->pc ? with_pc(stack, place->pc) : stack, place->site);
    ag_thread_set_gate(thread, (uintptr_t)sp | AG_GATE_APPENDING);
    ag_stream_append_alloc_fast(thread, stack, address, bytes, via);
    ag_thread_set_gate(thread, AG_GATE_OPEN);
    fill_site(place, stack, AG_INTERVAL_UNKNOWN);
}

/* Called before the event of a sampled block: writes the sampling interval, unless the last
 * interval in the chunk is the same. Also makes sure that the chunk has room for a stamp and the
 * event, so that interval and event are in one chunk. */
static void write_interval(struct ag_thread *thread, uint64_t interval_bytes,
                           enum ag_sampling_method method) {
    enum { ROOM = 1 + AG_EVENT_MAX_WORDS };
    const bool has_room = thread->cursor && thread->chunk_end - thread->cursor >= ROOM;
    if (has_room && thread->written_interval_bytes == interval_bytes &&
        thread->written_method == method) {
        return;
    }
    const struct ag_record record = {.kind = AG_RECORD_SAMPLING,
                                     .u.sampling = {.interval_bytes = interval_bytes,
                                                    .seed = ag_recorder.header->seed,
                                                    .method = method}};
    ag_stream_append_record(thread, &record);
    thread->written_interval_bytes = interval_bytes;
    thread->written_method = method;
}

/* Records an allocation. Returns false if another component records it, or it cannot be
 * recorded. */
AG_COLD static bool record_alloc(const uintptr_t *sp, uintptr_t rbp, uintptr_t address,
                                 size_t bytes, uint32_t via, const struct ag_typed_place *place,
                                 uint64_t interval_bytes) {
    bool can_walk = false;
    struct ag_thread *thread = usable_state((uintptr_t)sp, &can_walk);
    if (!thread) {
        return false;
    }
    const uintptr_t gate = thread->gate;
    ag_thread_set_gate(thread, (uintptr_t)sp);
    uint32_t stack = walk_stack(thread, can_walk, sp, rbp, place ? place->pc : 0);
    if (place && place->n_frames != 0) {
        stack = ag_managed_push(stack, place->frames, place->n_frames);
    }
    stack = with_leaf(stack, ag_thread_current->label_site);
    stack = with_leaf(stack, place ? place->site : 0);
    if (interval_bytes != AG_INTERVAL_UNKNOWN) {
        write_interval(thread, interval_bytes, AG_SAMPLING_POISSON_BYTES);
    }
    ag_thread_set_gate(thread, (uintptr_t)sp | AG_GATE_APPENDING);
    ag_stream_append_alloc_fast(thread, stack, address, bytes, via);
    ag_thread_set_gate(thread, gate);
    fill_site(place, stack, interval_bytes);
    return true;
}

/* The state for an event whose stack need not be walked; NULL: the event cannot be recorded. */
static struct ag_thread *reporting_state(const uintptr_t *sp) {
    bool unused = false;
    return ag_recorder_is_active() ? usable_state((uintptr_t)sp, &unused) : NULL;
}

void ag_record_reported_alloc(const struct ag_reported_block *block) {
    const uintptr_t *sp = (const uintptr_t *)__builtin_frame_address(0);
    struct ag_thread *thread = reporting_state(sp);
    if (!thread) {
        return;
    }
    const uintptr_t gate = thread->gate;
    ag_thread_set_gate(thread, (uintptr_t)sp);
    if (ag_recorder_is_sampling()) {
        write_interval(thread, block->interval_bytes,
                       block->is_by_bytes ? AG_SAMPLING_POISSON_BYTES : AG_SAMPLING_WORDS);
    }
    ag_thread_set_gate(thread, (uintptr_t)sp | AG_GATE_APPENDING);
    ag_stream_append_alloc_fast(thread, with_leaf(block->stack, ag_thread_current->label_site),
                                block->address, block->bytes, block->via);
    ag_thread_set_gate(thread, gate);
}

void ag_record_reported_free(uintptr_t address, uint32_t via) {
    const uintptr_t *sp = (const uintptr_t *)__builtin_frame_address(0);
    struct ag_thread *thread = reporting_state(sp);
    if (!thread) {
        return;
    }
    const uintptr_t gate = thread->gate;
    ag_thread_set_gate(thread, AG_GATE_FREEING);
    ag_stream_append_free_fast(thread, AG_WORD_FREE, address, via);
    ag_thread_set_gate(thread, gate);
}

static enum ag_block_type type_of(const struct ag_typed_place *place) {
    return place && place->site != 0 ? AG_BLOCK_TYPE_TAKEN : AG_BLOCK_TYPE_UNKNOWN;
}

/* Records a block if the recording's filter selects it. */
AG_COLD static void record_chosen(const uintptr_t *sp, uintptr_t rbp, uintptr_t address,
                                  size_t bytes, uint32_t via, const struct ag_typed_place *place) {
    const uintptr_t key = ag_sampled_key(address, via);
    const bool is_remembered = ag_block_choice_remembers(via);
    if (!ag_block_choice_selects(via, bytes, type_of(place))) {
        return;
    }
    if (is_remembered && !ag_sampled_blocks_insert(key)) {
        ag_record_lost(AG_LOST_NO_MEMORY, 1);
    } else if (!record_alloc(sp, rbp, address, bytes, via, place, AG_INTERVAL_UNKNOWN) &&
               is_remembered) {
        (void)ag_sampled_blocks_remove(key); /* no other thread has the address yet */
    }
}

AG_COLD void ag_record_alloc_slow(const uintptr_t *sp, uintptr_t rbp, uintptr_t address,
                                  size_t bytes, uint32_t via, const struct ag_typed_place *place) {
    if (!ag_recorder_is_sampling()) {
        if (AG_UNLIKELY(pause_now() != AG_PAUSE_NONE)) {
            return;
        }
        record_chosen(sp, rbp, address, bytes, via, place);
        return;
    }
    uint64_t interval_bytes = place ? place->chosen_interval_bytes : 0;
    if ((interval_bytes == 0 && !ag_sampler_selects(bytes, &interval_bytes)) ||
        pause_now() != AG_PAUSE_NONE || !ag_block_choice_selects(via, bytes, type_of(place))) {
        return;
    }
    const uint64_t start_raw = ag_raw_clock(ag_recorder.header->clock_kind);
    const uintptr_t key = ag_sampled_key(address, via);
    if (!ag_sampled_blocks_insert(key)) {
        ag_record_lost(AG_LOST_NO_MEMORY, 1);
    } else if (!record_alloc(sp, rbp, address, bytes, via, place, interval_bytes)) {
        (void)ag_sampled_blocks_remove(key); /* no other thread has the address yet */
    }
    ag_sampler_took(start_raw);
}

void ag_stream_append_words(const uint64_t *words, size_t n_words, uint64_t interval_bytes) {
    const uintptr_t *sp = (const uintptr_t *)__builtin_frame_address(0);
    struct ag_thread *thread = reporting_state(sp);
    if (!thread) {
        return;
    }
    const uintptr_t gate = thread->gate;
    ag_thread_set_gate(thread, (uintptr_t)sp);
    if (interval_bytes != AG_INTERVAL_UNKNOWN) {
        write_interval(thread, interval_bytes, AG_SAMPLING_POISSON_BYTES);
    }
    ag_thread_set_gate(thread, (uintptr_t)sp | AG_GATE_APPENDING);
    uint64_t *cursor = ag_stream_reserve_fast(thread);
    if (cursor != NULL) {
        memcpy(cursor, words, n_words * sizeof(*words));
        ag_stream_commit_fast(thread, cursor + n_words);
    }
    ag_thread_set_gate(thread, gate);
}

static void append_free_from(struct ag_thread *thread, enum ag_word_kind kind, uint32_t stack,
                             uintptr_t address, uint32_t via) {
    uint64_t *cursor = ag_stream_reserve_fast(thread);
    if (cursor != NULL) {
        const enum ag_word_kind written =
            kind == AG_WORD_FREE ? AG_WORD_FREE_FROM : AG_WORD_REALLOC_FREE_FROM;
        cursor[1] = (uint64_t)stack << 32;
        cursor[0] = (uint64_t)address << 16 | via << 8 | written;
        ag_stream_commit_fast(thread, cursor + 2);
    }
}

static bool takes_free(enum ag_word_kind kind, uintptr_t address, uint32_t via) {
    if (ag_recorder_is_sampling()) {
        return ag_sampler_takes_free(kind, ag_sampled_key(address, via));
    }
    return !ag_block_choice.asks || ag_block_choice_takes_free(kind, via, address);
}

AG_COLD void ag_record_free_slow(enum ag_word_kind kind, uintptr_t address, uint32_t via,
                                 const uintptr_t *sp, uintptr_t rbp) {
    bool can_walk = false;
    if (AG_UNLIKELY(pause_now() >= AG_PAUSE_ALL)) {
        return;
    }
    struct ag_thread *thread = usable_state((uintptr_t)sp, &can_walk);
    if (!thread || !takes_free(kind, address, via)) {
        return;
    }
    const uintptr_t gate = thread->gate;
    const bool has_stack = ag_recorder.has_free_stacks && kind != AG_WORD_UNDO_FREE &&
                           kind != AG_WORD_COLLECT; /* a collection has no caller */
    uint32_t stack = 0;
    if (has_stack) {
        ag_thread_set_gate(thread, (uintptr_t)sp);
        stack = walk_stack(thread, can_walk, sp, rbp, /* pc= */ 0);
    }
    ag_thread_set_gate(thread, AG_GATE_FREEING);
    if (has_stack) {
        append_free_from(thread, kind, stack, address, via);
    } else {
        ag_stream_append_free_fast(thread, kind, address, via);
    }
    ag_thread_set_gate(thread, gate);
}

/* ---- reports of a program about itself ---- */

void ag_recorder_append(const struct ag_record *record) {
    struct ag_thread *thread = reporting_state(__builtin_frame_address(0));
    if (thread) {
        ag_stream_append_record(thread, record);
    }
}

void ag_recorder_append_moment(const struct ag_record *record) {
    struct ag_thread *thread = reporting_state(__builtin_frame_address(0));
    if (!thread) {
        return;
    }
    const uintptr_t gate = thread->gate;
    ag_thread_set_gate(thread, (uintptr_t)__builtin_frame_address(0) | AG_GATE_APPENDING);
    /* false: the record was counted as lost */
    const bool is_stamped = ag_stream_renew_slow(thread) != NULL;
    ag_thread_set_gate(thread, gate);
    if (is_stamped) {
        ag_stream_append_record(thread, record);
    }
}

uint32_t ag_record_leaf_site(uint32_t number, uint32_t image) {
    return ag_recorder_is_active() ? ag_site_intern(&ag_recorder.space->tree, number, image) : 0;
}

void ag_record_set_label_site(uint32_t site) {
    struct ag_thread *thread = reporting_state(__builtin_frame_address(0));
    /* the label is stored in the thread's own state, never in the nested state of a signal
     * handler */
    thread = thread ? ag_thread_current : NULL;
    if (!thread || thread->gate == AG_GATE_ABSENT) {
        return;
    }
    thread->label_site = site;
    ag_thread_reopen();
}

void ag_thread_reopen(void) {
    struct ag_thread *thread = ag_thread_current;
    if (ag_thread_is_idle(thread)) {
        thread->gate = open_gate(thread);
    }
}

uintptr_t ag_record_suspend(void) {
    struct ag_thread *thread = ag_recorder_is_active() ? ag_thread_ready() : ag_thread_current;
    if (!thread || !ag_thread_is_idle(thread)) {
        return 0;
    }
    const uintptr_t gate = thread->gate;
    thread->gate = AG_GATE_SUSPENDED;
    return gate;
}

void ag_record_resume(uintptr_t suspended) {
    if (suspended) {
        ag_thread_current->gate = suspended;
    }
}

/* The marks alone determine which events are recorded. The gate only makes every event take the
 * slow path, which checks the marks. */
void ag_record_suspend_call(struct ag_call_mark *mark) {
    ag_call_note(&ag_suspended_calls, mark);
    struct ag_thread *thread = ag_thread_current;
    if (thread->gate == AG_GATE_OPEN) {
        thread->gate = AG_GATE_MARKED;
    }
}

void ag_record_resume_call(struct ag_call_mark *mark) {
    ag_call_forget(&ag_suspended_calls, mark);
    struct ag_thread *thread = ag_thread_current;
    if (!ag_suspended_calls && thread->gate == AG_GATE_MARKED) {
        thread->gate = AG_GATE_OPEN;
    }
}
