/* observed_trace.c: writes an observation as a trace that report, view, export and diff read.
 * docs/reference/trace-format.md describes its records, such as cpu_samples.
 *
 *     CPU samples       cpu_samples: the time and the stack of each sample. `functions` and
 *                       `calls`: a tree of calls per thread, with the samples' CPU time in own_ns,
 *                       for programs that read traces, but do not know cpu_samples
 *     growth            allocations of the heap "resident memory": a sample that stands for N page
 *                       faults is a block of N pages
 *     mappings          allocations of the heap "mappings": what is still mapped at the end
 *     collections       gc: a record for each garbage collection
 *
 * Each of the two heaps has an address space of its own, so that its blocks cannot have the
 * addresses of the process' blocks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "format/encode.h"
#include "format/segment.h"
#include "observation_state.h"
#include "table/array.h"
#include "writer/trace_file.h"
#include "writer/trace_index.h"

enum {
    GROWTH_HEAP = 64, /* the first id that a heap with its own address space may have */
    MAP_HEAP = 65,
    SPACE_SHIFT = 48,
    PAGE_BYTES = 4096,
    TREE_FRAMES = 1 << 20, /* most paths of a thread's tree of calls */
    COMMAND_BYTES = 64 << 10,
};

struct writing {
    struct ag_observation *observation;
    struct ag_trace_writer *writer;
    struct ag_blob blob;
    /* the trace's ids of managed frames (of runtimes' functions), by frame of the observation */
    uint32_t *frame_ids;
    uint32_t n_frame_ids; /* number of ids that were given out so far */
    uint64_t session;
};

static struct ag_bytes bytes_of(const char *text) {
    return (struct ag_bytes){text, text != NULL ? (uint32_t)strlen(text) : 0};
}

static void trace_append_record(struct writing *writing, const struct ag_record *record) {
    (void)ag_record_append(&writing->blob, record); /* the blob stores errors */
}

/* ---- process, images, threads, heaps, runtimes ---------------------------------------- */

static void define_process(struct writing *writing) {
    struct ag_observation *observation = writing->observation;
    char exe[4096] = "", *command = malloc(COMMAND_BYTES);
    struct utsname machine = {0};
    (void)uname(&machine); /* fails only for an invalid pointer */
    struct ag_record record = {
        .kind = AG_RECORD_PROCESS,
        .u.process = {.pid = (uint32_t)observation->process.pid,
                      .mode = AG_MODE_EXACT,
                      .depth = AG_WALK_FRAMES,
                      .start_realtime_ns = observation->facts.start_realtime_ns,
                      .session = writing->session}};
    ssize_t n = command != NULL ? ag_remote_process_file(observation->process.pid, 0, "cmdline",
                                                         command, COMMAND_BYTES)
                                : 0;
    if (n <= 0 && command != NULL) { /* the observed process has ended */
        n = snprintf(command, COMMAND_BYTES, "%s", observation->process.name) + 1;
    }
    for (ssize_t i = 0; i < n; i++) {
        record.u.process.n_arguments += command[i] == '\0';
    }
    record.u.process.command = (struct ag_bytes){command, (uint32_t)n};
    if (!ag_remote_process_exe(&observation->process, exe, sizeof exe) &&
        observation->images.n != 0) {
        (void)snprintf(exe, sizeof exe, "%s", observation->images.items[0]->path);
    }
    record.u.process.exe = bytes_of(exe);
    record.u.process.host = bytes_of(machine.nodename);
    trace_append_record(writing, &record);
    free(command);
    const struct ag_record outside = {.kind = AG_RECORD_OUTSIDE,
                                      .u.outside = {.pid = (uint32_t)observation->process.pid,
                                                    .cgroup = bytes_of(observation->cgroup)}};
    trace_append_record(writing, &outside);
}

