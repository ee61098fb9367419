/* verify.c: reads a whole trace for `allogram check`, to determine whether the trace is complete,
 * how many events it contains, how many were lost, and where it is damaged.
 *
 * One chunk is in memory at a time. Damage inside a chunk does not end the check: the listed chunks
 * after it are decoded and counted, too. The damaged place with the lowest offset in the file is
 * reported. */
#include "verify.h"

#include <errno.h>
#include <stdlib.h>

enum { EVENTS_AT_ONCE = 4096 };

static void note_damage(struct ag_verdict *verdict, const struct ag_decode_error *error) {
    if (verdict->damage.code == AG_DECODE_OK || error->offset < verdict->damage.offset) {
        verdict->damage = *error;
    }
}

static void note_record(struct ag_verdict *verdict, const struct ag_record *record) {
    if (record->kind == AG_RECORD_END) {
        verdict->has_end = true;
    }
    if (record->kind == AG_RECORD_LOST) {
        const uint32_t cause = record->u.lost.cause;
        *(cause < AG_LOST_CAUSES ? &verdict->lost[cause] : &verdict->lost_unknown) +=
            record->u.lost.events;
    }
}

/* Returns 0, or a negative errno with the chunk's damage in *ret_error. */
static int verify_chunk(struct ag_chunk_decoder *decoder, const struct ag_trace_file *file,
                        const struct ag_chunk_entry *entry, struct ag_event *events,
                        struct ag_verdict *verdict, struct ag_decode_error *ret_error) {
    int r = ag_chunk_decoder_start(decoder, file, entry, ret_error);
    if (r < 0) {
        return r;
    }
    for (;;) {
        struct ag_record record;
        r = ag_chunk_decoder_next(decoder, events, EVENTS_AT_ONCE, &record, ret_error);
        if (r < 0 || (r == 0 && record.kind == 0)) {
            return r;
        }
        for (int i = 0; i < r; i++) {
            verdict->events += events[i].kind != AG_RECORD_STAMP;
        }
        note_record(verdict, &record);
    }
}

/* ---- the order of streams ---- */

static int compare_entries(const void *left, const void *right) {
    const struct ag_chunk_entry *a = *(const struct ag_chunk_entry *const *)left;
    const struct ag_chunk_entry *b = *(const struct ag_chunk_entry *const *)right;

    if (a->stream != b->stream) {
        return a->stream < b->stream ? -1 : 1;
    }
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The chunks of a stream (the events of one thread) must be in the order of their sequence numbers
 * and times. A repeated or misplaced chunk is damage. A missing sequence number is no damage,
 * because the events of that chunk were counted as lost. */
static int verify_order(const struct ag_chunk_entry *entries, size_t n_entries,
                        struct ag_verdict *verdict) {
    const struct ag_chunk_entry **sorted = malloc((n_entries + 1) * sizeof(*sorted));
    if (sorted == NULL) {
        return -ENOMEM;
    }
    size_t n = 0;
    for (size_t i = 0; i < n_entries; i++) {
        if (entries[i].kind == AG_CHUNK_KIND_EVENTS) {
            sorted[n++] = &entries[i];
        }
    }
    qsort(sorted, n, sizeof(*sorted), compare_entries);
    for (size_t i = 1; i < n; i++) {
        const struct ag_chunk_entry *before = sorted[i - 1];
        const struct ag_chunk_entry *entry = sorted[i];
        if (before->stream == entry->stream &&
            (entry->first_time_ns < before->first_time_ns ||
             entry->first_sequence < before->first_sequence ||
             entry->first_sequence - before->first_sequence < before->sequences)) {
            note_damage(verdict, &(struct ag_decode_error){.code = AG_DECODE_BAD_CHUNK,
                                                           .offset = entry->offset});
        }
    }
    free(sorted);
    return 0;
}

/* ---- the whole file ---- */

static int verify_chunks(const struct ag_trace_file *file, struct ag_verdict *verdict) {
    const struct ag_chunk_entry *entries;
    const size_t n_entries = ag_trace_file_chunks(file, &entries);
    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    struct ag_event *events = malloc(EVENTS_AT_ONCE * sizeof(*events));
    int r = decoder == NULL || events == NULL ? -ENOMEM : 0;

    uint64_t all_bytes = 0;
    for (size_t i = 0; i < n_entries; i++) {
        all_bytes += entries[i].stored_bytes;
    }
    ag_trace_file_begin_pass(file, all_bytes);
    for (size_t i = 0; r == 0 && i < n_entries; i++) {
        struct ag_decode_error error;
        if (verify_chunk(decoder, file, &entries[i], events, verdict, &error) < 0) {
            note_damage(verdict, &error);
            verdict->damaged_chunks++;
            verdict->damaged_events +=
                entries[i].kind == AG_CHUNK_KIND_EVENTS ? entries[i].events : 0;
            verdict->damaged_bytes += entries[i].stored_bytes;
            r = error.code == AG_DECODE_NO_MEMORY ? -ENOMEM : 0;
        }
    }
    ag_trace_file_end_pass(file);
    if (r == 0) {
        r = verify_order(entries, n_entries, verdict);
    }
    verdict->chunks = n_entries;
    free(events);
    (void)ag_chunk_decoder_free(decoder); /* returns NULL */
    return r;
}

int ag_trace_verify(const char *path, const struct ag_progress *progress,
                    struct ag_verdict *ret_verdict) {
    struct ag_verdict verdict = {0};
    struct ag_trace_file *file;
    int r = ag_trace_file_open(path, &file, &verdict.damage);

    if (r < 0) {
        *ret_verdict = verdict;
        return verdict.damage.code == AG_DECODE_IO || verdict.damage.code == AG_DECODE_NO_MEMORY
                   ? r
                   : 0;
    }
    verdict.is_trace = true;
    if (ag_trace_file_damage(file) != NULL) {
        verdict.damage = *ag_trace_file_damage(file);
    }
    ag_trace_file_set_progress(file, progress);
    r = verify_chunks(file, &verdict);
    (void)ag_trace_file_close(file); /* returns NULL */
    verdict.is_whole = r == 0 && verdict.damage.code == AG_DECODE_OK;
    *ret_verdict = verdict;
    return r;
}
