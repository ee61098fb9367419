/* wide_words.c: turns the wide records of a stream into trace records: names, heaps, mappings,
 * collections, calls.
 *
 * Definitions go before the events that need them; records with a place among the events (mappings,
 * marks, changes of the interval) travel with them. The recorder writes raw clock values, a trace
 * has nanoseconds. */
#include "wide_words.h"

#include <stdio.h>
#include <string.h>

#include "session_clock.h"

static void totals_add_mapping(struct ag_recording *recording, const struct ag_record *record) {
    if (!recording->ledger) {
        return;
    }
    if (record->kind == AG_RECORD_MAP) {
        const uint32_t heap = recording->heap_of_via[record->u.map.via & 255];
        ag_ledger_map(recording->ledger, heap, record->u.map.address, record->u.map.bytes);
    } else {
        ag_ledger_unmap(recording->ledger, record->u.map.address, record->u.map.bytes);
    }
}

static uint64_t raw_to_ns(const struct ag_recording *recording, uint64_t raw) {
    const struct ag_segment_header *header = recording->session->header;
    return ag_session_clock_ns(
        atomic_load_explicit(&header->clock_ns_per_2_32, memory_order_relaxed), raw);
}

/* Converts a time that a record reports. The recording lasted at least until then, even if no event
 * says so. */
static uint64_t reported_at_ns(struct ag_recording *recording, uint64_t raw) {
    const uint64_t time_ns = raw_to_ns(recording, raw), last_ns = recording->last_event_ns;
    recording->last_event_ns = time_ns > last_ns ? time_ns : last_ns;
    return time_ns;
}

static void date_collection(struct ag_recording *recording, struct ag_record *record) {
    const uint64_t start_ns = raw_to_ns(recording, record->u.gc.start_ns);
    const uint64_t end_ns = reported_at_ns(recording, record->u.gc.pause_ns);
    record->u.gc.start_ns = start_ns;
    record->u.gc.pause_ns = end_ns - (start_ns < end_ns ? start_ns : end_ns);
    ag_stack_harvest_learn(&recording->stacks, record->u.gc.stack);
}

static void take_calls(struct ag_recording *recording, const struct ag_wide *wide) {
    static struct ag_call_path paths[AG_WIDE_CALLS_MOST]; /* 20 KiB, of which a process needs one */
    bool time_is_raw = false;
    const size_t count = ag_wide_calls(wide, paths, &time_is_raw);
    for (size_t i = 0; i < count && time_is_raw; i++) {
        paths[i].own_ns = raw_to_ns(recording, paths[i].own_ns);
    }
    if (count > 0) {
        (void)ag_record_append_calls(&recording->records, paths, count); /* reported by the write */
    } else {
        recording->lost[AG_LOST_DAMAGED]++;
    }
}

/* Keeps the runtime for the closing line of `run`; the last report of a name counts, as in a
 * reader. */
static void note_runtime(struct ag_recording *recording, const struct ag_record *record) {
    char name[sizeof(recording->runtimes[0].name)];
    const struct ag_bytes *bytes = &record->u.runtime.name;
    (void)snprintf(name, sizeof(name), "%.*s", (int)bytes->length, bytes->data);
    uint32_t i = 0;
    while (i < recording->n_runtimes && strcmp(recording->runtimes[i].name, name) != 0) {
        i++;
    }
    if (i < AG_ARRAY_SIZE(recording->runtimes)) {
        memcpy(recording->runtimes[i].name, name, sizeof(name));
        recording->runtimes[i].is_unseen = record->u.runtime.hooked == 0;
        recording->n_runtimes = i == recording->n_runtimes ? i + 1 : recording->n_runtimes;
    }
}

void ag_recording_take_wide(struct ag_recording *recording, uint32_t number,
                            struct ag_event_encoder *encoder, const struct ag_wide *wide,
                            unsigned destinations) {
    struct ag_record record;
    char name[16];
    if (wide->kind == AG_WIDE_CALLS) {
        if (destinations & AG_TO_TRACE) {
            take_calls(recording, wide);
        }
        return;
    }
    if (!ag_wide_record(wide, number, &record)) {
        recording->lost[AG_LOST_DAMAGED] += destinations & AG_TO_TRACE ? 1 : 0;
        return;
    }
    if (record.kind == AG_RECORD_VIA) {
        recording->heap_of_via[record.u.via.via] = (uint8_t)record.u.via.heap;
        if (recording->ledger) {
            ag_ledger_via_heap(recording->ledger, record.u.via.via, record.u.via.heap);
        }
    }
    if (record.kind == AG_RECORD_GC && destinations & AG_TO_TOTALS) {
        recording->n_collections++;
    }
    const bool is_mapping = record.kind == AG_RECORD_MAP || record.kind == AG_RECORD_UNMAP;
    if (is_mapping && destinations & AG_TO_TOTALS) {
        totals_add_mapping(recording, &record);
    }
    if (!(destinations & AG_TO_TRACE)) {
        return;
    }
    if (is_mapping) {
        ag_stack_harvest_learn(&recording->stacks, record.u.map.stack);
        (void)ag_event_encoder_add_record(encoder, &record); /* reported by the write */
        return;
    }
    if (record.kind == AG_RECORD_MARK ||     /* after the stamp with its time */
        record.kind == AG_RECORD_SAMPLING) { /* before the events that it describes */
        (void)ag_event_encoder_add_record(encoder, &record); /* reported by the write */
        return;
    }
    if (record.kind == AG_RECORD_RUNTIME) {
        note_runtime(recording, &record);
    }
    if (record.kind == AG_RECORD_GC) {
        date_collection(recording, &record);
    }
    if (record.kind == AG_RECORD_MEMORY) {
        record.u.memory.time_ns = reported_at_ns(recording, record.u.memory.time_ns);
    }
    if (record.kind == AG_RECORD_FUNCTIONS) {
        record.u.functions.time_ns = reported_at_ns(recording, record.u.functions.time_ns);
    }
    if (record.kind == AG_RECORD_THREAD) {
        ag_recording_name_thread(recording, &record, name);
    }
    ag_recording_define(recording, &record);
}
