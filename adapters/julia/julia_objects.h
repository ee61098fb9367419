/* julia_objects.h: blocks of Julia's heaps, from the call that made them to their death. */
#ifndef AG_JULIA_OBJECTS_H
#define AG_JULIA_OBJECTS_H

#include "format/segment.h"
#include "julia_runtime.h"

/* A block was allocated by who called: sp is where the return address of the call lies, rbp as the
 * caller left it. object: what its header stands before; 0: it has none. It is told when its type
 * can be read: ag_julia_settle. */
struct ag_julia_block_made {
    const uintptr_t *sp;
    uintptr_t rbp, object, address;
    size_t bytes;
};
void ag_julia_made(struct ag_julia_thread *thread, enum ag_julia_heap heap,
                   const struct ag_julia_block_made *made);

/* Tells what waits: the thread's last object, with the data of the array that it may be. Called
 * before the thread's next allocation, and when the world stands still. with_data: also data that
 * no object has followed: no array will come. */
void ag_julia_settle(struct ag_julia_thread *thread, bool with_data);
AG_FAST bool ag_julia_waits(const struct ag_julia_thread *thread) {
    return (thread->object.object | thread->data.address) != 0;
}

/* A package has been read (or collections begin again, however that ended): tells what was made
 * meanwhile. */
void ag_julia_restored(struct ag_julia_thread *thread);

/* Memory of a big object or of an array goes back to malloc (kind: FREE), or is elsewhere now
 * (REALLOC_FREE, then moved). tag: of whose it is. false: it was not told. */
bool ag_julia_freed(enum ag_word_kind kind, uintptr_t address, const uintptr_t *sp, uintptr_t rbp);
void ag_julia_moved(struct ag_julia_thread *thread, enum ag_julia_heap heap, uintptr_t tag,
                    const struct ag_julia_block_made *to);

/* Marking is over and nothing is swept yet: tells the deaths. is_full: old objects were looked at
 * again. The world stands still. */
void ag_julia_objects_sweep(bool is_full);
/* What an earlier recording told is no block of the one to come. The world stands still. */
void ag_julia_objects_forget(void);

#endif
