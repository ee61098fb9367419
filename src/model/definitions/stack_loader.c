/* stack_loader.c: see stack_loader.h.
 *
 * The files that will be needed are not known before the pass has ended, but every stack begins in
 * the same few: those of its outermost frames, the program and its libc. */
#include "model/definitions/stack_loader.h"

#include "symbol/symbol.h"

enum { OUTERMOST = 3 }; /* frames: _start, two of libc before main; or clone and start_thread */

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
    struct ag_stack_loader *beside = context;
    beside->r = ag_definitions_load_stacks(beside->definitions, beside->file, &beside->damage);
    if (beside->r == 0) {
        open_files(beside->symbolizer, &beside->definitions->nodes);
    }
    return NULL;
}

void ag_stack_loader_start(struct ag_stack_loader *beside, struct ag_definitions *definitions,
                           const struct ag_trace_file *file, struct ag_symbolizer *symbolizer) {
    *beside = (struct ag_stack_loader){
        .definitions = definitions, .file = file, .symbolizer = symbolizer};
    beside->has_thread = pthread_create(&beside->thread, NULL, stack_loader_run, beside) == 0;
    if (!beside->has_thread) {
        (void)stack_loader_run(beside);
    }
}

int ag_stack_loader_end(struct ag_stack_loader *beside) {
    if (beside->has_thread) {
        (void)pthread_join(beside->thread, NULL);
    }
    ag_definitions_note_damage(beside->definitions, &beside->damage);
    return beside->r;
}
