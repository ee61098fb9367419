/* counter_blocks.h: blocks of the live segment (the memory shared with the writer process) for
 * counter sets and their nodes (format/counter_set.h). */
#ifndef AG_COUNTER_BLOCKS_H
#define AG_COUNTER_BLOCKS_H

#include <stddef.h>

#include "base/compiler.h"
#include "format/counter_set.h"

struct ag_counter_block {
    void *memory;       /* zeroed; NULL: there is no room */
    uint32_t reference; /* the number by which other blocks refer to this one (counter_set.h) */
};
/* BYTES: a power of two from 1 KiB to 64 KiB. In a signal handler that interrupted one of these
 * functions, the functions that take a block fail as if there were no room, and those that free a
 * block do nothing. */
struct ag_counter_block ag_counter_block_take(size_t bytes) AG_HIDDEN;
struct ag_counter_set *ag_counter_set_take(void) AG_HIDDEN; /* NULL: there is no room */
/* Frees a block, which this process must have taken in this recording. NULL does nothing. */
void ag_counter_block_give(void *memory, uint32_t reference, size_t bytes) AG_HIDDEN;
void ag_counter_set_give(struct ag_counter_set *set) AG_HIDDEN;

#endif
