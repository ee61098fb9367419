/* inspections.c: finds the inspectors that recognize the target, and stores what they report.
 *
 * An inspector is the code for one runtime (virtual machine) that reads a process of this runtime
 * (the target) from outside (allogram/inspector.h). An inspector reports the frames of a stack from
 * the innermost to the outermost. Stacks are stored as nodes: a node is a frame and the node of its
 * caller. So the frames are collected in an array, and the nodes are made from the end of the
 * array. Reported processes, allocators and collections are copied. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/runtimes.h"
#include "observation_state.h"
#include "table/array.h"

enum { PROBLEM_BYTES = 512, MOST_REPORTED = 1 << 20 };

/* ---- stacks --------------------------------------------------------------------------- */

static void stack_push(struct allogram_stack *stack, const struct ag_seen_frame *frame) {
    const uint32_t id = ag_seen_frame_id(&stack->observation->seen, frame);
    if (stack->n == sizeof stack->frames / sizeof stack->frames[0] || id == UINT32_MAX) {
        stack->is_cut = true;
        return;
    }
    stack->frames[stack->n++] = id;
}

void allogram_stack_native(struct allogram_stack *stack, size_t frame) {
    if (stack->sample == NULL || frame >= stack->sample->n_frames) {
        return;
    }
    struct ag_observation *observation = stack->observation;
    const struct allogram_native_frame *native = &stack->sample->frames[frame];
    const uint64_t address = native->pc - !native->is_exact;
    const struct ag_observed_image *image = ag_observed_images_find(&observation->images, address);
    if (image == NULL && ag_observed_images_is_trampoline(&observation->images, address)) {
        return;
    }
    const struct ag_generated_function *generated =
        image == NULL ? ag_generated_code_find(&observation->generated, address) : NULL;
    if (generated != NULL) {
        stack_push(stack, &(struct ag_seen_frame){
                              .runtime = ag_seen_text(&observation->seen, "jit"),
                              .function = ag_seen_text(&observation->seen, generated->name)});
        return;
    }
    stack_push(stack, &(struct ag_seen_frame){.is_exact = native->is_exact,
                                              .image = image != NULL ? image->id : 0,
                                              .pc = native->pc});
}

void allogram_stack_managed(struct allogram_stack *stack,
                            const struct allogram_managed_frame *frame) {
    struct ag_seen_stacks *seen = &stack->observation->seen;
    stack_push(stack,
               &(struct ag_seen_frame){
                   .runtime = stack->runtime,
                   .function = ag_seen_text(seen, frame->function != NULL ? frame->function : "?"),
                   .file = ag_seen_text(seen, frame->file),
                   .line = frame->line});
}

void allogram_stack_incomplete(struct allogram_stack *stack) {
    stack->is_incomplete = true;
}

static void begin_stack(struct allogram_stack *stack, const struct allogram_sample *sample,
                        uint32_t runtime) {
    stack->sample = sample;
    stack->runtime = runtime;
    stack->n = 0;
    stack->is_cut = stack->is_incomplete = false;
}

/* Returns the node of the reported stack. ROOT, the parent of the outermost node, shows how the
 * walk ended (AG_SEEN_COMPLETE ...). */
static uint32_t end_stack(struct allogram_stack *stack, uint32_t root) {
    uint32_t node = stack->is_cut ? AG_SEEN_CUT : root;
    for (size_t i = stack->n; i-- > 0;) {
        node = ag_seen_node_id(&stack->observation->seen, node, stack->frames[i]);
        if (node == UINT32_MAX) {
            return AG_SEEN_INCOMPLETE; /* out of memory */
        }
    }
    return node;
}

static uint32_t root_of(enum allogram_walk_end end) {
    switch (end) {
    case ALLOGRAM_WALK_OUTERMOST:
        return AG_SEEN_COMPLETE;
    case ALLOGRAM_WALK_CUT:
        return AG_SEEN_CUT;
    case ALLOGRAM_WALK_MANAGED:
    case ALLOGRAM_WALK_UNKNOWN:
        break;
    }
    return AG_SEEN_INCOMPLETE;
}

bool ag_inspections_stack(struct ag_observation *observation, const struct allogram_sample *sample,
                          uint32_t *ret_node) {
    struct allogram_stack *stack = &observation->answers.stack;
    for (size_t i = 0; i < observation->n_inspections; i++) {
        struct ag_inspection *inspection = &observation->inspections[i];
        begin_stack(stack, sample, inspection->runtime);
        const enum allogram_stack_verdict verdict =
            inspection->inspector->stack(inspection->state, sample, stack);
        if (verdict == ALLOGRAM_STACK_STALE) {
            return false;
        }
        if (verdict != ALLOGRAM_STACK_NATIVE && stack->n != 0) {
            *ret_node = end_stack(stack, verdict == ALLOGRAM_STACK_COMPLETE ? AG_SEEN_COMPLETE
                                                                            : AG_SEEN_INCOMPLETE);
            return true;
        }
    }
    begin_stack(stack, sample, 0);
    for (size_t i = 0; i < sample->n_frames; i++) {
        allogram_stack_native(stack, i);
    }
    *ret_node = end_stack(stack, root_of(sample->walk_end));
    return true;
}