static void define_images(struct writing *writing) {
    const struct ag_observed_images *images = &writing->observation->images;
    for (size_t i = 0; i < images->n; i++) {
        const struct ag_observed_image *image = images->items[i];
        const struct ag_record record = {
            .kind = AG_RECORD_IMAGE_LOAD,
            .u.image_load = {.image = image->id,
                             .bias = image->bias,
                             .low = image->low,
                             .high = image->high,
                             .build_id = {(const char *)image->elf->build_id,
                                          (uint32_t)image->elf->build_id_bytes},
                             .path = bytes_of(image->path)}};
        trace_append_record(writing, &record);
    }
}

static void define_threads(struct writing *writing) {
    const struct ag_observation *observation = writing->observation;
    for (size_t i = 0; i < observation->n_threads; i++) {
        const struct ag_record record = {
            .kind = AG_RECORD_THREAD,
            .u.thread = {.stream = (uint32_t)i,
                         .thread_id = observation->threads[i].thread,
                         .name = bytes_of(observation->threads[i].name)}};
        trace_append_record(writing, &record);
    }
}

static void define_heap(struct writing *writing, uint32_t heap, const char *name,
                        const char *allocator, const char *via) {
    /* resident memory is a part of the mapped memory, and must not be counted twice */
    const bool is_backing =
        heap == MAP_HEAP && (writing->observation->options.what & AG_OBSERVE_GROWTH) != 0;
    const struct ag_record defined = {.kind = AG_RECORD_HEAP,
                                      .u.heap = {.heap = heap,
                                                 .is_backing = is_backing,
                                                 .name = bytes_of(name),
                                                 .allocator = bytes_of(allocator),
                                                 .runtime = bytes_of("c")}};
    const struct ag_record by = {.kind = AG_RECORD_VIA,
                                 .u.via = {.via = heap, .heap = heap, .name = bytes_of(via)}};
    trace_append_record(writing, &defined);
    trace_append_record(writing, &by);
}

static void define_runtimes(struct writing *writing) {
    const struct ag_observation *observation = writing->observation;
    for (size_t i = 0; i < observation->n_inspections; i++) {
        const struct ag_inspection *inspection = &observation->inspections[i];
        const char *version = inspection->inspector->version != NULL
                                  ? inspection->inspector->version(inspection->state)
                                  : NULL;
        const struct ag_record record = {
            .kind = AG_RECORD_RUNTIME,
            .u.runtime = {.hooked = 1,
                          .name = bytes_of(inspection->inspector->runtime),
                          .version = bytes_of(version),
                          .note = bytes_of("")}};
        trace_append_record(writing, &record);
    }
}

/* ---- stacks ---------------------------------------------------------------------------- */

static uint32_t define_frame(struct writing *writing, const struct ag_observed_frame *frame) {
    const struct ag_record record = {.kind = AG_RECORD_FRAME,
                                     .u.frame = {.frame = ++writing->n_frame_ids,
                                                 .line = frame->line,
                                                 .runtime = bytes_of(frame->runtime),
                                                 .function = bytes_of(frame->function),
                                                 .file = bytes_of(frame->file)}};
    trace_append_record(writing, &record);
    return writing->n_frame_ids;
}

static int write_nodes(struct writing *writing) {
    struct ag_observation *observation = writing->observation;
    const struct ag_seen_stacks *seen = &observation->seen;
    struct ag_node *nodes = calloc(seen->n_nodes + 1, sizeof *nodes);
    writing->frame_ids = calloc(seen->n_frames + 1, sizeof *writing->frame_ids);
    if (nodes == NULL || writing->frame_ids == NULL) {
        free(nodes);
        return -ENOMEM;
    }
    for (size_t i = 0; i < seen->n_nodes; i++) {
        const struct ag_seen_node *node = &seen->nodes[i];
        const struct ag_seen_frame *frame = &seen->frames[node->frame];
        nodes[i] = (struct ag_node){.id = (uint32_t)i + AG_SEEN_FIRST,
                                    .parent = node->parent,
                                    .pc = frame->pc + frame->is_exact,
                                    .image = frame->image};
        if (frame->runtime == 0) {
            /* native: pc is written like a return address, since readers look up the byte before
             * it */
            continue;
        }
        uint32_t *id = &writing->frame_ids[node->frame];
        const struct ag_observed_frame *named =
            *id == 0 ? ag_observed_names_of(observation, node->frame) : NULL;
        if (named != NULL) {
            *id = define_frame(writing, named);
        }
        nodes[i].image = AG_IMAGE_MANAGED;
        nodes[i].pc = ag_managed_pc(*id, frame->line);
    }
    (void)ag_record_append_nodes(&writing->blob, nodes, seen->n_nodes); /* the blob stores errors */
    free(nodes);
    return 0;
}

