/* host_frames.c: gets the frames of a program's virtual machine from the program, for the recorder.
 * A frame of allogram.h has the recorder's layout, so the program's callback fills the recorder's
 * array. After that, only the function numbers are checked, because the program may invent them. */
#include "host_frames.h"

#include "host_events.h"
#include "host_heaps.h"

_Static_assert(sizeof(struct allogram_frame) == sizeof(struct ag_managed_frame) &&
                   offsetof(struct allogram_frame, line) ==
                       offsetof(struct ag_managed_frame, line) &&
                   offsetof(struct allogram_frame, position) ==
                       offsetof(struct ag_managed_frame, position),
               "both structures have the same layout");

static __thread struct {
    allogram_walk walk;
    void *context;
} host;

static uint32_t known_function(uint32_t function) {
    const uint32_t count = atomic_load_explicit(&ag_host.functions.count, memory_order_acquire);
    return function != 0 && function <= count ? function : (uint32_t)AG_NO_FUNCTION_FRAME;
}

static uint32_t ask_host(void *context, const struct ag_walked_frame *natives, uint32_t n_natives,
                         struct ag_managed_frame *ret_frames, struct ag_frame_run **ret_runs,
                         uint32_t most) {
    (void)context;
    (void)ret_runs;
    (void)natives;
    (void)n_natives;
    const size_t n = host.walk(host.context, (struct allogram_frame *)ret_frames, most);
    for (size_t i = 0; i < n && i < most; i++) {
        ret_frames[i].function = known_function(ret_frames[i].function);
    }
    return n < most ? (uint32_t)n : most;
}

int allogram_set_walk(allogram_walk walk, void *context) {
    const struct ag_frame_source source = {.walk = walk ? ask_host : NULL};
    if (walk) { /* so that a signal handler does not call the new walk with the old context */
        (void)ag_frame_source_set(&host, &(struct ag_frame_source){0});
    }
    host.walk = walk;
    host.context = context;
    return ag_frame_source_set(&host, &source);
}

uint32_t ag_host_frames_of(const struct allogram_block *block,
                           struct ag_managed_frame ret_frames[AG_HOST_BLOCK_FRAMES_MOST]) {
    uint32_t n = 0;
    while (block->frames && n < block->n_frames && n < AG_HOST_BLOCK_FRAMES_MOST) {
        ret_frames[n] = (struct ag_managed_frame){
            .function = known_function(block->frames[n].function), .line = block->frames[n].line};
        n++;
    }
    return n;
}
