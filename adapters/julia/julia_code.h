/* julia_code.h: finds the functions of Julia's generated code at the addresses that stacks contain,
 * and defines them in the trace. */
#ifndef AG_JULIA_CODE_H
#define AG_JULIA_CODE_H

#include "base/compiler.h"

/* Defines the functions at the addresses that stacks have got since the last call. Reads Julia's
 * debug information, which takes Julia's locks. So it is called at the end of a collection or of a
 * recorded expression and at the exit, never when a block is recorded. */
void ag_julia_code_name_new(void);
/* Called in a forked child, which has a trace of its own: the next call of ag_julia_code_name_new
 * defines all functions again. */
void ag_julia_code_name_again(void);

/* From julia_entry.S: the hook of jl_safe_printf, by which Julia prints the functions at an
 * address. The hook takes the names from the arguments of jl_safe_printf. */
extern void ag_julia_printf_entry(void) AG_HIDDEN;
extern void *ag_julia_printf_original AG_HIDDEN;

#endif
