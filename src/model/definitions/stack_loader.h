/* stack_loader.h: a thread that loads the nodes of a trace's stacks, and opens files for their
 * names, during a pass over events, which needs neither. With 100,000 stacks the nodes are a fifth
 * of the time of opening a trace; decompressing the debug information of a libc takes 55 ms, as
 * long as 1.5 million events. */
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

/* Starts loading definitions->nodes, and then opening files; if no thread can be created, does it
 * before it returns. Until ag_stack_loader_end no other code may use the nodes or the SYMBOLIZER,
 * and BESIDE must not move. */
void ag_stack_loader_start(struct ag_stack_loader *beside, struct ag_definitions *definitions,
                           const struct ag_trace_file *file, struct ag_symbolizer *symbolizer);
/* Waits until all is done, and notes what was damaged. 0 or -ENOMEM. */
int ag_stack_loader_end(struct ag_stack_loader *beside);

#endif
