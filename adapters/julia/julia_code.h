/* julia_code.h: finds the functions of Julia's generated code at the addresses that stacks contain,
 * and defines them in the trace. */
#ifndef AG_JULIA_CODE_H
#define AG_JULIA_CODE_H

#include "base/compiler.h"

/* Defines the functions at the addresses that stacks contain since the last call. Reads Julia's
 * debug information, which takes Julia's locks. So it is called at the end of a collection and at
 * the exit, never from an allocation. */
void ag_julia_code_name_new(void);
/* Called when a new trace begins: the next call of ag_julia_code_name_new defines all functions
 * again. */
void ag_julia_code_name_again(void);

/* From julia_entry.S: the hook of jl_safe_printf, with the arguments of jl_safe_printf. */
extern void ag_julia_printf_entry(void) AG_HIDDEN;
extern void *ag_julia_printf_original AG_HIDDEN;

#endif
