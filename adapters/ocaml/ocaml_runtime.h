/* ocaml_runtime.h: the parts of this process' OCaml runtime that the adapter uses: the
 * representation of values, and functions and code that the adapter finds by name.
 *
 * Except where a comment says otherwise, everything here is the same from OCaml 4.11 to 4.14 and
 * from 5.3 on (runtime/caml/mlvalues.h). */
#ifndef AG_OCAML_RUNTIME_H
#define AG_OCAML_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "record/recorder.h"

typedef intptr_t ag_ocaml_value; /* an integer (bit 0 set), or the address of a block,
                                  * after its header */

AG_FAST ag_ocaml_value ag_ocaml_integer(intptr_t number) {
    return (ag_ocaml_value)((uintptr_t)number << 1 | 1);
}
AG_FAST intptr_t ag_ocaml_number(ag_ocaml_value value) {
    return value >> 1;
}
AG_FAST ag_ocaml_value ag_ocaml_field(ag_ocaml_value block, size_t index) {
    return ((const ag_ocaml_value *)block)[index];
}
AG_FAST uint64_t ag_ocaml_words(ag_ocaml_value block) {
    return ((const uint64_t *)block)[-1] >> 10;
}
/* The header of a block that the collector ignores: black in 4.x, not markable in 5.x. */
#define AG_OCAML_HEADER(words, tag) ((uint64_t)(words) << 10 | 3u << 8 | (tag))
enum { AG_OCAML_TAG_CLOSURE = 247, AG_OCAML_TAG_DOUBLE = 253 };

enum ag_ocaml_generation { AG_OCAML_4 = 4, AG_OCAML_5 = 5 };

struct ag_ocaml_runtime {
    enum ag_ocaml_generation generation;
    bool is_bytecode;
    bool is_observed; /* blocks are recorded by allocation_path.c, and not by Memprof, the runtime's
                       * sampler */
    ag_ocaml_value (*memprof_start)(ag_ocaml_value rate, ag_ocaml_value depth,
                                    ag_ocaml_value tracker); /* the runtime's own function */
    ag_ocaml_value (*memprof_stop)(ag_ocaml_value unit);
    /* where the state of the thread's domain (the unit of parallelism of OCaml 5) is found: OCaml
     * 4: Caml_state; OCaml 5: the offset of caml_state from the thread pointer. NULL, 0: unknown */
    const unsigned char *const *state;
    intptr_t state_offset;
    uintptr_t stubs_low, stubs_high; /* the runtime's assembly code between OCaml and C */
    uintptr_t code_low, code_high;   /* the program's OCaml code */
};
extern struct ag_ocaml_runtime ag_ocaml AG_HIDDEN;

/* The state of the domain of this thread; NULL: unknown. */
AG_FAST const unsigned char *ag_ocaml_own_state(void) {
    return ag_ocaml.state ? *ag_ocaml.state
           : ag_ocaml.state_offset
               ? *(const unsigned char *const *)((intptr_t)__builtin_thread_pointer() +
                                                 ag_ocaml.state_offset)
               : NULL;
}

/* Whether a return address lies in the runtime's stubs (is_stub), or in OCaml code. */
AG_FAST bool ag_ocaml_is_stub(uintptr_t pc) {
    return pc - 1 - ag_ocaml.stubs_low < ag_ocaml.stubs_high - ag_ocaml.stubs_low;
}
AG_FAST bool ag_ocaml_is_code(uintptr_t pc) {
    return pc - 1 - ag_ocaml.code_low < ag_ocaml.code_high - ag_ocaml.code_low;
}

#endif
