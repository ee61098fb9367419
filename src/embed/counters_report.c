/* counters_report.c: writes a counter set (counters.h) into the trace as a snapshot: a record
 * AG_RECORD_FUNCTIONS, and rows in records AG_RECORD_CALLS. The set's owner may continue to count
 * meanwhile: then each number is the value at some time between begin and end of the snapshot. */
#include "counters.h"

#include <string.h>

#include "allogram/allogram.h"
#include "base/raw_syscall.h"
#include "host_heaps.h"
#include "record/raw_clock.h"
#include "record/recorder.h"
#include "record/thread_state.h"

/* Used under the lock of the list. Not on the stack, where 6 KiB may not fit. */
static struct {
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

static void report_row(struct allogram_counters *set, uint32_t node, uint32_t number) {
    const struct ag_counter_node *from = ag_counter_node(set, node);
    const uint64_t time = atomic_load_explicit(&from->time, memory_order_relaxed);
    batch.rows[batch.n_rows++] = (struct ag_call_path){
        .tree = set->tree,
        .snapshot = set->snapshot,
        .node = number,
        .parent = from->parent,
        .frame = from->function != 0 ? from->function : (uint32_t)AG_NO_FUNCTION_FRAME,
        .calls = atomic_load_explicit(&from->calls, memory_order_relaxed),
        .own_words = atomic_load_explicit(&from->words, memory_order_relaxed),
        .own_ns = set->is_clocked ? ag_segment_ns(ag_recorder.header, time) : time,
    };
    if (batch.n_rows == AG_WORD_RECORD_MOST_ROWS) {
        report_batch();
    }
}

struct apart {
    uint64_t count, words;
};

static struct apart apart_of(const struct allogram_counters *set, enum allogram_apart what) {
    return (struct apart){
        .count = atomic_load_explicit(&set->apart[what].count, memory_order_relaxed),
        .words = atomic_load_explicit(&set->apart[what].words, memory_order_relaxed),
    };
}

static bool has_apart(const struct allogram_counters *set) {
    uint64_t all = 0;
    for (uint32_t what = 0; what < AG_COUNTER_APARTS; what++) {
        all |= apart_of(set, what).count | apart_of(set, what).words;
    }
    return all != 0;
}

static uint32_t count_folded(struct allogram_counters *set, uint32_t n_nodes) {
    uint32_t n_folded = 0;
    for (uint32_t node = 1; set->is_folding && node < n_nodes; node++) {
        n_folded += (ag_counter_node(set, node)->function & AG_COUNTER_FOLDED) != 0;
    }
    return n_folded;
}

static void report_heading(const struct allogram_counters *set, uint32_t n_rows) {
    const struct ag_segment_header *header = ag_recorder.header;
    const struct ag_record record = {
        .kind = AG_RECORD_FUNCTIONS,
        .u.functions = {.tree = set->tree,
                        .snapshot = set->snapshot,
                        .epoch = 1,
                        .n_calls = n_rows,
                        .word_bytes = set->word_bytes,
                        .thread_id = set->thread_id,
                        .time_ns = ag_segment_ns(header, ag_raw_clock_elapsed(header)),
                        .messages = apart_of(set, ALLOGRAM_MESSAGES).count,
                        .message_words = apart_of(set, ALLOGRAM_MESSAGES).words,
                        .spawns = apart_of(set, ALLOGRAM_ARGUMENTS).count,
                        .spawn_words = apart_of(set, ALLOGRAM_ARGUMENTS).words,
                        .profiler_events = apart_of(set, ALLOGRAM_PROFILER).count,
                        .profiler_words = apart_of(set, ALLOGRAM_PROFILER).words,
                        .runtime = ag_bytes_of(set->runtime, sizeof(set->runtime)),
                        .process = ag_bytes_of(set->process, sizeof(set->process)),
                        .initial_call = ag_bytes_of(set->initial_call, sizeof(set->initial_call))}};
    ag_recorder_append(&record);
}

static void report_lost(struct allogram_counters *set) {
    const uint64_t n_lost = atomic_load_explicit(&set->n_lost, memory_order_relaxed);
    if (n_lost != set->n_lost_reported) {
        ag_record_lost(AG_LOST_NO_MEMORY, n_lost - set->n_lost_reported);
        set->n_lost_reported = n_lost;
    }
}

void ag_counters_report_locked(struct allogram_counters *set) {
    if (!ag_counters_are_of_now(set) || !ag_recorder_is_active()) {
        return;
    }
    /* acquire: pairs with the release that publishes a complete node */
    const uint32_t n_nodes = atomic_load_explicit(&set->n_nodes, memory_order_acquire);
    const bool has_outside =
        atomic_load_explicit(&ag_counter_node(set, 0)->words, memory_order_relaxed) > 0;
    const uint32_t n_rows = n_nodes - 1 - count_folded(set, n_nodes) + has_outside;
    if (n_rows == 0 && set->snapshot == 0 && !has_apart(set)) {
        return;
    }
    set->snapshot++;
    report_heading(set, n_rows);
    for (uint32_t node = 1; node < n_nodes; node++) {
        if (!(ag_counter_node(set, node)->function & AG_COUNTER_FOLDED)) {
            report_row(set, node, node);
        }
    }
    if (has_outside) {
        report_row(set, 0, n_nodes);
    }
    report_batch();
    report_lost(set);
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
