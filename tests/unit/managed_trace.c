/* managed_trace.c: writes the trace whose contents and expected sums managed_trace.h lists. */
#include "managed_trace.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "format/segment.h"

enum {
    START_NS = 1000000,
    US = 1000,
};

enum { BUILD = 1, MAIN_CHUNK, FIB, MAP, SETELEMENT, LOOP };

static struct ag_bytes text(const char *string) {
    return (struct ag_bytes){.data = string, .length = (uint32_t)strlen(string)};
}

static void add(struct ag_blob *blob, struct ag_record record) {
    (void)ag_record_append(blob, &record); /* an error is stored in the blob */
}

static void add_process(struct ag_blob *blob) {
    static const char command[] = "host\0script.lua";
    add(blob, (struct ag_record){.kind = AG_RECORD_PROCESS,
                                 .u.process = {.pid = 4711,
                                               .depth = 256,
                                               .start_ns = START_NS,
                                               .exe = text("/usr/bin/host"),
                                               .n_arguments = 2,
                                               .command = {command, sizeof(command)}}});
    add(blob, (struct ag_record){.kind = AG_RECORD_THREAD,
                                 .u.thread = {.thread_id = 100, .name = text("host")}});
    static const char *const heaps[][3] = {{"malloc", "glibc", "libc"}, {"tables", "lua", "lua"}};
    for (uint32_t i = 0; i < AG_ARRAY_SIZE(heaps); i++) {
        add(blob, (struct ag_record){.kind = AG_RECORD_HEAP,
                                     .u.heap = {.heap = i,
                                                .name = text(heaps[i][0]),
                                                .allocator = text(heaps[i][1]),
                                                .runtime = text(heaps[i][2])}});
        add(blob, (struct ag_record){
                      .kind = AG_RECORD_VIA,
                      .u.via = {.via = i, .heap = i, .name = text(i == 0 ? "malloc" : "new")}});
    }
    static const char *const runtimes[][2] = {{"libc", "2.36"}, {"lua", "5.4"}, {"beam", "25"}};
    for (size_t i = 0; i < AG_ARRAY_SIZE(runtimes); i++) {
        add(blob, (struct ag_record){.kind = AG_RECORD_RUNTIME,
                                     .u.runtime = {.hooked = 1,
                                                   .name = text(runtimes[i][0]),
                                                   .version = text(runtimes[i][1])}});
    }
}

static void add_stacks(struct ag_blob *blob) {
    static const struct {
        uint32_t frame, line;
        const char *runtime, *function, *file;
    } frames[] = {{BUILD, 10, "lua", "build", "script.lua"},
                  {MAIN_CHUNK, 1, "lua", "main chunk", "script.lua"},
                  {FIB, 20, "lua", "fib", "script.lua"},
                  {MAP, 1594, "beam", "lists:map/2", "lists.erl"},
                  {SETELEMENT, 0, "beam", "erlang:setelement/3", ""},
                  {LOOP, 7, "beam", "app:loop/1", "app.erl"},
                  {BUILD, 77, "lua", "not_build", "defined twice: the first counts"}};
    const struct ag_node nodes[] = {
        {.id = 16, .parent = 0, .pc = 0x1001},
        {.id = 17,
         .parent = 16,
         .pc = ag_managed_pc(MAIN_CHUNK, /* line= */ 3),
         .image = AG_IMAGE_MANAGED},
        {.id = 18,
         .parent = 17,
         .pc = ag_managed_pc(BUILD, /* line= */ 12),
         .image = AG_IMAGE_MANAGED},
        {.id = 19, .parent = 18, .pc = 0x2001},
        {.id = 20,
         .parent = 17,
         .pc = ag_managed_pc(FIB, /* line= */ 0),
         .image = AG_IMAGE_MANAGED},
        {.id = 21,
         .parent = 20,
         .pc = ag_managed_pc(FIB, /* line= */ 21),
         .image = AG_IMAGE_MANAGED},
        {.id = 22,
         .parent = 0,
         .pc = ag_managed_pc(LOOP, /* line= */ 8),
         .image = AG_IMAGE_MANAGED},
        {.id = 23,
         .parent = 22,
         .pc = ag_managed_pc(MAP, /* line= */ 0),
         .image = AG_IMAGE_MANAGED},
        {.id = 24, .parent = 16, .pc = 0x3001},
        {.id = 25,
         .parent = 22,
         .pc = ag_managed_pc(/* frame= */ 99, /* line= */ 5),
         .image = AG_IMAGE_MANAGED},
    };
    /* an error is stored in the blob */
    (void)ag_record_append_nodes(blob, nodes, AG_ARRAY_SIZE(nodes));
    for (size_t i = 0; i < AG_ARRAY_SIZE(frames); i++) { /* frames come after the nodes that name
                                                          * them */
        add(blob, (struct ag_record){.kind = AG_RECORD_FRAME,
                                     .u.frame = {.frame = frames[i].frame,
                                                 .line = frames[i].line,
                                                 .runtime = text(frames[i].runtime),
                                                 .function = text(frames[i].function),
                                                 .file = text(frames[i].file)}});
    }
}

