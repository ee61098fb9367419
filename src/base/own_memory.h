/* own_memory.h: memory of the agent in the program's process, kept until all of it is freed.
 *
 * Zeroed memory from the kernel and not from the host's malloc. An agent that leaves the process
 * (attach) frees all of it at once; one that stays to the end never does. */
#ifndef AG_OWN_MEMORY_H
#define AG_OWN_MEMORY_H

#include <stddef.h>

/* Whole pages, which cost nothing until they are touched; NULL: no memory. From any thread and
 * signal handler. */
void *ag_own_memory_take(size_t bytes);
/* The same for memory that is zeros again in a forked child, if the kernel can do that. */
void *ag_own_memory_take_wiped(size_t bytes);
/* Frees one piece; NULL does nothing. It searches the list, so it is not for frequent use. */
void ag_own_memory_give(void *memory);
/* Frees everything. No thread may use any of it, or take more meanwhile. */
void ag_own_memory_give_back(void);

#endif
