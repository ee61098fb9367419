/* unmapping.c: a recorder that leaves a process for good takes its memory along.
 *
 * Who calls knows that no thread is in an event and that none can come: the hooks are gone, and all
 * stacks were looked at. So nothing here is guarded. Or it goes for a while, and what it has for
 * threads and images stays for the next recording. */
#include <sys/mman.h>

#include "base/raw_syscall.h"
#include "chunk_supply.h"
#include "images.h"
#include "managed_frames.h"
#include "sampled_blocks.h"
#include "thread_state.h"
#include "unwind/unwind_space.h"

static void unmap(void *memory, size_t n_bytes) {
    if (memory) {
        (void)ag_syscall2(SYS_munmap, (long)memory, (long)n_bytes); /* our own: cannot fail */
    }
}

static void unmap_threads(void) {
    struct ag_thread *thread = atomic_load_explicit(&ag_recorder.threads, memory_order_relaxed);
    while (thread) {
        struct ag_thread *next = thread->next;
        unmap(thread, thread->bytes);
        thread = next;
    }
    atomic_store_explicit(&ag_recorder.threads, NULL, memory_order_relaxed);
}

/* By sizes of our own: what the file says may be gone. */
static void unmap_session(void) {
    ag_recorder_unlock();
    ag_chunk_supply_unmap();
    if (ag_recorder.space) {
        ag_stack_tree_unmap_pieces(&ag_recorder.space->tree);
    }
    unmap(ag_recorder.space, ag_unwind_space_bytes());
    unmap(ag_recorder.tree, AG_TREE_BASE_BYTES);
    unmap(ag_recorder.header, ag_recorder.control_bytes);
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
