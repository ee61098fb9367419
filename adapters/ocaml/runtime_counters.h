/* runtime_counters.h: what the runtime counts itself, read from its memory: nothing is allocated,
 * no lock is needed. */
#ifndef AG_RUNTIME_COUNTERS_H
#define AG_RUNTIME_COUNTERS_H

#include "ocaml_runtime.h"

struct ag_ocaml_counters {
    uint64_t allocated_words; /* minor and major, what was promoted once */
    uint64_t minor_used_words;
    uint64_t heap_words, free_words; /* of the major heap; 0: not known */
};

/* Which of the known layouts this runtime has; false: none fits what the runtime itself answers. */
bool ag_ocaml_counters_calibrate(void);
/* Of the calling thread's domain; false: not calibrated. */
bool ag_ocaml_counters_read(struct ag_ocaml_counters *ret_counters);

#endif