/* ---- CPU samples --------------------------------------------------------------------------- */

static uint64_t since_start_ns(const struct ag_observation *observation, uint64_t time_ns) {
    return time_ns > observation->facts.start_ns ? time_ns - observation->facts.start_ns : 0;
}

static int write_cpu_samples(struct writing *writing) {
    const struct ag_observation *observation = writing->observation;
    struct ag_cpu_sample *samples = calloc(observation->n_raw + 1, sizeof *samples);
    size_t n = 0;
    if (samples == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < observation->n_raw; i++) {
        const struct ag_raw_sample *raw = &observation->raw[i];
        if (raw->source == AG_SEEN_CPU) {
            samples[n++] =
                (struct ag_cpu_sample){.time_ns = since_start_ns(observation, raw->time_ns),
                                       .thread_id = raw->thread,
                                       .stack = raw->node,
                                       .weight_ns = raw->weight};
        }
    }
    (void)ag_record_append_cpu_samples(&writing->blob, samples, n); /* the blob stores errors */
    free(samples);
    return 0;
}

/* The tree of calls of one thread. A path is a function together with the path of its caller. */
struct call_tree {
    struct ag_call_path *paths;
    size_t n;
};
struct named_function { /* a function that has a FRAME record */
    const struct ag_observed_frame *frame;
    uint32_t id;
};
struct function_names {
    struct named_function *items;
    size_t n;
};

static bool is_same_function(const struct ag_observed_frame *a, const struct ag_observed_frame *b) {
    return strcmp(a->function, b->function) == 0 && strcmp(a->runtime, b->runtime) == 0;
}

static uint32_t function_id(struct writing *writing, struct function_names *names,
                            const struct ag_observed_frame *frame) {
    for (size_t i = 0; i < names->n; i++) {
        if (names->items[i].frame == frame || is_same_function(names->items[i].frame, frame)) {
            return names->items[i].id;
        }
    }
    const uint32_t id = define_frame(writing, frame);
    return AG_ARRAY_ADD(names->items, names->n, (struct named_function){frame, id}) == 0 ? id : 0;
}

/* Returns the path of a call of `frame` by the path `parent`; 0: out of memory, or the tree has
 * TREE_FRAMES paths already. */
static uint32_t path_of(struct call_tree *tree, uint32_t parent, uint32_t frame) {
    for (size_t i = parent; i < tree->n; i++) { /* callees come after their callers */
        if (tree->paths[i].parent == parent && tree->paths[i].frame == frame) {
            return tree->paths[i].node;
        }
    }
    const uint32_t node = (uint32_t)tree->n + 1;
    const struct ag_call_path path = {
        .snapshot = 1, .node = node, .parent = parent, .frame = frame};
    return tree->n < TREE_FRAMES && AG_ARRAY_ADD(tree->paths, tree->n, path) == 0 ? node : 0;
}

static void add_stack(struct writing *writing, struct function_names *names, struct call_tree *tree,
                      const struct ag_seen_count *count) {
    const struct ag_observed_frame *frames;
    const size_t n = ag_observation_stack(writing->observation, count->node, &frames);
    uint32_t node = 0;
    for (size_t i = n; i-- > 0;) {
        const uint32_t frame = function_id(writing, names, &frames[i]);
        const uint32_t next = frame != 0 ? path_of(tree, node, frame) : 0;
        if (next == 0) {
            /* No memory, or the tree is full: the samples are counted for the innermost path that
             * was made. */
            break;
        }
        node = next;
    }
    if (node != 0) {
        tree->paths[node - 1].calls += count->samples;
        tree->paths[node - 1].own_ns += count->weight;
    }
}

