/* make_traces.c: makes the golden traces of this version: make_traces FOLDER [NAME].
 *
 * Run it by hand, once per version of the format, or with a NAME for a trace that is new. Commit
 * the traces and never make them again, because the tests show that old traces stay readable. (A
 * new zstd may compress differently: that is no reason to make them again.) */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "format/encode.h"
#include "format/trace_layout.h"
#include "format_samples.h"
#include "managed_trace.h"

static const char *folder;

static int create(const char *name) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s.allogram", folder, name);
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
}

static int write_one_chunk(const char *name, const struct ag_event *events, size_t count) {
    const struct ag_trace_header header = {
        .session = 0x0123456789abcdef, .pid = 4711, .start_realtime_ns = 1700000000000000000};
    struct ag_trace_writer *writer;
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    int r = ag_trace_writer_new(create(name), &header, &writer);
    if (r < 0 || encoder == NULL) {
        return r;
    }
    ag_event_encoder_start(encoder, 1000);
    (void)ag_event_encoder_add(encoder, events, count); /* an error here makes the writer refuse the
                                                         * chunk */
    const struct ag_blob *body = ag_event_encoder_body(encoder);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                       .thread_id = 4711,
                                       .sequences = 1,
                                       .events = ag_event_encoder_events(encoder),
                                       .first_time_ns = 1000};
    r = ag_trace_writer_chunk(writer, &info, body->data, body->length);
    r = r < 0 ? r : ag_trace_writer_finish(writer, NULL);
    (void)ag_trace_writer_free(writer);   /* returns NULL */
    (void)ag_event_encoder_free(encoder); /* returns NULL */
    return r;
}

/* The worked example of docs/reference/trace-format.md. */
static int make_example(void) {
    const struct ag_event events[] = {
        {.kind = AG_RECORD_STAMP, .size = 1500},
        {.kind = AG_RECORD_ALLOC, .address = 0x55d0c0a012a0, .size = 24, .stack = 77},
        {.kind = AG_RECORD_ALLOC, .address = 0x55d0c0a012c0, .size = 24, .stack = 77},
        {.kind = AG_RECORD_FREE, .address = 0x55d0c0a012c0},
        {.kind = AG_RECORD_ALLOC, .address = 0x55d0c0a012c0, .size = 24, .stack = 77},
        {.kind = AG_RECORD_REALLOC_FREE, .address = 0x55d0c0a012a0},
        {.kind = AG_RECORD_ALLOC, .address = 0x55d0c0a012e0, .size = 1000, .stack = 78, .via = 2},
    };
    return write_one_chunk("trace-v1-example", events, AG_ARRAY_SIZE(events));
}

/* Frees with the stack of the free: twice the same stack, another stack, and an unknown stack. */
static int make_free_stacks(void) {
    const struct ag_event events[] = {
        {.kind = AG_RECORD_STAMP, .size = 1500},
        {.kind = AG_RECORD_ALLOC, .address = 0x55d0c0a012a0, .size = 24, .stack = 77},
        {.kind = AG_RECORD_FREE, .address = 0x55d0c0a012a0, .stack = 80},
        {.kind = AG_RECORD_ALLOC, .address = 0x55d0c0a012a0, .size = 24, .stack = 77},
        {.kind = AG_RECORD_FREE, .address = 0x55d0c0a012a0, .stack = 80},
        {.kind = AG_RECORD_ALLOC, .address = 0x55d0c0a012a0, .size = 24, .stack = 77},
        {.kind = AG_RECORD_REALLOC_FREE, .address = 0x55d0c0a012a0, .stack = 81},
        {.kind = AG_RECORD_UNDO_FREE, .address = 0x55d0c0a012a0},
        {.kind = AG_RECORD_FREE, .address = 0x55d0c0a012a0},
    };
    return write_one_chunk("trace-v1-free-stacks", events, AG_ARRAY_SIZE(events));
}

/* The next three functions make a sampled trace: an interval that changes, an interval of 0,
 * blocks that are freed and blocks that stay in use. */
static int add_sampling(struct ag_event_encoder *encoder, uint64_t interval_bytes) {
    const struct ag_record record = {
        .kind = AG_RECORD_SAMPLING,
        .u.sampling = {.interval_bytes = interval_bytes, .seed = 42, .method = 1}};
    return ag_event_encoder_add_record(encoder, &record);
}

static int fill_sampled(struct ag_event_encoder *encoder) {
    static const uint64_t intervals[] = {524288, 4096, 0, UINT64_C(1) << 43};
    int r = 0;
    for (uint64_t i = 0; i < AG_ARRAY_SIZE(intervals) && r == 0; i++) {
        const uint64_t address = 0x55d0c0a01000 + i * 0x1000;
        const struct ag_event events[] = {
            {.kind = AG_RECORD_STAMP, .size = 1500 + 100 * i},
            {.kind = AG_RECORD_ALLOC, .address = address, .size = 152, .stack = 77},
            {.kind = AG_RECORD_ALLOC, .address = address + 512, .size = 1048, .stack = 78},
            {.kind = AG_RECORD_FREE, .address = address},
        };
        r = add_sampling(encoder, intervals[i]);
        r = r < 0 ? r : ag_event_encoder_add(encoder, events, AG_ARRAY_SIZE(events));
    }
    return r;
}

