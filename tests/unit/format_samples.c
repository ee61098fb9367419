/* format_samples.c: sample events, records and traces; see format_samples.h. */
#include "format_samples.h"

#include <stdlib.h>
#include <string.h>

#include "format/record_layout.h"

uint64_t ag_sample_next(struct ag_sample_random *random) {
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t ag_sample_below(struct ag_sample_random *random, uint64_t limit) {
    return ag_sample_next(random) % limit;
}

/* A number of any magnitude: each bit length is as likely as any other. */
static uint64_t any_number(struct ag_sample_random *random, unsigned max_bits) {
    const uint64_t bits = ag_sample_below(random, max_bits + 1);
    return bits == 0 ? 0 : ag_sample_next(random) >> (64 - bits);
}

void ag_sample_wild_events(struct ag_sample_random *random, struct ag_event *ret_events,
                           size_t count) {
    uint64_t addresses[64] = {0};
    uint64_t time_ns = 0;
    uint32_t free_stack = 0; /* the stack of the frees that follow, until it changes */

    for (size_t i = 0; i < count; i++) {
        uint64_t *address = &addresses[ag_sample_below(random, 64)];
        if (ag_sample_below(random, 4) == 0) {
            *address = any_number(random, ag_sample_below(random, 8) == 0 ? 64 : 48);
        }
        struct ag_event event = {.kind = (uint8_t)(1 + ag_sample_below(random, 5)),
                                 .address = *address};
        if (event.kind == AG_RECORD_ALLOC) {
            event.size = any_number(random, 64);
            event.stack = (uint32_t)any_number(random, 32);
            event.via = (uint8_t)any_number(random, 8);
        }
        if (event.kind == AG_RECORD_FREE || event.kind == AG_RECORD_REALLOC_FREE) {
            const bool is_other = ag_sample_below(random, 16) == 0;
            free_stack = is_other ? (uint32_t)any_number(random, 32) : free_stack;
            event.stack = free_stack;
        }
        if (event.kind == AG_RECORD_STAMP) {
            time_ns += any_number(random, 40);
            event = (struct ag_event){.kind = AG_RECORD_STAMP, .size = time_ns};
        }
        ret_events[i] = event;
    }
}

void ag_sample_program_events(struct ag_sample_random *random, struct ag_event *ret_events,
                              size_t count) {
    enum { LIVE = 512, CLASSES = 20 };
    struct {
        uint64_t address;
        unsigned class;
    } live[LIVE];
    uint64_t freed[CLASSES][LIVE], top = 0x555555560000;
    unsigned n_freed[CLASSES] = {0}, n_live = 0;
    uint64_t time_ns = 1000;

    for (size_t i = 0; i < count; i++) {
        if (i % 64 == 0) {
            time_ns += 300 + ag_sample_below(random, 100);
            ret_events[i] = (struct ag_event){.kind = AG_RECORD_STAMP, .size = time_ns};
        } else if (n_live == LIVE || (n_live != 0 && ag_sample_below(random, 2) == 0)) {
            const uint64_t back =
                ag_sample_below(random, 8) == 0 ? ag_sample_below(random, n_live) : 0;
            const unsigned at = n_live - 1 - (unsigned)back;
            const unsigned class = live[at].class;
            ret_events[i] = (struct ag_event){.kind = AG_RECORD_FREE, .address = live[at].address};
            freed[class][n_freed[class]++] = live[at].address;
            live[at] = live[--n_live];
        } else {
            const unsigned class = (unsigned)ag_sample_below(random, CLASSES);
            const uint64_t size = 8 + 24 * class;
            uint64_t address = top;
            if (n_freed[class] != 0) {
                address = freed[class][--n_freed[class]];
            } else {
                top += (size + 23) & ~UINT64_C(15);
            }
            ret_events[i] = (struct ag_event){.kind = AG_RECORD_ALLOC,
                                              .address = address,
                                              .size = size,
                                              .stack = 16 + class * 3,
                                              .via = class % 3 == 0};
            live[n_live].address = address;
            live[n_live++].class = class;
        }
    }
}

/* ---- records ---- */

size_t ag_sample_records(struct ag_record *ret_records, size_t capacity) {
    static const char *const texts[] = {"malloc", "", "/usr/lib/libc.so.6",
                                        "a \"quoted\" \x1b[31m name"};
    static const char strings[] = "jq\0.\0file.json"; /* its last NUL is the one C adds */
    size_t count = 0;

    for (unsigned kind = 0; kind < 256 && count < capacity; kind++) {
        struct ag_record_layout layout;
        if (!ag_record_layout((enum ag_record_kind)kind, &layout) || layout.row_bytes != 0) {
            continue;
        }
        struct ag_record *record = &ret_records[count++];
        *record = (struct ag_record){.kind = (enum ag_record_kind)kind};
        for (uint32_t i = 0; i < layout.n_fields; i++) {
            const struct ag_field *field = &layout.fields[i];
            struct ag_bytes bytes = {.data = texts[i % 4],
                                     .length = (uint32_t)strlen(texts[i % 4])};
            switch (field->type) {
            case AG_FIELD_U8:
            case AG_FIELD_U32:
            case AG_FIELD_STACK:
                /* the number always fits */
                (void)ag_field_set_number(field, &record->u, (kind * 7 + i) & 0xff);
                continue;
            case AG_FIELD_U64:
            case AG_FIELD_ADDRESS:
                (void)ag_field_set_number(field, &record->u, UINT64_C(0x7f0000001000) * kind + i);
                continue;
            case AG_FIELD_TEXT:
                break;
            case AG_FIELD_TEXTS:
                bytes = (struct ag_bytes){.data = strings, .length = sizeof(strings)};
                break;
            case AG_FIELD_BYTES:
                bytes = (struct ag_bytes){.data = "\x01\x23\x45\xff\x00\x80", .length = 6};
                break;
            }
            memcpy((uint8_t *)&record->u + field->offset, &bytes, sizeof(bytes));
        }
    }
    return count;
}

static void append_cpu_samples(struct ag_blob *blob, size_t n_rows) {
    struct ag_cpu_sample *samples = calloc(n_rows, sizeof(*samples));
    if (samples == NULL) {
        abort();
    }
    for (size_t i = 0; i < n_rows; i++) {
        samples[i] = (struct ag_cpu_sample){.time_ns = UINT64_C(10101010) * (n_rows - i),
                                            .weight_ns = UINT64_MAX - i,
                                            .stack = 16 + (uint32_t)i,
                                            .thread_id = UINT32_MAX};
    }
    (void)ag_record_append_cpu_samples(blob, samples, n_rows); /* an error is stored in the blob */
    free(samples);
}

void ag_sample_batches(struct ag_blob *blob, size_t n_rows) {
    struct ag_sample_random random = {.state = n_rows};

    append_cpu_samples(blob, n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        (void)ag_sample_next(&random);
    }
    struct ag_node *nodes = calloc(n_rows, sizeof(*nodes));
    struct ag_call_path *paths = calloc(n_rows, sizeof(*paths));
    struct ag_stack_sum *stacks = calloc(n_rows, sizeof(*stacks));
    struct ag_timeline_point *points = calloc(n_rows, sizeof(*points));
    struct ag_thread_sum *threads = calloc(n_rows, sizeof(*threads));
    struct ag_thread_pair *pairs = calloc(n_rows, sizeof(*pairs));
    struct ag_heap_sum *heaps = calloc(n_rows, sizeof(*heaps));

    if (!nodes || !stacks || !points || !threads || !pairs || !heaps || !paths) {
        abort();
    }
    for (size_t i = 0; i < n_rows; i++) {
        const uint32_t n = (uint32_t)i;
        nodes[i] = (struct ag_node){.id = 16 + n,
                                    .parent = n % 3 == 0 ? 0 : 15 + n,
                                    .pc = 0x555555554000 + any_number(&random, 20),
                                    .image = 1 + n % 4};
        stacks[i] = (struct ag_stack_sum){.stack = 16 + n,
                                          .via = n % 2,
                                          .allocated_blocks = any_number(&random, 40),
                                          .allocated_bytes = any_number(&random, 64),
                                          .peak_bytes = i,
                                          .temporary_blocks = UINT64_MAX};
        paths[i] = (struct ag_call_path){.tree = 1 + n / 100,
                                         .snapshot = 2,
                                         .node = 1 + n,
                                         .parent = n / 2,
                                         .frame = 1 + n % 7,
                                         .calls = 1 + i,
                                         .own_words = any_number(&random, 50),
                                         .own_ns = any_number(&random, 64)};
        points[i] = (struct ag_timeline_point){
            .time_ns = i * 1000000, .in_use_bytes = any_number(&random, 30), .rss_bytes = 4096 * i};
        threads[i] = (struct ag_thread_sum){.stream = n, .thread_id = 4711 + n, .freed_bytes = i};
        pairs[i] =
            (struct ag_thread_pair){.allocated_by = n, .freed_by = 0, .blocks = 3, .bytes = i};
        heaps[i] = (struct ag_heap_sum){.heap = n, .peak_bytes = 5 * i, .mapped_bytes = 1 << 20};
    }
    (void)ag_record_append_nodes(blob, nodes, n_rows); /* an error is stored in the blob */
    (void)ag_record_append_stack_sums(blob, stacks, n_rows);
    (void)ag_record_append_timeline(blob, points, n_rows);
    (void)ag_record_append_thread_sums(blob, threads, n_rows);
    (void)ag_record_append_thread_pairs(blob, pairs, n_rows);
    (void)ag_record_append_heap_sums(blob, heaps, n_rows);
    (void)ag_record_append_calls(blob, paths, n_rows);
    free(nodes);
    free(stacks);
    free(points);
    free(threads);
    free(pairs);
    free(heaps);
    free(paths);
}

/* ---- a whole trace ---- */

static int write_events(struct ag_trace_writer *writer, struct ag_event_encoder *encoder,
                        struct ag_sample_random *random, unsigned chunk) {
    enum { EVENTS = 160 };
    struct ag_event events[EVENTS];
    const uint64_t first_time_ns = UINT64_C(1000000000) * (chunk / 2);

    if (chunk % 4 < 2) {
        ag_sample_program_events(random, events, EVENTS);
    } else {
        ag_sample_wild_events(random, events, EVENTS);
    }
    for (unsigned i = 0; i < EVENTS; i++) {
        events[i].size += events[i].kind == AG_RECORD_STAMP ? first_time_ns : 0;
    }
    ag_event_encoder_start(encoder, first_time_ns);
    int r = ag_event_encoder_add(encoder, events, EVENTS / 2);
    const struct ag_record record = {
        .kind = AG_RECORD_MAP,
        .u.map = {.address = 0x7f0000000000, .bytes = 1 << 20, .stack = 16, .protection = 3}};
    r = r < 0 ? r : ag_event_encoder_add_record(encoder, &record);
    r = r < 0 ? r : ag_event_encoder_add(encoder, events + EVENTS / 2, EVENTS / 2);
    if (r < 0) {
        return r;
    }
    const struct ag_blob *body = ag_event_encoder_body(encoder);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                       .stream = chunk % 2,
                                       .thread_id = 100 + chunk % 2,
                                       .first_sequence = chunk / 2 * 3,
                                       .sequences = 3,
                                       .events = ag_event_encoder_events(encoder),
                                       .first_time_ns = first_time_ns};
    return ag_trace_writer_chunk(writer, &info, body->data, body->length);
}