static void write_tree(struct writing *writing, const struct call_tree *tree, uint32_t number,
                       uint32_t thread) {
    const struct ag_observation *observation = writing->observation;
    for (size_t i = 0; i < tree->n; i++) {
        tree->paths[i].tree = number;
    }
    const struct ag_record record = {.kind = AG_RECORD_FUNCTIONS,
                                     .u.functions = {.tree = number,
                                                     .snapshot = 1,
                                                     .n_calls = (uint32_t)tree->n,
                                                     .word_bytes = sizeof(uint64_t),
                                                     .thread_id = thread,
                                                     .time_ns = observation->facts.duration_ns,
                                                     .runtime = bytes_of("c")}};
    trace_append_record(writing, &record);
    (void)ag_record_append_calls(&writing->blob, tree->paths, tree->n); /* the blob stores errors */
}

static void write_call_trees(struct writing *writing) {
    const struct ag_observation *observation = writing->observation;
    struct function_names names = {0};
    for (size_t i = 0; i < observation->n_threads; i++) {
        const uint32_t thread = observation->threads[i].thread;
        struct call_tree tree = {0};
        for (size_t j = 0; j < observation->seen.n_counts; j++) {
            const struct ag_seen_count *count = &observation->seen.counts[j];
            if (count->thread == thread && count->source == AG_SEEN_CPU) {
                add_stack(writing, &names, &tree, count);
            }
        }
        if (tree.n != 0) {
            write_tree(writing, &tree, (uint32_t)i + 1, thread);
        }
        free(tree.paths);
    }
    free(names.items);
}

/* ---- collections, ends --------------------------------------------------------------------- */

static void write_collections(struct writing *writing) {
    const struct ag_observation *observation = writing->observation;
    for (size_t i = 0; i < observation->n_collections; i++) {
        const struct ag_reported_collection *collection = &observation->collections[i];
        const struct ag_record record = {
            .kind = AG_RECORD_GC,
            .u.gc = {.known = AG_GC_KNOWN_END | AG_GC_KNOWN_HEAP | AG_GC_KNOWN_NEED |
                              AG_GC_KNOWN_ALLOCATED,
                     .stack = collection->node,
                     .thread_id = collection->thread,
                     .start_ns = since_start_ns(observation, collection->start_ns),
                     .pause_ns = collection->pause_ns,
                     .heap_before_bytes = collection->heap_before_bytes,
                     .heap_after_bytes = collection->heap_after_bytes,
                     .needed_bytes = collection->needed_bytes,
                     .allocated_bytes = collection->allocated_bytes,
                     .weight_bytes = collection->weight_bytes,
                     .runtime = bytes_of(collection->runtime),
                     .kind = bytes_of(collection->kind),
                     .process = bytes_of(collection->process)}};
        trace_append_record(writing, &record);
    }
}

static void write_end(struct writing *writing) {
    const struct ag_observation_facts *facts = &writing->observation->facts;
    const struct ag_record records[] = {
        {.kind = AG_RECORD_RESIDENT, .u.resident = {0, facts->resident_before_bytes}},
        {.kind = AG_RECORD_RESIDENT,
         .u.resident = {facts->duration_ns, facts->resident_after_bytes}},
        {.kind = AG_RECORD_OBSERVED,
         .u.observed = {.rate_hz = (uint32_t)writing->observation->options.rate,
                        .samples = facts->samples,
                        .lost = facts->lost,
                        .stale = facts->stale,
                        .complete_stacks = facts->complete_stacks,
                        .target_cpu_ns = facts->target_cpu_ns,
                        .sample_cost_ns = (uint64_t)facts->sample_cost_ns,
                        .collections_seen = facts->collections_seen}},
        {.kind = AG_RECORD_PROFILER,
         .u.profiler = {.cpu_ns = facts->own_cpu_ns, .target_cpu_ns = facts->target_cpu_ns}},
        {.kind = AG_RECORD_END,
         .u.end = {.how = facts->end == AG_OBSERVED_TARGET_ENDED ? AG_END_EXIT : AG_END_DETACHED,
                   .time_ns = facts->duration_ns}},
    };
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        if (records[i].kind != AG_RECORD_RESIDENT || records[i].u.resident.bytes != 0) {
            trace_append_record(writing, &records[i]);
        }
    }
    if (facts->lost != 0) {
        trace_append_record(writing, &(struct ag_record){.kind = AG_RECORD_LOST,
                                                         .u.lost = {.cause = AG_LOST_RING_FULL,
                                                                    .events = facts->lost}});
    }
}

