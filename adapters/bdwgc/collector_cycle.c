/* collector_cycle.c: records the collections of the Boehm collector, and the blocks that a
 * collection finds dead. The collector calls a function of this file (its listener) at each step of
 * a collection.
 *
 * 1. Deaths. At the event RECLAIM_END the mark bits say which blocks live. The collector has also
 * marked the blocks in its finalizer queue, so the death of a block is not recorded before its
 * finalizer has run. GC_base returns NULL for memory without live blocks, which the collector has
 * released. The collector reuses no memory before this file has recorded the deaths, since it holds
 * its lock until then. The adapter (allogram's code for the collector) checks all blocks that are
 * live in the trace, in the order of their addresses. It ignores the marks of other blocks: the
 * collector also marks the blocks in the free lists of threads.
 *
 * 2. While the collector has stopped all threads, the adapter only reads the clock: a thread may be
 * stopped inside of the recorder.
 *
 * 3. A tracker is a set of callbacks of the program (allogram.h). collector_calls.c calls it for a
 * death after the collector's lock is released, because a callback may allocate.
 *
 * 4. The pause is the time from when the collector stops all threads until it starts them again. If
 * a collection stops the threads more than once, the pause is the sum. The cause of the collection
 * is the outermost call of the collector's library in the thread that collects.
 *
 * 5. An incremental collection (GC_enable_incremental) has no event START and no event END (alloc.c
 * of bdwgc 8.0 to 8.2). Its last step stops all threads, and its last event is the end of the sweep
 * (RECLAIM_END). */
#include "collector_cycle.h"

#include <stdbool.h>

#include "collector_calls.h"
#include "collector_memory.h"
#include "embed/host_events.h"
#include "embed/tracker.h"
#include "held_blocks.h"
#include "record/event_fast.h"

enum event { /* GC_EventType of gc.h */
             EVENT_START = 0,
             EVENT_RECLAIM_END = 4,
             EVENT_END = 5,
             EVENT_PRE_STOP_WORLD = 6,
             EVENT_POST_START_WORLD = 9,
};

/* The current collection; protected by the collector's lock. */
static struct {
    /* the times of the first and the last stop of the threads (0: not stopped yet), and the total
     * duration of the stops; in units of ag_host_elapsed_raw */
    uint64_t begun_raw, stopped_raw, paused_raw;
    uint64_t before_bytes; /* in use when the collection began */
    bool is_stopped, is_swept;
    bool is_begun; /* the event START was seen; an incremental collection has none */
} now;

static uint64_t used_bytes(void) {
    struct ag_bdwgc_statistics statistics = {0};
    (void)ag_bdwgc.statistics(&statistics, sizeof(statistics));
    return statistics.heap_bytes - statistics.free_bytes;
}

static bool is_alive(uintptr_t address) {
    void *base = ag_bdwgc.base((void *)address);
    return base && ag_bdwgc.is_marked(base);
}

static void bury(void *context, uintptr_t address) {
    const uintptr_t *sp = context;
    if (is_alive(address) || !ag_address_bits_clear(&ag_held, AG_HELD_ALIVE, address)) {
        return;
    }
    ag_record_free_fast(AG_WORD_FREE, address, ag_bdwgc_heap, sp, 0);
    if (allogram_mode_ & ALLOGRAM_FREES_) {
        ag_tracker_free_later(ag_bdwgc_heap, address);
    }
}

/* Called for each waiting block: a block in a thread's free list that was not handed out yet. The
 * collector counted the block as allocated when it put the block into the list. If the block is
 * swept now, the collector will count it again when it next fills the list. */
static void forget_waiting(void *context, uintptr_t address) {
    uint64_t *bytes = context;
    if (!is_alive(address) && ag_address_bits_clear(&ag_held, AG_HELD_WAITING, address)) {
        void *base = ag_bdwgc.base((void *)address);
        *bytes += base ? ag_bdwgc.size(base) : 0;
    }
}

