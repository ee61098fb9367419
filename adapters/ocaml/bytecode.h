/* bytecode.h: programs of the bytecode interpreter: our closures as it runs them, and the frames of
 * its code. */
#ifndef AG_OCAML_BYTECODE_H
#define AG_OCAML_BYTECODE_H

#include "ocaml_runtime.h"

/* The runtime of this process interprets bytecode; false: something of it is not there. */
bool ag_ocaml_bytecode_find(void);
/* Before anything of the runtime has run: our closures are called without the interpreter. */
void ag_ocaml_bytecode_follow(void);
/* The runtime is ready, the program has not begun: a closure's code that calls FUNCTION with one
 * value; NULL: no memory. */
void *ag_ocaml_bytecode_code(size_t index, ag_ocaml_value (*function)(ag_ocaml_value));
/* Before Memprof starts: the program's debug section is read by the runtime itself. */
void ag_ocaml_bytecode_load_debug_info(void);
/* A native frame's return address: in the interpreter. */
bool ag_ocaml_is_interpreter(uintptr_t pc);
/* As ag_ocaml_stack, of a callback that the interpreter called. */
uint32_t ag_ocaml_bytecode_stack(ag_ocaml_value callstack, const uintptr_t *sp, uintptr_t rbp);

#endif
