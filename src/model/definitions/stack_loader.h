/* stack_loader.h: a thread that loads the nodes of a trace's stacks and opens their symbol files,
 * during a pass over the events, which needs neither. With 100,000 stacks, loading the nodes takes
 * a fifth of the time of opening a trace. Decompressing the debug information of a libc takes 55
 * ms, as long as applying 1.5 million events. */
#ifndef AG_STACK_LOADER_H
#define AG_STACK_LOADER_H

#include <pthread.h>

#include "model/definitions/definitions.h"

struct ag_symbolizer;

struct ag_stack_loader {
    struct ag_definitions *definitions;
    const struct ag_trace_file *file;
    struct ag_symbolizer *symbolizer;
    pthread_t thread;
    bool has_thread;
    int r;
    struct ag_decode_error damage;
};

/* Starts the thread that loads definitions->nodes and then opens files. If no thread can be
 * created, does this work before it returns. Until ag_stack_loader_end no other code may use the
 * nodes or the SYMBOLIZER, and *BESIDE must stay at its address. */
void ag_stack_loader_start(struct ag_stack_loader *loader, struct ag_definitions *definitions,
                           const struct ag_trace_file *file, struct ag_symbolizer *symbolizer);
/* Waits until the thread has ended, and notes the damage that it found. 0 or -ENOMEM. */
int ag_stack_loader_end(struct ag_stack_loader *loader);

#endif
