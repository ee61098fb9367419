/* progress.h: how code that reads a trace reports its progress.
 *
 * Reading is divided into passes. A pass first reports how many stored bytes it will read, then the
 * bytes of each chunk that it has read, and finally its end. A caller that shows the progress gives
 * a struct ag_progress to the trace file (ag_trace_file_set_progress); all code that reads chunks
 * of this file then calls its function. */
#ifndef AG_PROGRESS_H
#define AG_PROGRESS_H

#include <stdint.h>

enum ag_progress_notice {
    AG_PROGRESS_BEGIN,   /* a pass begins; BYTES: the stored bytes that it will read */
    AG_PROGRESS_ADVANCE, /* BYTES more were read, perhaps outside of a pass */
    AG_PROGRESS_END,     /* a pass ended, perhaps without having read everything; BYTES is 0 */
};
struct ag_progress {
    /* Called at the start and the end of a pass, and for each chunk by the thread that has read
     * the chunk, so possibly by several threads at the same time. It may read the clock, but must
     * not wait for another thread. */
    void (*notice)(void *context, enum ag_progress_notice notice, uint64_t bytes);
    void *context;
};

#endif
