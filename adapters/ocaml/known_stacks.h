/* known_stacks.h: a cache of joined stacks (OCaml's frames with the native ones); the key is the
 * callstack that Memprof, the runtime's sampler, gives. */
#ifndef AG_OCAML_KNOWN_STACKS_H
#define AG_OCAML_KNOWN_STACKS_H

#include "ocaml_runtime.h"

/* The key of a callstack of N_SLOTS entries. place: the address where the native stack ends; NULL:
 * unknown. A key is valid for the current recording only. */
uint64_t ag_ocaml_stack_key(const ag_ocaml_value *slots, size_t n_slots, const void *place);
/* The stack that was stored under the key; 0: none, or it was replaced. */
uint32_t ag_ocaml_known_stack(uint64_t key);
void ag_ocaml_remember_stack(uint64_t key, uint32_t stack);
/* Invalidates all keys: from now on the same callstack may mean other code. */
void ag_ocaml_forget_stacks(void);

#endif
