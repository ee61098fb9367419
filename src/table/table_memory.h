/* table_memory.h: zeroed memory for tables with random access, aligned to cache lines. Large tables
 * use huge pages, because a lookup would otherwise also miss the TLB, which took a third of the
 * time with 230,000 stacks. */
#ifndef AG_TABLE_MEMORY_H
#define AG_TABLE_MEMORY_H

#include <stddef.h>

void *ag_table_memory_new(size_t bytes); /* NULL: no memory */
/* Keeps the content and adds zeros. NULL: no memory, and nothing has changed. */
void *ag_table_memory_grow(void *memory, size_t old_bytes, size_t bytes);
/* BYTES is the size requested. MEMORY may be NULL. */
void ag_table_memory_free(void *memory, size_t bytes);

#endif
