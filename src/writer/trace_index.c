/* trace_index.c: makes the index, which lets a reader show the first screen of a trace without a
 * pass over its events.
 *
 * If the sums are computed from the file, the chunks of records are read first, in their order in
 * the file, and then the chunks of events in the order of their first times. So when a chunk of
 * events that starts at T is read, all chunks that start earlier have been read completely, and the
 * merge (ledger/merge.h) may apply all windows that started before T. A window is the time between
 * two stamps (clock values) of a stream (thread). */
#include "trace_index.h"

#include <errno.h>
#include <stdlib.h>

#include "format/encode.h"
#include "format/segment.h"
#include "ledger/ledger.h"
#include "ledger/merge.h"
#include "stack_harvest.h"

/* ---- sums to records ---- */

int ag_trace_index_of_ledger(const struct ag_ledger *ledger, const struct ag_stack_harvest *stacks,
                             const struct ag_index_facts *facts, struct ag_blob *ret_blob,
                             struct ag_index_sums *ret_sums) {
    struct ag_record record = {.kind = AG_RECORD_SUMMARY, .u.summary = *ag_ledger_summary(ledger)};
    struct ag_summary *summary = &record.u.summary;
    summary->duration_ns = facts->end_ns - facts->start_ns;
    summary->unique_stacks = stacks->n_stacks;
    summary->truncated_stacks = stacks->n_cut;
    summary->incomplete_stacks = stacks->n_incomplete;
    if (facts->rss_peak_bytes > summary->rss_peak_bytes) {
        summary->rss_peak_bytes = facts->rss_peak_bytes;
    }
    const struct ag_stack_sum *stack_sums = NULL;
    const struct ag_timeline_point *points = NULL;
    const struct ag_thread_sum *thread_sums = NULL;
    const struct ag_thread_pair *pairs = NULL;
    const struct ag_heap_sum *heap_sums = NULL;
    const size_t n_stacks = ag_ledger_stack_sums(ledger, &stack_sums),
                 n_points = ag_ledger_timeline(ledger, &points),
                 n_threads = ag_ledger_thread_sums(ledger, &thread_sums),
                 n_pairs = ag_ledger_thread_pairs(ledger, &pairs),
                 n_heaps = ag_ledger_heap_sums(ledger, &heap_sums);
    summary->lost_stacks = 0;
    for (size_t i = 0; i < n_stacks; i++) {
        if (ag_stack_harvest_is_lost(stacks, stack_sums[i].stack)) {
            summary->lost_stacks += stack_sums[i].allocated_blocks;
        }
    }
    (void)ag_record_append(ret_blob, &record); /* the blob keeps the error, which is checked
                                                * below */
    (void)ag_record_append_stack_sums(ret_blob, stack_sums, n_stacks);
    (void)ag_record_append_timeline(ret_blob, points, n_points);
    (void)ag_record_append_thread_sums(ret_blob, thread_sums, n_threads);
    (void)ag_record_append_thread_pairs(ret_blob, pairs, n_pairs);
    (void)ag_record_append_heap_sums(ret_blob, heap_sums, n_heaps);
    if (ret_blob->error < 0) {
        return ret_blob->error;
    }
    ret_sums->summary = *summary;
    ret_sums->buried_blocks = ag_ledger_buried_blocks(ledger);
    return 0;
}

/* ---- sums of a file ---- */

struct read_back {
    struct ag_trace_file *file;
    struct ag_chunk_decoder *decoder;
    struct ag_ledger *ledger;
    struct ag_merge *merge;
    struct ag_stack_harvest stacks;
    uint8_t heap_of_via[256];
    uint64_t last_ns; /* latest stamp */
};

static void take_nodes(struct read_back *back, const struct ag_record *record) {
    struct ag_node node;
    size_t cursor = 0;
    while (ag_nodes_next(record, &cursor, &node) == 1) {
        ag_stack_harvest_add_node(&back->stacks, &node);
    }
}

static void take_record(struct read_back *back, const struct ag_record *record) {
    if (record->kind == AG_RECORD_NODES) {
        take_nodes(back, record);
    } else if (record->kind == AG_RECORD_PROCESS && record->u.process.origin == AG_ORIGIN_FORKED) {
        ag_ledger_expect_inherited(back->ledger);
    } else if (record->kind == AG_RECORD_VIA && record->u.via.via < 256) {
        back->heap_of_via[record->u.via.via] = (uint8_t)record->u.via.heap;
        ag_ledger_via_heap(back->ledger, record->u.via.via, record->u.via.heap);
    } else if (record->kind == AG_RECORD_MAP) {
        const uint32_t heap = back->heap_of_via[record->u.map.via & 255];
        ag_ledger_map(back->ledger, heap, record->u.map.address, record->u.map.bytes);
    } else if (record->kind == AG_RECORD_UNMAP) {
        ag_ledger_unmap(back->ledger, record->u.unmap.address, record->u.unmap.bytes);
    } else if (record->kind == AG_RECORD_RESIDENT) {
        ag_ledger_resident(back->ledger, record->u.resident.time_ns, record->u.resident.bytes);
    }
}

