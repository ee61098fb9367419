/* own_memory.h: memory of the agent (the library that is loaded into the profiled process), with a
 * list of all allocations.
 *
 * The memory is mapped from the kernel, because the agent must not call the program's malloc. With
 * this list, an agent that is unloaded from a running process (`allogram attach`) frees all of its
 * memory at once. An agent that stays until the end of the process does not free its memory. */
#ifndef AG_OWN_MEMORY_H
#define AG_OWN_MEMORY_H

#include <stddef.h>

/* Allocates whole zeroed pages, which take no physical memory until they are touched; NULL: no
 * memory. Any thread and signal handler may call this function. */
void *ag_own_memory_take(size_t bytes);
/* Allocates like ag_own_memory_take; in a forked child the memory contains zeros again, if the
 * kernel supports MADV_WIPEONFORK. */
void *ag_own_memory_take_wiped(size_t bytes);
/* Frees one allocation; NULL does nothing. This function searches the whole list, so it must not be
 * called often. */
void ag_own_memory_give(void *memory);
/* Frees all allocations. Meanwhile no thread may use them or allocate. */
void ag_own_memory_give_back(void);

#endif
