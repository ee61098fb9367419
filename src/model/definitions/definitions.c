/* definitions.c: reads everything in a trace except its events, for the model: the records that
 * define the process, and the index (sums that the writer of the trace computed). Both are a small
 * part of the file.
 *
 * Most of this part consists of the nodes of the stacks and the index's sums of each stack.
 * ag_definitions_load skips both kinds of records; another function loads them later.
 * ag_definitions_load_stacks_and_sums loads both. If a pass over the events computes the sums
 * again, only the nodes are needed, and ag_definitions_load_stacks loads them in a second thread
 * during the pass (see profile.c). */
#include "model/definitions/definitions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "table/array.h"

/* ---- one function for each kind of record ---- */

static const char *definitions_keep_text(struct ag_definitions *definitions,
                                         struct ag_bytes bytes) {
    return ag_text_keep(&definitions->texts, bytes.data, bytes.length);
}

static int take_process(struct ag_definitions *definitions, const struct ag_record *record) {
    if (definitions->has_process) {
        return 0;
    }
    definitions->has_process = true;
    definitions->pid = record->u.process.pid;
    definitions->parent_pid = record->u.process.parent_pid;
    definitions->session = record->u.process.session;
    definitions->process_identity = record->u.process.identity;
    definitions->parent_identity = record->u.process.parent_identity;
    definitions->origin = record->u.process.origin;
    definitions->mode = record->u.process.mode;
    definitions->is_sampled |= record->u.process.mode == AG_MODE_SAMPLE;
    definitions->start_ns = record->u.process.start_ns;
    definitions->start_realtime_ns = record->u.process.start_realtime_ns;
    definitions->exe = definitions_keep_text(definitions, record->u.process.exe);
    definitions->host = definitions_keep_text(definitions, record->u.process.host);
    struct ag_bytes left = record->u.process.command;
    size_t n_arguments = 0;
    while (left.length > 0 && n_arguments < record->u.process.n_arguments) {
        const char *argument = definitions_keep_text(definitions, left);
        if (AG_ARRAY_ADD(definitions->arguments, n_arguments, argument) < 0) {
            return -ENOMEM;
        }
        const uint32_t taken = (uint32_t)strnlen(left.data, left.length) + 1;
        left.data += taken <= left.length ? taken : left.length;
        left.length -= taken <= left.length ? taken : left.length;
    }
    definitions->n_arguments = (uint32_t)n_arguments;
    return 0;
}

/* The strings of the command are joined by blanks, as ps shows them. */
static int take_title(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_title_record *title = &record->u.title;
    char *joined = malloc(title->command.length + 1);
    if (!joined) {
        return -ENOMEM;
    }
    uint32_t length = title->command.length;
    for (uint32_t i = 0; i < length; i++) {
        joined[i] = title->command.data[i] != '\0' ? title->command.data[i] : ' ';
    }
    while (length > 0 && joined[length - 1] == ' ') {
        length--;
    }
    definitions->last_name = definitions_keep_text(definitions, title->name);
    definitions->last_command =
        definitions_keep_text(definitions, (struct ag_bytes){joined, length});
    definitions->user = definitions_keep_text(definitions, title->user);
    definitions->user_id = title->user_id;
    definitions->address_space_limit_bytes = title->address_space_limit_bytes;
    free(joined);
    return 0;
}

static void take_outside(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_outside_record *outside = &record->u.outside;
    definitions->outside_pid = outside->pid;
    definitions->cgroup =
        outside->cgroup.length > 0 ? definitions_keep_text(definitions, outside->cgroup) : NULL;
}

/* The agents (libraries that allogram loads into programs) of `allogram run` and `allogram attach`
 * are liballogram-agent.so, liballogram-attached.so and liballogram-attached-runtimes.so. */
