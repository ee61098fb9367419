/* chunk_words.c: converts raw words (segment.h) to events in one pass that reads each word once.
 *
 * The recorder only promises that the words before used_words are complete. A damaged program may
 * write anything anywhere, so a word that is not an event ends the chunk: no word boundary after it
 * can be trusted.
 *
 * Budget: 2 ns per event. This is the first of the writer's passes over every event. */
#include "chunk_words.h"

#include <string.h>

#include "session_clock.h"
#include "stack_harvest.h"

uint64_t ag_chunk_words_stamp_ns(struct ag_chunk_words *reader, uint64_t word) {
    uint64_t ns = ag_session_clock_ns(reader->ns_per_2_32, AG_WORD_STAMP_RAW(word));
    ns = ns > reader->now_ns ? reader->now_ns : ns;
    reader->last_ns = ns > reader->last_ns ? ns : reader->last_ns;
    return reader->last_ns;
}

/* Copies the payload of a wide record. false: it exceeds its chunk or AG_WIDE_MAX_BYTES. */
static bool take_wide(struct ag_chunk_words *reader, uint64_t word, struct ag_wide *ret_wide) {
    const uint32_t bytes = AG_WORD_WIDE_BYTES(word), words = (bytes + 7) / 8;
    if (bytes > AG_WIDE_MAX_BYTES || words > reader->end - reader->at - 1) {
        return false;
    }
    memcpy(ret_wide->u.data, &reader->words[reader->at + 1], bytes);
    ret_wide->kind = AG_WORD_WIDE_KIND(word);
    ret_wide->bytes = bytes;
    reader->at += 1 + words;
    return true;
}

static void give_up(struct ag_chunk_words *reader) {
    reader->is_damaged = true;
    reader->at = reader->end;
}

static const uint8_t record_kinds[16] = {
    [AG_WORD_ALLOC] = AG_RECORD_ALLOC,         [AG_WORD_ALLOC_BIG] = AG_RECORD_ALLOC,
    [AG_WORD_FREE] = AG_RECORD_FREE,           [AG_WORD_REALLOC_FREE] = AG_RECORD_REALLOC_FREE,
    [AG_WORD_UNDO_FREE] = AG_RECORD_UNDO_FREE, [AG_WORD_STAMP] = AG_RECORD_STAMP,
    [AG_WORD_FREE_FROM] = AG_RECORD_FREE,      [AG_WORD_REALLOC_FREE_FROM] = AG_RECORD_REALLOC_FREE,
    [AG_WORD_COLLECT] = AG_RECORD_COLLECT,     [AG_WORD_PROMOTE] = AG_RECORD_PROMOTE,
    [AG_WORD_MOVE] = AG_RECORD_MOVE,           [AG_WORD_TYPED] = AG_RECORD_BLOCK_TYPE,
    [AG_WORD_RESET] = AG_RECORD_RESET,
};

/* Decodes allocations and frees up to the first other word or the last two words; returns their
 * number. Which of the two comes next is the program's data and unpredictable, so the loop does not
 * branch on it: it reads two words, and uses the second one only for an event that has it. */
static size_t take_common(struct ag_chunk_words *reader, struct ag_event *ret_events,
                          size_t capacity) {
    enum { COMMON = 1 << AG_WORD_ALLOC | 1 << AG_WORD_FREE };
    size_t count = 0;
    uint32_t at = reader->at;
    while (count < capacity && at + 1 < reader->end) {
        const uint64_t word = ag_chunk_word(reader, at), second = ag_chunk_word(reader, at + 1);
        const uint32_t kind = AG_WORD_KIND(word);
        if (AG_UNLIKELY(!(COMMON >> kind & 1))) {
            break;
        }
        const uint32_t is_alloc = kind == AG_WORD_ALLOC;
        const uint64_t mine = second & -(uint64_t)is_alloc;
        ret_events[count++] = (struct ag_event){.address = AG_WORD_ADDRESS(word),
                                                .size = (uint32_t)mine,
                                                .stack = ag_stack_checked((uint32_t)(mine >> 32)),
                                                .kind = record_kinds[kind],
                                                .via = (uint8_t)AG_WORD_VIA(word)};
        at += 1 + is_alloc;
    }
    reader->at = at;
    return count;
}

