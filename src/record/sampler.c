/* sampler.c: the samplers of all threads, one each.
 *
 * A thread's skip is its own, so nothing is shared on the way. Skips forget (base/skip.h), which
 * settles all odd cases: an allocation that fails, one that nobody is to be told of, and one whose
 * subtraction a signal handler overwrote leave the thread with a skip that is distributed like a
 * fresh one. The chance of the next block is what its size and the interval say.
 *
 * A new interval is taken over behind a sample, never in the middle of a skip: the skip that chose
 * a block was drawn with the interval that is recorded with it. */
#include "sampler.h"

#include "raw_clock.h"
#include "recorder.h"
#include "sampled_blocks.h"

__thread struct ag_skip ag_thread_skip __attribute__((tls_model("initial-exec")));
/* The sampled block of the last realloc, until it is known whether that failed; 0: it was none. */
static __thread uintptr_t reallocated __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t n_begun; /* samplers of this process: each has a stream of its own */

static uint64_t current_interval(void) {
    const uint64_t asked =
        atomic_load_explicit(&ag_recorder.header->interval_bytes, memory_order_relaxed);
    return asked < 1 ? 1 : asked < AG_INTERVAL_MAX_BYTES ? asked : AG_INTERVAL_MAX_BYTES;
}

/* The numbers of a session's processes and of a process' threads make the streams of random
 * numbers: the same seed gives the same samples where these come in the same order. */
AG_COLD static void begin(struct ag_skip *skip) {
    const uint64_t process = (uint64_t)ag_recorder.slot_generation << 16 | ag_recorder.slot_index;
    const uint64_t thread = atomic_fetch_add_explicit(&n_begun, 1, memory_order_relaxed);
    ag_skip_begin(skip, ag_recorder.header->seed, process << 32 | thread, current_interval());
}

bool ag_sampler_selects(size_t bytes, uint64_t *ret_interval_bytes) {
    return ag_sampler_takes_from(&ag_thread_skip, bytes, ret_interval_bytes);
}

bool ag_sampler_takes_from(struct ag_skip *skip, size_t bytes, uint64_t *ret_interval_bytes) {
    if (AG_UNLIKELY(skip->interval_bytes == 0)) {
        begin(skip);
    }
    *ret_interval_bytes = skip->interval_bytes;
    if (AG_LIKELY(!ag_skip_take_fast(skip, bytes))) {
        return false;
    }
    const uint64_t interval_bytes = current_interval();
    if (interval_bytes != skip->interval_bytes) {
        ag_skip_set_interval(skip, interval_bytes);
    }
    return true;
}

/* A thread that the kernel took off its core in the middle of a sample was not busy with it all the
 * while: on a crowded machine that would be most of what is measured. */
void ag_sampler_took(uint64_t start_raw) {
    enum { MOST_NS = 200 * 1000 };
    const struct ag_segment_header *header = ag_recorder.header;
    if (!ag_recorder.slot) { /* a child that is not followed, in its first event */
        return;
    }
    const uint64_t ns_per_2_32 =
        atomic_load_explicit(&header->clock_ns_per_2_32, memory_order_relaxed);
    const uint64_t most = ns_per_2_32 ? ((uint64_t)MOST_NS << 32) / ns_per_2_32 : UINT64_MAX;
    uint64_t spent = ag_raw_clock(header->clock_kind) - start_raw;
    spent = spent < most ? spent : most;
    atomic_fetch_add_explicit(&ag_recorder.slot->sampler_raw, spent, memory_order_relaxed);
}

bool ag_sampler_takes_free(enum ag_word_kind kind, uintptr_t key) {
    if (kind == AG_WORD_UNDO_FREE) {
        const bool is_ours = reallocated == key;
        reallocated = 0;
        return is_ours && ag_sampled_blocks_insert(key);
    }
    const bool is_ours = ag_sampled_blocks_remove(key);
    if (kind == AG_WORD_REALLOC_FREE) {
        reallocated = is_ours ? key : 0;
    }
    return is_ours;
}

/* Begun at once and not at its next use: a handler that interrupted the sampler may have forked,
 * and the sampler goes on in the child. */
void ag_sampler_forked(void) {
    begin(&ag_thread_skip);
}