/* ---- function counters ---- */

#define ADD_CALLS(blob, ...)                                               \
    do {                                                                   \
        const struct ag_call_path paths[] = {__VA_ARGS__};                 \
        (void)ag_record_append_calls((blob), paths, AG_ARRAY_SIZE(paths)); \
    } while (0)

static void add_tree(struct ag_blob *blob, uint32_t tree, uint32_t snapshot, uint32_t n_calls,
                     struct ag_record functions) {
    functions.kind = AG_RECORD_FUNCTIONS;
    functions.u.functions.tree = tree;
    functions.u.functions.snapshot = snapshot;
    functions.u.functions.n_calls = n_calls;
    functions.u.functions.word_bytes = 8;
    functions.u.functions.time_ns = START_NS + tree * 10 * US + snapshot;
    add(blob, functions);
}

static void add_lua_functions(struct ag_blob *blob) {
    const struct ag_record lua = {.u.functions = {.epoch = 1,
                                                  .thread_id = 100,
                                                  .profiler_events = 7,
                                                  .profiler_words = 70,
                                                  .runtime = text("lua")}};
    add_tree(blob, 1, 1, 1, lua);
    ADD_CALLS(blob, {1, 1, 1, 0, MAIN_CHUNK, 1, 5, 999});
    add_tree(blob, 1, 2, 5, lua);
    ADD_CALLS(blob, {1, 2, 1, 0, MAIN_CHUNK, 1, 10, 1000}, {1, 2, 2, 1, BUILD, 4, 400, 2000},
              {1, 2, 3, 1, FIB, 2, 20, 500});
    ADD_CALLS(blob, {1, 2, 4, 3, FIB, 6, 60, 1500}, {1, 2, 5, 4, BUILD, 3, 30, 300});
    add_tree(blob, 1, 3, 5, lua);
    ADD_CALLS(blob, {1, 3, 1, 0, MAIN_CHUNK, 1, 99, 9999});
}

static void add_beam_functions(struct ag_blob *blob) {
    add_tree(blob, 4, 1, 1,
             (struct ag_record){.u.functions = {.messages = 1000, .runtime = text("beam")}});
    ADD_CALLS(blob, {4, 1, 1, 0, LOOP, 1000, 1000, 1000});
    add_tree(blob, 2, 1, 3,
             (struct ag_record){.u.functions = {.epoch = 1,
                                                .messages = 3,
                                                .message_words = 33,
                                                .spawns = 1,
                                                .spawn_words = 12,
                                                .profiler_events = 2,
                                                .profiler_words = 20,
                                                .runtime = text("beam"),
                                                .process = text("<0.80.0>"),
                                                .initial_call = text("app:start/0")}});
    ADD_CALLS(blob, {2, 1, 1, 0, LOOP, 5, 50, 5000}, {2, 1, 2, 1, SETELEMENT, 100, 1200, 1000},
              {2, 1, 3, 1, MAP, 2, 8, 100});
    add_tree(blob, 3, 1, 2,
             (struct ag_record){.u.functions = {.epoch = 1,
                                                .messages = 1,
                                                .message_words = 5,
                                                .spawns = 1,
                                                .spawn_words = UINT64_MAX, /* unknown */
                                                .runtime = text("beam"),
                                                .process = text("server")}});
    ADD_CALLS(blob, {3, 1, 1, 0, MAP, 1, 2, 50}, {3, 1, 2, 1, SETELEMENT, 25, 300, 250});
    ADD_CALLS(blob, {5, 1, 1, 0, MAP, 77, 77, 77});
}

/* ---- collections ---- */

