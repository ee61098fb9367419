/* readable_range.h: keeps one contiguous range of memory that can be read without a fault.
 *
 * A walk follows rules and the contents of the stack; either can be wrong. So no word is read
 * outside a range of pages that are known to be readable. The range grows page by page, by a system
 * call that returns EFAULT instead of faulting, and moves when the walk changes to another stack (a
 * coroutine, a signal stack). */
#ifndef AG_READABLE_RANGE_H
#define AG_READABLE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ag_readable_range {
    uintptr_t low, high; /* [low, high), whole pages, all readable; low == high: empty */
};

/* Whether the word at address is within the range, and aligned. Rotating the offset moves a
 * misalignment into the highest bits, so one comparison checks both. */
AG_FAST bool ag_readable_range_has(const struct ag_readable_range *range, uintptr_t address) {
    const uintptr_t offset = address - range->low;
    return (offset >> 3 | offset << (sizeof offset * 8 - 3)) < (range->high - range->low) >> 3;
}

enum ag_readable_result {
    AG_READABLE_NOT,      /* no aligned word can be read there; the range is unchanged */
    AG_READABLE_EXTENDED, /* the range grew to contain the word, and kept what it contained */
    AG_READABLE_MOVED,    /* the range was replaced by another range that contains the word */
};
enum ag_readable_result ag_readable_range_extend(struct ag_readable_range *range,
                                                 uintptr_t address);

/* Does the same as ag_readable_range_extend for an address that is known to be readable, such as
 * one on the stack of the calling thread. Never returns AG_READABLE_NOT. */
enum ag_readable_result ag_readable_range_enter(struct ag_readable_range *range, uintptr_t address);

/* Called once at the start, before the other functions, in a program that Valgrind executes. */
void ag_readable_under_valgrind(void);

/* Whether address is aligned and its word can be read at this moment. Makes a system call. */
bool ag_readable_word(uintptr_t address);

/* Copies from memory that may be unmapped. Returns false if it cannot be read. For a few bytes,
 * such as code. */
bool ag_readable_copy(void *destination, uintptr_t source, size_t bytes);

#endif