static int make_sampled(void) {
    const struct ag_trace_header header = {
        .session = 0x0123456789abcdef, .pid = 4711, .start_realtime_ns = 1700000000000000000};
    const struct ag_record process = {.kind = AG_RECORD_PROCESS,
                                      .u.process = {.pid = 4711, .mode = 1, .depth = 256}};
    const struct ag_record sampler = {.kind = AG_RECORD_SAMPLER,
                                      .u.sampler = {.cpu_ns = 1000,
                                                    .budget_millionths = 20000,
                                                    .least_interval_bytes = 4096,
                                                    .most_interval_bytes = 524288}};
    struct ag_trace_writer *writer;
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    struct ag_blob records = {0};
    int r = ag_trace_writer_new(create("trace-v1-sampled"), &header, &writer);
    if (r < 0 || encoder == NULL) {
        return r;
    }
    const struct ag_chunk_info of_records = {.kind = AG_CHUNK_KIND_RECORDS};
    /* an error here makes the writer refuse the chunk */
    (void)ag_record_append(&records, &process);
    (void)ag_record_append(&records, &sampler);
    r = ag_trace_writer_chunk(writer, &of_records, records.data, records.length);
    ag_event_encoder_start(encoder, 1000);
    r = r < 0 ? r : fill_sampled(encoder);
    const struct ag_blob *body = ag_event_encoder_body(encoder);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                       .thread_id = 4711,
                                       .sequences = 1,
                                       .events = ag_event_encoder_events(encoder),
                                       .first_time_ns = 1000};
    r = r < 0 ? r : ag_trace_writer_chunk(writer, &info, body->data, body->length);
    r = r < 0 ? r : ag_trace_writer_finish(writer, NULL);
    ag_blob_done(&records);
    (void)ag_trace_writer_free(writer);   /* returns NULL */
    (void)ag_event_encoder_free(encoder); /* returns NULL */
    return r;
}

/* Records that a later writer of the same version may add: kinds, fields and columns that this
 * version does not know. */
static int make_later(void) {
    static const char records[] =
        "\xcd\x02\x03\x01\x02\x03"                 /* kind 333 */
        "\x0a\x04\x2a\x63\x62\x61"                 /* image_unload 42, three more fields */
        "\x10\x08\x01\x06\x20\x04\x06\x08\x0a\x0c" /* a node, two more columns */
        "\x08\x02\x2a\x07"; /* a process without the fields after parent_pid */
    struct ag_trace_writer *writer;
    int r = ag_trace_writer_new(create("trace-v1-later"), &(struct ag_trace_header){.session = 1},
                                &writer);
    if (r < 0) {
        return r;
    }
    const struct ag_chunk_info unknown = {.kind = 200, .stream = 7, .events = 2};
    const struct ag_chunk_info known = {.kind = AG_CHUNK_KIND_RECORDS, .first_time_ns = 5};
    r = ag_trace_writer_chunk(writer, &unknown, "\xff\xff\xff", 3);
    r = r < 0 ? r : ag_trace_writer_chunk(writer, &known, records, sizeof(records) - 1);
    r = r < 0 ? r : ag_trace_writer_finish(writer, NULL);
    (void)ag_trace_writer_free(writer); /* returns NULL */
    return r;
}

static int make_torn(void) {
    const int fd = create("trace-v1-torn");
    const int other = dup(fd);
    int r = ag_sample_trace(fd, /* seed= */ 3, /* n_chunks= */ 3, AG_SAMPLE_UNSEALED);
    if (r == 0 && ftruncate(other, lseek(other, 0, SEEK_END) - 100) < 0) {
        r = -1;
    }
    close(other);
    return r;
}

static int make_sealed(void) {
    return ag_sample_trace(create("trace-v1-sealed"), /* seed= */ 1, /* n_chunks= */ 8,
                           AG_SAMPLE_SEALED);
}

static int make_unsealed(void) {
    return ag_sample_trace(create("trace-v1-unsealed"), /* seed= */ 2, /* n_chunks= */ 4,
                           AG_SAMPLE_UNSEALED);
}

static int make_managed(void) {
    return ag_managed_trace_write(create("trace-v1-managed"));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*make)(void);
    } traces[] = {{"example", make_example}, {"free-stacks", make_free_stacks},
                  {"later", make_later},     {"torn", make_torn},
                  {"sealed", make_sealed},   {"unsealed", make_unsealed},
                  {"managed", make_managed}, {"sampled", make_sampled}};
    folder = argc > 1 ? argv[1] : ".";
    int status = 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(traces); i++) {
        if ((argc < 3 || strcmp(argv[2], traces[i].name) == 0) && traces[i].make() < 0) {
            fprintf(stderr, "make_traces: could not make %s in %s: is there one already?\n",
                    traces[i].name, folder);
            status = 1;
        }
    }
    return status;
}