static int flush_records(struct writing *writing) {
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS};
    int r = writing->blob.error;
    if (r == 0 && writing->blob.length != 0) {
        r = ag_trace_writer_records(writing->writer, &info, &writing->blob);
    }
    writing->blob.length = 0;
    return r;
}

/* ---- growth and mappings, as events --------------------------------------------------------- */
struct stream {
    struct writing *writing;
    struct ag_event_encoder *encoder;
    uint32_t number, thread;
    uint64_t first_time_ns;
    bool is_empty;
};

static int stream_put_event(struct stream *stream, uint64_t time_ns, const struct ag_event *event) {
    const struct ag_event events[2] = {{.kind = AG_RECORD_STAMP, .size = time_ns}, *event};
    if (stream->is_empty) {
        ag_event_encoder_start(stream->encoder, time_ns);
        stream->first_time_ns = time_ns;
        stream->is_empty = false;
    }
    return ag_event_encoder_add(stream->encoder, events, 2);
}

static int end_stream(struct stream *stream) {
    if (stream->is_empty) {
        return 0;
    }
    const struct ag_blob *body = ag_event_encoder_body(stream->encoder);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                       .stream = stream->number,
                                       .thread_id = stream->thread,
                                       .sequences = 1,
                                       .events = ag_event_encoder_events(stream->encoder),
                                       .first_time_ns = stream->first_time_ns};
    return ag_trace_writer_chunk(stream->writing->writer, &info, body->data, body->length);
}

static int write_growth(struct writing *writing, struct ag_event_encoder *encoder, uint32_t number,
                        uint64_t *next_page) {
    const struct ag_observation *observation = writing->observation;
    struct stream stream = {writing, encoder, number, observation->threads[number].thread, 0, true};
    int r = 0;
    for (size_t i = 0; i < observation->n_raw && r == 0; i++) {
        const struct ag_raw_sample *raw = &observation->raw[i];
        if (raw->source != AG_SEEN_GROWTH || raw->thread != stream.thread) {
            continue;
        }
        const struct ag_event event = {.kind = AG_RECORD_ALLOC,
                                       .address = (uint64_t)GROWTH_HEAP << SPACE_SHIFT |
                                                  *next_page * PAGE_BYTES,
                                       .size = raw->weight,
                                       .stack = raw->node,
                                       .via = GROWTH_HEAP};
        *next_page += raw->weight / PAGE_BYTES + 1;
        r = stream_put_event(&stream, since_start_ns(observation, raw->time_ns), &event);
    }
    return r < 0 ? r : end_stream(&stream);
}

/* A stream is a sequence of events. Each thread has one; the mappings are the events of one more
 * stream, with the next free number. */
static int write_mappings(struct writing *writing, struct ag_event_encoder *encoder) {
    const struct ag_observation *observation = writing->observation;
    struct stream stream = {writing, encoder, (uint32_t)observation->n_threads, 0, 0, true};
    int r = 0;
    for (size_t i = 0; i < observation->mappings.n && r == 0; i++) {
        const struct ag_ledger_range *range = &observation->mappings.items[i];
        const struct ag_event event = {.kind = AG_RECORD_ALLOC,
                                       .address = (uint64_t)MAP_HEAP << SPACE_SHIFT | range->low,
                                       .size = range->high - range->low,
                                       .stack = range->node,
                                       .via = MAP_HEAP};
        r = stream_put_event(&stream, observation->facts.duration_ns, &event);
    }
    return r < 0 ? r : end_stream(&stream);
}

