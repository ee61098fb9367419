/* julia_code.h: names the places of generated code: looks them up in Julia and defines them in the
 * trace. */
#ifndef AG_JULIA_CODE_H
#define AG_JULIA_CODE_H

#include "base/compiler.h"

/* Names the places that stacks reached since the last call. Reads Julia's debug information, which
 * takes Julia's locks: called from the end of a collection and from the exit, never from an
 * allocation. */
void ag_julia_code_name_new(void);
/* A new trace has begun: the next call names all places again. */
void ag_julia_code_name_again(void);

/* From julia_entry.S: the hook of jl_safe_printf, with the same arguments. */
extern void ag_julia_printf_entry(void) AG_HIDDEN;
extern void *ag_julia_printf_original AG_HIDDEN;

#endif
