/* pc_classes.h: a table of the classes of pcs, for the adapter of a runtime. The class of a pc is
 * the number of the function that contains the pc, among the few functions that the adapter
 * distinguishes. A stack walk needs the class of each frame's pc, and finding the function takes
 * long, so the table caches the classes. A pc replaces another pc that has the same entry of the
 * table. Any thread and any signal handler may use the table at any time. */
#ifndef AG_PC_CLASSES_H
#define AG_PC_CLASSES_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "record/recorder.h"
#include "unwind/unwind_space.h"

enum { AG_PC_CLASSES_LOG2 = 12, AG_PC_CLASS_BITS = 4 };

struct ag_pc_classes {
    _Atomic uint64_t entries[1 << AG_PC_CLASSES_LOG2]; /* pc << AG_PC_CLASS_BITS | class */
    _Atomic uint32_t generation; /* the unwinder's count of unloaded objects at the last clearing */
};

/* FIND returns the class of a pc, less than 1 << AG_PC_CLASS_BITS. */
static inline uint32_t ag_pc_classes_get(struct ag_pc_classes *classes, uintptr_t pc,
                                         uint32_t (*find)(uintptr_t pc)) {
    _Atomic uint64_t *entry =
        &classes->entries[pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - AG_PC_CLASSES_LOG2)];
    const uint64_t word = atomic_load_explicit(entry, memory_order_relaxed);
    if (AG_LIKELY(word >> AG_PC_CLASS_BITS == pc)) {
        return (uint32_t)word & ((1 << AG_PC_CLASS_BITS) - 1);
    }
    const uint32_t class = find(pc);
    atomic_store_explicit(entry, (uint64_t)pc << AG_PC_CLASS_BITS | class, memory_order_relaxed);
    return class;
}

/* Clears the table if an object was unloaded since the last call, because other code may have its
 * addresses now. Then also calls ALSO, which clears other data of the adapter about the unloaded
 * code; ALSO may be NULL. */
static inline void ag_pc_classes_clear_stale(struct ag_pc_classes *classes, void (*also)(void)) {
    const uint32_t generation =
        atomic_load_explicit(&ag_recorder.space->generation, memory_order_acquire);
    if (AG_LIKELY(atomic_load_explicit(&classes->generation, memory_order_relaxed) == generation)) {
        return;
    }
    for (uint32_t i = 0; i < 1 << AG_PC_CLASSES_LOG2; i++) {
        atomic_store_explicit(&classes->entries[i], 0, memory_order_relaxed);
    }
    if (also) {
        also();
    }
    atomic_store_explicit(&classes->generation, generation, memory_order_relaxed);
}

#endif