static int take_events(struct read_back *back, uint32_t stream, const struct ag_event *events,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind == AG_RECORD_ALLOC) {
            ag_stack_harvest_name(&back->stacks, ag_stack_checked(events[i].stack));
        } else if (events[i].kind == AG_RECORD_STAMP && events[i].size > back->last_ns) {
            back->last_ns = events[i].size;
        }
    }
    return ag_merge_add(back->merge, stream, events, count);
}

static int take_chunk(struct read_back *back, const struct ag_chunk_entry *entry) {
    enum { BATCH_EVENTS = 512 };
    struct ag_event events[BATCH_EVENTS];
    struct ag_decode_error error;
    if (entry->kind == AG_CHUNK_KIND_EVENTS) {
        ag_ledger_thread(back->ledger, entry->stream, entry->thread_id);
    }
    int r = ag_chunk_decoder_start(back->decoder, back->file, entry, &error);
    while (r >= 0) {
        struct ag_record record = {0};
        r = ag_chunk_decoder_next(back->decoder, events, BATCH_EVENTS, &record, &error);
        if (r == 0 && record.kind == 0) {
            break;
        }
        if (r > 0) {
            const int added = take_events(back, entry->stream, events, (size_t)r);
            r = added < 0 ? added : r;
        }
        if (r >= 0 && record.kind != 0) {
            take_record(back, &record);
        }
    }
    return r;
}

static int by_first_time(const void *left, const void *right) {
    const struct ag_chunk_entry *const *a = left, *const *b = right;
    if ((*a)->first_time_ns != (*b)->first_time_ns) {
        return (*a)->first_time_ns < (*b)->first_time_ns ? -1 : 1;
    }
    return (*a)->offset < (*b)->offset ? -1 : 1; /* keeps the order of the stream */
}

static int take_all_of_kind(struct read_back *back, const struct ag_chunk_entry **order,
                            size_t count, uint8_t kind) {
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        if (order[i]->kind != kind) {
            continue;
        }
        if (kind == AG_CHUNK_KIND_EVENTS) {
            r = ag_merge_advance(back->merge, order[i]->first_time_ns);
        }
        r = r < 0 ? r : take_chunk(back, order[i]);
    }
    return r;
}

static int take_file(struct read_back *back, uint64_t end_ns) {
    const struct ag_chunk_entry *entries = NULL;
    const size_t count = ag_trace_file_chunks(back->file, &entries);
    const struct ag_chunk_entry **order = calloc(count + 1, sizeof(*order));
    if (!order) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = &entries[i];
    }
    int r = take_all_of_kind(back, order, count, AG_CHUNK_KIND_RECORDS);
    qsort(order, count, sizeof(*order), by_first_time);
    r = r < 0 ? r : take_all_of_kind(back, order, count, AG_CHUNK_KIND_EVENTS);
    free(order);
    r = r < 0 ? r : ag_merge_finish(back->merge);
    ag_ledger_reach(back->ledger, end_ns > back->last_ns ? end_ns : back->last_ns);
    return r < 0 ? r : ag_ledger_close(back->ledger);
}

int ag_trace_index_of_file(const char *path, const struct ag_index_facts *facts,
                           struct ag_blob *ret_blob, struct ag_index_sums *ret_sums) {
    struct read_back back = {0};
    struct ag_decode_error error;
    int r = ag_trace_file_open(path, &back.file, &error);
    if (r == 0) {
        r = ag_stack_harvest_start(&back.stacks, /* tree= */ NULL, AG_TREE_SIZES - 1);
    }
    if (r == 0) {
        back.decoder = ag_chunk_decoder_new();
        back.ledger = ag_ledger_new();
        back.merge = back.ledger ? ag_merge_new(back.ledger) : NULL;
        for (uint32_t via = AG_VIA_HOST; via < AG_VIAS_MOST; via++) {
            back.heap_of_via[via] = (uint8_t)via;
        }
        r = back.decoder && back.merge ? take_file(&back, facts->end_ns) : -ENOMEM;
    }
    if (r == 0) {
        struct ag_index_facts actual = *facts;
        actual.end_ns = back.last_ns > facts->end_ns ? back.last_ns : facts->end_ns;
        r = ag_trace_index_of_ledger(back.ledger, &back.stacks, &actual, ret_blob, ret_sums);
    }
    (void)ag_merge_free(back.merge); /* returns NULL, as do the next three functions */
    (void)ag_ledger_free(back.ledger);
    (void)ag_chunk_decoder_free(back.decoder);
    (void)ag_trace_file_close(back.file);
    ag_stack_harvest_done(&back.stacks);
    return r;
}