static void add_collections(struct ag_blob *blob) {
    enum { ALL = AG_GC_KNOWN_END | AG_GC_KNOWN_HEAP | AG_GC_KNOWN_NEED };
    static const struct {
        uint32_t known, start_us, pause_us, before, after, needed, stack;
        const char *runtime, *kind, *process;
    } collections[] = {
        {AG_GC_KNOWN_END | AG_GC_KNOWN_HEAP, 200, 100, 1000000, 400000, 0, 18, "lua", "full", ""},
        {ALL, 500, 50, 200000, 100000, 8000, 23, "beam", "minor", "<0.80.0>"},
        {ALL, 700, 250, 300000, 50000, 64000, 23, "beam", "major", "<0.80.0>"},
        {AG_GC_KNOWN_NEED, 900, 0, 0, 0, 16000, 22, "beam", "minor", "server"},
        {AG_GC_KNOWN_END, 950, 10, 0, 0, 0, 0, "beam", "minor", ""},
    };
    for (size_t i = 0; i < AG_ARRAY_SIZE(collections); i++) {
        add(blob, (struct ag_record){.kind = AG_RECORD_GC,
                                     .u.gc = {.known = collections[i].known,
                                              .stack = collections[i].stack,
                                              .thread_id = 100,
                                              .start_ns = START_NS + collections[i].start_us * US,
                                              .pause_ns = (uint64_t)collections[i].pause_us * US,
                                              .heap_before_bytes = collections[i].before,
                                              .heap_after_bytes = collections[i].after,
                                              .needed_bytes = collections[i].needed,
                                              .runtime = text(collections[i].runtime),
                                              .kind = text(collections[i].kind),
                                              .process = text(collections[i].process)}});
    }
}

void ag_managed_trace_records(struct ag_blob *blob) {
    add_process(blob);
    add_stacks(blob);
    add_lua_functions(blob);
    add_beam_functions(blob);
    add_collections(blob);
}

/* ---- the file ---- */

static int write_events(struct ag_trace_writer *writer) {
    static const struct ag_event events[] = {
        {.kind = AG_RECORD_STAMP, .size = START_NS + 100 * US},
        {.kind = AG_RECORD_ALLOC, .address = 0x10000, .size = 100, .stack = 19},
        {.kind = AG_RECORD_ALLOC, .address = 0x20000, .size = 200, .stack = 21, .via = 1},
        {.kind = AG_RECORD_ALLOC, .address = 0x30000, .size = 50, .stack = 23},
        {.kind = AG_RECORD_ALLOC, .address = 0x40000, .size = 1000, .stack = 24},
        {.kind = AG_RECORD_STAMP, .size = START_NS + 1000 * US},
        {.kind = AG_RECORD_ALLOC, .address = 0x50000, .size = 8, .stack = 25},
        {.kind = AG_RECORD_FREE, .address = 0x10000},
        {.kind = AG_RECORD_STAMP, .size = START_NS + 2000 * US},
    };
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    if (encoder == NULL) {
        return -ENOMEM;
    }
    ag_event_encoder_start(encoder, START_NS);
    int r = ag_event_encoder_add(encoder, events, AG_ARRAY_SIZE(events));
    const struct ag_blob *body = ag_event_encoder_body(encoder);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                       .thread_id = 100,
                                       .sequences = 1,
                                       .events = ag_event_encoder_events(encoder),
                                       .first_time_ns = START_NS};
    r = r < 0 ? r : ag_trace_writer_chunk(writer, &info, body->data, body->length);
    (void)ag_event_encoder_free(encoder); /* returns NULL */
    return r;
}

int ag_managed_trace_write(int fd) {
    const struct ag_trace_header header = {.session = 1, .pid = 4711};
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS, .first_time_ns = START_NS};
    struct ag_trace_writer *writer;
    int r = ag_trace_writer_new(fd, &header, &writer);
    if (r < 0) {
        return r;
    }
    struct ag_blob records = {0}, end = {0};
    ag_managed_trace_records(&records);
    add(&end, (struct ag_record){.kind = AG_RECORD_END,
                                 .u.end = {.how = AG_END_EXIT,
                                           .wait_status_known = 1,
                                           .time_ns = START_NS + 2000 * US}});
    r = ag_trace_writer_records(writer, &info, &records);
    r = r < 0 ? r : write_events(writer);
    r = r < 0 ? r : ag_trace_writer_records(writer, &info, &end);
    r = r < 0 ? r : ag_trace_writer_finish(writer, NULL);
    (void)ag_trace_writer_free(writer); /* returns NULL */
    ag_blob_done(&records);
    ag_blob_done(&end);
    return r;
}
