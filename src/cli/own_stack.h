/* own_stack.h: the size of the stacks of allogram's own processes and threads.
 *
 * The limit of the shell that starts allogram (ulimit -s) is meant for the program that is
 * recorded. allogram keeps paths, messages and decoders on its stacks, and would end by SIGSEGV
 * under a limit of some KiB. */
#ifndef AG_OWN_STACK_H
#define AG_OWN_STACK_H

#include <stdint.h>

enum { AG_OWN_STACK_LEAST_KIB = 256 };

/* Called once, at the start of main: raises the limit of the main thread's stack, and the size of
 * the stacks of threads that start later. Returns 0; or, if the hard limit is too small for
 * allogram and may not be raised, the hard limit in bytes. */
uint64_t ag_own_stack_raise(void);
/* Called by a child before it executes another program than allogram: restores the limit with which
 * allogram was started. */
void ag_own_stack_restore(void);

#endif
