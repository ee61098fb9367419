/* sampled_blocks.h: the set of the addresses of the live sampled blocks of this process or, in a
 * recording with a filter, of the live blocks that the filter selected. A free is recorded if its
 * address is in the set. */
#ifndef AG_SAMPLED_BLOCKS_H
#define AG_SAMPLED_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size of the table's address space. Only the parts that are used take memory. */
size_t ag_sampled_blocks_bytes(void);
/* Gives the table its memory: zeroed, ag_sampled_blocks_bytes long, aligned to a page. Optional:
 * without this call, ag_sampled_blocks_prepare maps the memory. Must not be called while the
 * functions below are in use; may be called again, with other memory, for a further recording. */
void ag_sampled_blocks_start(void *memory);
/* Unmaps the table's memory. No thread may use the table during or after this call. */
void ag_sampled_blocks_unmap(void);
/* Maps the table's memory if ag_sampled_blocks_start was not called; else empties the table.
 * Returns false if there is no memory. Called by one thread, while no other function of this file
 * runs. */
bool ag_sampled_blocks_prepare(void);
/* Adds an address. Returns false if there is no room; then the set is unchanged. */
bool ag_sampled_blocks_insert(uintptr_t address);
bool ag_sampled_blocks_has(uintptr_t address);
/* Removes an address. Returns whether it was in the set. */
bool ag_sampled_blocks_remove(uintptr_t address);

#endif
