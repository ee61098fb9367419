/* sampler.c: the samplers of the threads; each thread has its own.
 *
 * A thread's skip, the number of bytes until its next sample, is thread-local. Skips are memoryless
 * (base/skip.h): the rest of a skip is distributed like a new skip. This stays true after an
 * allocation that fails, after one that is not recorded, and after one whose subtraction from the
 * skip was overwritten by a signal handler. So the probability that the next block is sampled
 * depends only on its size and the interval.
 *
 * A new interval takes effect after a sample, never in the middle of a skip. So the interval that
 * is recorded with a block is the one by which the skip before this block was drawn. */
#include "sampler.h"

#include "raw_clock.h"
#include "recorder.h"
#include "sampled_blocks.h"

__thread struct ag_skip ag_thread_skip __attribute__((tls_model("initial-exec")));
/* The key of the block that the last realloc frees, until it is known whether the realloc succeeds;
 * 0: the block is not a sample. */
static __thread uintptr_t reallocated __attribute__((tls_model("initial-exec")));
/* number of samplers that have begun in this process; each sampler has its own sequence of random
 * numbers */
static _Atomic uint64_t n_begun;

static uint64_t current_interval(void) {
    const uint64_t asked =
        atomic_load_explicit(&ag_recorder.header->interval_bytes, memory_order_relaxed);
    return asked < 1 ? 1 : asked < AG_INTERVAL_MAX_BYTES ? asked : AG_INTERVAL_MAX_BYTES;
}

/* The numbers of the process in its session and of the thread in its process select the sequence of
 * random numbers. So the same seed gives the same samples if processes and threads get the same
 * numbers. */
AG_COLD static void sampler_begin(struct ag_skip *skip) {
    const uint64_t process = (uint64_t)ag_recorder.slot_generation << 16 | ag_recorder.slot_index;
    const uint64_t thread = atomic_fetch_add_explicit(&n_begun, 1, memory_order_relaxed);
    ag_skip_begin(skip, ag_recorder.header->seed, process << 32 | thread, current_interval());
}

bool ag_sampler_selects(size_t bytes, uint64_t *ret_interval_bytes) {
    return ag_sampler_takes_from(&ag_thread_skip, bytes, ret_interval_bytes);
}

bool ag_sampler_takes_from(struct ag_skip *skip, size_t bytes, uint64_t *ret_interval_bytes) {
    if (AG_UNLIKELY(skip->interval_bytes == 0)) {
        sampler_begin(skip);
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

/* At most MOST_NS are counted for one sample, because the thread may have been descheduled during
 * the sample: on a loaded machine this would be most of the measured time. */
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

/* Begins the sampler of the forking thread at once, not at its next use. A signal handler that
 * interrupted the sampler may have forked; then the interrupted code continues in the child with
 * the new state. */
void ag_sampler_forked(void) {
    sampler_begin(&ag_thread_skip);
}
