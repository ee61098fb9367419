/* runtime_counters.h: reads the OCaml runtime's own counters from its memory, without allocating
 * and without a lock of the program. */
#ifndef AG_RUNTIME_COUNTERS_H
#define AG_RUNTIME_COUNTERS_H

#include "ocaml_runtime.h"

struct ag_ocaml_counters {
    uint64_t allocated_words; /* minor and major, of all domains (units of parallelism); promoted
                               * words count once */
    uint64_t minor_used_words, promoted_words; /* of the calling thread's domain */
    uint64_t heap_words, free_words;           /* of the major heap; 0: unknown */
    uint64_t large_words; /* OCaml 5: part of heap_words: blocks taken from malloc one by one */
};

/* Finds the domain's state and the counters; for OCaml 5, installs the hook for domains that end.
 * Called when the adapter is installed (ocaml_attach.c). */
void ag_ocaml_counters_prepare(void);
/* Determines which of the known layouts this runtime has; false: none fits, or several do. */
bool ag_ocaml_counters_calibrate(void);
/* Registers the calling thread's domain; called whenever an event is reported there. */
void ag_ocaml_counters_see_domain(void);
/* OCaml 5: struct stack_info of the fiber that the calling thread is on; 0: not calibrated. */
uintptr_t ag_ocaml_counters_current_stack(void);
/* Returns false if not calibrated, if this thread has no domain, if the layout does not fit any
 * more, or if there are too many domains. */
bool ag_ocaml_counters_read(struct ag_ocaml_counters *ret_counters);

#endif
