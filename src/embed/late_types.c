/* late_types.c: remembers where blocks were allocated whose types are not known yet.
 *
 * In a trace, a type is added to the stack of the allocation (ADR 0006). A program that learns the
 * type later has only the block's address. So if a heap was registered with has_late_types, the
 * stack of each block that is recorded without a type is kept in the process as long as the block
 * lives. The stack is also kept after the type is reported, because the type may be reported again:
 * the last report is valid, and each report needs the allocation's stack.
 *
 * The lock is held with all signals blocked. */
#include "late_types.h"

#include "host_heaps.h"
#include "host_lock.h"
#include "tracked_blocks.h"

static struct {
    struct ag_host_lock lock;
    struct ag_tracked_blocks blocks; /* under the lock */
} late;

static bool late_types_lock(uint64_t *ret_signals) {
    return ag_host_lock_take_blocking(&late.lock, ret_signals);
}

static void late_types_unlock(const uint64_t *signals) {
    ag_host_lock_give_unblock(&late.lock, signals);
}

static void forget_locked(uint64_t key) {
    const uint32_t place = ag_tracked_find(&late.blocks, key);
    if (place != 0) {
        ag_tracked_remove(&late.blocks, place);
    }
}

void ag_late_types_born(allogram_heap heap, uint64_t address, size_t bytes,
                        const struct ag_block_site *block_site) {
    const uint64_t key = ag_host_place(heap, address);
    uint64_t signals;
    if (!late_types_lock(&signals)) {
        return;
    }
    forget_locked(key); /* forgets an earlier block at this address, whose free was not reported */
    const uint32_t place = ag_tracked_insert(&late.blocks, key);
    if (place != 0) { /* if there is no memory, the type stays unknown */
        struct ag_tracked *entry = ag_tracked_at(&late.blocks, place);
        entry->born.bytes = bytes;
        entry->born.interval_bytes = block_site->interval_bytes;
        entry->born.stack = block_site->stack;
        entry->born.recording = ag_recorder.recording;
    }
    late_types_unlock(&signals);
}

void ag_late_types_died(allogram_heap heap, uint64_t address) {
    const uint64_t key = ag_host_place(heap, address);
    uint64_t signals;
    if (ag_tracked_may_have(&late.blocks, key) && late_types_lock(&signals)) {
        forget_locked(key);
        late_types_unlock(&signals);
    }
}

void ag_late_types_moved(allogram_heap heap, uint64_t address, uint64_t new_address) {
    const uint64_t key = ag_host_place(heap, address), new_key = ag_host_place(heap, new_address);
    uint64_t signals;
    if (key == new_key || !ag_tracked_may_have(&late.blocks, key) || !late_types_lock(&signals)) {
        return;
    }
    forget_locked(new_key);
    const uint32_t place = ag_tracked_find(&late.blocks, key);
    if (place != 0) {
        ag_tracked_rename(&late.blocks, place, new_key);
    }
    late_types_unlock(&signals);
}

bool ag_late_types_report(allogram_heap heap, uint64_t address, uint32_t site) {
    const uint64_t key = ag_host_place(heap, address);
    struct ag_block_site block_site = {.stack = 0};
    size_t bytes = 0;
    uint64_t signals;
    if (!ag_tracked_may_have(&late.blocks, key) || !late_types_lock(&signals)) {
        return false;
    }
    const uint32_t place = ag_tracked_find(&late.blocks, key);
    if (place != 0) {
        const struct ag_tracked *entry = ag_tracked_at(&late.blocks, place);
        bytes = (size_t)entry->born.bytes;
        block_site.interval_bytes = entry->born.interval_bytes;
        block_site.stack = entry->born.recording == ag_recorder.recording ? entry->born.stack : 0;
    }
    late_types_unlock(&signals);
    if (block_site.stack != 0) {
        ag_record_block_type((uintptr_t)address, heap, &block_site, bytes, site);
    }
    return block_site.stack != 0;
}