size_t ag_chunk_words_next(struct ag_chunk_words *reader, struct ag_event *ret_events,
                           size_t capacity, struct ag_wide *ret_wide) {
    static const uint8_t word_counts[16] = {
        [AG_WORD_ALLOC] = 2,        [AG_WORD_ALLOC_BIG] = 3,
        [AG_WORD_FREE] = 1,         [AG_WORD_STAMP] = 1,
        [AG_WORD_REALLOC_FREE] = 1, [AG_WORD_UNDO_FREE] = 1,
        [AG_WORD_FREE_FROM] = 2,    [AG_WORD_REALLOC_FREE_FROM] = 2,
        [AG_WORD_COLLECT] = 1,      [AG_WORD_PROMOTE] = 1,
        [AG_WORD_MOVE] = 2,         [AG_WORD_TYPED] = 3,
        [AG_WORD_RESET] = 1,
    };
    size_t count = 0;
    ret_wide->kind = 0;
    for (;;) {
        count += take_common(reader, ret_events + count, capacity - count);
        if (reader->at == reader->end || count == capacity) {
            return count;
        }
        const uint64_t word = ag_chunk_word(reader, reader->at);
        const uint32_t kind = AG_WORD_KIND(word);
        if (AG_UNLIKELY(kind == AG_WORD_WIDE)) {
            if (count > 0) {
                /* deliver the events before it; the next call starts at the wide record */
                return count;
            }
            if (take_wide(reader, word, ret_wide)) {
                return 0;
            }
            give_up(reader);
            return 0;
        }
        const uint32_t n_words = word_counts[kind];
        if (AG_UNLIKELY(n_words == 0 || n_words > reader->end - reader->at)) {
            give_up(reader);
            return count;
        }
        struct ag_event *event = &ret_events[count++];
        *event = (struct ag_event){.address = AG_WORD_ADDRESS(word),
                                   .kind = record_kinds[kind],
                                   .via = (uint8_t)AG_WORD_VIA(word)};
        if (AG_UNLIKELY(kind == AG_WORD_MOVE)) {
            event->size = AG_WORD_ADDRESS(ag_chunk_word(reader, reader->at + 1));
        } else if (n_words >= 2) {
            const uint64_t second = ag_chunk_word(reader, reader->at + 1);
            event->stack = ag_stack_checked((uint32_t)(second >> 32));
            const bool is_sized =
                event->kind == AG_RECORD_ALLOC || event->kind == AG_RECORD_BLOCK_TYPE;
            const uint64_t size =
                AG_LIKELY(n_words == 2) ? (uint32_t)second : ag_chunk_word(reader, reader->at + 2);
            event->size = is_sized ? size : 0;
        } else if (kind == AG_WORD_STAMP) {
            *event = (struct ag_event){.size = ag_chunk_words_stamp_ns(reader, word),
                                       .kind = AG_RECORD_STAMP};
        } else if (kind == AG_WORD_RESET) {
            reader->reset_ns = reader->last_ns;
        }
        reader->at += n_words;
    }
}

/* ---- wide records ---- */

/* Strings follow the fixed fields, one after the other. */
struct tail {
    const uint8_t *at;
    uint32_t left;
    bool is_short;
};

static struct ag_bytes next_string(struct tail *tail, uint32_t bytes) {
    if (bytes > tail->left) {
        tail->is_short = true;
        return (struct ag_bytes){.data = "", .length = 0};
    }
    const struct ag_bytes string = {.data = (const char *)tail->at, .length = bytes};
    tail->at += bytes;
    tail->left -= bytes;
    return string;
}

static bool image_load_record(const struct ag_wide *wide, struct tail *tail,
                              struct ag_record *record) {
    struct ag_wide_image_load fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_IMAGE_LOAD;
    record->u.image_load.image = fields.image;
    record->u.image_load.bias = fields.bias;
    record->u.image_load.low = fields.low;
    record->u.image_load.high = fields.high;
    record->u.image_load.build_id = next_string(tail, fields.build_id_bytes);
    record->u.image_load.path = next_string(tail, fields.path_bytes);
    return !tail->is_short;
}

static bool map_record(const struct ag_wide *wide, struct ag_record *record) {
    struct ag_wide_map fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = wide->kind == AG_WIDE_MAP ? AG_RECORD_MAP : AG_RECORD_UNMAP;
    record->u.map.address = fields.address;
    record->u.map.bytes = fields.bytes;
    record->u.map.stack = ag_stack_checked(fields.stack);
    record->u.map.via = fields.via;
    record->u.map.protection = fields.protection;
    record->u.map.flags = fields.flags;
    return true;
}

