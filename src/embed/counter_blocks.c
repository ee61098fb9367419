/* counter_blocks.c: cuts chunks of the live segment (the memory shared with the writer process)
 * into blocks for function counters (format/counter_set.h). A virtual machine may have a hundred
 * thousand counter sets, one for each of its processes, which begin and end in any order. So freed
 * blocks go to a list of their size. Chunks are never returned: the writer releases them when it
 * has completed the process' trace.
 *
 * The lists refer to chunks of one process in one recording. A forked child and the next recording
 * begin with empty lists. */
#include "counter_blocks.h"

#include <stdbool.h>
#include <string.h>

#include "host_lock.h"
#include "record/chunk_supply.h"

enum { SMALLEST_LOG2 = 10, N_SIZES = 7 };

struct freed {
    struct freed *next;
    uint32_t reference;
};
/* The offset of struct freed in a freed block. The writer still reads the field `version` of a
 * freed set, so struct freed is stored after this field. */
enum { FREED_OFFSET = AG_COUNTER_BLOCK_BYTES / 2 };

struct pool {
    struct freed *freed[N_SIZES]; /* lists of freed blocks, by log2 of the size */
    unsigned char *rest;          /* the uncut rest of the newest chunk */
    size_t rest_bytes;
    uint32_t rest_reference;
};
static struct {
    struct ag_host_lock lock;
    /* the lock protects this member and the following members */
    struct pool pools[2]; /* index: enum ag_counter_chunk */
    uint32_t recording, slot, slot_generation;
} all;

static void begin_anew_if_needed(void) {
    if (all.recording != ag_recorder.recording || all.slot != ag_recorder.slot_index ||
        all.slot_generation != ag_recorder.slot_generation) {
        memset(all.pools, 0, sizeof(all.pools));
        all.recording = ag_recorder.recording;
        all.slot = ag_recorder.slot_index;
        all.slot_generation = ag_recorder.slot_generation;
    }
}

static bool pool_grow(struct pool *pool, enum ag_counter_chunk kind) {
    unsigned char *bytes = NULL;
    const int64_t chunk = ag_chunk_supply_take_counters(kind, &bytes);
    if (chunk >= 0) { /* the rest of the previous chunk is wasted */
        pool->rest = bytes;
        pool->rest_bytes = AG_CHUNK_BYTES;
        pool->rest_reference = (uint32_t)chunk * AG_COUNTER_BLOCKS_A_CHUNK + 1;
    }
    return chunk >= 0;
}

static struct ag_counter_block take_locked(enum ag_counter_chunk kind, size_t bytes) {
    struct pool *pool = &all.pools[kind];
    begin_anew_if_needed();
    struct freed **list = &pool->freed[__builtin_ctzl(bytes) - SMALLEST_LOG2];
    if (*list) {
        struct freed *freed = *list;
        const struct ag_counter_block block = {(unsigned char *)freed - FREED_OFFSET,
                                               freed->reference};
        *list = freed->next;
        memset(block.memory, 0, bytes);
        return block;
    }
    if (pool->rest_bytes < bytes && !pool_grow(pool, kind)) {
        return (struct ag_counter_block){.memory = NULL};
    }
    const struct ag_counter_block block = {pool->rest, pool->rest_reference};
    pool->rest += bytes;
    pool->rest_bytes -= bytes;
    pool->rest_reference += (uint32_t)(bytes / AG_COUNTER_BLOCK_BYTES);
    return block;
}

static struct ag_counter_block take(enum ag_counter_chunk kind, size_t bytes) {
    struct ag_counter_block block = {.memory = NULL};
    if (ag_host_lock_take(&all.lock)) {
        block = take_locked(kind, bytes);
        ag_host_lock_give(&all.lock);
    }
    return block;
}

static void give(enum ag_counter_chunk kind, void *memory, uint32_t reference, size_t bytes) {
    if (memory && ag_host_lock_take(&all.lock)) {
        struct freed *freed = (struct freed *)(void *)((unsigned char *)memory + FREED_OFFSET);
        struct freed **list = &all.pools[kind].freed[__builtin_ctzl(bytes) - SMALLEST_LOG2];
        begin_anew_if_needed();
        *freed = (struct freed){.next = *list, .reference = reference};
        *list = freed;
        ag_host_lock_give(&all.lock);
    }
}

struct ag_counter_block ag_counter_block_take(size_t bytes) {
    return take(AG_COUNTER_CHUNK_NODES, bytes);
}

struct ag_counter_set *ag_counter_set_take(void) {
    return take(AG_COUNTER_CHUNK_SETS, AG_COUNTER_BLOCK_BYTES).memory;
}

void ag_counter_block_give(void *memory, uint32_t reference, size_t bytes) {
    give(AG_COUNTER_CHUNK_NODES, memory, reference, bytes);
}

void ag_counter_set_give(struct ag_counter_set *set) {
    give(AG_COUNTER_CHUNK_SETS, set, /* reference= */ 0, AG_COUNTER_BLOCK_BYTES);
}
