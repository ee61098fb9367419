/* sampled_blocks.h: the addresses of the live sampled blocks of this process, which decide whether
 * a free is recorded. */
#ifndef AG_SAMPLED_BLOCKS_H
#define AG_SAMPLED_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size of the table's memory, which is reserved, and touched only as far as it is used. */
size_t ag_sampled_blocks_bytes(void);
/* memory: zeroed, ag_sampled_blocks_bytes long, aligned to a page. Called once, before any other
 * function of this file. */
void ag_sampled_blocks_start(void *memory);
/* Unmaps the table's memory. No thread may use it any more. */
void ag_sampled_blocks_unmap(void);
/* Maps the memory itself, or empties the table; false: no memory. Called by one thread, while no
 * other function of this file runs. */
bool ag_sampled_blocks_prepare(void);
/* false: there is no room, and the set is unchanged. */
bool ag_sampled_blocks_insert(uintptr_t address);
bool ag_sampled_blocks_has(uintptr_t address);
/* Returns whether the address was in the set. */
bool ag_sampled_blocks_remove(uintptr_t address);

#endif