static void sweep(void) {
    const uintptr_t *frame = __builtin_frame_address(0);
    uint64_t bytes = 0;
    ag_address_bits_walk(&ag_held, AG_HELD_ALIVE, bury, (void *)(uintptr_t)(frame + 1));
    ag_address_bits_walk(&ag_held, AG_HELD_WAITING, forget_waiting, &bytes);
    ag_bdwgc_not_handed_out(bytes);
    now.is_swept = true;
}

static void report_cycle(const char *kind) {
    struct ag_bdwgc_cause cause = {.needed_bytes = 0};
    const bool is_called = ag_bdwgc_find_cause(&cause);
    const uintptr_t *frame = __builtin_frame_address(0);
    const struct ag_host_collection collection = {
        .start_raw = now.begun_raw,
        .end_raw = now.begun_raw + now.paused_raw,
        .heap_before_bytes = now.before_bytes,
        .heap_after_bytes = used_bytes(),
        .needed_bytes = cause.needed_bytes,
        .stack = is_called ? ag_record_stack(cause.sp, cause.rbp)
                           : ag_record_stack(frame + 1, frame[0])};
    ag_host_report_collection(ag_bdwgc_heap, &collection, kind);
    ag_bdwgc_memory_report();
}

static void cycle_begin(void) {
    ag_object_collecting();
    now.begun_raw = now.paused_raw = 0;
    now.is_stopped = now.is_swept = false;
    now.before_bytes = used_bytes();
}

static void follow(enum event event) {
    switch (event) {
    case EVENT_START:
        cycle_begin();
        now.is_begun = true;
        return;
    case EVENT_PRE_STOP_WORLD:
        if (!now.is_begun) {
            cycle_begin();
        }
        now.stopped_raw = ag_host_elapsed_raw();
        now.begun_raw = now.begun_raw != 0 ? now.begun_raw : now.stopped_raw;
        now.is_stopped = true;
        return;
    case EVENT_POST_START_WORLD:
        now.paused_raw += now.is_stopped ? ag_host_elapsed_raw() - now.stopped_raw : 0;
        now.is_stopped = false;
        return;
    case EVENT_RECLAIM_END:
        sweep();
        if (!now.is_begun && now.begun_raw != 0) {
            report_cycle("incremental");
            now.begun_raw = 0;
        }
        return;
    case EVENT_END:
        if (now.is_swept && now.begun_raw != 0) {
            report_cycle("full");
        }
        now.begun_raw = 0;
        now.is_begun = false;
        return;
    }
}

void ag_bdwgc_cycle_event(int event) {
    ag_collection_listener *listener =
        atomic_load_explicit(&ag_program_listener, memory_order_acquire);
    if (ag_recorder_is_active()) {
        follow((enum event)event);
    }
    if (listener) {
        listener(event);
    }
}

/* ---- at the end ---- */

/* Adds the size of the waiting block at ADDRESS to *CONTEXT if the block is still in a free list.
 * At the program's exit, the set of waiting blocks may contain a block that another thread has just
 * received, because the set is changed after the collector's function has returned.
 *
 * A block in a free list begins with the address of the next block of the list. The last block
 * begins with 0 or a small number of the collector. */
static void add_bytes_if_in_free_list(void *context, uintptr_t address) {
    enum { NUMBERS_MOST = 4096 }; /* above any counter of gc_inline.h or thread_local_alloc.h */
    uint64_t *bytes = context;
    void *base = ag_bdwgc.base((void *)address);
    const uintptr_t link = base ? *(const uintptr_t *)address : 0;
    if (base && (link < NUMBERS_MOST || ag_address_bits_has(&ag_held, AG_HELD_WAITING, link))) {
        *bytes += ag_bdwgc.size(base);
    }
}

uint64_t ag_bdwgc_cycle_waiting_bytes(void) {
    uint64_t bytes = 0;
    ag_address_bits_walk(&ag_held, AG_HELD_WAITING, add_bytes_if_in_free_list, &bytes);
    return bytes;
}
