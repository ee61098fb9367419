/* unmapping.c: a recorder that leaves a process for good takes its memory along.
 *
 * Who calls knows that no thread is in an event and that none can come: the hooks are gone, and all
 * stacks were looked at. So nothing here is guarded. */
#include <sys/mman.h>

#include "base/raw_syscall.h"
#include "chunk_supply.h"
#include "images.h"
#include "managed_frames.h"
#include "sampled_blocks.h"
#include "thread_state.h"

static void unmap(void *memory, size_t n_bytes) {
    if (memory) {
        (void)ag_syscall2(SYS_munmap, (long)memory, (long)n_bytes); /* our own: cannot fail */
    }
}

static void unmap_threads(void) {
    struct ag_thread *thread = atomic_load_explicit(&ag_recorder.threads, memory_order_relaxed);
    const size_t n_bytes = ag_thread_bytes();
    while (thread) {
        struct ag_thread *next = thread->next;
        unmap(thread, n_bytes);
        thread = next;
    }
    atomic_store_explicit(&ag_recorder.threads, NULL, memory_order_relaxed);
}

void ag_recorder_unmap(void) {
    ag_recorder_turn_off();
    unmap_threads();
    ag_chunk_supply_unmap();
    ag_images_unmap();
    ag_sampled_blocks_unmap();
    unmap(ag_recorder.space, ag_unwind_space_bytes());
    if (ag_recorder.header) {
        const uint64_t tree_bytes = ag_recorder.header->tree_bytes;
        unmap(ag_recorder.tree, tree_bytes);
        unmap(ag_recorder.header, ag_recorder.header->trees_offset);
    }
    ag_recorder.slot = NULL;
    ag_recorder.tree = NULL;
    ag_recorder.space = NULL;
    ag_recorder.header = NULL;
}
