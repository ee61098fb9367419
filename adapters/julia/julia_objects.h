/* julia_objects.h: records blocks of Julia's heaps, from the call that made them to their death. */
#ifndef AG_JULIA_OBJECTS_H
#define AG_JULIA_OBJECTS_H

#include "format/segment.h"
#include "julia_runtime.h"

/* A block was allocated. sp: the address of the return address of the call; rbp: as the caller left
 * it. object: the address after the block's header; 0: it has none. It is recorded when its type
 * can be read: ag_julia_settle. */
struct ag_julia_block_made {
    const uintptr_t *sp;
    uintptr_t rbp, object, address;
    size_t bytes;
};
void ag_julia_made(struct ag_julia_thread *thread, enum ag_julia_heap heap,
                   const struct ag_julia_block_made *made);

/* Records the thread's pending object, with the data of the array that it may be. Called before the
 * thread's next allocation, and when the world is stopped. with_data: also records data that no
 * object has followed: no array will come. */
void ag_julia_settle(struct ag_julia_thread *thread, bool with_data);
AG_FAST bool ag_julia_waits(const struct ag_julia_thread *thread) {
    return (thread->object.object | thread->data.address) != 0;
}

/* A package has been read (or collections are enabled again, however that ended): records the
 * blocks that were made meanwhile. */
void ag_julia_restored(struct ag_julia_thread *thread);

/* Memory of a big object or of an array is returned to malloc (kind: FREE), or has moved
 * (REALLOC_FREE, then moved). tag: the type of its owner. Returns false if the block was not
 * recorded. */
bool ag_julia_freed(enum ag_word_kind kind, uintptr_t address, const uintptr_t *sp, uintptr_t rbp);
void ag_julia_moved(struct ag_julia_thread *thread, enum ag_julia_heap heap, uintptr_t tag,
                    const struct ag_julia_block_made *to);

/* Records the deaths, when marking is over and nothing is swept yet. is_full: old objects were
 * marked anew. The world is stopped. */
void ag_julia_objects_sweep(bool is_full);
/* Blocks of an earlier recording do not belong to the next one. The world is stopped. */
void ag_julia_objects_forget(void);

#endif
