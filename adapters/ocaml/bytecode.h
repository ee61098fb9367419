/* bytecode.h: the parts of the adapter for programs of OCaml's bytecode interpreter: the code of
 * the adapter's closures, and the frames of bytecode in stacks. */
#ifndef AG_OCAML_BYTECODE_H
#define AG_OCAML_BYTECODE_H

#include "ocaml_runtime.h"

/* Whether the runtime of this process interprets bytecode, and has all functions and variables that
 * the adapter needs for bytecode. Also installs the detours that notice when code is loaded or
 * unloaded. */
bool ag_ocaml_bytecode_find(void);
/* Called before any code of the runtime has run: makes the interpreter call the adapter's closures
 * directly. */
void ag_ocaml_bytecode_follow(void);
/* Returns the code of a closure that calls FUNCTION with one value; NULL: out of memory. Called
 * when the runtime is ready and before the program begins. */
void *ag_ocaml_bytecode_code(size_t index, ag_ocaml_value (*function)(ag_ocaml_value));
/* Called before Memprof (the runtime's sampler) starts: makes the runtime read the program's debug
 * section. */
void ag_ocaml_bytecode_load_debug_info(void);
/* Whether a native frame's return address lies in the interpreter. */
bool ag_ocaml_is_interpreter(uintptr_t pc);
/* The same as ag_ocaml_stack (callstack.h), for a bytecode program. */
uint32_t ag_ocaml_bytecode_stack(ag_ocaml_value callstack, const uintptr_t *sp, uintptr_t rbp);

#endif