static bool thread_record(const struct ag_wide *wide, struct tail *tail, uint32_t stream,
                          struct ag_record *record) {
    struct ag_wide_thread fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_THREAD;
    record->u.thread.stream = stream;
    record->u.thread.thread_id = fields.thread_id;
    record->u.thread.name = next_string(tail, fields.name_bytes);
    return !tail->is_short;
}

static bool heap_record(const struct ag_wide *wide, struct tail *tail, struct ag_record *record) {
    struct ag_wide_heap fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_HEAP;
    record->u.heap.heap = fields.heap;
    record->u.heap.domain = fields.domain;
    record->u.heap.is_backing = fields.is_backing != 0;
    record->u.heap.name = next_string(tail, fields.name_bytes);
    record->u.heap.allocator = next_string(tail, fields.allocator_bytes);
    record->u.heap.runtime = next_string(tail, fields.runtime_bytes);
    record->u.heap.kind = fields.kind;
    record->u.heap.unit = next_string(tail, fields.unit_bytes);
    return !tail->is_short;
}

static bool via_record(const struct ag_wide *wide, struct tail *tail, struct ag_record *record) {
    struct ag_wide_via fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_VIA;
    record->u.via.via = fields.via;
    record->u.via.heap = fields.heap;
    record->u.via.name = next_string(tail, fields.name_bytes);
    return !tail->is_short && fields.via < 256;
}

static bool runtime_record(const struct ag_wide *wide, struct tail *tail,
                           struct ag_record *record) {
    struct ag_wide_runtime fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_RUNTIME;
    record->u.runtime.hooked = fields.hooked != 0;
    record->u.runtime.told = fields.told;
    record->u.runtime.counted = fields.counted;
    record->u.runtime.name = next_string(tail, fields.name_bytes);
    record->u.runtime.version = next_string(tail, fields.version_bytes);
    record->u.runtime.note = next_string(tail, fields.note_bytes);
    return !tail->is_short;
}

static bool type_record(const struct ag_wide *wide, struct tail *tail, struct ag_record *record) {
    struct ag_wide_type fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    const struct ag_bytes name = next_string(tail, fields.name_bytes);
    const struct ag_bytes runtime = next_string(tail, fields.runtime_bytes);
    if (wide->kind == AG_WIDE_TYPE) {
        record->kind = AG_RECORD_TYPE;
        record->u.type.type = fields.type;
        record->u.type.name = name;
        record->u.type.runtime = runtime;
    } else {
        record->kind = AG_RECORD_LABEL;
        record->u.label.label = fields.type;
        record->u.label.name = name;
    }
    return !tail->is_short;
}

static bool stack_type_record(const struct ag_wide *wide, struct ag_record *record) {
    struct ag_wide_stack_type fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_STACK_TYPE;
    record->u.stack_type.stack = ag_stack_checked(fields.stack);
    record->u.stack_type.type = fields.type;
    return true;
}

/* time_ns keeps the raw clock value; the caller converts it. */
static bool memory_record(const struct ag_wide *wide, struct ag_record *record) {
    struct ag_wide_memory fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_MEMORY;
    record->u.memory.heap = fields.heap;
    record->u.memory.known = fields.known;
    record->u.memory.time_ns = fields.time_raw;
    record->u.memory.reserved_bytes = fields.reserved_bytes;
    record->u.memory.committed_bytes = fields.committed_bytes;
    record->u.memory.free_bytes = fields.free_bytes;
    record->u.memory.of_malloc_bytes = fields.of_malloc_bytes;
    return true;
}

static bool code_record(const struct ag_wide *wide, struct ag_record *record) {
    struct ag_wide_code fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_CODE;
    record->u.code.pc = fields.pc;
    record->u.code.place = fields.place;
    record->u.code.n_places = fields.n_places;
    record->u.code.frame = fields.frame;
    record->u.code.line = fields.line;
    return true;
}

static bool undecided_record(const struct ag_wide *wide, struct ag_record *record) {
    struct ag_wide_undecided fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_UNDECIDED;
    record->u.undecided.via = fields.via;
    return true;
}

static bool mark_record(const struct ag_wide *wide, struct tail *tail, struct ag_record *record) {
    struct ag_wide_mark fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_MARK;
    record->u.mark.name = next_string(tail, fields.name_bytes);
    return !tail->is_short;
}