static bool is_agent(const char *base_name) {
    static const char *const names[] = {"liballogram-agent.so", "liballogram-attached"};
    for (size_t i = 0; i < AG_ARRAY_SIZE(names); i++) {
        if (strncmp(base_name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static int take_image(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_bytes path = record->u.image_load.path,
                          build_id = record->u.image_load.build_id;
    uint32_t at;
    const int r = ag_index_map_number(&definitions->image_index, record->u.image_load.image, &at);
    if (r <= 0) {
        /* r is 0 if the image is known, because the same file was loaded before at the same
         * address */
        return r;
    }
    struct ag_model_image image = {.image = record->u.image_load.image,
                                   .bias = record->u.image_load.bias,
                                   .low = record->u.image_load.low,
                                   .high = record->u.image_load.high};
    image.path = ag_text_id(&definitions->texts, path.data, path.length);
    const char *base_name = ag_base_name(ag_text(&definitions->texts, image.path));
    image.base_name = ag_text_id(&definitions->texts, base_name, strlen(base_name));
    struct ag_stack_nodes *nodes = &definitions->nodes;
    if (is_agent(base_name) && nodes->n_agent_images < AG_AGENT_IMAGES_MOST) {
        nodes->agent_images[nodes->n_agent_images++] = image.image;
    }
    image.build_id_bytes =
        build_id.length < sizeof(image.build_id) ? build_id.length : sizeof(image.build_id);
    if (image.build_id_bytes > 0) {
        memcpy(image.build_id, build_id.data, image.build_id_bytes);
    }
    return AG_ARRAY_ADD(definitions->images, definitions->n_images, image);
}

static int take_function(struct ag_definitions *definitions, const struct ag_record *record) {
    const uint32_t id = record->u.frame.frame;
    uint32_t at;
    const int r = id == 0 || id > AG_FRAME_MOST /* a stack cannot contain such a number */
                      ? 0
                      : ag_index_map_number(&definitions->function_index, id, &at);
    if (r <= 0) {
        return r;
    }
    struct ag_text_store *texts = &definitions->texts;
    const struct ag_bytes runtime = record->u.frame.runtime, function = record->u.frame.function,
                          file = record->u.frame.file;
    const struct ag_model_function made = {
        .runtime = ag_text_id(texts, runtime.data, runtime.length),
        .function = ag_text_id(texts, function.data, function.length),
        .file = ag_text_id(texts, file.data, file.length),
        .line = record->u.frame.line,
        .column = record->u.frame.column,
        .end_column = record->u.frame.end_column};
    return AG_ARRAY_ADD(definitions->functions, definitions->n_functions, made);
}

static int take_thread(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_model_thread thread = {
        .stream = record->u.thread.stream,
        .thread_id = record->u.thread.thread_id,
        .name = definitions_keep_text(definitions, record->u.thread.name)};
    uint32_t at;
    const int r = ag_index_map_number(&definitions->stream_index, thread.stream, &at);
    if (r == 0) { /* the thread was renamed */
        definitions->threads[at] = thread;
    }
    return r > 0 ? AG_ARRAY_ADD(definitions->threads, definitions->n_threads, thread) : r;
}

static const char *domain_name(uint32_t domain) {
    static const char *const names[] = {"cpu", "gpu", "external"};
    return domain < AG_ARRAY_SIZE(names) ? names[domain] : "unknown";
}

static const char *heap_kind_name(uint32_t kind) {
    static const char *const names[] = {"malloc", "moving", "non_moving"};
    return kind < AG_ARRAY_SIZE(names) ? names[kind] : "unknown";
}

static int take_heap(struct ag_definitions *definitions, const struct ag_record *record) {
    uint32_t at;
    const int r = ag_index_map_number(&definitions->heap_index, record->u.heap.heap, &at);
    if (r <= 0) {
        return r;
    }
    const struct ag_model_heap heap = {
        .heap = record->u.heap.heap,
        .name = definitions_keep_text(definitions, record->u.heap.name),
        .domain = domain_name(record->u.heap.domain),
        .allocator = definitions_keep_text(definitions, record->u.heap.allocator),
        .runtime = definitions_keep_text(definitions, record->u.heap.runtime),
        .kind = heap_kind_name(record->u.heap.kind),
        .is_moving = record->u.heap.kind == AG_HEAP_MOVING,
        .unit = record->u.heap.unit.length > 0
                    ? definitions_keep_text(definitions, record->u.heap.unit)
                    : "bytes",
        .is_backing = record->u.heap.is_backing != 0};
    return AG_ARRAY_ADD(definitions->heaps, definitions->n_heaps, heap);
}

static int take_memory(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_model_memory counted = {
        .heap = record->u.memory.heap,
        .memory = {.known = record->u.memory.known,
                   .time_ns = record->u.memory.time_ns,
                   .reserved_bytes = record->u.memory.reserved_bytes,
                   .committed_bytes = record->u.memory.committed_bytes,
                   .free_bytes = record->u.memory.free_bytes,
                   .of_malloc_bytes = record->u.memory.of_malloc_bytes}};
    uint32_t at;
    const int r = ag_index_map_number(&definitions->memory_index, counted.heap, &at);
    if (r == 0 && counted.memory.time_ns >= definitions->memory[at].memory.time_ns) {
        definitions->memory[at] = counted;
    }
    return r > 0 ? AG_ARRAY_ADD(definitions->memory, definitions->n_memory, counted) : r;
}

static int take_runtime(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_profile_runtime runtime = {
        .name = definitions_keep_text(definitions, record->u.runtime.name),
        .version = definitions_keep_text(definitions, record->u.runtime.version),
        .note = definitions_keep_text(definitions, record->u.runtime.note),
        .hooked = record->u.runtime.hooked != 0,
        .recorded = record->u.runtime.reported,
        .counted = record->u.runtime.counted};
    uint32_t at;
    const int r = ag_index_map_number(&definitions->runtime_index, (uintptr_t)runtime.name, &at);
    if (r == 0) {
        definitions->runtimes[at] = runtime;
    }
    return r > 0 ? AG_ARRAY_ADD(definitions->runtimes, definitions->n_runtimes, runtime) : r;
}

/* If a trace defines the type of a stack several times, the first definition is kept. */
static int take_stack_type(struct ag_definitions *definitions, const struct ag_record *record) {
    return ag_index_map_insert_first(&definitions->stack_type_index, record->u.stack_type.stack,
                                     record->u.stack_type.type);
}

static int take_type(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_bytes name = record->u.type.name;
    const struct ag_model_type type = {
        .name = ag_text_id(&definitions->texts, name.data, name.length),
        .runtime = definitions_keep_text(definitions, record->u.type.runtime)};
    return ag_definitions_add_type(definitions, record->u.type.type, &type);
}

static int take_sample(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_model_sample sample = {.time_ns = record->u.resident.time_ns,
                                           .bytes = record->u.resident.bytes};
    return AG_ARRAY_ADD(definitions->samples, definitions->n_samples, sample);
}

static int take_kernel_kill(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_kernel_kill_record *taken = &record->u.kernel_kill;
    if (taken->certainty != AG_KILL_PROBABLE && taken->certainty != AG_KILL_CERTAIN) {
        return 0; /* of a later version, or damage that no checksum found */
    }
    const bool is_known_reason =
        taken->reason == AG_KILL_REASON_CGROUP || taken->reason == AG_KILL_REASON_MACHINE;
    definitions->kernel_kill = (struct ag_profile_kill){
        .certainty = (enum ag_kill_certainty)taken->certainty,
        .reason = is_known_reason ? (enum ag_kill_reason)taken->reason : AG_KILL_REASON_UNKNOWN,
        .limit_bytes = taken->limit_bytes,
        .cgroup =
            taken->cgroup.length > 0 ? definitions_keep_text(definitions, taken->cgroup) : NULL,
        .has_sizes = taken->has_sizes != 0,
        .anonymous_bytes = taken->anonymous_bytes,
        .file_bytes = taken->file_bytes,
        .shmem_bytes = taken->shmem_bytes};
    return 0;
}

static uint64_t resident_bytes(const struct ag_memory_sample *sample) {
    return sample->anonymous_bytes + sample->file_bytes + sample->shmem_bytes;
}

static int by_sample_time(const void *a, const void *b) {
    const struct ag_memory_sample *left = a, *right = b;
    return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

/* Adds to the kill the last sample of the memory, and the growth in the 5 seconds before it. */
static void complete_kill(struct ag_definitions *definitions) {
    const uint64_t most_ns = UINT64_C(5000000000);
    struct ag_profile_kill *kill = &definitions->kernel_kill;
    const struct ag_memory_sample *samples = definitions->memory_samples;
    const size_t n = definitions->n_memory_samples;
    if (n > 0) {
        qsort(definitions->memory_samples, n, sizeof(*samples), by_sample_time);
    }
    if (kill->certainty == 0 || n == 0) {
        return;
    }
    size_t first = n - 1;
    while (first > 0 && samples[n - 1].time_ns - samples[first - 1].time_ns <= most_ns) {
        first--;
    }
    const uint64_t start_ns = definitions->start_ns;
    kill->last = samples[n - 1];
    kill->last.time_ns = kill->last.time_ns > start_ns ? kill->last.time_ns - start_ns : 0;
    kill->growth_ns = samples[n - 1].time_ns - samples[first].time_ns;
    kill->growth_bytes =
        (int64_t)(resident_bytes(&samples[n - 1]) - resident_bytes(&samples[first]));
}

static void free_look(struct ag_model_look *look) {
    for (size_t i = 0; i < look->look.n_mappings; i++) {
        free((uint8_t *)look->look.mappings[i].pages);
    }
    free(look->look.mappings);
    free(look->look.storage);
    *look = (struct ag_model_look){0};
}

/* Called when all mappings of new_look were read. The look with the most resident memory becomes
 * peak_look, and the latest of the others last_look, if it is later than peak_look. */
static void settle_look(struct ag_definitions *definitions) {
    struct ag_model_look *new = &definitions->new_look, *peak = &definitions->peak_look,
                         *last = &definitions->last_look;
    if (new->look.n_mappings > 0 && new->look.rss_bytes > peak->look.rss_bytes) {
        const struct ag_model_look before = *peak;
        *peak = *new;
        *new = before;
    }
    if (new->look.n_mappings > 0 && new->time_ns > last->time_ns) {
        const struct ag_model_look before = *last;
        *last = *new;
        *new = before;
    }
    free_look(new);
    if (last->time_ns <= peak->time_ns) {
        free_look(last);
    }
}

static int take_storage(struct ag_resident_look *look, struct ag_bytes storage) {
    const uint8_t *at = (const uint8_t *)storage.data, *end = at + storage.length;
    uint64_t gap, bytes, address = 0;
    int r = 0;
    while (r == 0 && at < end && (at = ag_varint_get(at, end, &gap)) != NULL &&
           (at = ag_varint_get(at, end, &bytes)) != NULL && gap <= UINT64_MAX - address &&
           bytes <= UINT64_MAX - address - gap) {
        const struct ag_storage_range range = {address + gap, address + gap + bytes};
        r = AG_ARRAY_ADD(look->storage, look->n_storage, range);
        address = range.high;
    }
    return r;
}

static int take_look(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_resident_look_record *taken = &record->u.resident_look;
    settle_look(definitions);
    definitions->new_look =
        (struct ag_model_look){.time_ns = taken->time_ns,
                               .look = {.page_bytes = taken->page_bytes,
                                        .rss_bytes = taken->rss_bytes,
                                        .page_table_bytes = taken->page_table_bytes,
                                        .hugetlb_bytes = taken->hugetlb_bytes,
                                        .swap_bytes = taken->swap_bytes}};
    return take_storage(&definitions->new_look.look, taken->storage);
}

static int take_look_mapping(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_resident_mapping_record *taken = &record->u.resident_mapping;
    struct ag_resident_look *look = &definitions->new_look.look;
    struct ag_resident_mapping mapping = {.low = taken->low,
                                          .high = taken->high,
                                          .rss_bytes = taken->rss_bytes,
                                          .anonymous_bytes = taken->anonymous_bytes,
                                          .flags = taken->flags};
    if (look->page_bytes == 0 || taken->low >= taken->high || taken->low % look->page_bytes != 0 ||
        taken->high % look->page_bytes != 0) {
        return 0; /* damage that no checksum found */
    }
    mapping.path = definitions_keep_text(definitions, taken->path);
    uint8_t *pages = taken->pages.length > 0 ? malloc(taken->pages.length) : NULL;
    if (pages) {
        memcpy(pages, taken->pages.data, taken->pages.length);
        mapping.pages = pages;
        mapping.pages_length = taken->pages.length;
    }
    const int r = (pages == NULL && taken->pages.length > 0) || mapping.path == NULL
                      ? -ENOMEM
                      : AG_ARRAY_ADD(look->mappings, look->n_mappings, mapping);
    if (r < 0) {
        free(pages);
    }
    return r;
}

static int take_collection(struct ag_definitions *definitions, const struct ag_record *record) {
    const struct ag_bytes process = record->u.gc.process;
    const struct ag_model_collection made = {
        .row = {.runtime = definitions_keep_text(definitions, record->u.gc.runtime),
                .kind = definitions_keep_text(definitions, record->u.gc.kind),
                .process = process.length > 0 ? definitions_keep_text(definitions, process) : NULL,
                .start_ns = record->u.gc.start_ns,
                .pause_ns = record->u.gc.pause_ns,
                .heap_before_bytes = record->u.gc.heap_before_bytes,
                .heap_after_bytes = record->u.gc.heap_after_bytes,
                .needed_bytes = record->u.gc.needed_bytes,
                .promoted_bytes = record->u.gc.promoted_bytes,
                .allocated_bytes = record->u.gc.allocated_bytes,
                .weight_bytes = record->u.gc.weight_bytes,
                .known = record->u.gc.known,
                .cause_frame = UINT32_MAX},
        .stack = record->u.gc.stack,
        .frame = record->u.gc.frame,
        .thread_id = record->u.gc.thread_id};
    return AG_ARRAY_ADD(definitions->collections, definitions->n_collections, made);
}

static void take_observed(struct ag_definitions *definitions, const struct ag_record *record) {
    definitions->observed =
        (struct ag_profile_observed){.is_there = true,
                                     .rate_hz = record->u.observed.rate_hz,
                                     .samples = record->u.observed.samples,
                                     .lost = record->u.observed.lost,
                                     .stale = record->u.observed.stale,
                                     .complete_stacks = record->u.observed.complete_stacks,
                                     .target_cpu_ns = record->u.observed.target_cpu_ns,
                                     .sample_cost_ns = record->u.observed.sample_cost_ns,
                                     .collections_seen = record->u.observed.collections_seen};
}

static int take_nodes(struct ag_definitions *definitions, const struct ag_record *record) {
    /* the table slot of a node is prefetched this many nodes before it is used */
    enum { AHEAD = 8 };
    struct ag_node node;
    size_t ahead = AHEAD;
    for (size_t cursor = 0; ag_nodes_next(record, &cursor, &node) > 0;) {
        struct ag_node next;
        if (ag_nodes_next(record, &ahead, &next) > 0) {
            ag_stack_nodes_expect(&definitions->nodes, next.id);
        }
        const int r = ag_stack_nodes_add(&definitions->nodes, &node);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int take_stack_sums(struct ag_definitions *definitions, const struct ag_record *record) {
    struct ag_model_sums *sums = &definitions->index;
    struct ag_stack_sum stack;
    for (size_t cursor = 0; ag_stack_sums_next(record, &cursor, &stack) > 0;) {
        if (AG_ARRAY_ADD(sums->stacks, sums->n_stacks, stack) < 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

static int take_sums(struct ag_model_sums *sums, const struct ag_record *record) {
    int r = 0;
    struct ag_timeline_point point;
    struct ag_thread_sum thread;
    struct ag_thread_pair pair;
    struct ag_heap_sum heap;
    switch (record->kind) {
    case AG_RECORD_SUMMARY:
        sums->summary = record->u.summary;
        sums->has_summary = true;
        break;
    case AG_RECORD_TIMELINE:
        for (size_t cursor = 0; r == 0 && ag_timeline_next(record, &cursor, &point) > 0;) {
            r = AG_ARRAY_ADD(sums->timeline, sums->n_timeline, point);
        }
        break;
    case AG_RECORD_THREAD_SUMS:
        for (size_t cursor = 0; r == 0 && ag_thread_sums_next(record, &cursor, &thread) > 0;) {
            r = AG_ARRAY_ADD(sums->threads, sums->n_threads, thread);
        }
        break;
    case AG_RECORD_THREAD_PAIRS:
        for (size_t cursor = 0; r == 0 && ag_thread_pairs_next(record, &cursor, &pair) > 0;) {
            r = AG_ARRAY_ADD(sums->pairs, sums->n_pairs, pair);
        }
        break;
    case AG_RECORD_HEAP_SUMS:
        for (size_t cursor = 0; r == 0 && ag_heap_sums_next(record, &cursor, &heap) > 0;) {
            r = AG_ARRAY_ADD(sums->heaps, sums->n_heaps, heap);
        }
        break;
    default:
        break;
    }
    return r;
}

static void take_via(struct ag_definitions *definitions, const struct ag_record *record) {
    const uint32_t via = record->u.via.via;
    if (via < AG_MODEL_VIAS) {
        definitions->vias[via].name = definitions_keep_text(definitions, record->u.via.name);
        definitions->vias[via].heap = record->u.via.heap;
    }
}

static void take_lost(struct ag_definitions *definitions, const struct ag_record *record) {
    if (record->u.lost.cause < AG_LOST_CAUSES) {
        definitions->lost[record->u.lost.cause] += record->u.lost.events;
    }
}

static void take_end(struct ag_definitions *definitions, const struct ag_record *record) {
    definitions->has_end = true;
    definitions->end_how = record->u.end.how;
    definitions->end_ns = record->u.end.time_ns;
    definitions->wait_status = record->u.end.wait_status;
    definitions->wait_status_known = record->u.end.wait_status_known;
}

static void take_sampling(struct ag_definitions *definitions, const struct ag_record *record) {
    definitions->is_sampled = true;
    definitions->interval_bytes = record->u.sampling.interval_bytes;
    definitions->seed = record->u.sampling.seed;
}

/* Reads how much memory and CPU time allogram itself used. */
static void take_cost(struct ag_definitions *definitions, const struct ag_record *record) {
    if (record->kind == AG_RECORD_PROFILER) {
        definitions->cost =
            (struct ag_profile_cost){.rss_bytes = record->u.profiler.rss_bytes,
                                     .cpu_ns = record->u.profiler.cpu_ns,
                                     .target_cpu_ns = record->u.profiler.target_cpu_ns,
                                     .waited_ns = record->u.profiler.waited_ns,
                                     .n_waits = record->u.profiler.n_waits};
    } else {
        definitions->sampler = (struct ag_profile_sampler){
            .cpu_ns = record->u.sampler.cpu_ns,
            .budget_percent = (double)record->u.sampler.budget_millionths / 10000,
            .least_interval_bytes = record->u.sampler.least_interval_bytes,
            .most_interval_bytes = record->u.sampler.most_interval_bytes};
    }
}

/* Reads the recorder's filter. An UNDECIDED record names an allocation function (via). For some
 * blocks of this function, the recorder could not decide whether the filter selects them. The name
 * of the function's heap is kept. */
static int take_filter(struct ag_definitions *definitions, const struct ag_record *record) {
    if (record->kind == AG_RECORD_FILTER) {
        definitions->filter = definitions_keep_text(definitions, record->u.filter.expression);
        return 0;
    }
    const uint32_t via = record->u.undecided.via;
    const struct ag_model_heap *heap =
        via < AG_MODEL_VIAS && definitions->vias[via].name
            ? ag_definitions_heap(definitions, definitions->vias[via].heap)
            : NULL;
    for (size_t i = 0; heap && i < definitions->n_undecided; i++) {
        /* equal texts have the same address */
        heap = definitions->undecided[i] == heap->name ? NULL : heap;
    }
    return heap ? AG_ARRAY_ADD(definitions->undecided, definitions->n_undecided, heap->name) : 0;
}

static int take_record(struct ag_definitions *definitions, const struct ag_record *record) {
    switch (record->kind) {
    case AG_RECORD_PROCESS:
        return take_process(definitions, record);
    case AG_RECORD_IMAGE_LOAD:
        return take_image(definitions, record);
    case AG_RECORD_FRAME:
        return take_function(definitions, record);
    case AG_RECORD_FUNCTIONS:
    case AG_RECORD_CALLS:
        return ag_call_trees_take(&definitions->call_trees, &definitions->texts, record);
    case AG_RECORD_GC:
        return take_collection(definitions, record);
    case AG_RECORD_THREAD:
        return take_thread(definitions, record);
    case AG_RECORD_HEAP:
        return take_heap(definitions, record);
    case AG_RECORD_MEMORY:
        return take_memory(definitions, record);
    case AG_RECORD_VIA:
        take_via(definitions, record);
        return 0;
    case AG_RECORD_RUNTIME:
        return take_runtime(definitions, record);
    case AG_RECORD_CODE:
        return ag_code_places_take(&definitions->code, record);
    case AG_RECORD_STACK_TYPE:
        return take_stack_type(definitions, record);
    case AG_RECORD_TYPE:
        return take_type(definitions, record);
    case AG_RECORD_LABEL:
        return ag_definitions_add_label(definitions, record->u.label.label,
                                        definitions_keep_text(definitions, record->u.label.name));
    case AG_RECORD_FILTER:
    case AG_RECORD_UNDECIDED:
        return take_filter(definitions, record);
    case AG_RECORD_SAMPLING:
        take_sampling(definitions, record);
        return 0;
    case AG_RECORD_RESIDENT:
        return take_sample(definitions, record);
    case AG_RECORD_RESIDENT_LOOK:
        return take_look(definitions, record);
    case AG_RECORD_RESIDENT_MAPPING:
        return take_look_mapping(definitions, record);
    case AG_RECORD_MEMORY_SAMPLE:
        return AG_ARRAY_ADD(definitions->memory_samples, definitions->n_memory_samples,
                            record->u.memory_sample);
    case AG_RECORD_KERNEL_KILL:
        return take_kernel_kill(definitions, record);
    case AG_RECORD_LOST:
        take_lost(definitions, record);
        return 0;
    case AG_RECORD_TITLE:
        return take_title(definitions, record);
    case AG_RECORD_OUTSIDE:
        take_outside(definitions, record);
        return 0;
    case AG_RECORD_END:
        take_end(definitions, record);
        return 0;
    case AG_RECORD_PROFILER:
    case AG_RECORD_SAMPLER:
        take_cost(definitions, record);
        return 0;
    case AG_RECORD_OBSERVED:
        take_observed(definitions, record);
        return 0;
    default:
        return take_sums(&definitions->index, record);
    }
}

/* ---- loading chunks ---- */

void ag_definitions_note_damage(struct ag_definitions *definitions,
                                const struct ag_decode_error *error) {
    const enum ag_decode_code known = definitions->damage.code;
    const bool has_place = known != AG_DECODE_OK && known != AG_DECODE_UNSEALED;
    if (error->code != AG_DECODE_OK && !has_place) {
        definitions->damage = *error;
    }
}

#define KIND(NAME) (UINT64_C(1) << AG_RECORD_##NAME)

struct loading {
    struct ag_definitions *definitions;
    int (*take)(struct ag_definitions *definitions, const struct ag_record *record);
    /* bit set of the kinds of records to skip, for ag_chunk_decoder_pass_over */
    uint64_t passed_over;
    struct ag_decode_error damage; /* the first damage found; code AG_DECODE_OK: none */
    /* whether a chunk of the index is damaged; then the index cannot be used */
    bool index_is_damaged;
    bool counts_damage; /* counts damaged chunks, and checks the chunks with events too */
};

static void count_damaged(struct ag_damaged_chunks *damaged, const struct ag_chunk_entry *entry) {
    damaged->chunks++;
    damaged->events += entry->kind == AG_CHUNK_KIND_EVENTS ? entry->events : 0;
    damaged->bytes += entry->stored_bytes;
}

static int take_chunk(struct loading *loading, struct ag_chunk_decoder *decoder,
                      const struct ag_trace_file *file, const struct ag_chunk_entry *entry) {
    struct ag_decode_error error = {0};
    struct ag_event none;
    struct ag_record record = {0};
    int r = ag_chunk_decoder_start(decoder, file, entry, &error);
    while (r >= 0) {
        r = ag_chunk_decoder_next(decoder, &none, 1, &record, &error);
        if (r == 0 && record.kind == 0) {
            return 0;
        }
        if (r >= 0 && record.kind != 0 && loading->take(loading->definitions, &record) < 0) {
            return -ENOMEM;
        }
    }
    if (error.code == AG_DECODE_NO_MEMORY) {
        return -ENOMEM;
    }
    if (loading->damage.code == AG_DECODE_OK) {
        loading->damage = error;
    }
    loading->index_is_damaged |= entry->kind == AG_CHUNK_KIND_INDEX;
    if (loading->counts_damage) {
        count_damaged(&loading->definitions->damaged_others, entry);
    }
    return 0;
}

static int check_events(struct loading *loading, struct ag_chunk_decoder *decoder,
                        const struct ag_trace_file *file, const struct ag_chunk_entry *entry) {
    struct ag_decode_error error = {0};
    if (ag_chunk_decoder_check(decoder, file, entry, &error) >= 0) {
        return 0;
    }
    if (error.code == AG_DECODE_NO_MEMORY) {
        return -ENOMEM;
    }
    if (loading->damage.code == AG_DECODE_OK) {
        loading->damage = error;
    }
    count_damaged(&loading->definitions->damaged, entry);
    return 0;
}

/* Whether the pass reads this chunk. */
static bool takes(const struct loading *loading, const struct ag_chunk_entry *entry) {
    return entry->kind != AG_CHUNK_KIND_EVENTS || loading->counts_damage;
}

static int definitions_load(struct loading *loading, const struct ag_trace_file *file) {
    const struct ag_chunk_entry *entries;
    const size_t n = ag_trace_file_chunks(file, &entries);
    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    if (!decoder) {
        return -ENOMEM;
    }
    ag_chunk_decoder_pass_over(decoder, loading->passed_over);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += takes(loading, &entries[i]) ? entries[i].stored_bytes : 0;
    }
    ag_trace_file_begin_pass(file, bytes);
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        if (entries[i].kind != AG_CHUNK_KIND_EVENTS) {
            r = take_chunk(loading, decoder, file, &entries[i]);
        } else if (takes(loading, &entries[i])) {
            r = check_events(loading, decoder, file, &entries[i]);
        }
    }
    ag_trace_file_end_pass(file);
    (void)ag_chunk_decoder_free(decoder);
    return r;
}

static int by_time(const void *a, const void *b) {
    const struct ag_model_sample *left = a, *right = b;
    return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

int ag_definitions_init(struct ag_definitions *definitions) {
    definitions->exe = "";
    return ag_stack_nodes_init(&definitions->nodes);
}

int ag_definitions_load(struct ag_definitions *definitions, const struct ag_trace_file *file) {
    if (ag_trace_file_damage(file)) {
        ag_definitions_note_damage(definitions, ag_trace_file_damage(file));
    }
    struct loading loading = {.definitions = definitions,
                              .take = take_record,
                              .passed_over = KIND(NODES) | KIND(STACK_SUMS),
                              .counts_damage = true};
    int r = ag_definitions_init(definitions);
    r = r < 0 ? r : definitions_load(&loading, file);
    definitions->index.has_summary &= !loading.index_is_damaged;
    ag_definitions_note_damage(definitions, &loading.damage);
    settle_look(definitions);
    complete_kill(definitions);
    if (definitions->n_samples > 0) {
        qsort(definitions->samples, definitions->n_samples, sizeof(*definitions->samples), by_time);
    }
    return r;
}

static int take_stacks_and_sums(struct ag_definitions *definitions,
                                const struct ag_record *record) {
    return record->kind == AG_RECORD_NODES ? take_nodes(definitions, record)
                                           : take_stack_sums(definitions, record);
}

int ag_definitions_load_stacks(struct ag_definitions *definitions, const struct ag_trace_file *file,
                               struct ag_decode_error *ret_damage) {
    struct loading loading = {
        .definitions = definitions, .take = take_nodes, .passed_over = ~KIND(NODES)};
    const int r = definitions_load(&loading, file);
    *ret_damage = loading.damage;
    return r;
}

int ag_definitions_load_stacks_and_sums(struct ag_definitions *definitions,
                                        const struct ag_trace_file *file) {
    struct loading loading = {.definitions = definitions,
                              .take = take_stacks_and_sums,
                              .passed_over = ~(KIND(NODES) | KIND(STACK_SUMS))};
    const int r = definitions_load(&loading, file);
    definitions->index.has_summary &= !loading.index_is_damaged;
    ag_definitions_note_damage(definitions, &loading.damage);
    return r;
}

void ag_model_sums_done(struct ag_model_sums *sums) {
    free(sums->stacks);
    free(sums->timeline);
    free(sums->threads);
    free(sums->pairs);
    free(sums->heaps);
    free(sums->stack_estimates);
    free(sums->timeline_estimates);
    free(sums->thread_estimates);
    free(sums->pair_estimates);
    free(sums->heap_estimates);
    free(sums->mapped);
    *sums = (struct ag_model_sums){0};
}

void ag_definitions_done(struct ag_definitions *definitions) {
    ag_text_store_done(&definitions->texts);
    ag_stack_nodes_done(&definitions->nodes);
    ag_index_map_done(&definitions->image_index);
    ag_index_map_done(&definitions->stream_index);
    ag_index_map_done(&definitions->function_index);
    ag_index_map_done(&definitions->heap_index);
    ag_index_map_done(&definitions->memory_index);
    ag_index_map_done(&definitions->runtime_index);
    ag_call_trees_done(&definitions->call_trees);
    ag_code_places_done(&definitions->code);
    ag_index_map_done(&definitions->type_index);
    ag_index_map_done(&definitions->label_index);
    ag_index_map_done(&definitions->stack_type_index);
    ag_model_sums_done(&definitions->index);
    free(definitions->arguments);
    free(definitions->undecided);
    free(definitions->images);
    free(definitions->heaps);
    free(definitions->memory);
    free(definitions->threads);
    free(definitions->runtimes);
    free(definitions->samples);
    free(definitions->memory_samples);
    free_look(&definitions->peak_look);
    free_look(&definitions->last_look);
    free_look(&definitions->new_look);
    free(definitions->functions);
    free(definitions->collections);
    free(definitions->types);
    free(definitions->labels);
}

int ag_definitions_add_type(struct ag_definitions *definitions, uint32_t type,
                            const struct ag_model_type *definition) {
    uint32_t at;
    const int r = ag_index_map_number(&definitions->type_index, type, &at);
    return r > 0 ? AG_ARRAY_ADD(definitions->types, definitions->n_types, *definition) : r;
}

const struct ag_model_type *ag_definitions_type(const struct ag_definitions *definitions,
                                                uint32_t type) {
    const uint32_t at = ag_index_map_find(&definitions->type_index, type);
    return at != AG_INDEX_NONE ? &definitions->types[at] : NULL;
}

int ag_definitions_add_label(struct ag_definitions *definitions, uint32_t label, const char *name) {
    uint32_t at;
    const int r = ag_index_map_number(&definitions->label_index, label, &at);
    return r > 0 ? AG_ARRAY_ADD(definitions->labels, definitions->n_labels,
                                (struct ag_model_label){.label = label, .name = name})
                 : r;
}

const char *ag_definitions_label(const struct ag_definitions *definitions, uint32_t label) {
    const uint32_t at = ag_index_map_find(&definitions->label_index, label);
    return at != AG_INDEX_NONE ? definitions->labels[at].name : NULL;
}

const struct ag_model_heap *ag_definitions_heap(const struct ag_definitions *definitions,
                                                uint32_t heap) {
    const uint32_t at = ag_index_map_find(&definitions->heap_index, heap);
    return at != AG_INDEX_NONE ? &definitions->heaps[at] : NULL;
}

const struct ag_model_heap *ag_definitions_heap_of_via(const struct ag_definitions *definitions,
                                                       uint32_t via) {
    const uint32_t known = via % AG_MODEL_VIAS;
    return definitions->vias[known].name
               ? ag_definitions_heap(definitions, definitions->vias[known].heap)
               : NULL;
}

struct ag_heap_memory ag_definitions_memory(const struct ag_definitions *definitions,
                                            uint32_t heap) {
    struct ag_heap_memory memory = {.known = 0};
    const uint32_t at = ag_index_map_find(&definitions->memory_index, heap);
    if (at != AG_INDEX_NONE) {
        memory = definitions->memory[at].memory;
        memory.time_ns -=
            memory.time_ns < definitions->start_ns ? memory.time_ns : definitions->start_ns;
    }
    return memory;
}

const char *ag_definitions_thread_name(const struct ag_definitions *definitions, uint32_t stream) {
    const uint32_t at = ag_index_map_find(&definitions->stream_index, stream);
    return at != AG_INDEX_NONE ? definitions->threads[at].name : "";
}
