/* chunk_supply.c: the lock-free free list of chunks, and back pressure.
 *
 * The list is a stack in the header: tag:32 | index+1:32. The tag changes at each pop and push, so a chunk that was popped
 * and pushed again between a reader's load and its compare-and-swap (ABA) makes the swap fail. LIFO: the chunk given back
 * last is the one most likely still in the cache.
 *
 * How long a thread waits when the list is empty:
 *
 *     chunks in use < soft limit + one per stream     take a fresh chunk at once
 *     the collector lives (its tick moves)            sleep 50 us and look again, up to WAIT_ALIVE_NS
 *     no tick for WAIT_DEAD_NS                        nobody drains: grow to the end of the file instead
 *     the file's end, or no memory for it             lost, counted by the caller
 *
 * A host thread is never blocked for longer than WAIT_ALIVE_NS by one event, and only while the collector is behind. */
#include "chunk_supply.h"

#include <errno.h>
#include <time.h>

#include "base/populate.h"
#include "base/raw_syscall.h"
#include "raw_clock.h"

enum {
    POLL_NS = 50 * 1000,
    WAIT_DEAD_NS = 300 * 1000 * 1000,          /* the collector bumps the tick every ms: 300 without one is death or SIGSTOP */
    WAIT_ALIVE_NS = 2 * 1000 * 1000 * 1000 - 1, /* then the ring grows after all: slow beats lost */
};

static uint64_t monotonic_ns(void) {
    return ag_raw_clock(AG_CLOCK_MONOTONIC);
}

static int64_t pop_free(struct ag_segment_header *header) {
    uint64_t head = atomic_load_explicit(&header->free_head, memory_order_acquire);
    for (;;) {
        const uint32_t index_plus_one = (uint32_t)head;
        if (index_plus_one == 0 || index_plus_one > ag_recorder.n_chunks_mapped) {
            return -1;
        }
        struct ag_chunk_control *control = &ag_recorder.controls[index_plus_one - 1];
        const uint32_t next = atomic_load_explicit(&control->next_free, memory_order_relaxed);
        const uint64_t replacement = ((head >> 32) + 1) << 32 | next;
        /* acquire: pairs with the collector's release when it pushed; the chunk is ours to overwrite */
        if (atomic_compare_exchange_weak_explicit(&header->free_head, &head, replacement, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            return index_plus_one - 1;
        }
    }
}

static int64_t take_fresh(struct ag_segment_header *header) {
    uint32_t touched = atomic_load_explicit(&header->n_chunks_touched, memory_order_relaxed);
    do {
        if (touched >= ag_recorder.n_chunks_mapped) {
            return -1;
        }
    } while (!atomic_compare_exchange_weak_explicit(&header->n_chunks_touched, &touched, touched + 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return touched;
}

static bool may_grow(const struct ag_segment_header *header) {
    const uint32_t in_use = atomic_load_explicit(&header->n_chunks_in_use, memory_order_relaxed);
    const uint32_t streams = atomic_load_explicit(&ag_recorder.slot->n_streams, memory_order_relaxed);
    return in_use < header->soft_chunks + streams;
}

/* Waits for a chunk to come back. Returns its index, or -1 when the ring should grow instead. */
static int64_t wait_for_chunk(struct ag_segment_header *header) {
    const struct timespec poll = {.tv_nsec = POLL_NS};
    const uint64_t start = monotonic_ns();
    uint64_t last_tick = atomic_load_explicit(&header->tick, memory_order_relaxed), last_move = start;
    for (;;) {
        (void)ag_syscall2(SYS_nanosleep, (long)&poll, 0); /* a signal ends it early: only the poll is shorter */
        const int64_t index = pop_free(header);
        if (index >= 0) {
            return index;
        }
        const uint64_t now = monotonic_ns(), tick = atomic_load_explicit(&header->tick, memory_order_relaxed);
        if (tick != last_tick) {
            last_tick = tick;
            last_move = now;
        }
        if (may_grow(header) || now - last_move > WAIT_DEAD_NS || now - start > WAIT_ALIVE_NS ||
            atomic_load_explicit(&header->stop, memory_order_relaxed)) {
            return -1;
        }
    }
}

static bool collector_is_gone(const struct ag_segment_header *header) {
    return atomic_load_explicit(&header->collector_pid, memory_order_relaxed) == 0;
}

int ag_chunk_supply_take(struct ag_chunk_control **ret_control, uint64_t **ret_words) {
    struct ag_segment_header *header = ag_recorder.header;
    static _Atomic uint64_t tick_at_neglect; /* the tick at which we last gave up waiting: do not wait again until it moves */
    int64_t index = pop_free(header);
    if (index < 0 && !may_grow(header) && !collector_is_gone(header) &&
        atomic_load_explicit(&tick_at_neglect, memory_order_relaxed) !=
            atomic_load_explicit(&header->tick, memory_order_relaxed)) {
        index = wait_for_chunk(header);
        if (index < 0) {
            atomic_store_explicit(&tick_at_neglect, atomic_load_explicit(&header->tick, memory_order_relaxed),
                                  memory_order_relaxed);
        }
    }
    if (index < 0) {
        index = take_fresh(header);
    }
    if (index < 0) {
        return -EAGAIN;
    }
    struct ag_chunk_control *control = &ag_recorder.controls[index];
    unsigned char *bytes = ag_recorder.chunks + (size_t)index * AG_CHUNK_BYTES;
    if (!atomic_load_explicit(&control->populated, memory_order_relaxed)) {
        if (!ag_populate(bytes, AG_CHUNK_BYTES)) {
            return -ENOMEM; /* the chunk stays taken and empty: the file's disk is full, there is no use for it */
        }
        atomic_store_explicit(&control->populated, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&header->n_chunks_in_use, 1, memory_order_relaxed);
    *ret_control = control;
    *ret_words = (uint64_t *)bytes;
    return 0;
}
