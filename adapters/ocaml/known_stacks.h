/* known_stacks.h: a cache of joined stacks, by Memprof's callstack. */
#ifndef AG_OCAML_KNOWN_STACKS_H
#define AG_OCAML_KNOWN_STACKS_H

#include "ocaml_runtime.h"

/* The key of N_SLOTS entries of a callstack. place: where the native stack ended, or NULL: unknown.
 * Valid for the current recording: another one has other keys. */
uint64_t ag_ocaml_stack_key(const ag_ocaml_value *slots, size_t n_slots, const void *place);
/* 0: unknown, or dropped. */
uint32_t ag_ocaml_known_stack(uint64_t key);
void ag_ocaml_remember_stack(uint64_t key, uint32_t stack);
/* From here on the same slots may mean other code. */
void ag_ocaml_forget_stacks(void);

#endif
