/* julia_code.h: what stands at the places of generated code: asked of Julia, told to the trace. */
#ifndef AG_JULIA_CODE_H
#define AG_JULIA_CODE_H

#include "base/compiler.h"

/* Names what stacks met since the last call. Asks Julia's debug information, which takes its locks:
 * from the end of a collection and from the exit, never from an allocation. */
void ag_julia_code_name_new(void);
/* The trace is another one: the next call names all. */
void ag_julia_code_name_again(void);

/* Of julia_entry_x86_64.S: in front of jl_safe_printf, with its arguments. */
extern void ag_julia_printf_entry(void) AG_HIDDEN;
extern void *ag_julia_printf_original AG_HIDDEN;

#endif