/* start_ns keeps the raw start and pause_ns the raw end; the caller converts them. */
static bool gc_record(const struct ag_wide *wide, struct tail *tail, struct ag_record *record) {
    struct ag_wide_gc fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_GC;
    record->u.gc.known = fields.known;
    record->u.gc.stack = ag_stack_checked(fields.stack);
    record->u.gc.thread_id = fields.thread_id;
    record->u.gc.start_ns = fields.start_raw;
    record->u.gc.pause_ns = fields.end_raw;
    record->u.gc.heap_before_bytes = fields.heap_before_bytes;
    record->u.gc.heap_after_bytes = fields.heap_after_bytes;
    record->u.gc.needed_bytes = fields.needed_bytes;
    record->u.gc.promoted_bytes = fields.promoted_bytes;
    record->u.gc.runtime = next_string(tail, fields.runtime_bytes);
    record->u.gc.kind = next_string(tail, fields.kind_bytes);
    record->u.gc.process = next_string(tail, fields.process_bytes);
    record->u.gc.frame = fields.frame;
    return !tail->is_short;
}

static bool sampling_record(const struct ag_wide *wide, struct ag_record *record) {
    struct ag_wide_sampling fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_SAMPLING;
    record->u.sampling.interval_bytes = fields.interval_bytes;
    record->u.sampling.seed = fields.seed;
    record->u.sampling.method = fields.method;
    return true;
}

static bool frame_record(const struct ag_wide *wide, struct tail *tail, struct ag_record *record) {
    struct ag_wide_frame fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_FRAME;
    record->u.frame.frame = fields.frame;
    record->u.frame.line = fields.line;
    record->u.frame.runtime = next_string(tail, fields.runtime_bytes);
    record->u.frame.function = next_string(tail, fields.function_bytes);
    record->u.frame.file = next_string(tail, fields.file_bytes);
    return !tail->is_short && fields.frame != 0 && fields.frame <= AG_FRAME_MOST;
}

/* time_ns keeps the raw clock value; the caller converts it. */
static bool functions_record(const struct ag_wide *wide, struct tail *tail,
                             struct ag_record *record) {
    struct ag_wide_functions fields;
    memcpy(&fields, wide->u.data, sizeof(fields));
    record->kind = AG_RECORD_FUNCTIONS;
    record->u.functions.tree = fields.tree;
    record->u.functions.snapshot = fields.snapshot;
    record->u.functions.epoch = fields.epoch;
    record->u.functions.n_calls = fields.n_calls;
    record->u.functions.word_bytes = fields.word_bytes;
    record->u.functions.thread_id = fields.thread_id;
    record->u.functions.time_ns = fields.time_raw;
    record->u.functions.messages = fields.messages;
    record->u.functions.message_words = fields.message_words;
    record->u.functions.spawns = fields.spawns;
    record->u.functions.spawn_words = fields.spawn_words;
    record->u.functions.profiler_events = fields.profiler_events;
    record->u.functions.profiler_words = fields.profiler_words;
    record->u.functions.runtime = next_string(tail, fields.runtime_bytes);
    record->u.functions.process = next_string(tail, fields.process_bytes);
    record->u.functions.initial_call = next_string(tail, fields.initial_call_bytes);
    return !tail->is_short;
}

size_t ag_wide_calls(const struct ag_wide *wide, struct ag_call_path ret_paths[AG_WIDE_CALLS_MOST],
                     bool *ret_time_is_raw) {
    struct ag_wide_calls fields = {0};
    if (wide->bytes < sizeof(fields)) {
        return 0;
    }
    memcpy(&fields, wide->u.data, sizeof(fields));
    if (fields.n_rows > (wide->bytes - sizeof(fields)) / sizeof(struct ag_wide_call)) {
        return 0;
    }
    for (uint32_t i = 0; i < fields.n_rows; i++) {
        struct ag_wide_call row;
        memcpy(&row, wide->u.data + sizeof(fields) + i * sizeof(row), sizeof(row));
        ret_paths[i] = (struct ag_call_path){.tree = fields.tree,
                                             .snapshot = fields.snapshot,
                                             .node = row.node,
                                             .parent = row.parent,
                                             .frame = row.frame,
                                             .calls = row.calls,
                                             .own_words = row.own_words,
                                             .own_ns = row.own_time};
    }
    *ret_time_is_raw = fields.time_is_raw != 0;
    return fields.n_rows;
}