static int write_all(struct ag_trace_writer *writer, uint64_t seed, unsigned n_chunks,
                     enum ag_sample_ending ending) {
    struct ag_sample_random random = {.state = seed};
    const struct ag_chunk_info records_info = {.kind = AG_CHUNK_KIND_RECORDS};
    struct ag_record records[64];
    struct ag_blob blob = {0}, sums = {0};
    const size_t n_records = ag_sample_records(records, 64);
    for (size_t i = 0; i < n_records; i++) {
        (void)ag_record_append(&blob, &records[i]); /* an error is stored in the blob */
    }
    ag_sample_batches(&sums, 5);

    struct ag_event_encoder *encoder = ag_event_encoder_new();
    int r = encoder == NULL ? -1 : ag_trace_writer_records(writer, &records_info, &blob);
    for (unsigned chunk = 0; r == 0 && chunk < n_chunks; chunk++) {
        r = write_events(writer, encoder, &random, chunk);
    }
    if (r == 0 && ending == AG_SAMPLE_SEALED) {
        r = ag_trace_writer_finish(writer, &sums);
    }
    (void)ag_event_encoder_free(encoder); /* returns NULL */
    ag_blob_done(&blob);
    ag_blob_done(&sums);
    return r;
}

int ag_sample_trace(int fd, uint64_t seed, unsigned n_chunks, enum ag_sample_ending ending) {
    const struct ag_trace_header header = {.session = 0x1122334455667788,
                                           .pid = 4711,
                                           .slot = 1,
                                           .start_realtime_ns = 1700000000000000000};
    struct ag_trace_writer *writer;
    int r = ag_trace_writer_new(fd, &header, &writer);

    if (r == 0) {
        r = write_all(writer, seed, n_chunks, ending);
        (void)ag_trace_writer_free(writer); /* returns NULL */
    }
    return r;
}
