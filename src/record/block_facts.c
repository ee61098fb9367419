/* block_facts.c: records what a runtime does to a live block (moves, promotions), types that become
 * known after the allocation, and resets; and reads back the newest allocation of a thread.
 *
 * A runtime reports moves while the threads that use the heap are stopped. A reader of the trace
 * must find out which events of those threads happened before the moves. So the tick, a counter
 * that the process which writes the trace increments every millisecond, is also incremented when a
 * collection begins and when it ends, and by a reset. A thread that sees a new tick writes a stamp,
 * a word with the time, before its next event. */
#include "block_choice.h"
#include "recorder.h"
#include "sampled_blocks.h"
#include "sampler.h"
#include "thread_state.h"

static uint64_t head_of(uintptr_t address, uint32_t via, enum ag_word_kind kind) {
    return (uint64_t)address << 16 | (uint64_t)via << 8 | (uint64_t)kind;
}

/* Whether only some blocks of the heap of VIA are recorded; then a table contains their
 * addresses. */
static bool is_chosen(uint32_t via) {
    return ag_recorder_is_sampling() || ag_block_choice_remembers(via);
}

static bool is_recorded(uintptr_t address, uint32_t via) {
    return !is_chosen(via) || ag_sampled_blocks_has(ag_sampled_key(address, via));
}

void ag_record_move(uintptr_t address, uintptr_t to, uint32_t via) {
    const uint64_t words[] = {head_of(address, via, AG_WORD_MOVE), (uint64_t)to << 16 | via << 8};
    if (!ag_recorder_is_active()) {
        return;
    }
    if (is_chosen(via)) {
        if (!ag_sampled_blocks_remove(ag_sampled_key(address, via))) {
            return;
        }
        if (!ag_sampled_blocks_insert(ag_sampled_key(to, via))) {
            ag_record_lost(AG_LOST_NO_MEMORY, 1);
        }
    }
    ag_stream_append_words(words, AG_ARRAY_SIZE(words), AG_INTERVAL_UNKNOWN);
}

void ag_record_promote(uintptr_t address, uint32_t via) {
    const uint64_t word = head_of(address, via, AG_WORD_PROMOTE);
    if (ag_recorder_is_active() && is_recorded(address, via)) {
        ag_stream_append_words(&word, 1, AG_INTERVAL_UNKNOWN);
    }
}

void ag_record_reported_promote(uintptr_t address, uint32_t via) {
    const uint64_t word = head_of(address, via, AG_WORD_PROMOTE);
    ag_stream_append_words(&word, 1, AG_INTERVAL_UNKNOWN);
}

bool ag_record_newest_alloc(size_t bytes, struct ag_newest_alloc *ret_newest) {
    const struct ag_thread *thread = ag_thread_current;
    const bool is_big = bytes > UINT32_MAX;
    const ptrdiff_t n_words = is_big ? 3 : 2;
    if (!ag_recorder_is_active() || !thread->cursor || thread->cursor - thread->words < n_words) {
        return false;
    }
    const uint64_t *words = thread->cursor - n_words;
    const uint32_t kind = is_big ? AG_WORD_ALLOC_BIG : AG_WORD_ALLOC;
    const uint32_t stack = (uint32_t)(words[1] >> 32);
    const uint64_t recorded_bytes = is_big ? words[2] : (uint32_t)words[1];
    if (AG_WORD_KIND(words[0]) != kind || recorded_bytes != bytes || stack < AG_NODE_FIRST) {
        return false;
    }
    *ret_newest = (struct ag_newest_alloc){.address = (uintptr_t)(words[0] >> 16),
                                           .via = AG_WORD_VIA(words[0]),
                                           .recorded = {stack, ag_recorder_is_sampling()
                                                                   ? thread->written_interval_bytes
                                                                   : AG_INTERVAL_UNKNOWN}};
    return true;
}

void ag_record_block_type(uintptr_t address, uint32_t via, const struct ag_block_site *recorded,
                          size_t bytes, uint32_t site) {
    const uint64_t words[] = {head_of(address, via, AG_WORD_TYPED),
                              (uint64_t)ag_stack_with_leaf(recorded->stack, site) << 32, bytes};
    if (ag_recorder_is_active() && is_recorded(address, via)) {
        ag_stream_append_words(words, AG_ARRAY_SIZE(words), recorded->interval_bytes);
    }
}

void ag_record_cut_windows(void) {
    if (ag_recorder_is_active()) {
        /* relaxed: the code that stops and resumes the other threads orders this store */
        atomic_fetch_add_explicit(&ag_recorder.header->tick, 1, memory_order_relaxed);
    }
}

void ag_record_reset(void) {
    const uint64_t word = AG_WORD_RESET;
    ag_record_cut_windows(); /* so this thread writes a stamp before the word */
    ag_stream_append_words(&word, 1, AG_INTERVAL_UNKNOWN);
}
