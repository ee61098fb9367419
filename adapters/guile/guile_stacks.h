/* guile_stacks.h: adds the frames of Scheme procedures to the recorded stacks. */
#ifndef AG_GUILE_STACKS_H
#define AG_GUILE_STACKS_H

#include <stdint.h>

/* VARIABLE: the address of Guile's thread-local pointer to its thread, in the calling thread. */
void ag_guile_stacks_start(uintptr_t variable);
/* Called before events of the Boehm collector: from then on the stacks of the calling thread have
 * Scheme frames. */
void ag_guile_stacks_begin_thread(void);

#endif
