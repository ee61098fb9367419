/* stack_loader.h: a thread of its own loads the nodes of a trace's stacks, and opens files that
 * their names will come from, beside a pass over events, which needs neither.
 * With 100,000 stacks the nodes are a fifth of what opening a trace takes; the debug information of
 * a libc is 55 ms of decompressing, as long as 1.5 million events. */
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

/* Begins to load definitions->nodes, and then to open files; where there can be no thread, does it
 * here and now. Until the end nobody else touches the nodes or the SYMBOLIZER, and
 * BESIDE stays where it is. */
void ag_stack_loader_start(struct ag_stack_loader *beside, struct ag_definitions *definitions,
                           const struct ag_trace_file *file, struct ag_symbolizer *symbolizer);
/* Waits until all is done, and notes what was damaged. 0 or -ENOMEM. */
int ag_stack_loader_end(struct ag_stack_loader *beside);

#endif
