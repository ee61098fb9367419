/* runtime_counters.h: what the runtime counts itself, read from its memory: nothing is allocated,
 * no lock of the program's is needed. */
#ifndef AG_RUNTIME_COUNTERS_H
#define AG_RUNTIME_COUNTERS_H

#include "ocaml_runtime.h"

struct ag_ocaml_counters {
    uint64_t allocated_words; /* minor and major, what was promoted once; of all domains */
    uint64_t minor_used_words, promoted_words; /* of the calling thread's domain */
    uint64_t heap_words, free_words;           /* of the major heap; 0: not known */
    uint64_t large_words; /* OCaml 5: of it, blocks that malloc gave one by one */
};

/* Installs what follows domains that end. Before anything of the runtime has run. */
void ag_ocaml_counters_prepare(void);
/* Which of the known layouts this runtime has; false: none fits what the runtime itself answers. */
bool ag_ocaml_counters_calibrate(void);
/* The calling thread's domain counts; whenever something is told from there. */
void ag_ocaml_counters_see_domain(void);
/* OCaml 5: struct stack_info of the fiber that the calling thread is on; 0: not calibrated. */
uintptr_t ag_ocaml_counters_current_stack(void);
/* false: not calibrated, or this thread has no domain. */
bool ag_ocaml_counters_read(struct ag_ocaml_counters *ret_counters);

#endif
