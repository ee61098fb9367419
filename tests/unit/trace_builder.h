/* trace_builder.h: small traces for the tests of readers, written with the real encoder. A stream
 * is the events of one thread, a chunk the unit of the file, and a stamp a time between the
 * events before it and those after it. */
#ifndef AG_TRACE_BUILDER_H
#define AG_TRACE_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "format/encode.h"

/* Events, for TRACE_EVENTS. `by` is the node of the stack that allocated; `as` is the node to which
 * the block then belongs, usually a child of `by` that has the block's type instead of a frame. */
#define STAMP(ns) \
    { .kind = AG_RECORD_STAMP, .size = (ns) }
#define ALLOC(where, bytes, by) \
    { .kind = AG_RECORD_ALLOC, .address = (where), .size = (bytes), .stack = (by) }
#define FREE(where) \
    { .kind = AG_RECORD_FREE, .address = (where) }
#define TYPED(where, bytes, as) \
    { .kind = AG_RECORD_BLOCK_TYPE, .address = (where), .size = (bytes), .stack = (as) }

struct trace_builder {
    char path[64];
    int fd; /* a descriptor of the file; `writer` has one of its own */
    struct ag_trace_writer *writer;
    struct ag_event_encoder *encoder;
    uint64_t sequences[64]; /* by stream */
};

/* Begins the trace of process 4711, which begins START_NS after its session (the recording). The
 * trace has heap 0, "malloc", and the vias (allocation functions) 0, malloc, and 1, realloc. Its
 * file is in memory, and disappears at trace_end. */
void trace_begin(struct trace_builder *builder, uint64_t start_ns);
/* REALTIME_NS: the time of day at the start; trace_begin sets 0. */
void trace_begin_at(struct trace_builder *builder, uint64_t start_ns, uint64_t realtime_ns);
void trace_record(struct trace_builder *builder, const struct ag_record *record);
void trace_nodes(struct trace_builder *builder, const struct ag_node *nodes, size_t count);
void trace_calls(struct trace_builder *builder, const struct ag_call_path *paths, size_t count);
void trace_thread(struct trace_builder *builder, uint32_t stream,
                  const char *name); /* thread id 100 + stream */
/* Adds one chunk of a stream; the first event must be a stamp. */
void trace_events(struct trace_builder *builder, uint32_t stream, const struct ag_event *events,
                  size_t count);
#define TRACE_EVENTS(builder, stream, ...)                                       \
    do {                                                                         \
        const struct ag_event list[] = {__VA_ARGS__};                            \
        trace_events((builder), (stream), list, sizeof(list) / sizeof(list[0])); \
    } while (0)
/* Writes the end of the process. With `index`, also writes an index whose sums the caller gives. */
void trace_finish(struct trace_builder *builder, uint64_t end_ns, const struct ag_blob *index);
void trace_end(struct trace_builder *builder);

#endif
