/* sampled_blocks.h: the addresses of the live sampled blocks of this process, so that a free knows
 * whether anybody wants to hear of it. */
#ifndef AG_SAMPLED_BLOCKS_H
#define AG_SAMPLED_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The table's memory: reserved, and touched only as far as it is used. */
size_t ag_sampled_blocks_bytes(void);
/* Zeros, ag_sampled_blocks_bytes of them, aligned to a page. Once, before any other call. */
void ag_sampled_blocks_start(void *memory);
/* Gives it back; nobody asks any more. */
void ag_sampled_blocks_unmap(void);
/* The same by itself, or empties it; false: no memory. By one thread, while no other call runs. */
bool ag_sampled_blocks_prepare(void);
/* false: there is no room, and nothing was done. */
bool ag_sampled_blocks_insert(uintptr_t address);
bool ag_sampled_blocks_has(uintptr_t address);
/* Whether it was there. */
bool ag_sampled_blocks_remove(uintptr_t address);

#endif
