/* heaps.h: the heaps and allocation functions of the libc, as the trace is told of them. */
#ifndef AG_LIBC_HEAPS_H
#define AG_LIBC_HEAPS_H

#include "record/recorder.h"

/* Tells the recorder, which runs, of the libc's heaps, vias and of runtime, which stays. */
void ag_libc_announce(const struct ag_runtime_definition *runtime);

#endif
