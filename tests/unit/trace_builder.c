/* trace_builder.c: builds small traces for the tests of readers; see trace_builder.h. Files live in
 * memory, so nothing is left behind. */
#include "trace_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/segment.h"

static struct ag_bytes bytes_of(const char *text) {
    return (struct ag_bytes){.data = text, .length = (uint32_t)strlen(text)};
}

void trace_begin(struct trace_builder *builder, uint64_t start_ns) {
    trace_begin_at(builder, start_ns, /* realtime_ns= */ 0);
}

void trace_begin_at(struct trace_builder *builder, uint64_t start_ns, uint64_t realtime_ns) {
    *builder = (struct trace_builder){.fd = memfd_create("trace", MFD_CLOEXEC)};
    assert_true(builder->fd >= 0);
    snprintf(builder->path, sizeof(builder->path), "/proc/self/fd/%d", builder->fd);
    const struct ag_trace_header header = {.session = 1, .pid = 4711};
    assert_int_equal(ag_trace_writer_new(dup(builder->fd), &header, &builder->writer), 0);
    builder->encoder = ag_event_encoder_new();
    assert_non_null(builder->encoder);
    static const char command[] = "program\0with\0arguments";
    const struct ag_record records[] = {
        {.kind = AG_RECORD_PROCESS,
         .u.process = {.pid = 4711,
                       .start_ns = start_ns,
                       .start_realtime_ns = realtime_ns,
                       .exe = bytes_of("/usr/bin/program"),
                       .n_arguments = 3,
                       .command = {.data = command, .length = sizeof(command)}}},
        {.kind = AG_RECORD_HEAP,
         .u.heap = {.heap = 0,
                    .name = bytes_of("malloc"),
                    .allocator = bytes_of("glibc"),
                    .runtime = bytes_of("libc")}},
        {.kind = AG_RECORD_VIA, .u.via = {.via = 0, .heap = 0, .name = bytes_of("malloc")}},
        {.kind = AG_RECORD_VIA, .u.via = {.via = 1, .heap = 0, .name = bytes_of("realloc")}},
    };
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        trace_record(builder, &records[i]);
    }
}

static void write_records(struct trace_builder *builder, struct ag_blob *blob) {
    assert_int_equal(blob->error, 0);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS};
    assert_int_equal(ag_trace_writer_chunk(builder->writer, &info, blob->data, blob->length), 0);
    ag_blob_done(blob);
}

void trace_record(struct trace_builder *builder, const struct ag_record *record) {
    struct ag_blob blob = {0};
    assert_int_equal(ag_record_append(&blob, record), 0);
    write_records(builder, &blob);
}

void trace_nodes(struct trace_builder *builder, const struct ag_node *nodes, size_t count) {
    struct ag_blob blob = {0};
    for (size_t i = 0; i < count; i += 4096) {
        assert_int_equal(
            ag_record_append_nodes(&blob, nodes + i, count - i < 4096 ? count - i : 4096), 0);
    }
    write_records(builder, &blob);
}

void trace_calls(struct trace_builder *builder, const struct ag_call_path *paths, size_t count) {
    struct ag_blob blob = {0};
    assert_int_equal(ag_record_append_calls(&blob, paths, count), 0);
    write_records(builder, &blob);
}

void trace_thread(struct trace_builder *builder, uint32_t stream, const char *name) {
    const struct ag_record thread = {
        .kind = AG_RECORD_THREAD,
        .u.thread = {.stream = stream, .thread_id = 100 + stream, .name = bytes_of(name)}};
    trace_record(builder, &thread);
}

void trace_events(struct trace_builder *builder, uint32_t stream, const struct ag_event *events,
                  size_t count) {
    assert_int_equal(events[0].kind, AG_RECORD_STAMP);
    ag_event_encoder_start(builder->encoder, events[0].size);
    assert_int_equal(ag_event_encoder_add(builder->encoder, events, count), 0);
    const struct ag_blob *body = ag_event_encoder_body(builder->encoder);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                       .stream = stream,
                                       .thread_id = 100 + stream,
                                       .sequences = 1,
                                       .events = ag_event_encoder_events(builder->encoder),
                                       .first_sequence = builder->sequences[stream]++,
                                       .first_time_ns = events[0].size};
    assert_int_equal(ag_trace_writer_chunk(builder->writer, &info, body->data, body->length), 0);
}

void trace_finish(struct trace_builder *builder, uint64_t end_ns, const struct ag_blob *index) {
    const struct ag_record end = {.kind = AG_RECORD_END,
                                  .u.end = {.how = AG_END_EXIT, .time_ns = end_ns}};
    trace_record(builder, &end);
    if (index) {
        assert_int_equal(ag_trace_writer_finish(builder->writer, index), 0);
    }
    builder->writer = ag_trace_writer_free(builder->writer);
}

void trace_end(struct trace_builder *builder) {
    (void)ag_trace_writer_free(builder->writer); /* NULL is allowed */
    (void)ag_event_encoder_free(builder->encoder);
    close(builder->fd);
}
