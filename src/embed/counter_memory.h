/* counter_memory.h: memory for counter sets (counters.h). */
#ifndef AG_COUNTER_MEMORY_H
#define AG_COUNTER_MEMORY_H

#include <stddef.h>

#include "base/compiler.h"

/* Returns zeroed memory, or NULL. May be called by any thread and signal handler. */
void *ag_counter_memory(size_t bytes) AG_HIDDEN;
/* Frees memory from ag_counter_memory, with the same size; NULL does nothing. */
void ag_counter_memory_free(void *memory, size_t bytes) AG_HIDDEN;

#endif