static bool has_words(const struct allogram_inspector *inspector) {
    /* the struct of an inspector that was compiled with an older header lacks the last members */
    return inspector->size >= sizeof *inspector && inspector->choose_word != NULL &&
           inspector->is_new_word != NULL;
}

bool ag_inspections_is_new_word(struct ag_observation *observation,
                                const struct allogram_sample *sample, uint64_t address) {
    for (size_t i = 0; i < observation->n_inspections; i++) {
        const struct ag_inspection *inspection = &observation->inspections[i];
        if (has_words(inspection->inspector) &&
            inspection->inspector->is_new_word(inspection->state, sample, address)) {
            return true;
        }
    }
    return false;
}

bool ag_inspections_choose_word(struct ag_observation *observation, uint64_t *ret_address) {
    for (size_t i = 0; i < observation->n_inspections; i++) {
        const struct ag_inspection *inspection = &observation->inspections[i];
        if (has_words(inspection->inspector) && inspection->collections_fd >= 0 &&
            inspection->inspector->choose_word(inspection->state, ret_address)) {
            return true;
        }
    }
    return false;
}

/* ---- finding inspectors ---- */

bool ag_inspections_own(void *context, uint64_t pc) {
    struct ag_observation *observation = context;
    for (size_t i = 0; i < observation->n_inspections; i++) {
        const struct ag_inspection *inspection = &observation->inspections[i];
        if (inspection->inspector->owns != NULL &&
            inspection->inspector->owns(inspection->state, pc)) {
            return true;
        }
    }
    return false;
}

static void open_one(struct ag_observation *observation,
                     const struct allogram_inspector *inspector) {
    char problem[PROBLEM_BYTES] = "";
    void *state = NULL;
    const int r = inspector->open(&observation->target, &state, problem, sizeof problem);
    if (r == -ENOENT) {
        return;
    }
    if (r < 0) {
        ag_observation_note(observation, "%s: %s; its frames are shown as native",
                            inspector->runtime, problem[0] != '\0' ? problem : strerror(-r));
        return;
    }
    observation->inspections[observation->n_inspections++] = (struct ag_inspection){
        .inspector = inspector,
        .state = state,
        .collections_fd = -1,
        .capture_program = -1,
        .runtime = ag_seen_text(&observation->seen, inspector->runtime),
    };
}

static void prepare_capture(struct ag_observation *observation, struct ag_inspection *inspection) {
    char problem[PROBLEM_BYTES] = "";
    if (inspection->inspector->capture_program == NULL) {
        return;
    }
    inspection->capture_program =
        inspection->inspector->capture_program(inspection->state, problem, sizeof problem);
    if (inspection->capture_program < 0 && problem[0] != '\0') {
        ag_observation_note(
            observation,
            "%s: its stacks are not read when a sample is taken, but shortly after: %s",
            inspection->inspector->runtime, problem);
    }
}

static void watch_collections(struct ag_observation *observation,
                              struct ag_inspection *inspection) {
    char problem[PROBLEM_BYTES] = "";
    if ((observation->options.what & AG_OBSERVE_COLLECTIONS) == 0 ||
        inspection->inspector->watch_collections == NULL) {
        return;
    }
    inspection->collections_fd =
        inspection->inspector->watch_collections(inspection->state, problem, sizeof problem);
    if (inspection->collections_fd < 0 && problem[0] != '\0') {
        ag_observation_note(observation, "--gc: collections cannot be observed: %s", problem);
    }
}

void ag_inspections_open(struct ag_observation *observation) {
    const struct ag_runtime *row = observation->options.runtimes;
    observation->answers.observation = observation;
    observation->answers.stack.observation = observation;
    for (; row && row->name && observation->n_inspections < AG_INSPECTORS_MOST; row++) {
        if (row->inspector) {
            open_one(observation, row->inspector);
        }
    }
    for (size_t i = 0; i < observation->n_inspections; i++) {
        prepare_capture(observation, &observation->inspections[i]);
        watch_collections(observation, &observation->inspections[i]);
    }
    if (observation->n_inspections == 0 && observation->n_notes == 0 &&
        (observation->options.what &
         (AG_OBSERVE_COLLECTIONS | AG_OBSERVE_ALLOCATORS | AG_OBSERVE_PROCESSES)) != 0) {
        ag_observation_note(
            observation,
            "--gc, --allocators and --processes need a runtime that can be read from outside (the man page lists them); this process has none");
    }
}

void ag_inspections_refresh(struct ag_observation *observation) {
    for (size_t i = 0; i < observation->n_inspections; i++) {
        const struct ag_inspection *inspection = &observation->inspections[i];
        if (inspection->inspector->refresh != NULL) {
            inspection->inspector->refresh(inspection->state);
        }
    }
}

void ag_inspections_close(struct ag_observation *observation) {
    for (size_t i = 0; i < observation->n_inspections; i++) {
        const struct ag_inspection *inspection = &observation->inspections[i];
        if (inspection->inspector->close != NULL) {
            inspection->inspector->close(inspection->state);
        }
    }
    observation->n_inspections = 0;
}

