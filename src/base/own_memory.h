/* own_memory.h: memory of ours in the program's process that is kept until all of it is given back.
 *
 * Zeros from the kernel and not from the host's malloc. Who leaves a process (attach) gives all of
 * it back at once; who stays with it to its end never does. */
#ifndef AG_OWN_MEMORY_H
#define AG_OWN_MEMORY_H

#include <stddef.h>

/* Whole pages, none of which costs anything until it is touched; NULL: there are none. From any
 * thread and handler. */
void *ag_own_memory_take(size_t bytes);
/* Gives back one piece; NULL: nothing. Looks for it, so not for what is done often. */
void ag_own_memory_give(void *memory);
/* Gives back all that was ever taken. Nobody uses any of it, or will take more meanwhile. */
void ag_own_memory_give_back(void);

#endif
