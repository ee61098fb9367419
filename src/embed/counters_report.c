/* counters_report.c: writes a counter set (counters.h) into the trace while the program runs: a
 * record AG_RECORD_FUNCTIONS, and rows in records AG_RECORD_CALLS. A set is written this way when
 * the program asks for it (allogram_tell_counters), and before the set is freed. At the end, the
 * writer process takes the values of the sets that were not freed from the live segment, the memory
 * that it shares with the program. This file also records collections that were reported with a
 * set: a record AG_RECORD_GC each. */
#include "counters.h"

#include <string.h>

#include "allogram/allogram.h"
#include "base/raw_syscall.h"
#include "host_heaps.h"
#include "host_lock.h"
#include "record/raw_clock.h"
#include "record/recorder.h"
#include "record/thread_state.h"

/* Static, because 6 KiB may not fit on the stack of the calling thread. */
static struct {
    struct ag_host_lock lock;
    /* the lock protects this member and the following members */
    struct ag_call_path rows[AG_WORD_RECORD_MOST_ROWS];
    uint32_t n_rows;
} batch;

static void report_batch(void) {
    const struct ag_record record = {
        .kind = AG_RECORD_CALLS,
        .u.rows = {.count = batch.n_rows, .data.data = (const char *)batch.rows}};
    if (batch.n_rows > 0) {
        ag_recorder_append(&record);
    }
    batch.n_rows = 0;
}

static void report_row(const struct ag_counter_set *set, uint32_t snapshot, uint32_t number,
                       const struct ag_counter_node *node) {
    batch.rows[batch.n_rows++] =
        ag_counter_set_row(ag_recorder.header, set, snapshot, number, node);
    if (batch.n_rows == AG_WORD_RECORD_MOST_ROWS) {
        report_batch();
    }
}

static uint32_t count_folded(const struct allogram_counters *set, uint32_t n_nodes) {
    uint32_t n_folded = 0;
    for (uint32_t node = 1; set->is_folding && node < n_nodes; node++) {
        n_folded += (ag_counter_node(set, node)->function & AG_COUNTER_FOLDED) != 0;
    }
    return n_folded;
}

static void report_locked(struct allogram_counters *set) {
    struct ag_counter_set *shared = set->shared;
    const struct ag_segment_header *header = ag_recorder.header;
    const uint32_t n_nodes = atomic_load_explicit(&shared->n_nodes, memory_order_relaxed);
    const bool has_outside = ag_counter_value(&ag_counter_node(set, 0)->words) > 0;
    const uint32_t n_rows = n_nodes - 1 - count_folded(set, n_nodes) + has_outside;
    const uint32_t snapshot = atomic_load_explicit(&shared->snapshot, memory_order_relaxed) + 1;
    const uint64_t n_lost = ag_counter_value(&shared->n_lost);
    if (n_lost > 0) {
        ag_record_lost(AG_LOST_NO_MEMORY, n_lost);
        atomic_store_explicit(&shared->n_lost, 0, memory_order_relaxed);
    }
    if (n_rows == 0 && snapshot == 1 && !ag_counter_set_has_apart(shared)) {
        return;
    }
    const struct ag_record heading = ag_counter_set_heading(
        shared, snapshot, n_rows, ag_segment_ns(header, ag_raw_clock_elapsed(header)));
    ag_recorder_append(&heading);
    for (uint32_t node = 1; node < n_nodes; node++) {
        if (!(ag_counter_node(set, node)->function & AG_COUNTER_FOLDED)) {
            report_row(shared, snapshot, node, ag_counter_node(set, node));
        }
    }
    if (has_outside) {
        report_row(shared, snapshot, n_nodes, ag_counter_node(set, 0));
    }
    report_batch();
    atomic_store_explicit(&shared->snapshot, snapshot, memory_order_relaxed);
}

void ag_counters_report(struct allogram_counters *set) {
    if (ag_recorder_is_active() && ag_host_lock_take(&batch.lock)) {
        report_locked(set);
        ag_host_lock_give(&batch.lock);
    }
}

void ag_counters_report_collection(const struct allogram_counters *set, const char *kind,
                                   uint64_t heap_bytes) {
    enum { KIND_MOST_BYTES = 64 };
    const struct ag_segment_header *header = ag_recorder.header;
    const uint64_t before = set->collecting.heap_bytes, needed = set->collecting.needed_bytes;
    const uint64_t start_raw = set->collecting.start_raw;
    const struct ag_record record = {
        .kind = AG_RECORD_GC,
        .u.gc = {.known = AG_GC_KNOWN_END | (before != 0 ? AG_GC_KNOWN_HEAP : 0) |
                          (needed != 0 ? AG_GC_KNOWN_NEED : 0),
                 .start_ns = ag_segment_ns(header, start_raw),
                 .pause_ns = ag_segment_ns(header, ag_raw_clock_elapsed(header) - start_raw),
                 .heap_before_bytes = before,
                 .heap_after_bytes = heap_bytes,
                 .needed_bytes = needed,
                 .thread_id = (uint32_t)ag_syscall1(SYS_gettid, 0),
                 .runtime = ag_bytes_of(set->runtime, sizeof(set->runtime)),
                 .kind = ag_bytes_of(kind, KIND_MOST_BYTES),
                 .process = ag_bytes_of(set->process, sizeof(set->process)),
                 .frame = set->collecting.function != 0 ? set->collecting.function
                                                        : (uint32_t)AG_NO_FUNCTION_FRAME}};
    ag_recorder_append(&record);
}