static const uint8_t fixed_bytes[] = {
    [AG_WIDE_IMAGE_LOAD] = sizeof(struct ag_wide_image_load),
    [AG_WIDE_IMAGE_UNLOAD] = sizeof(struct ag_wide_image_unload),
    [AG_WIDE_MAP] = sizeof(struct ag_wide_map),
    [AG_WIDE_UNMAP] = sizeof(struct ag_wide_map),
    [AG_WIDE_THREAD] = sizeof(struct ag_wide_thread),
    [AG_WIDE_HEAP] = sizeof(struct ag_wide_heap),
    [AG_WIDE_VIA] = sizeof(struct ag_wide_via),
    [AG_WIDE_RUNTIME] = sizeof(struct ag_wide_runtime),
    [AG_WIDE_TYPE] = sizeof(struct ag_wide_type),
    [AG_WIDE_LABEL] = sizeof(struct ag_wide_type),
    [AG_WIDE_MARK] = sizeof(struct ag_wide_mark),
    [AG_WIDE_GC] = sizeof(struct ag_wide_gc),
    [AG_WIDE_MEMORY] = sizeof(struct ag_wide_memory),
    [AG_WIDE_STACK_TYPE] = sizeof(struct ag_wide_stack_type),
    [AG_WIDE_CODE] = sizeof(struct ag_wide_code),
    [AG_WIDE_UNDECIDED] = sizeof(struct ag_wide_undecided),
    [AG_WIDE_SAMPLING] = sizeof(struct ag_wide_sampling),
    [AG_WIDE_FRAME] = sizeof(struct ag_wide_frame),
    [AG_WIDE_FUNCTIONS] = sizeof(struct ag_wide_functions),
};

bool ag_wide_record(const struct ag_wide *wide, uint32_t stream, struct ag_record *ret_record) {
    if (wide->kind == 0 || wide->kind >= AG_ARRAY_SIZE(fixed_bytes) ||
        fixed_bytes[wide->kind] == 0 || wide->bytes < fixed_bytes[wide->kind]) {
        return false;
    }
    struct tail tail = {.at = wide->u.data + fixed_bytes[wide->kind],
                        .left = wide->bytes - fixed_bytes[wide->kind]};
    *ret_record = (struct ag_record){.stream = stream};
    switch ((enum ag_wide_kind)wide->kind) {
    case AG_WIDE_IMAGE_LOAD:
        return image_load_record(wide, &tail, ret_record);
    case AG_WIDE_IMAGE_UNLOAD:
        ret_record->kind = AG_RECORD_IMAGE_UNLOAD;
        memcpy(&ret_record->u.image_unload.image, wide->u.data, sizeof(uint32_t));
        return true;
    case AG_WIDE_MAP:
    case AG_WIDE_UNMAP:
        return map_record(wide, ret_record);
    case AG_WIDE_THREAD:
        return thread_record(wide, &tail, stream, ret_record);
    case AG_WIDE_HEAP:
        return heap_record(wide, &tail, ret_record);
    case AG_WIDE_VIA:
        return via_record(wide, &tail, ret_record);
    case AG_WIDE_RUNTIME:
        return runtime_record(wide, &tail, ret_record);
    case AG_WIDE_TYPE:
    case AG_WIDE_LABEL:
        return type_record(wide, &tail, ret_record);
    case AG_WIDE_MEMORY:
        return memory_record(wide, ret_record);
    case AG_WIDE_STACK_TYPE:
        return stack_type_record(wide, ret_record);
    case AG_WIDE_CODE:
        return code_record(wide, ret_record);
    case AG_WIDE_UNDECIDED:
        return undecided_record(wide, ret_record);
    case AG_WIDE_MARK:
        return mark_record(wide, &tail, ret_record);
    case AG_WIDE_GC:
        return gc_record(wide, &tail, ret_record);
    case AG_WIDE_SAMPLING:
        return sampling_record(wide, ret_record);
    case AG_WIDE_FRAME:
        return frame_record(wide, &tail, ret_record);
    case AG_WIDE_FUNCTIONS:
        return functions_record(wide, &tail, ret_record);
    case AG_WIDE_CALLS:
        return false; /* rows, not a record: see ag_wide_calls */
    }
    return false;
}
