/* julia_objects.h: records the blocks of Julia's heaps, with their types and their deaths. */
#ifndef AG_JULIA_OBJECTS_H
#define AG_JULIA_OBJECTS_H

#include "format/segment.h"
#include "julia_runtime.h"

/* Called when a block was allocated. sp: the address of the return address of the call; rbp: that
 * of the caller. object: the address after the block's header; 0: the block has no header. The
 * block waits until ag_julia_settle can read its type and records it. */
struct ag_julia_block_made {
    const uintptr_t *sp;
    uintptr_t rbp, object, address;
    size_t bytes;
};
void ag_julia_made(struct ag_julia_thread *thread, enum ag_julia_heap heap,
                   const struct ag_julia_block_made *made);

/* Records the thread's pending object. If an array's data waits, and an object of a pool was
 * allocated after it, also records the data. Called before the thread's next allocation, when all
 * threads are stopped, and at the end of a recording. with_data: also records data after which no
 * object was allocated, because no array will follow. */
void ag_julia_settle(struct ag_julia_thread *thread, bool with_data);
/* Whether an object or an array's data waits. */
AG_FAST bool ag_julia_waits(const struct ag_julia_thread *thread) {
    return (thread->object.object | thread->data.address) != 0;
}

/* Called when a package has been read, or, if the reading was left by an exception, at the next
 * collection or at the end: records the blocks that were made meanwhile. */
void ag_julia_restored(struct ag_julia_thread *thread);

/* Called when the memory of a big object or of an array is freed (kind: FREE), or has moved (kind:
 * REALLOC_FREE, followed by ag_julia_moved). ag_julia_freed returns false if the block was not
 * recorded. tag: the type of the memory's owner. */
bool ag_julia_freed(enum ag_word_kind kind, uintptr_t address, const uintptr_t *sp, uintptr_t rbp);
void ag_julia_moved(struct ag_julia_thread *thread, enum ag_julia_heap heap, uintptr_t tag,
                    const struct ag_julia_block_made *to);

/* Records the deaths of pool objects. Called while all threads are stopped, when marking is over
 * and nothing is swept yet. is_full: old objects were marked anew. */
void ag_julia_objects_sweep(bool is_full);
/* Forgets the blocks of an earlier recording, which do not belong to the next one. Called while all
 * threads are stopped. */
void ag_julia_objects_forget(void);

#endif
