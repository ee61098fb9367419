/* sampler.h: selects the blocks that are recorded in a sampled recording. A Poisson process
 * (base/skip.h) picks some of the bytes that a thread allocates, and a block that contains a picked
 * byte is selected. A block that is not selected is cheap: its allocation costs a subtraction and a
 * branch, its free one load and a compare. */
#ifndef AG_SAMPLER_H
#define AG_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/skip.h"
#include "format/segment.h"

/* The calling thread's skip: left_bytes is the number of bytes before its next sample. In a thread
 * whose sampler has not begun, left_bytes is 0, so that its first allocation calls
 * ag_sampler_selects. Entry stubs in assembly subtract from left_bytes. */
extern __thread struct ag_skip ag_thread_skip __attribute__((tls_model("initial-exec"))) AG_HIDDEN;
_Static_assert(offsetof(struct ag_skip, left_bytes) == 16, "entry.S uses the same offset");

/* Whether this block is a sample. *ret_interval_bytes is the interval by which it was selected. The
 * first call in a thread begins the thread's sampler. If the interval of the recording has changed,
 * the thread uses the new interval after its next sample. */
bool ag_sampler_selects(size_t bytes, uint64_t *ret_interval_bytes);
/* Does the same as ag_sampler_selects, but with SKIP in place of ag_thread_skip. The caller keeps
 * SKIP for this thread, and initializes it with zeros. */
bool ag_sampler_takes_from(struct ag_skip *skip, size_t bytes, uint64_t *ret_interval_bytes);
/* Adds the time from START_RAW (a value of ag_raw_clock) until now to the time spent in samples. */
void ag_sampler_took(uint64_t start_raw);
/* Whether a free (kind: FREE, REALLOC_FREE, UNDO_FREE or COLLECT) is of a sampled block. The block
 * is removed from the set, or inserted again for UNDO_FREE. */
bool ag_sampler_takes_free(enum ag_word_kind kind, uintptr_t key);
/* Called in a forked child: begins a new sequence of random numbers, so that the child's samples
 * are independent of the parent's. */
void ag_sampler_forked(void);

/* The key of a sampled block in the set of sampled blocks. Each heap that the program registered
 * has its own keys (AG_VIA_HOST in segment.h), because the first block of such a heap may have the
 * same address as the block of malloc that contains it. */
AG_FAST uintptr_t ag_sampled_key(uintptr_t address, uint32_t via) {
    return address ^ (uintptr_t)AG_VIA_SPACE(via) << 48;
}

/* The filter of sampled_blocks.c: element i is zero if no sampled block has an address whose
 * ag_sampled_filter_slot is i. Entry stubs in assembly read the filter. */
enum { AG_SAMPLED_FILTER_SLOTS = 1 << 16 };
extern _Atomic uint8_t ag_sampled_filter[AG_SAMPLED_FILTER_SLOTS] AG_HIDDEN;

/* Computes (address >> 4) + (address >> 20) by one multiplication. So neighboring blocks have
 * neighboring counters, and blocks that are all aligned to a large power of two still have
 * different counters. */
AG_FAST uint32_t ag_sampled_filter_slot(uintptr_t address) {
    return (uint16_t)((uint64_t)address * 0x10001 >> 20);
}
AG_FAST bool ag_sampled_may_hold_fast(uintptr_t address) {
    return atomic_load_explicit(&ag_sampled_filter[ag_sampled_filter_slot(address)],
                                memory_order_relaxed) != 0;
}

#endif
