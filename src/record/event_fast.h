/* event_fast.h: the hot path of recording: an event of an allocation function becomes two words in
 * the thread's chunk, a piece of memory that is shared with the writer process.
 *
 * Budget (see docs/explanation/overhead.md): 2 ns for a free; 3 ns for an alloc, plus the capture
 * of its stack. An event takes one thread-local pointer and four compares: for the gate (which says
 * whether the thread is inside a hook, the code that records a call), for the chunk's end, for the
 * tick (a counter that the writer increments every millisecond), and for a fork. It takes no lock,
 * no atomic read-modify-write and no system call.
 *
 * Order of stores: the words, then cursor, then control.used_words (release; pairs with the
 * writer's acquire). So used_words counts only complete events, even if the process is killed
 * between any two instructions. */
#ifndef AG_EVENT_FAST_H
#define AG_EVENT_FAST_H

#include "block_choice.h"
#include "sampler.h"
#include "thread_state.h"
#include "unwind/stack_walker_fast.h"

/* The slow path, for events that the fast path cannot record: the first event of a thread, the
 * first event in a forked child, events in a signal handler that interrupted a hook, and all events
 * of a thread whose gate is AG_GATE_THOROUGH, AG_GATE_MARKED or AG_GATE_SUSPENDED (thread_state.h).
 * place: the type and additional frames of the block (recorder.h); NULL: none. */
void ag_record_alloc_slow(const uintptr_t *sp, uintptr_t rbp, uintptr_t address, size_t bytes,
                          uint32_t via, const struct ag_typed_place *place);
void ag_record_free_slow(enum ag_word_kind kind, uintptr_t address, uint32_t via,
                         const uintptr_t *sp, uintptr_t rbp);

AG_FAST bool ag_stream_renewal_is_due(const struct ag_thread *thread) {
    const uint64_t tick = atomic_load_explicit(&ag_recorder.header->tick, memory_order_relaxed);
    return AG_UNLIKELY(thread->cursor >= thread->limit || tick != thread->tick ||
                       ag_process_is_forked());
}

AG_FAST uint64_t *ag_stream_reserve_fast(struct ag_thread *thread) {
    return ag_stream_renewal_is_due(thread) ? ag_stream_renew_slow(thread) : thread->cursor;
}

AG_FAST void ag_stream_commit_fast(struct ag_thread *thread, uint64_t *cursor) {
    thread->cursor = cursor;
    atomic_store_explicit(&thread->control->used_words, (uint32_t)(cursor - thread->words),
                          memory_order_release);
}

AG_FAST void ag_stream_append_alloc_fast(struct ag_thread *thread, uint32_t stack,
                                         uintptr_t address, size_t bytes, uint32_t via) {
    uint64_t *cursor = ag_stream_reserve_fast(thread);
    if (AG_LIKELY(cursor != NULL)) {
        const uint64_t head = (uint64_t)address << 16 | via << 8;
        if (AG_LIKELY(bytes <= UINT32_MAX)) {
            cursor[1] = (uint64_t)stack << 32 | bytes;
            cursor[0] = head | AG_WORD_ALLOC;
            ag_stream_commit_fast(thread, cursor + 2);
        } else {
            cursor[2] = bytes;
            cursor[1] = (uint64_t)stack << 32;
            cursor[0] = head | AG_WORD_ALLOC_BIG;
            ag_stream_commit_fast(thread, cursor + 3);
        }
    }
}

AG_FAST void ag_stream_append_free_fast(struct ag_thread *thread, enum ag_word_kind kind,
                                        uintptr_t address, uint32_t via) {
    uint64_t *cursor = ag_stream_reserve_fast(thread);
    if (AG_LIKELY(cursor != NULL)) {
        cursor[0] = (uint64_t)address << 16 | via << 8 | kind;
        ag_stream_commit_fast(thread, cursor + 1);
    }
}

/* Records an allocation. Called after the allocation succeeded. sp: address of the return address
 * of the call to the allocation function; rbp: the register's value in the caller; bytes: the
 * requested size. */
AG_FAST void ag_record_alloc_fast(const uintptr_t *sp, uintptr_t rbp, uintptr_t address,
                                  size_t bytes, uint32_t via) {
    struct ag_thread *thread = ag_thread_current;
    if (AG_UNLIKELY(!ag_thread_is_open(thread))) {
        /* tested here, so that no function is called if recording has stopped */
        if (ag_recorder_is_active()) {
            ag_record_alloc_slow(sp, rbp, address, bytes, via, /* place= */ NULL);
        }
        return;
    }
    thread->gate = (uintptr_t)sp;
    AG_SIGNAL_FENCE();
    const uint32_t stack = ag_walker_capture_fast(thread->walker, ag_recorder.space, sp, rbp);
    AG_SIGNAL_FENCE();
    thread->gate = (uintptr_t)sp | AG_GATE_APPENDING;
    AG_SIGNAL_FENCE();
    ag_stream_append_alloc_fast(thread, stack, address, bytes, via);
    AG_SIGNAL_FENCE();
    thread->gate = AG_GATE_OPEN;
}

/* Records a free. Called before the block is freed. kind: FREE, REALLOC_FREE, UNDO_FREE or COLLECT;
 * sp and rbp as for an allocation. */
AG_FAST void ag_record_free_fast(enum ag_word_kind kind, uintptr_t address, uint32_t via,
                                 const uintptr_t *sp, uintptr_t rbp) {
    struct ag_thread *thread = ag_thread_current;
    if (AG_UNLIKELY(!ag_thread_is_open(thread))) {
        const bool is_chosen = ag_recorder_is_sampling() || ag_block_choice_remembers(via);
        if (ag_recorder_is_active() &&
            (!is_chosen || ag_sampled_may_hold_fast(ag_sampled_key(address, via)) ||
             kind != AG_WORD_FREE)) {
            ag_record_free_slow(kind, address, via, sp, rbp);
        }
        return;
    }
    thread->gate = AG_GATE_FREEING;
    AG_SIGNAL_FENCE();
    ag_stream_append_free_fast(thread, kind, address, via);
    AG_SIGNAL_FENCE();
    thread->gate = AG_GATE_OPEN;
}

/* Does the same as ag_record_free_fast in the common case: the gate is open, and no stamp (a word
 * with the time) has to be written. In all other cases it does nothing and returns false. It calls
 * no function, so its caller needs no stack frame. */
AG_FAST bool ag_record_free_frameless(enum ag_word_kind kind, uintptr_t address, uint32_t via) {
    struct ag_thread *thread = ag_thread_current;
    if (AG_UNLIKELY(!ag_thread_is_open(thread))) {
        return false;
    }
    thread->gate = AG_GATE_FREEING;
    AG_SIGNAL_FENCE();
    uint64_t *cursor = thread->cursor;
    const bool is_due = ag_stream_renewal_is_due(thread);
    if (AG_LIKELY(!is_due)) {
        cursor[0] = (uint64_t)address << 16 | via << 8 | kind;
        ag_stream_commit_fast(thread, cursor + 1);
    }
    AG_SIGNAL_FENCE();
    thread->gate = AG_GATE_OPEN;
    return !is_due;
}

#endif
