/* mapping_events.c: records mmap and similar calls, records the sizes of heaps, and captures stacks
 * that belong to no block. Hooks (code that runs when the program calls such a function) and
 * adapters (the code for one runtime each) call the functions of this file. Mappings and sizes are
 * rare, so they are encoded as records. */
#include "block_choice.h"
#include "event_fast.h"
#include "managed_frames.h"
#include "raw_clock.h"
#include "thread_state.h"

/* The state of the calling thread if it can record now, else NULL. If a signal handler makes a
 * mapping while its thread is inside a hook, the mapping is not recorded. This is acceptable,
 * because no count of blocks depends on mappings. */
static struct ag_thread *own_state(void) {
    const bool is_reported = ag_recorder_is_active() &&
                             !ag_record_is_suspended_call((uintptr_t)__builtin_frame_address(0));
    struct ag_thread *thread = is_reported ? ag_thread_ready() : NULL;
    return thread && ag_thread_is_idle(thread) ? thread : NULL;
}

static uint32_t capture_stack(struct ag_thread *thread, const uintptr_t *sp, uintptr_t rbp) {
    return ag_frame_sources_are_there()
               ? ag_managed_walk(thread, sp, rbp, /* pc= */ 0)
               : ag_walker_capture(thread->walker, ag_recorder.space, sp, rbp);
}

void ag_record_map(const uintptr_t *sp, uintptr_t rbp, uint32_t via, uintptr_t address,
                   size_t bytes, int protection, int flags) {
    struct ag_thread *thread = ag_block_choice_takes_mapping(via) ? own_state() : NULL;
    if (!thread) {
        return;
    }
    const uintptr_t gate = thread->gate;
    ag_thread_set_gate(thread, (uintptr_t)sp);
    ag_stream_append_stamp(thread);
    const struct ag_record record = {.kind = AG_RECORD_MAP,
                                     .u.map = {.address = address,
                                               .bytes = bytes,
                                               .stack = capture_stack(thread, sp, rbp),
                                               .via = via,
                                               .protection = (uint32_t)protection,
                                               .flags = (uint32_t)flags}};
    ag_stream_append_record(thread, &record);
    ag_thread_set_gate(thread, gate);
}

static void append_unmap(const struct ag_unmap_record *unmap) {
    struct ag_thread *thread = own_state();
    if (!thread) {
        return;
    }
    const uintptr_t gate = thread->gate;
    ag_thread_set_gate(thread, (uintptr_t)__builtin_frame_address(0));
    ag_stream_append_stamp(thread);
    const struct ag_record record = {.kind = AG_RECORD_UNMAP, .u.unmap = *unmap};
    ag_stream_append_record(thread, &record);
    ag_thread_set_gate(thread, gate);
}

void ag_record_unmap(uintptr_t address, size_t bytes) {
    append_unmap(&(struct ag_unmap_record){.address = address, .bytes = bytes});
}

uint64_t ag_record_call_time(void) {
    const struct ag_segment_header *header = ag_recorder.header;
    return ag_recorder_is_active() ? ag_segment_ns(header, ag_raw_clock_elapsed(header)) : 0;
}

void ag_record_unmap_late(uint32_t via, uint64_t call_time_ns, uintptr_t address, size_t bytes) {
    append_unmap(&(struct ag_unmap_record){
        .address = address, .bytes = bytes, .via = via, .flags = (uint32_t)call_time_ns});
}

void ag_record_memory(const struct ag_held_memory *memory) {
    if (!ag_recorder_is_active()) {
        return;
    }
    const struct ag_segment_header *header = ag_recorder.header;
    const uint64_t now_ns = ag_segment_ns(header, ag_raw_clock_elapsed(header));
    const struct ag_record record = {.kind = AG_RECORD_MEMORY,
                                     .u.memory = {.heap = memory->heap,
                                                  .known = memory->known,
                                                  .time_ns = now_ns,
                                                  .reserved_bytes = memory->reserved_bytes,
                                                  .committed_bytes = memory->committed_bytes,
                                                  .free_bytes = memory->free_bytes,
                                                  .of_malloc_bytes = memory->of_malloc_bytes}};
    ag_recorder_append(&record);
}

static uintptr_t pc_of_node(const struct ag_walk_view *view, uint32_t i) {
    uintptr_t pc = 0;
    uint32_t caller = 0;
    (void)ag_stack_top(((const uint32_t *)view->frames)[i], &pc, &caller);
    return pc;
}

/* Does the same as ag_walker_capture_outer, for a stack whose nodes exist already: returns the part
 * of the stack that CHOOSE selects. */
static uint32_t outer_part(uint32_t stack, ag_walk_choose *choose, void *context) {
    enum { FRAMES_MOST = 1024 };
    uint32_t nodes[FRAMES_MOST + 1];
    struct ag_walk_view view = {.frames = nodes, .pc = pc_of_node};
    uintptr_t pc = 0;
    uint32_t caller = 0;
    nodes[0] = stack;
    while (view.n_frames < FRAMES_MOST && ag_stack_top(nodes[view.n_frames], &pc, &caller)) {
        nodes[++view.n_frames] = caller;
    }
    view.root =
        nodes[view.n_frames] < AG_NODE_FIRST ? (enum ag_root)nodes[view.n_frames] : AG_ROOT_CUT;
    return nodes[choose(context, &view)];
}

uint32_t ag_record_stack_outer(const uintptr_t *sp, uintptr_t rbp, ag_walk_choose *choose,
                               void *context) {
    struct ag_thread *thread = own_state();
    if (!thread) {
        return AG_ROOT_INCOMPLETE;
    }
    const uintptr_t gate = thread->gate;
    ag_thread_set_gate(thread, (uintptr_t)sp);
    uint32_t stack;
    if (!choose) {
        stack = capture_stack(thread, sp, rbp);
    } else if (ag_frame_sources_are_there()) {
        stack = outer_part(capture_stack(thread, sp, rbp), choose, context);
    } else {
        stack =
            ag_walker_capture_outer(thread->walker, ag_recorder.space, sp, rbp, choose, context);
    }
    ag_thread_set_gate(thread, gate);
    return stack;
}

uint32_t ag_record_stack(const uintptr_t *sp, uintptr_t rbp) {
    return ag_record_stack_outer(sp, rbp, NULL, NULL);
}
