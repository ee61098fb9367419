/* guile_jit.h: the machine code that Guile's JIT compiler makes. */
#ifndef AG_GUILE_JIT_H
#define AG_GUILE_JIT_H

#include <stdbool.h>
#include <stdint.h>

/* From here on, stacks can be unwound through code that Guile compiles. */
void ag_guile_jit_follow(void);
/* Whether the address is in compiled code. */
bool ag_guile_jit_has(uintptr_t pc);
/* Records the name of the addresses of compiled code that occur in stacks and have no name yet. */
void ag_guile_jit_name_new(void);

#endif
