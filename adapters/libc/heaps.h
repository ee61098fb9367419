/* heaps.h: defines the heaps and the allocation functions of the libc in the trace. */
#ifndef AG_LIBC_HEAPS_H
#define AG_LIBC_HEAPS_H

#include "record/recorder.h"

/* Defines the libc's heaps, its vias (allocation functions) and RUNTIME in the trace. Called after
 * the recorder was turned on. RUNTIME must stay valid. */
void ag_libc_announce(const struct ag_runtime_definition *runtime);

/* Reports that the program has a second C library (dlmopen, LD_AUDIT), whose allocations are not
 * recorded. Does nothing if it has none, or if that was reported before. */
void ag_libc_report_namespaces(void);

#endif
