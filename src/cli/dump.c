/* dump.c: `allogram dump TRACE`: prints every record as one line of text, in order of time. A
 * record that is a batch of rows has one line for each row.
 *
 *     SECONDS STREAM KIND FIELD=VALUE ...
 *
 * A stream is the sequence of events of one thread. STREAM is "-" for records that belong to no
 * stream. SECONDS is "-", too, for the records of the index (the sums at the end of a trace), which
 * come last.
 *
 * A chunk contains a part of one stream, in order, so the dump is a merge of chunks. The chunks are
 * opened in the order of their first times, and the next line is always the earliest line of all
 * open chunks. The open chunks are those that overlap in time: about one per thread, and a program
 * may have tens of thousands of threads. The open chunks are kept in a binary heap. A short chunk
 * that has only events is decoded completely when it is opened, and then needs no decoder. A long
 * chunk is decoded in steps of at most EVENTS_AT_ONCE events. The memory for open chunks is limited
 * in proportion to the size of the file (open_limit). A crafted file may have more overlapping
 * chunks than fit into this memory; then the lines are printed out of order. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/open_trace.h"
#include "cli/options.h"
#include "format/decode.h"
#include "format/record_layout.h"

enum {
    EVENTS_AT_ONCE = 256,
    /* A chunk with fewer bytes is short: it has fewer than SHORT_BYTES events, because an event has
     * at least one byte. Room for all of them is reserved, so they are decoded in one step. */
    SHORT_BYTES = 2048,
    DECODER_BYTES = 96 << 10, /* memory of an open decoder */
    /* memory limit for open chunks: a multiple of the bytes of all chunks, plus a constant */
    OPEN_BYTES_PER_BYTE = 48,
    OPEN_FIXED_BYTES = 192 << 20,
};

struct cursor { /* an open chunk and its next line */
    const struct ag_chunk_entry *entry;
    struct ag_chunk_decoder *decoder; /* NULL: all remaining events are in `events` */
    struct ag_event *events;          /* room for `capacity` */
    size_t capacity;
    struct ag_record record; /* the record that follows the events; kind 0: none */
    int n_events, at;
    uint64_t time_ns;
};

struct dump {
    struct ag_trace_file *file;
    /* Begins to decode each chunk. Then ag_chunk_decoder_split moves the chunk to a decoder of its
     * own, that of the cursor. */
    struct ag_chunk_decoder *starter;
    const struct ag_chunk_entry **order; /* chunks by first time, then by position */
    size_t n_order, n_opened;
    struct cursor **open; /* binary heap; open[0] has the next line */
    size_t n_open;
    uint64_t open_bytes, open_limit; /* approximate memory of open chunks */
    bool is_out_of_order;
    struct ag_decode_error damage; /* the first damage that was found */
    uint64_t damaged_chunks, damaged_events;
};

/* ---- lines ---- */

/* Prints a text from a trace, which may contain any byte. Escapes characters that would end the
 * quotes or control a terminal. */
