/* counter_memory.h: memory of counter sets; see counter_memory.c. */
#ifndef AG_COUNTER_MEMORY_H
#define AG_COUNTER_MEMORY_H

#include <stddef.h>

#include "base/compiler.h"

/* Zeros. NULL: there is none. From any thread, also from a signal handler. */
void *ag_counter_memory(size_t bytes) AG_HIDDEN;
/* What it gave, with the same size; NULL is nothing. */
void ag_counter_memory_free(void *memory, size_t bytes) AG_HIDDEN;

#endif
