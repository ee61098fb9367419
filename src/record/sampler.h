/* sampler.h: selects the blocks that a sampling recorder records: those that contain a point of the
 * thread's Poisson process (base/skip.h). All others are cheap: an allocation costs a subtraction
 * and a branch, a free one load and a compare. */
#ifndef AG_SAMPLER_H
#define AG_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/skip.h"
#include "format/segment.h"

/* The calling thread's skip. In a thread whose sampler has not begun, left_bytes is 0, so that its
 * first allocation calls ag_sampler_selects. Entry stubs in assembly subtract from left_bytes. */
extern __thread struct ag_skip ag_thread_skip __attribute__((tls_model("initial-exec"))) AG_HIDDEN;
_Static_assert(offsetof(struct ag_skip, left_bytes) == 16, "as entry.S has it");

/* Whether this block is a sample, and the interval that it was selected with. Begins the thread's
 * sampler, and changes to a new interval after this sample. */
bool ag_sampler_selects(size_t bytes, uint64_t *ret_interval_bytes);
/* The same with a skip that the caller keeps for this thread instead of ag_thread_skip; all zero:
 * it has not begun. */
bool ag_sampler_takes_from(struct ag_skip *skip, size_t bytes, uint64_t *ret_interval_bytes);
/* A sample was recorded between START_RAW, of the raw clock, and now. */
void ag_sampler_took(uint64_t start_raw);
/* Whether a free (FREE, REALLOC_FREE, UNDO_FREE) is of a sampled block. The block is removed from
 * the set, or inserted again for UNDO_FREE. */
bool ag_sampler_takes_free(enum ag_word_kind kind, uintptr_t key);
/* Called in a forked child: draws other samples than the parent. */
void ag_sampler_forked(void);

/* Identifies a sampled block: heaps that the program registered have a separate key space
 * (segment.h, AG_VIA_HOST), because their first block may have the same address as malloc's block
 * around it. */
AG_FAST uintptr_t ag_sampled_key(uintptr_t address, uint32_t via) {
    return address ^ (uintptr_t)AG_VIA_SPACE(via) << 48;
}

/* The filter of sampled_blocks.c: zero if no sampled block has an address with this hash. Entry
 * stubs in assembly read it. */
enum { AG_SAMPLED_FILTER_SLOTS = 1 << 16 };
extern _Atomic uint8_t ag_sampled_filter[AG_SAMPLED_FILTER_SLOTS] AG_HIDDEN;

/* (address >> 4) + (address >> 20), by one multiplication: neighbours in the heap are neighbours in
 * the filter, and blocks that are all aligned to a large power of two still differ. */
AG_FAST uint32_t ag_sampled_filter_slot(uintptr_t address) {
    return (uint16_t)((uint64_t)address * 0x10001 >> 20);
}
AG_FAST bool ag_sampled_may_hold_fast(uintptr_t address) {
    return atomic_load_explicit(&ag_sampled_filter[ag_sampled_filter_slot(address)],
                                memory_order_relaxed) != 0;
}

#endif
