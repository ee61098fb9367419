/* assemble_trace.c: assemble_trace FILE: reads the lines that `allogram dump` prints from standard
 * input, and writes the trace that they describe to FILE. A line is
 *
 *     SECONDS STREAM KIND FIELD=VALUE ...
 *
 * A field that a line leaves out is 0 or empty. A stamp (a record of the time) is added wherever
 * the time of a stream (a thread) changes. A line whose STREAM is "-" is a record of no stream; if
 * its SECONDS are "-", too, it belongs to the index. If no line belongs to the index, the index is
 * computed from the events, as `allogram run` computes it. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "format/encode.h"
#include "format/record_layout.h"
#include "writer/trace_index.h"

enum { STREAMS = 16 };

struct assembly {
    struct ag_trace_writer *writer;
    struct ag_event_encoder *encoder;
    struct ag_blob records, index;
    uint32_t stream; /* the stream whose events are in the unfinished chunk; STREAMS if there is no
                      * such chunk */
    uint64_t first_time_ns, time_ns, start_ns, end_ns, rss_peak_bytes;
    uint32_t thread_ids[STREAMS];
    uint64_t sequences[STREAMS];
};

static void check(bool is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "assemble_trace: %s\n", what);
        exit(1);
    }
}

/* ---- words of a line ---- */

/* Returns the next word and ends it with NUL; blanks between quotes belong to the word. */
static char *next_word(char **line) {
    char *word = *line, *at = word;
    bool is_quoted = false;
    for (; *at != '\0' && *at != '\n' && (*at != ' ' || is_quoted); at++) {
        is_quoted ^= *at == '"';
        at += *at == '\\';
    }
    *line = *at != '\0' ? at + 1 : at;
    *at = '\0';
    return word;
}

/* Replaces the quoted text at TEXT by the bytes that it stands for. */
static struct ag_bytes unquote(char *text) {
    char *to = text;
    check(*text == '"', text);
    for (const char *from = text + 1; *from != '"'; from++) {
        unsigned code = 0;
        if (from[0] == '\\' && from[1] == 'x') {
            check(sscanf(from + 2, "%2x", &code) == 1, text);
            from += 3;
        } else {
            from += *from == '\\';
            code = (unsigned char)*from;
        }
        *to++ = (char)code;
    }
    return (struct ag_bytes){.data = text, .length = (uint32_t)(to - text)};
}

static void set_field(const struct ag_record_layout *layout, void *base, char *word) {
    char *value = strchr(word, '=');
    check(value != NULL, word);
    *value++ = '\0';
    for (uint16_t i = 0; i < layout->n_fields; i++) {
        const struct ag_field *field = &layout->fields[i];
        if (strcmp(field->name, word) != 0) {
            continue;
        }
        if (ag_field_is_number(field)) {
            check(ag_field_set_number(field, base, strtoull(value, NULL, 0)), word);
        } else {
            const struct ag_bytes bytes = unquote(value);
            memcpy((char *)base + field->offset, &bytes, sizeof(bytes));
        }
        return;
    }
    check(false, word);
}

static void set_fields(const struct ag_record_layout *layout, void *base, char *line) {
    while (*line != '\0') {
        set_field(layout, base, next_word(&line));
    }
}

/* ---- records and events ---- */

static void add_record(struct assembly *assembly, struct ag_blob *blob, enum ag_record_kind kind,
                       char *line) {
    struct ag_record_layout layout;
    struct ag_record record = {.kind = kind};
    uint64_t row[AG_ROW_MAX_BYTES / 8] = {0};
    check(ag_record_layout(kind, &layout), line);
    if (layout.row_bytes > 0) {
        set_fields(&layout, row, line);
        (void)ag_record_append_rows(blob, kind, row, 1); /* an error is stored in the blob */
        return;
    }
    set_fields(&layout, &record.u, line);
    if (kind == AG_RECORD_PROCESS) {
        assembly->start_ns = record.u.process.start_ns;
    } else if (kind == AG_RECORD_END) {
        assembly->end_ns = record.u.end.time_ns;
    } else if (kind == AG_RECORD_THREAD) {
        check(record.u.thread.stream < STREAMS, "too many streams");
        assembly->thread_ids[record.u.thread.stream] = record.u.thread.thread_id;
    } else if (kind == AG_RECORD_RESIDENT && record.u.resident.bytes > assembly->rss_peak_bytes) {
        assembly->rss_peak_bytes = record.u.resident.bytes;
    }
    if (blob != NULL) {
        (void)ag_record_append(blob, &record);
    } else {
        check(ag_event_encoder_add_record(assembly->encoder, &record) == 0, "no memory");
    }
}

static void end_chunk(struct assembly *assembly) {
    const uint32_t stream = assembly->stream;
    if (stream < STREAMS) {
        const struct ag_blob *body = ag_event_encoder_body(assembly->encoder);
        const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                           .stream = stream,
                                           .thread_id = assembly->thread_ids[stream],
                                           .sequences = 1,
                                           .events = ag_event_encoder_events(assembly->encoder),
                                           .first_sequence = assembly->sequences[stream]++,
                                           .first_time_ns = assembly->first_time_ns};
        check(ag_trace_writer_chunk(assembly->writer, &info, body->data, body->length) == 0,
              "cannot write a chunk of events");
        assembly->stream = STREAMS;
    }
}

