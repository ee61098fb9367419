/* stack_loader.c: loads the stacks of a trace and opens symbol files in a second thread, while the
 * first makes a pass over the events (see stack_loader.h).
 *
 * Which symbol files the rows need is not known before the pass has ended. But the outermost frames
 * of all stacks are in the same few files, the program and its libc, so these are opened early. */
#include "model/definitions/stack_loader.h"

#include "symbol/symbol.h"

/* frames outside of main or a thread's function: _start and two of libc, or clone and
 * start_thread */
enum { OUTERMOST = 3 };

static void open_files(struct ag_symbolizer *symbolizer, const struct ag_stack_nodes *nodes) {
    uint32_t last = AG_INDEX_NONE;
    for (size_t i = 0; i < nodes->count; i++) {
        const uint32_t image = nodes->sites[nodes->nodes[i].site].image;
        if (nodes->nodes[i].depth <= OUTERMOST && image != last) {
            ag_symbolizer_open_image(symbolizer, image);
            last = image;
        }
    }
}

static void *stack_loader_run(void *context) {
    struct ag_stack_loader *loader = context;
    loader->r = ag_definitions_load_stacks(loader->definitions, loader->file, &loader->damage);
    if (loader->r == 0) {
        open_files(loader->symbolizer, &loader->definitions->nodes);
    }
    return NULL;
}

void ag_stack_loader_start(struct ag_stack_loader *loader, struct ag_definitions *definitions,
                           const struct ag_trace_file *file, struct ag_symbolizer *symbolizer) {
    *loader = (struct ag_stack_loader){
        .definitions = definitions, .file = file, .symbolizer = symbolizer};
    loader->has_thread = pthread_create(&loader->thread, NULL, stack_loader_run, loader) == 0;
    if (!loader->has_thread) {
        (void)stack_loader_run(loader);
    }
}

int ag_stack_loader_end(struct ag_stack_loader *loader) {
    if (loader->has_thread) {
        (void)pthread_join(loader->thread, NULL);
    }
    ag_definitions_note_damage(loader->definitions, &loader->damage);
    return loader->r;
}
