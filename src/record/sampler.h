/* sampler.h: which blocks a sampling recorder records: those that a point of the thread's Poisson
 * process falls into (base/skip.h). Everything else passes by: an allocation with a subtraction and
 * a branch, a free with one load and a compare. */
#ifndef AG_SAMPLER_H
#define AG_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/skip.h"
#include "format/segment.h"

/* Of the calling thread. A thread that has not begun has nothing left, so that its first allocation
 * comes to ag_sampler_selects. Entry stubs in assembly subtract from left_bytes. */
extern __thread struct ag_skip ag_thread_skip __attribute__((tls_model("initial-exec"))) AG_HIDDEN;
_Static_assert(offsetof(struct ag_skip, left_bytes) == 16, "as entry_x86_64.S has it");

/* Whether this block is a sample, and with which interval it was chosen. Begins the thread's
 * sampler; one that was told of another interval changes to it behind this sample. */
bool ag_sampler_selects(size_t bytes, uint64_t *ret_interval_bytes);
/* The same with another line of bytes than the thread's, which the caller keeps for it; all zero:
 * it has not begun. */
bool ag_sampler_takes_from(struct ag_skip *skip, size_t bytes, uint64_t *ret_interval_bytes);
/* A sample was recorded, from START_RAW of the clock until now. */
void ag_sampler_took(uint64_t start_raw);
/* Whether a free (FREE, REALLOC_FREE, UNDO_FREE) is of a sampled block; it is none any more, or is
 * one again. */
bool ag_sampler_takes_free(enum ag_word_kind kind, uintptr_t key);
/* In a forked child: draws other samples than its parent. */
void ag_sampler_forked(void);

/* What tells a sampled block from all others: a heap of the program's own has addresses of its own
 * (segment.h, AG_VIA_HOST), and its first block may lie where malloc's chunk begins. */
AG_FAST uintptr_t ag_sampled_key(uintptr_t address, uint32_t via) {
    return address ^ (uintptr_t)AG_VIA_SPACE(via) << 48;
}

/* sampled_blocks.c: zero where no sampled block has an address with this hash. Entry stubs in
 * assembly read it. */
enum { AG_SAMPLED_FILTER_SLOTS = 1 << 16 };
extern _Atomic uint8_t ag_sampled_filter[AG_SAMPLED_FILTER_SLOTS] AG_HIDDEN;

/* (address >> 4) + (address >> 20), by one multiplication: neighbours in the heap are neighbours in
 * the filter, and blocks that are all aligned to something large differ all the same. */
AG_FAST uint32_t ag_sampled_filter_slot(uintptr_t address) {
    return (uint16_t)((uint64_t)address * 0x10001 >> 20);
}
AG_FAST bool ag_sampled_may_hold_fast(uintptr_t address) {
    return atomic_load_explicit(&ag_sampled_filter[ag_sampled_filter_slot(address)],
                                memory_order_relaxed) != 0;
}

#endif