static void add_event(struct assembly *assembly, enum ag_record_kind kind, char *line) {
    static const struct ag_field fields[] = {
        {AG_FIELD_ADDRESS, offsetof(struct ag_event, address), "address"},
        {AG_FIELD_U64, offsetof(struct ag_event, size), "size"},
        {AG_FIELD_U64, offsetof(struct ag_event, size), "to"},
        {AG_FIELD_STACK, offsetof(struct ag_event, stack), "stack"},
        {AG_FIELD_U8, offsetof(struct ag_event, via), "via"},
    };
    const struct ag_record_layout layout = {.fields = fields, .n_fields = AG_ARRAY_SIZE(fields)};
    struct ag_event event = {.kind = (uint8_t)kind};
    set_fields(&layout, &event, line);
    event.size = kind == AG_RECORD_STAMP ? assembly->time_ns : event.size;
    check(ag_event_encoder_add(assembly->encoder, &event, 1) == 0, "cannot add an event");
}

static bool is_event(enum ag_record_kind kind) {
    return kind <= AG_RECORD_STAMP || (kind >= AG_RECORD_MOVE && kind <= AG_RECORD_COLLECT) ||
           kind == AG_RECORD_BLOCK_TYPE || kind == AG_RECORD_RESET;
}

/* Adds a line of a stream. */
static void add_in_stream(struct assembly *assembly, uint32_t stream, uint64_t time_ns,
                          enum ag_record_kind kind, char *line) {
    check(stream < STREAMS, "too many streams");
    if (stream != assembly->stream) {
        end_chunk(assembly);
        ag_event_encoder_start(assembly->encoder, time_ns);
        assembly->stream = stream;
        assembly->first_time_ns = time_ns;
        assembly->time_ns = 0;
    }
    check(time_ns >= assembly->time_ns, "the time of a stream goes back");
    const bool is_later = time_ns > assembly->time_ns;
    assembly->time_ns = time_ns;
    if (is_later && kind != AG_RECORD_STAMP) {
        add_event(assembly, AG_RECORD_STAMP, strchr(line, '\0'));
    }
    if (is_event(kind)) {
        add_event(assembly, kind, line);
    } else {
        add_record(assembly, NULL, kind, line);
    }
}

static enum ag_record_kind kind_of(const char *name) {
    for (int kind = 1; kind < 256; kind++) {
        const char *known = ag_record_kind_name((enum ag_record_kind)kind);
        if (known != NULL && strcmp(known, name) == 0) {
            return (enum ag_record_kind)kind;
        }
    }
    check(false, name);
    return AG_RECORD_STAMP;
}

static void add_line(struct assembly *assembly, char *line) {
    char *seconds = next_word(&line), *stream = next_word(&line);
    const enum ag_record_kind kind = kind_of(next_word(&line));
    if (strcmp(stream, "-") == 0) {
        add_record(assembly, strcmp(seconds, "-") == 0 ? &assembly->index : &assembly->records,
                   kind, line);
        return;
    }
    char *fraction = strchr(seconds, '.');
    check(fraction != NULL, seconds);
    const uint64_t time_ns =
        strtoull(seconds, NULL, 10) * 1000000000 + strtoull(fraction + 1, NULL, 10);
    add_in_stream(assembly, (uint32_t)strtoul(stream, NULL, 10), time_ns, kind, line);
}

int main(int argc, char **argv) {
    check(argc == 2, "usage: assemble_trace FILE <LINES");
    struct assembly assembly = {.encoder = ag_event_encoder_new(), .stream = STREAMS};
    const struct ag_trace_header header = {.session = 1, .pid = 4711};
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS};
    const int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    check(assembly.encoder != NULL && ag_trace_writer_new(fd, &header, &assembly.writer) == 0,
          argv[1]);
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        add_line(&assembly, line);
    }
    end_chunk(&assembly);
    check(ag_trace_writer_records(assembly.writer, &info, &assembly.records) == 0, argv[1]);
    if (assembly.index.length == 0) {
        const struct ag_index_facts facts = {.start_ns = assembly.start_ns,
                                             .end_ns = assembly.end_ns,
                                             .rss_peak_bytes = assembly.rss_peak_bytes};
        struct ag_index_sums ignored;
        check(ag_trace_index_of_file(argv[1], &facts, &assembly.index, &ignored) == 0, argv[1]);
    }
    check(ag_trace_writer_finish(assembly.writer, &assembly.index) == 0, argv[1]);
    (void)ag_trace_writer_free(assembly.writer);   /* returns NULL */
    (void)ag_event_encoder_free(assembly.encoder); /* returns NULL */
    ag_blob_done(&assembly.records);
    ag_blob_done(&assembly.index);
    free(line);
    return 0;
}
