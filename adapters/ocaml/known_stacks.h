/* known_stacks.h: stacks that were put together before, by what Memprof tells. */
#ifndef AG_OCAML_KNOWN_STACKS_H
#define AG_OCAML_KNOWN_STACKS_H

#include "ocaml_runtime.h"

/* Of N_SLOTS entries of a callstack; place: where the native stack ended then, or NULL: it is not
 * known. Of the recording that runs: another one has other keys. */
uint64_t ag_ocaml_stack_key(const ag_ocaml_value *slots, size_t n_slots, const void *place);
/* 0: it is not known (any more). */
uint32_t ag_ocaml_known_stack(uint64_t key);
void ag_ocaml_remember_stack(uint64_t key, uint32_t stack);
/* The same slots may mean something else from here on. */
void ag_ocaml_forget_stacks(void);

#endif