static void print_text(const struct ag_bytes *text) {
    putchar('"');
    for (uint32_t i = 0; i < text->length; i++) {
        const unsigned char c = (unsigned char)text->data[i];
        if (c < ' ' || c > '~') {
            printf("\\x%02x", c);
        } else if (c == '"' || c == '\\') {
            printf("\\%c", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static void print_field(const struct ag_field *field, const void *base) {
    const struct ag_bytes text =
        ag_field_is_number(field) ? (struct ag_bytes){0} : ag_field_bytes(field, base);
    printf(" %s=", field->name);
    switch (field->type) {
    case AG_FIELD_U8:
    case AG_FIELD_U32:
    case AG_FIELD_STACK:
    case AG_FIELD_U64:
        printf("%" PRIu64, ag_field_number(field, base));
        break;
    case AG_FIELD_ADDRESS:
        printf("0x%" PRIx64, ag_field_number(field, base));
        break;
    case AG_FIELD_TEXT:
    case AG_FIELD_TEXTS:
        print_text(&text);
        break;
    case AG_FIELD_BYTES:
        for (uint32_t i = 0; i < text.length; i++) {
            printf("%02x", (unsigned char)text.data[i]);
        }
        break;
    }
}

static void print_head(const struct cursor *cursor, const char *kind) {
    if (cursor->entry->kind == AG_CHUNK_KIND_INDEX) {
        printf("- - %s", kind);
        return;
    }
    printf("%" PRIu64 ".%09" PRIu64, cursor->time_ns / 1000000000, cursor->time_ns % 1000000000);
    if (cursor->entry->kind == AG_CHUNK_KIND_EVENTS) {
        printf(" %" PRIu32 " %s", cursor->entry->stream, kind);
    } else {
        printf(" - %s", kind);
    }
}

static void print_event(const struct cursor *cursor, const struct ag_event *event) {
    print_head(cursor, ag_record_kind_name((enum ag_record_kind)event->kind));
    if (event->kind == AG_RECORD_ALLOC) {
        printf(" address=0x%" PRIx64 " size=%" PRIu64 " stack=%" PRIu32 " via=%u", event->address,
               event->size, event->stack, event->via);
    } else if (event->kind != AG_RECORD_STAMP) {
        printf(" address=0x%" PRIx64, event->address);
        if (event->kind == AG_RECORD_MOVE) {
            printf(" to=0x%" PRIx64, event->size);
        }
        if (event->stack != 0) { /* 0: no stack was recorded with the event */
            printf(" stack=%" PRIu32, event->stack);
        }
    }
    putchar('\n');
}

static void print_line(const struct cursor *cursor, const struct ag_record_layout *layout,
                       const void *base) {
    print_head(cursor, ag_record_kind_name(cursor->record.kind));
    for (uint32_t i = 0; i < layout->n_fields; i++) {
        print_field(&layout->fields[i], base);
    }
    putchar('\n');
}

static void print_record(const struct cursor *cursor) {
    const struct ag_record *record = &cursor->record;
    struct ag_record_layout layout;

    if (!ag_record_layout(record->kind, &layout)) {
        return;
    }
    if (layout.row_bytes == 0) {
        print_line(cursor, &layout, &record->u);
        return;
    }
    for (uint32_t i = 0; i < record->u.rows.count; i++) {
        const char *row = record->u.rows.data.data + (size_t)i * layout.row_bytes;
        uint64_t aligned[AG_ROW_MAX_BYTES / 8];
        memcpy(aligned, row, layout.row_bytes);
        print_line(cursor, &layout, aligned);
    }
}

/* ---- one chunk ---- */

static void note_damage(struct dump *dump, const struct ag_chunk_entry *entry,
                        const struct ag_decode_error *error) {
    if (dump->damage.code == AG_DECODE_OK) {
        dump->damage = *error;
    }
    dump->damaged_chunks++;
    dump->damaged_events += entry->kind == AG_CHUNK_KIND_EVENTS ? entry->events : 0;
}

/* Decodes more of the chunk if all decoded lines have been printed. The next line is then
 * events[at], or `record` if no event is left. Sets the cursor's time. Returns false if the chunk
 * has ended. */
static bool cursor_fill(struct dump *dump, struct cursor *cursor) {
    if (cursor->at == cursor->n_events && cursor->record.kind == 0) {
        struct ag_decode_error error;
        if (cursor->decoder == NULL) {
            return false;
        }
        const int n = ag_chunk_decoder_next(cursor->decoder, cursor->events, cursor->capacity,
                                            &cursor->record, &error);
        if (n < 0) {
            note_damage(dump, cursor->entry, &error);
            return false;
        }
        cursor->n_events = n;
        cursor->at = 0;
        if (n == 0 && cursor->record.kind == 0) {
            return false;
        }
    }
    if (cursor->at < cursor->n_events && cursor->events[cursor->at].kind == AG_RECORD_STAMP) {
        cursor->time_ns = cursor->events[cursor->at].size;
    }
    return true;
}

static void cursor_print(struct cursor *cursor) {
    if (cursor->at < cursor->n_events) {
        print_event(cursor, &cursor->events[cursor->at++]);
    } else {
        print_record(cursor);
        cursor->record.kind = 0;
    }
}

static struct cursor *cursor_free(struct cursor *cursor) {
    if (cursor != NULL) {
        (void)ag_chunk_decoder_free(cursor->decoder); /* returns NULL */
        free(cursor->events);
        free(cursor);
    }
    return NULL;
}

/* Frees the decoder if the whole chunk is decoded, and the part of `events` that is not needed. */
static void cursor_shrink(struct cursor *cursor) {
    const size_t n_events = (size_t)cursor->n_events;
    size_t capacity = n_events < EVENTS_AT_ONCE ? EVENTS_AT_ONCE : n_events;
    if (n_events > 0 && ag_chunk_decoder_is_at_end(cursor->decoder)) {
        cursor->decoder = ag_chunk_decoder_free(cursor->decoder);
        capacity = n_events;
    }
    if (capacity < cursor->capacity) {
        struct ag_event *events = realloc(cursor->events, capacity * sizeof(*events));
        cursor->capacity = events != NULL ? capacity : cursor->capacity;
        cursor->events = events != NULL ? events : cursor->events;
    }
}

static uint64_t cursor_bytes(const struct cursor *cursor) {
    return sizeof(*cursor) + cursor->capacity * sizeof(cursor->events[0]) +
           (cursor->decoder != NULL ? DECODER_BYTES + cursor->entry->used_bytes : 0);
}

/* Returns NULL if the chunk is empty or damaged, or if memory is exhausted. The last two cases are
 * counted as damage. */
static struct cursor *cursor_open(struct dump *dump, const struct ag_chunk_entry *entry) {
    struct ag_decode_error error = {.code = AG_DECODE_NO_MEMORY, .offset = entry->offset};
    struct cursor *cursor = calloc(1, sizeof(*cursor));
    if (cursor == NULL) {
        note_damage(dump, entry, &error);
        return NULL;
    }
    cursor->entry = entry;
    cursor->time_ns = entry->first_time_ns;
    const bool is_short = entry->used_bytes < SHORT_BYTES;
    cursor->capacity = is_short ? entry->used_bytes + 1 : EVENTS_AT_ONCE;
    cursor->events = malloc(cursor->capacity * sizeof(cursor->events[0]));
    if (cursor->events != NULL &&
        ag_chunk_decoder_start(dump->starter, dump->file, entry, &error) == 0) {
        error = (struct ag_decode_error){.code = AG_DECODE_NO_MEMORY, .offset = entry->offset};
        cursor->decoder = ag_chunk_decoder_split(dump->starter);
    }
    if (cursor->decoder == NULL) {
        note_damage(dump, entry, &error);
        return cursor_free(cursor);
    }
    if (!cursor_fill(dump, cursor)) {
        return cursor_free(cursor);
    }
    cursor_shrink(cursor);
    return cursor;
}

/* ---- the merge ---- */

static bool comes_before(uint64_t time_a, const struct ag_chunk_entry *a, uint64_t time_b,
                         const struct ag_chunk_entry *b) {
    return time_a != time_b ? time_a < time_b : a->offset < b->offset;
}

static bool cursor_comes_before(const struct cursor *a, const struct cursor *b) {
    return comes_before(a->time_ns, a->entry, b->time_ns, b->entry);
}

/* Puts CURSOR into the heap at the unused index AT, and moves it up until the heap is in order. */
static void heap_sift_up(struct dump *dump, size_t at, struct cursor *cursor) {
    for (; at > 0 && cursor_comes_before(cursor, dump->open[(at - 1) / 2]); at = (at - 1) / 2) {
        dump->open[at] = dump->open[(at - 1) / 2];
    }
    dump->open[at] = cursor;
}

/* Puts CURSOR at the top of the heap, and moves it down until the heap is in order. */
static void heap_sift_down(struct dump *dump, struct cursor *cursor) {
    size_t at = 0;
    for (size_t child = 1; child < dump->n_open; child = 2 * at + 1) {
        if (child + 1 < dump->n_open &&
            cursor_comes_before(dump->open[child + 1], dump->open[child])) {
            child++;
        }
        if (!cursor_comes_before(dump->open[child], cursor)) {
            break;
        }
        dump->open[at] = dump->open[child];
        at = child;
    }
    dump->open[at] = cursor;
}

static int compare_chunks(const void *left, const void *right) {
    const struct ag_chunk_entry *a = *(const struct ag_chunk_entry *const *)left;
    const struct ag_chunk_entry *b = *(const struct ag_chunk_entry *const *)right;
    const bool a_is_index = a->kind == AG_CHUNK_KIND_INDEX,
               b_is_index = b->kind == AG_CHUNK_KIND_INDEX;

    if (a_is_index != b_is_index) {
        return a_is_index ? 1 : -1; /* chunks of the index come last */
    }
    return comes_before(a->first_time_ns, a, b->first_time_ns, b) ? -1 : 1;
}

/* Opens the next chunk of `order` if it starts before the next line of every open chunk, and if the
 * open chunks do not use too much memory. Returns true if it opened the chunk, or skipped it
 * because it is damaged or empty. */
static bool open_next_cursor(struct dump *dump) {
    const struct cursor *earliest = dump->n_open != 0 ? dump->open[0] : NULL;
    if (dump->n_opened == dump->n_order) {
        return false;
    }
    const struct ag_chunk_entry *entry = dump->order[dump->n_opened];
    if (earliest != NULL &&
        (entry->kind == AG_CHUNK_KIND_INDEX ||
         !comes_before(entry->first_time_ns, entry, earliest->time_ns, earliest->entry))) {
        return false;
    }
    if (earliest != NULL && dump->open_bytes > dump->open_limit) {
        dump->is_out_of_order = true;
        return false;
    }
    dump->n_opened++;
    struct cursor *cursor = cursor_open(dump, entry);
    if (cursor != NULL) {
        heap_sift_up(dump, dump->n_open++, cursor);
        dump->open_bytes += cursor_bytes(cursor);
    }
    return true;
}

static void close_first(struct dump *dump) {
    dump->open_bytes -= cursor_bytes(dump->open[0]);
    (void)cursor_free(dump->open[0]); /* returns NULL */
    if (--dump->n_open != 0) {
        heap_sift_down(dump, dump->open[dump->n_open]);
    }
}

/* Prints lines of the first cursor as long as its time does not change. No line of another chunk is
 * earlier. */
static void print_moment(struct dump *dump) {
    struct cursor *cursor = dump->open[0];
    const uint64_t time_ns = cursor->time_ns;

    do {
        cursor_print(cursor);
        if (!cursor_fill(dump, cursor)) {
            close_first(dump);
            return;
        }
    } while (cursor->time_ns == time_ns);
    heap_sift_down(dump, cursor);
}

static void print_records(struct dump *dump) {
    while (dump->n_open != 0 || dump->n_opened < dump->n_order) {
        if (open_next_cursor(dump)) {
            continue;
        }
        if (ferror(stdout)) {
            break;
        }
        print_moment(dump);
    }
    while (dump->n_open != 0) {
        close_first(dump);
    }
}

/* ---- the command ---- */

static int dump_file(struct dump *dump, const char *path) {
    const struct ag_chunk_entry *entries;
    dump->n_order = ag_trace_file_chunks(dump->file, &entries);
    dump->order = malloc((dump->n_order + 1) * sizeof(const struct ag_chunk_entry *));
    dump->open = malloc((dump->n_order + 1) * sizeof(struct cursor *));
    dump->starter = ag_chunk_decoder_new();
    if (dump->order == NULL || dump->open == NULL || dump->starter == NULL) {
        (void)ag_chunk_decoder_free(dump->starter); /* returns NULL */
        free(dump->order);
        free(dump->open);
        return ag_fail(AG_EXIT_FAILURE, "dump: %s: out of memory for %zu chunks", path,
                       dump->n_order);
    }
    for (size_t i = 0; i < dump->n_order; i++) {
        dump->order[i] = &entries[i];
        dump->open_limit += OPEN_BYTES_PER_BYTE * (uint64_t)entries[i].used_bytes;
    }
    dump->open_limit += OPEN_FIXED_BYTES;
    qsort(dump->order, dump->n_order, sizeof(const struct ag_chunk_entry *), compare_chunks);
    print_records(dump);
    (void)ag_chunk_decoder_free(dump->starter); /* returns NULL */
    free(dump->open);
    free(dump->order);

    if (dump->damage.code == AG_DECODE_OK && ag_trace_file_damage(dump->file) != NULL) {
        dump->damage = *ag_trace_file_damage(dump->file);
    }
    if (dump->is_out_of_order) {
        ag_say("dump: %s: too many chunks overlap in time; the lines are not in the order of time",
               path);
    }
    if (dump->damaged_chunks > 0) {
        return ag_fail(AG_EXIT_FAILURE,
                       "dump: %s: %s (at byte %" PRIu64 "); up to %" PRIu64 " events of %" PRIu64
                       " damaged chunk%s are missing",
                       path, ag_decode_code_text(dump->damage.code), dump->damage.offset,
                       dump->damaged_events, dump->damaged_chunks,
                       dump->damaged_chunks == 1 ? "" : "s");
    }
    if (dump->damage.code != AG_DECODE_OK) {
        return ag_fail(AG_EXIT_FAILURE, "dump: %s: %s (at byte %" PRIu64 ")", path,
                       ag_decode_code_text(dump->damage.code), dump->damage.offset);
    }
    return AG_EXIT_OK;
}

int ag_command_dump(int argc, char **argv) {
    struct ag_options options = {.usage = "dump TRACE",
                                 .about =
                                     "Prints every record as one line of text, in order of time."};

    if (!ag_options_read(&options, argc, argv, /* set= */ NULL, NULL)) {
        return options.status;
    }
    if (options.n_operands != 1) {
        return ag_options_refuse_operands(&options, "trace", "one trace",
                                          "dump allogram.ls.4711.allogram");
    }
    const char *path = options.operands[0];
    struct dump dump = {0};
    struct ag_decode_error error;
    const int r = ag_trace_file_open(path, &dump.file, &error);
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "dump: %s: %s%s", path,
                       error.code == AG_DECODE_IO ? strerror(-r) : ag_decode_code_text(error.code),
                       ag_trace_hint(path));
    }
    const int status = dump_file(&dump, path);
    (void)ag_trace_file_close(dump.file); /* returns NULL */
    return status;
}