static int write_events(struct writing *writing) {
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    uint64_t next_page = 1;
    int r = encoder != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < writing->observation->n_threads && r == 0; i++) {
        r = write_growth(writing, encoder, i, &next_page);
    }
    r = r < 0 ? r : write_mappings(writing, encoder);
    (void)ag_event_encoder_free(encoder);
    return r;
}

/* ---- the file ---- */

static int write_trace(struct writing *writing, const char *path) {
    const unsigned what = writing->observation->options.what;
    define_process(writing);
    define_images(writing);
    define_threads(writing);
    define_runtimes(writing);
    if ((what & AG_OBSERVE_GROWTH) != 0) {
        define_heap(writing, GROWTH_HEAP, "resident memory", "page faults", "page fault");
    }
    if ((what & AG_OBSERVE_MAPS) != 0) {
        define_heap(writing, MAP_HEAP, "mappings", "mmap", "mmap");
    }
    int r = write_nodes(writing);
    r = r < 0 ? r : flush_records(writing);
    r = r < 0 ? r : write_events(writing);
    r = r < 0 ? r : write_cpu_samples(writing);
    write_call_trees(writing);
    write_collections(writing);
    write_end(writing);
    r = r < 0 ? r : flush_records(writing);
    const struct ag_index_facts facts = {.end_ns = writing->observation->facts.duration_ns,
                                         .rss_peak_bytes =
                                             writing->observation->facts.resident_after_bytes};
    struct ag_blob sums = {0};
    struct ag_index_sums ignored;
    r = r < 0 ? r : ag_trace_index_of_file(path, &facts, &sums, &ignored);
    r = r < 0 ? r : ag_trace_writer_finish(writing->writer, &sums);
    ag_blob_done(&sums);
    return r;
}

static int create_trace(struct writing *writing, const char *pattern, char ret_path[4096],
                        char message[512]) {
    const struct ag_observation *observation = writing->observation;
    char whole[1024], exe[4096] = "";
    int r = ag_trace_pattern_complete(pattern, whole, message);
    if (r < 0) {
        return r;
    }
    if (!ag_remote_process_exe(&observation->process, exe, sizeof exe)) {
        (void)snprintf(exe, sizeof exe, "%s", observation->process.name);
    }
    const uint64_t realtime_ns = observation->facts.start_realtime_ns;
    const struct ag_trace_names names = {.program = exe,
                                         .pid = (uint32_t)observation->process.pid,
                                         .start_s = realtime_ns / 1000000000};
    const struct ag_trace_header header = {.session = writing->session,
                                           .pid = (uint32_t)observation->process.pid,
                                           .start_realtime_ns = realtime_ns};
    const int fd = ag_trace_file_create(whole, &names, &header, ret_path);
    r = fd < 0 ? fd : ag_trace_writer_new(fd, &header, &writing->writer);
    if (r < 0) {
        (void)snprintf(message, 512,
                       "cannot create the trace %.390s: %s; choose another path with -o", ret_path,
                       strerror(-r));
        if (fd >= 0) {
            close(fd);
        }
    }
    return r;
}

int ag_observation_write_trace(struct ag_observation *observation, const char *pattern,
                               char ret_path[4096], char ret_message[512]) {
    struct writing writing = {.observation = observation};
    ret_message[0] = ret_path[0] = '\0';
    if (getrandom(&writing.session, sizeof writing.session, 0) != sizeof writing.session) {
        writing.session = observation->facts.start_ns;
    }
    int r = create_trace(&writing, pattern, ret_path, ret_message);
    if (r < 0) {
        return r;
    }
    r = write_trace(&writing, ret_path);
    if (r < 0) {
        (void)snprintf(ret_message, 512,
                       "cannot write the trace %.370s: %s; the records written before the failure "
                       "can be read",
                       ret_path, strerror(-r));
    }
    (void)ag_trace_writer_free(writing.writer);
    ag_blob_done(&writing.blob);
    free(writing.frame_ids);
    return r;
}
