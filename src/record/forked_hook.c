/* forked_hook.c: keeps the parent's chunk unchanged if a hook continues in a forked child. A hook
 * is the code that records a call of malloc, free or the like. A chunk is the shared memory for the
 * events of one thread. The thread's gate shows that the thread is inside a hook.
 *
 *     hook:  thread->gate = closed;  capture;  cursor = thread->cursor;  | signal
 *                                                                         handler: fork
 *     child:                                                              handler returns
 *            *cursor = word;  control->used_words = ...                   into its parent's chunk!
 *
 * The hook has addresses in registers, which cannot be changed. But the memory at these addresses
 * can be replaced: the chunk of the thread's state, and the page with the chunk's control, become
 * private memory of the child. The hook in the child writes its words there, and they are dropped.
 * The event belongs to the parent, where the same hook records it. Other pointers of the hook, to
 * other parts of the shared memory, stay valid, because no other memory is replaced.
 *
 * The child itself needs all chunks and controls. So it first makes second mappings of the same
 * file, and uses these mappings from then on. This costs about 20 us and address space, but only in
 * children that were forked inside a hook. */
#include "forked_hook.h"

#include "base/pages.h"
#include "base/raw_syscall.h"
#include "chunk_supply.h"

static bool map_segment_again(void) {
    unsigned char *before = (unsigned char *)ag_recorder.header;
    unsigned char *after = ag_map_shared_again(before, ag_recorder.control_bytes);
    if (!after || !ag_chunk_supply_map_again()) {
        return false;
    }
    const uint64_t controls_offset = (uint64_t)((unsigned char *)ag_recorder.controls - before);
    ag_recorder.slots = after + (ag_recorder.slots - before);
    ag_recorder.slot =
        (struct ag_process_slot *)(after + ((unsigned char *)ag_recorder.slot - before));
    ag_recorder.controls = (struct ag_chunk_control *)(after + controls_offset);
    ag_recorder.header = (struct ag_segment_header *)after;
    return true;
}

static bool replace_by_private(const void *address, size_t bytes) {
    const uintptr_t low = ag_page_of((uintptr_t)address);
    const uintptr_t end = (uintptr_t)address + bytes;
    const long r = ag_syscall6(SYS_mmap, (long)low, (long)(end - low), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return r == (long)low;
}

bool ag_forked_hook_part(struct ag_thread *thread) {
    bool is_done = map_segment_again();
    for (struct ag_thread *state = thread; state && is_done; state = state->nested) {
        if (state->control) {
            is_done = replace_by_private(state->control, sizeof(*state->control)) &&
                      (!state->words || replace_by_private(state->words, AG_CHUNK_BYTES));
        }
    }
    ag_thread_abandon(thread);
    return is_done;
}
