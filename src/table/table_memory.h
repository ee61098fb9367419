/* table_memory.h: zeroed memory for tables with random access, aligned to cache lines. Large tables
 * use huge pages. With ordinary pages most lookups miss the TLB: such misses took a third of the
 * time in a table of 230,000 stacks. */
#ifndef AG_TABLE_MEMORY_H
#define AG_TABLE_MEMORY_H

#include <stddef.h>

void *ag_table_memory_new(size_t bytes); /* NULL: no memory */
/* Enlarges a table from OLD_BYTES to BYTES: keeps its content and adds zeros. NULL: no memory; then
 * MEMORY is unchanged and still valid. */
void *ag_table_memory_grow(void *memory, size_t old_bytes, size_t bytes);
/* BYTES is the size that was requested for MEMORY. MEMORY may be NULL. */
void ag_table_memory_free(void *memory, size_t bytes);

#endif
