/* trace_reading.c: reads one trace with all readers of the format, for the fuzz targets; see
 * ag_trace_read_everything in trace_mutation.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/encode.h"
#include "format/record_layout.h"
#include "format/verify.h"
#include "trace_mutation.h"

enum { EVENTS_AT_ONCE = 1000 };

static uint64_t add(uint64_t sum, const void *bytes,
                    size_t n_bytes) { /* FNV-1a: touches every byte */
    for (size_t i = 0; i < n_bytes; i++) {
        sum = (sum ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static uint64_t add_record(uint64_t sum, const struct ag_record *record) {
    struct ag_record_layout layout;
    if (!ag_record_layout(record->kind, &layout)) {
        __builtin_trap(); /* the decoder returns only records that it knows */
    }
    if (layout.row_bytes != 0) {
        if (record->u.rows.data.length != (size_t)record->u.rows.count * layout.row_bytes) {
            __builtin_trap();
        }
        return add(sum, record->u.rows.data.data, record->u.rows.data.length);
    }
    for (uint32_t i = 0; i < layout.n_fields; i++) {
        if (!ag_field_is_number(&layout.fields[i])) {
            const struct ag_bytes text = ag_field_bytes(&layout.fields[i], &record->u);
            sum = add(sum, text.data, text.length);
        }
    }
    return sum;
}

/* Whether the header of a chunk counts the event: it counts neither stamps nor rare events, which
 * are encoded as records. */
static bool is_counted(const struct ag_event *event) {
    return event->kind == AG_RECORD_ALLOC || event->kind == AG_RECORD_FREE ||
           event->kind == AG_RECORD_REALLOC_FREE || event->kind == AG_RECORD_UNDO_FREE;
}

/* The decoder must return as many counted events as the header says. */
static uint64_t read_chunk(struct ag_chunk_decoder *decoder, const struct ag_trace_file *file,
                           const struct ag_chunk_entry *entry, uint64_t sum) {
    static struct ag_event events[EVENTS_AT_ONCE];
    struct ag_decode_error error = {0};
    uint64_t n_events = 0;

    if (ag_chunk_decoder_start(decoder, file, entry, &error) < 0) {
        return add(sum, &error.code, sizeof(error.code));
    }
    for (;;) {
        struct ag_record record;
        const int n = ag_chunk_decoder_next(decoder, events, EVENTS_AT_ONCE, &record, &error);
        if (n < 0 || n > EVENTS_AT_ONCE) {
            if (n > 0 || error.code == AG_DECODE_OK) {
                __builtin_trap();
            }
            return add(sum, &error.code, sizeof(error.code));
        }
        for (int i = 0; i < n; i++) {
            n_events += is_counted(&events[i]);
        }
        sum = add(sum, events, (size_t)n * sizeof(events[0]));
        if (record.kind != 0) {
            sum = add_record(sum, &record);
        } else if (n == 0) {
            if (entry->kind == AG_CHUNK_KIND_EVENTS && n_events != entry->events) {
                __builtin_trap();
            }
            return sum;
        }
    }
}

static uint64_t read_chunks(const char *path, uint64_t sum) {
    struct ag_trace_file *file;
    struct ag_decode_error error;
    if (ag_trace_file_open(path, &file, &error) < 0) {
        return add(sum, &error.code, sizeof(error.code));
    }
    const struct ag_chunk_entry *entries;
    const size_t n_entries = ag_trace_file_chunks(file, &entries);
    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    for (size_t i = 0; decoder != NULL && i < n_entries; i++) {
        sum = read_chunk(decoder, file, &entries[i], sum);
    }
    (void)ag_chunk_decoder_free(decoder); /* returns NULL */
    (void)ag_trace_file_close(file);      /* returns NULL */
    return sum;
}

/* Continues the file as a writer does after the death of another writer, and finishes the file,
 * which must then be whole. */
static void resume(const char *path, int fd) {
    struct ag_trace_writer *writer;
    const int own = dup(fd);

    if (ag_trace_writer_resume(own, &writer) < 0) {
        close(own);
        return;
    }
    const int r = ag_trace_writer_finish(writer, NULL);
    (void)ag_trace_writer_free(writer); /* returns NULL */
    struct ag_trace_file *file;
    struct ag_decode_error error;
    if (r < 0) {
        return;
    }
    if (ag_trace_file_open(path, &file, &error) < 0 || ag_trace_file_damage(file) != NULL) {
        __builtin_trap();
    }
    (void)ag_trace_file_close(file); /* returns NULL */
}

uint64_t ag_trace_read_everything(const uint8_t *bytes, size_t n_bytes) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    char path[64];
    const int fd = memfd_create("trace", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n_bytes) != (ssize_t)n_bytes) {
        abort(); /* an error of this machine, not of the trace */
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    sum = read_chunks(path, sum);

    struct ag_verdict verdict;
    if (ag_trace_verify(path, /* progress= */ NULL, &verdict) == 0) {
        if (verdict.is_whole != (verdict.damage.code == AG_DECODE_OK)) {
            __builtin_trap();
        }
        sum = add(sum, &verdict.events, sizeof(verdict.events));
    }
    resume(path, fd);
    close(fd);
    return sum;
}