/* ---- reports other than samples ---- */

/* Copies a text; the pointer is valid until the observation is closed. */
static const char *inspections_keep_text(struct ag_observation *observation, const char *text) {
    const uint32_t id = ag_seen_text(&observation->seen, text);
    return id == UINT32_MAX || id == 0 ? NULL : ag_text(&observation->seen.texts, id);
}

struct allogram_stack *allogram_answers_stack(struct allogram_answers *answers) {
    begin_stack(&answers->stack, NULL, answers->stack.runtime);
    return &answers->stack;
}

static uint32_t node_of(struct allogram_stack *stack) {
    return stack != NULL && stack->n != 0
               ? end_stack(stack, stack->is_incomplete ? AG_SEEN_INCOMPLETE : AG_SEEN_COMPLETE)
               : AG_SEEN_COMPLETE;
}

void allogram_answers_process(struct allogram_answers *answers,
                              const struct allogram_process *process,
                              const struct allogram_stack *stack) {
    struct ag_observation *observation = answers->observation;
    if (observation->n_processes == MOST_REPORTED) {
        return;
    }
    /* an inspector that was compiled with an older header has no fields `binaries`,
     * `binary_bytes` */
    const bool has_binaries = process->size >= sizeof *process;
    const struct ag_reported_process reported = {
        .id = inspections_keep_text(observation, process->id),
        .name = inspections_keep_text(observation, process->name),
        .current_function = inspections_keep_text(observation, process->current_function),
        .runtime = ag_text(&observation->seen.texts, answers->stack.runtime),
        .heap_words = process->heap_words,
        .stack_words = process->stack_words,
        .queue = process->queue,
        .binaries = has_binaries ? process->binaries : UINT64_MAX,
        .binary_bytes = has_binaries ? process->binary_bytes : UINT64_MAX,
        .node = node_of((struct allogram_stack *)stack),
    };
    /* out of memory: the process is missing */
    (void)AG_ARRAY_ADD(observation->processes, observation->n_processes, reported);
}

void allogram_answers_collection(struct allogram_answers *answers,
                                 const struct allogram_collection *collection,
                                 const struct allogram_stack *stack) {
    struct ag_observation *observation = answers->observation;
    const uint32_t node = node_of((struct allogram_stack *)stack);
    /* an inspector that was compiled with an older header has no field `written_ns` */
    if (collection->size >= sizeof *collection && collection->written_ns != 0) {
        const struct ag_seen_word end = {.time_ns = collection->written_ns, .node = node};
        /* out of memory: the word is not counted */
        (void)AG_ARRAY_ADD(observation->word_ends, observation->n_word_ends, end);
        if (collection->weight_bytes == 0) {
            return;
        }
    }
    const struct ag_reported_collection reported = {
        .runtime = ag_text(&observation->seen.texts, answers->stack.runtime),
        .kind = inspections_keep_text(observation, collection->kind),
        .process = inspections_keep_text(observation, collection->process),
        .thread = collection->thread,
        .node = node,
        .start_ns = collection->start_ns,
        .pause_ns = collection->pause_ns,
        .heap_before_bytes = collection->heap_before_bytes,
        .heap_after_bytes = collection->heap_after_bytes,
        .needed_bytes = collection->needed_bytes,
        .allocated_bytes = collection->allocated_bytes,
        .weight_bytes = collection->weight_bytes,
    };
    if (observation->n_collections == MOST_REPORTED ||
        AG_ARRAY_ADD(observation->collections, observation->n_collections, reported) < 0) {
        observation->reported_lost++;
    }
}

void allogram_answers_collections_seen(struct allogram_answers *answers, uint64_t n) {
    answers->observation->facts.collections_seen = n;
}

void allogram_answers_allocator(struct allogram_answers *answers,
                                const struct allogram_allocator *allocator) {
    struct ag_observation *observation = answers->observation;
    if (observation->n_allocators == MOST_REPORTED) {
        return;
    }
    uint64_t mapped = 0, resident = 0;
    for (size_t i = 0; i < allocator->n_carriers; i++) {
        const struct allogram_range *range = &allocator->carriers[i];
        mapped += range->high - range->low;
        resident += ag_remote_memory_resident(observation->process.pid, range->low, range->high);
    }
    const struct ag_reported_allocator reported = {
        .name = inspections_keep_text(observation, allocator->name),
        .instance = allocator->instance,
        .carriers_bytes = allocator->carriers_bytes,
        .blocks_bytes = allocator->blocks_bytes,
        .mapped_bytes = mapped,
        .resident_bytes = resident,
    };
    /* out of memory: the allocator is missing */
    (void)AG_ARRAY_ADD(observation->allocators, observation->n_allocators, reported);
}

void allogram_answers_lost(struct allogram_answers *answers, uint64_t n, const char *cause) {
    answers->observation->reported_lost += n;
    ag_observation_note(answers->observation, "%llu events lost: %s", (unsigned long long)n, cause);
}
