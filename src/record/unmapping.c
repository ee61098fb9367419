/* unmapping.c: unmaps the recorder's memory when the recorder leaves a process.
 *
 * The caller guarantees that no thread is in an event, and that no thread can begin one (for
 * ag_recorder_unmap: the hooks, the code that records calls of malloc or free, were removed, and
 * the stacks of all threads were checked). So this code needs no synchronization.
 * ag_recorder_forget_left, which is called between two recordings, does not unmap the memory for
 * threads and images, because the next recording uses it. */
#include "base/pages.h"
#include "chunk_supply.h"
#include "images.h"
#include "managed_frames.h"
#include "sampled_blocks.h"
#include "thread_state.h"
#include "unwind/unwind_space.h"

static void unmap_threads(void) {
    struct ag_thread *thread = atomic_load_explicit(&ag_recorder.threads, memory_order_relaxed);
    while (thread) {
        struct ag_thread *next = thread->next;
        ag_pages_unmap(thread, thread->bytes);
        thread = next;
    }
    atomic_store_explicit(&ag_recorder.threads, NULL, memory_order_relaxed);
}

/* Uses the recorder's copies of the sizes, because other processes can change the sizes in the
 * file. */
static void unmap_session(void) {
    ag_recorder_unlock();
    ag_chunk_supply_unmap();
    if (ag_recorder.space) {
        ag_stack_tree_unmap_pieces(&ag_recorder.space->tree);
    }
    ag_pages_unmap(ag_recorder.space, ag_unwind_space_bytes());
    ag_pages_unmap(ag_recorder.tree, AG_TREE_BASE_BYTES);
    ag_pages_unmap(ag_recorder.header, ag_recorder.control_bytes);
    ag_recorder.slot = NULL;
    ag_recorder.tree = NULL;
    ag_recorder.space = NULL;
    ag_recorder.header = NULL;
}

void ag_recorder_unmap(void) {
    ag_recorder_turn_off();
    unmap_threads();
    ag_images_unmap();
    ag_sampled_blocks_unmap();
    unmap_session();
}

void ag_recorder_forget_left(void) {
    if (atomic_load_explicit(&ag_recorder.state, memory_order_acquire) == AG_RECORDER_OFF) {
        atomic_fetch_sub_explicit(&ag_recorder.private_bytes,
                                  ag_recorder.space ? ag_unwind_space_bytes() : 0,
                                  memory_order_relaxed);
        unmap_session();
    }
}
