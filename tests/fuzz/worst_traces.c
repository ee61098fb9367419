/* worst_traces.c: writes traces that are as expensive to read as their size allows, for
 * reader_budgets.py.
 *
 *     worst_traces --list            prints for each case a line with its name and its usual N
 *     worst_traces CASE N PATH       writes the case to PATH; N is about the number of its events,
 *                                    nodes, threads or other items; prints the uncompressed size
 *                                    of the trace in bytes
 *     worst_traces --body FILE PATH  writes a trace with three chunks (units), each with the same
 *                                    input of fuzz_chunk.c
 *
 * Each case aims at one way in which a reader's work may grow faster than its input: keys that
 * collide in a hash table whose hash is known, lists that are searched from their beginning, events
 * of several threads at one address, tables that are larger in memory than in the file, paths whose
 * lengths add up. Colliding keys are computed for the multipliers of common hash functions. If a
 * table hashes with such a multiplier and without a random key, the test fails. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/varint.h"
#include "format/encode.h"
#include "format/segment.h"
#include "schema/resident_mapping.h"

/* ---- writing ---- */

static struct ag_trace_writer *writer;
static struct ag_event_encoder *encoder;
static struct ag_blob records; /* records that are not yet written: flush_records writes them when
                                * there are many, and at the end */
static uint64_t n_uncompressed;
static struct ag_event *events; /* events of the stream (thread) that is being written */
static size_t n_events, events_capacity;
static uint64_t *sequences; /* the last sequence number of each stream */
static size_t n_sequences;

static void die(const char *what) {
    fprintf(stderr, "worst_traces: %s failed\n", what);
    exit(2);
}

static void require(int r, const char *what) {
    if (r < 0) {
        die(what);
    }
}

static void *grown(void *items, size_t bytes) {
    void *more = realloc(items, bytes);
    if (more == NULL) {
        die("realloc");
    }
    return more;
}

static void flush_records_as(enum ag_chunk_kind kind) {
    if (records.length > 0) {
        const struct ag_chunk_info info = {.kind = (uint8_t)kind};
        require(records.error, "a record");
        require(ag_trace_writer_records(writer, &info, &records), "writing records");
        n_uncompressed += records.length;
        records.length = 0;
    }
}

static void flush_records(void) {
    flush_records_as(AG_CHUNK_KIND_RECORDS);
}

static void put(const struct ag_record *record) {
    require(ag_record_append(&records, record), "a record");
    if (records.length > 4 << 20) {
        flush_records();
    }
}

static struct ag_bytes text(const char *letters) {
    return (struct ag_bytes){.data = letters, .length = (uint32_t)strlen(letters)};
}

/* Returns a different text for each number. The text is valid until the function was called eight
 * more times. */
static struct ag_bytes numbered(const char *stem, uint64_t number) {
    static char texts[8][128];
    static unsigned next;
    char *letters = texts[next++ % 8];
    snprintf(letters, sizeof(texts[0]), "%s%" PRIu64, stem, number);
    return text(letters);
}

static void put_nodes(const struct ag_node *nodes, size_t count) {
    require(ag_record_append_nodes(&records, nodes, count), "nodes");
    if (records.length > 4 << 20) {
        flush_records();
    }
}

static void node(uint32_t id, uint32_t parent, uint64_t pc, uint32_t image) {
    static struct ag_node batch[4096];
    static size_t n;
    if (id != 0) {
        batch[n++] = (struct ag_node){.id = id, .parent = parent, .pc = pc, .image = image};
    }
    if (n > 0 && (n == 4096 || id == 0)) {
        put_nodes(batch, n);
        n = 0;
    }
}

static void end_nodes(void) {
    node(0, 0, 0, 0);
}

static void event(const struct ag_event *one) {
    if (n_events == events_capacity) {
        events_capacity = events_capacity ? events_capacity * 2 : 1024;
        events = grown(events, events_capacity * sizeof(*events));
    }
    events[n_events++] = *one;
}

static void stamp(uint64_t time_ns) {
    event(&(struct ag_event){.kind = AG_RECORD_STAMP, .size = time_ns});
}

static void allocate(uint64_t address, uint64_t size, uint32_t stack) {
    event(&(struct ag_event){
        .kind = AG_RECORD_ALLOC, .address = address, .size = size, .stack = stack});
}

static void release(uint64_t address) {
    event(&(struct ag_event){.kind = AG_RECORD_FREE, .address = address});
}

static void put_body(uint32_t stream, uint64_t first_ns) {
    if (stream >= n_sequences) {
        const size_t more = stream + 1 > 2 * n_sequences ? stream + 1 : 2 * n_sequences;
        sequences = grown(sequences, more * sizeof(*sequences));
        memset(sequences + n_sequences, 0, (more - n_sequences) * sizeof(*sequences));
        n_sequences = more;
    }
    const struct ag_blob *body = ag_event_encoder_body(encoder);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                       .stream = stream,
                                       .thread_id = 1000 + stream,
                                       .sequences = 1,
                                       .events = ag_event_encoder_events(encoder),
                                       .first_sequence = sequences[stream]++,
                                       .first_time_ns = first_ns};
    require(ag_trace_writer_chunk(writer, &info, body->data, body->length), "writing events");
    n_uncompressed += body->length + 64;
}

/* Writes the events so far as those of one stream (thread), in chunks of at most 16,384
 * events. The first event is a stamp (a record of the time). */
static void end_events(uint32_t stream) {
    enum { A_CHUNK = 1 << 14 };
    uint64_t now_ns = 0;
    flush_records();
    for (size_t at = 0; at < n_events; at += A_CHUNK) {
        const size_t n = n_events - at < A_CHUNK ? n_events - at : A_CHUNK;
        now_ns = events[at].kind == AG_RECORD_STAMP ? events[at].size : now_ns;
        ag_event_encoder_start(encoder, now_ns);
        require(ag_event_encoder_add(encoder, events + at, n), "events");
        put_body(stream, now_ns);
        for (size_t i = at; i < at + n; i++) {
            now_ns = events[i].kind == AG_RECORD_STAMP ? events[i].size : now_ns;
        }
    }
    n_events = 0;
}

/* Writes what every trace begins with. Node 16, the first node of the stack tree, is a function of
 * image (loaded file) 1. */
static void begin(const char *path) {
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const struct ag_trace_header header = {.session = 1, .pid = 4711};
    require(fd, path);
    require(ag_trace_writer_new(fd, &header, &writer), path);
    encoder = ag_event_encoder_new();
    static const char command[] = "worst\0";
    put(&(struct ag_record){.kind = AG_RECORD_PROCESS,
                            .u.process = {.pid = 4711,
                                          .exe = text("/nonexistent/worst"),
                                          .n_arguments = 1,
                                          .command = {.data = command, .length = 6}}});
    put(&(struct ag_record){.kind = AG_RECORD_HEAP,
                            .u.heap = {.heap = 0,
                                       .name = text("malloc"),
                                       .allocator = text("glibc"),
                                       .runtime = text("libc")}});
    put(&(struct ag_record){.kind = AG_RECORD_VIA, .u.via = {.via = 0, .name = text("malloc")}});
    put(&(struct ag_record){
        .kind = AG_RECORD_IMAGE_LOAD,
        .u.image_load = {
            .image = 1, .low = 0x400000, .high = 0x500000, .path = text("/nonexistent/worst")}});
    node(16, 0, 0x400100, 1);
    end_nodes();
}

static void end(void) {
    if (writer == NULL) {
        printf("%" PRIu64 "\n", n_uncompressed);
        return;
    }
    put(&(struct ag_record){.kind = AG_RECORD_END,
                            .u.end = {.how = AG_END_EXIT, .time_ns = UINT64_C(1) << 40}});
    flush_records();
    (void)ag_trace_writer_free(writer);
    (void)ag_event_encoder_free(encoder);
    ag_blob_done(&records);
    free(events);
    free(sequences);
    printf("%" PRIu64 "\n", n_uncompressed);
}

/* Adds a few events of one thread, for traces that test something else. */
static void few_events(uint32_t stack) {
    stamp(1000);
    for (uint64_t i = 0; i < 100; i++) {
        allocate(0x10000 + i * 16, 24, stack);
    }
    stamp(2000);
    end_events(0);
}

/* Writes the records so far, which define the nodes 17 to N + 16, and one block of each node. */
static void one_block_of_each_node(uint64_t n) {
    end_nodes();
    stamp(1000);
    for (uint64_t i = 0; i < n; i++) {
        allocate(0x10000 + i * 16, 24, (uint32_t)i + 17);
    }
    end_events(0);
}

/* ---- keys that collide ---- */

/* Enumerates the numbers whose product with `multiplier`, modulo 2^64, is below `bound`. */
struct collider {
    uint64_t multiplier, bound;
    uint64_t up, down; /* two steps: the product of `multiplier` and `up` is a small positive
                        * number, that of `multiplier` and `down` a small negative number; the
                        * absolute values of both products are below `bound` */
};

static struct collider collider_new(uint64_t multiplier, unsigned bits) {
    struct collider made = {.multiplier = multiplier, .bound = UINT64_C(1) << (64 - bits)};
    uint64_t best_up = UINT64_MAX, best_down = UINT64_MAX, up = 1, down = 1;
    /* Euclid's algorithm on the products: it finds steps whose products come ever nearer to 0, from
     * above and from below. */
    best_up = multiplier;
    best_down = 0 - multiplier;
    while (best_up >= made.bound || best_down >= made.bound) {
        if (best_up > best_down) {
            best_up -= best_down;
            up += down;
        } else {
            best_down -= best_up;
            down += up;
        }
    }
    made.up = up;
    made.down = down;
    return made;
}

/* Returns the next number after `at` whose product is below `bound`: at + up, at + down, or at + up
 * + down (the three-gap theorem). */
static uint64_t collider_next(const struct collider *collider, uint64_t at) {
    const uint64_t place = at * collider->multiplier;
    const uint64_t rise = collider->up * collider->multiplier;
    const uint64_t fall = 0 - collider->down * collider->multiplier;
    const bool can_rise = place + rise < collider->bound && place + rise >= place;
    const bool can_fall = place >= fall;
    if (can_rise && (!can_fall || collider->up < collider->down)) {
        return at + collider->up;
    }
    return can_fall ? at + collider->down : at + collider->up + collider->down;
}

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)
#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* A text of 12 letters whose FNV-1a hash has 0 in its low `bits` bits; *seed is advanced. */
static struct ag_bytes colliding_text(uint64_t *seed, unsigned bits) {
    static char letters[13];
    for (;; (*seed)++) {
        uint64_t hash = FNV_BASIS ^ 12, number = *seed * GOLDEN;
        for (int i = 0; i < 12; i++) {
            letters[i] = (char)('a' + number % 26);
            number = number / 26 ^ (i == 5 ? *seed << 20 : 0);
        }
        for (int i = 0; i < 12; i++) {
            hash = (hash ^ (unsigned char)letters[i]) * FNV_PRIME;
        }
        if ((hash & ((UINT64_C(1) << bits) - 1)) == 0) {
            (*seed)++;
            return text(letters);
        }
    }
}

/* ---- events ---- */

static void plain(uint64_t n) {
    stamp(1000);
    for (uint64_t i = 0; i < n; i++) {
        allocate(0x10000 + i % 4096 * 64, 1 + i % 1000, 16);
        release(0x10000 + i % 4096 * 64);
        if (i % 64 == 0) {
            stamp(1000 + i * 100);
        }
    }
    end_events(0);
}

static void live_blocks(uint64_t n) {
    stamp(1000);
    for (uint64_t i = 0; i < n; i++) {
        allocate(0x10000 + i * 16, 1 + i % 1000, 16);
    }
    end_events(0);
}

static void colliding_addresses(uint64_t n) {
    const struct collider collider = collider_new(GOLDEN, 40);
    uint64_t address = 0;
    stamp(1000);
    for (uint64_t i = 0; i < n; i++) {
        address = collider_next(&collider, address);
        allocate(address, 24, 16);
    }
    end_events(0);
}

/* Stack numbers of 32 bits whose products with the golden ratio begin with `bits` equal bits. */
static void colliding_stacks(uint64_t n) {
    unsigned bits = 1;
    while (bits < 31 && UINT64_C(1) << (33 - bits) > 2 * n) {
        bits++;
    }
    const struct collider collider = collider_new(GOLDEN, bits);
    uint64_t stack = 0;
    stamp(1000);
    for (uint64_t i = 0; i < n; i++) {
        stack = collider_next(&collider, stack);
        if (stack > UINT32_MAX - 16) {
            break;
        }
        node((uint32_t)stack + 16, 0, 0x400100 + i, 1);
        allocate(0x10000 + i * 16, 24, (uint32_t)stack + 16);
    }
    end_nodes();
    end_events(0);
}

static void two_streams(uint64_t n, void (*first)(uint64_t i), void (*second)(uint64_t i)) {
    stamp(1000);
    for (uint64_t i = 0; i < n; i++) {
        first(i);
    }
    stamp(5000);
    allocate(0x99990, 24, 16);
    end_events(0);
    stamp(1001);
    for (uint64_t i = 0; i < n; i++) {
        second(i);
    }
    stamp(5001);
    allocate(0x99980, 24, 16);
    end_events(1);
}

static void one_alloc(uint64_t i) {
    (void)i;
    allocate(0x10000, 24, 16);
}
static void one_free(uint64_t i) {
    (void)i;
    release(0x10000);
}
static void alloc_and_free(uint64_t i) {
    one_alloc(i);
    one_free(i);
}
static void free_and_alloc(uint64_t i) {
    one_free(i);
    one_alloc(i);
}
static void many_alloc_free(uint64_t i) {
    allocate(0x10000 + i * 16, 24, 16);
    release(0x10000 + i * 16);
}
static void many_free_alloc(uint64_t i) {
    release(0x10000 + i * 16);
    allocate(0x10000 + i * 16, 24, 16);
}
static void many_frees(uint64_t i) {
    release(0x10000 + i * 16);
}
static void many_allocs(uint64_t i) {
    allocate(0x10000 + i * 16, 24, 16);
}
static void many_allocs_backward(uint64_t i) {
    allocate(UINT64_C(0x7fff0000) - i * 16, 24, 16);
}
static void many_frees_forward(uint64_t i) {
    release(UINT64_C(0x7fff0000) - i * 16);
}
static void realloc_pairs(uint64_t i) {
    event(&(struct ag_event){.kind = AG_RECORD_REALLOC_FREE, .address = 0x10000 + i % 2 * 16});
    if (i % 3 == 0) {
        event(&(struct ag_event){.kind = AG_RECORD_UNDO_FREE, .address = 0x10000 + i % 2 * 16});
    }
    allocate(0x10010 - i % 2 * 16, 24, 16);
}

/* All streams allocate and free blocks at one address. The times of the streams overlap, so the
 * stamps do not give the order of the events, and the reader has to repair it. */
static void repair_streams(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        stamp(1000 + i % 2);
        for (int k = 0; k < 4; k++) {
            if ((i + (uint64_t)k) % 2 == 0) {
                allocate(0x10000, 24, 16);
            } else {
                release(0x10000);
            }
        }
        stamp(1 << 20);
        end_events((uint32_t)i);
    }
}

/* One stream frees blocks at addresses whose hashes collide, and as many blocks that are never
 * allocated. Another stream, which overlaps it in time, allocates the blocks of the first kind:
 * their frees have to wait until the allocations are read. */
static void repair_collisions(uint64_t n) {
    const struct collider collider = collider_new(GOLDEN, 20);
    uint64_t address = 0;
    stamp(1000);
    for (uint64_t i = 0; i < n; i++) {
        address = collider_next(&collider, address);
        release((address << 32) | 1);
        release(address);
    }
    stamp(5000);
    end_events(0);
    address = 0;
    stamp(1001);
    for (uint64_t i = 0; i < n; i++) {
        address = collider_next(&collider, address);
        allocate(address, 24, 16);
    }
    stamp(5001);
    end_events(1);
}

/* Random events of many threads at few addresses. */
static void repair_random(uint64_t n) {
    enum { STREAMS = 16, ADDRESSES = 8 };
    uint64_t state = 1;
    for (uint32_t stream = 0; stream < STREAMS; stream++) {
        stamp(1000);
        for (uint64_t i = 0; i < n / STREAMS; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            const uint64_t address = 0x10000 + (state >> 40) % ADDRESSES * 16;
            if (state >> 60 & 1) {
                allocate(address, 24, 16);
            } else {
                release(address);
            }
            if ((state >> 33) % 2000 == 0) {
                stamp(1000 + i * 10);
            }
        }
        stamp(UINT64_C(1) << 32);
        end_events(stream);
    }
}

static void many_streams(uint64_t n) {
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < n; i++) {
            stamp(1000 + round * 1000000 + i);
            allocate(0x10000 + i * 16, 24, 16);
            stamp(900000 + round * 1000000 + i);
            release(0x10000 + i * 16);
            end_events((uint32_t)i);
        }
    }
}

/* Chunks that all overlap at one time, each with a record in its middle. */
static void open_records(uint64_t n) {
    flush_records();
    for (uint64_t i = 0; i < n; i++) {
        const struct ag_event first[] = {
            {.kind = AG_RECORD_STAMP, .size = 1000 + i},
            {.kind = AG_RECORD_ALLOC, .address = 0x10000 + i * 16, .size = 24, .stack = 16}};
        const struct ag_event last[] = {{.kind = AG_RECORD_STAMP, .size = 900000 + i},
                                        {.kind = AG_RECORD_FREE, .address = 0x10000 + i * 16}};
        const struct ag_record map = {.kind = AG_RECORD_MAP,
                                      .u.map = {.address = (0x10000 + i) << 12, .bytes = 4096}};
        ag_event_encoder_start(encoder, 1000 + i);
        require(ag_event_encoder_add(encoder, first, 2), "events");
        require(ag_event_encoder_add_record(encoder, &map), "a record");
        require(ag_event_encoder_add(encoder, last, 2), "events");
        put_body((uint32_t)i, 1000 + i);
    }
}

/* Many threads with names; each frees the block that the thread before it allocated. */
static void many_pairs(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        put(&(struct ag_record){.kind = AG_RECORD_THREAD,
                                .u.thread = {.stream = (uint32_t)i,
                                             .thread_id = 1000,
                                             .name = numbered("thread ", i)}});
    }
    for (uint64_t i = 0; i < n; i++) {
        stamp(1000 + i * 10);
        allocate(0x10000 + i * 16, 24, 16);
        if (i > 0) {
            release(0x10000 + (i - 1) * 16);
        }
        stamp(1005 + i * 10);
        end_events((uint32_t)i);
    }
}

/* n streams allocate one block each, and two further streams free these blocks in turns. So there
 * are n pairs of an allocating and a freeing thread. */
static void pairs_of_two(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        stamp(1000 + i);
        allocate(0x10000 + i * 16, 24, 16);
        end_events((uint32_t)i + 2);
    }
    for (uint32_t stream = 0; stream < 2; stream++) {
        stamp(UINT64_C(1) << 30);
        for (uint64_t i = stream; i < n; i += 2) {
            release(0x10000 + i * 16);
        }
        end_events(stream);
    }
}

static void extreme_numbers(uint64_t n) {
    stamp(0);
    for (uint64_t i = 0; i < n; i++) {
        allocate(UINT64_MAX - i * 16, UINT64_MAX >> (i % 64), 16);
        if (i % 3 == 0) {
            release(UINT64_MAX - i * 16);
        }
        if (i % 100 == 0) {
            stamp(UINT64_MAX >> (63 - i / 100 * 63 / (n / 100 + 1)));
        }
    }
    stamp(UINT64_MAX);
    end_events(0);
}

static void many_stamps(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        stamp(1000 + i * 3);
        allocate(0x10000 + i % 2 * 16, i + 1, 16);
        stamp(1001 + i * 3);
        release(0x10000 + i % 2 * 16);
    }
    end_events(0);
}

/* Each allocation is a new peak, with a stack of its own. */
static void many_peaks(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, 16, 0x400200 + i, 1);
    }
    end_nodes();
    stamp(1000);
    for (uint64_t i = 0; i < n; i++) {
        allocate(0x10000 + i * 16, 1000 + i, (uint32_t)i + 17);
        if (i > 1) {
            release(0x10000 + (i - 1) * 16);
        }
        stamp(1000 + i);
    }
    end_events(0);
}

static void body_records(uint64_t n, void (*fill)(struct ag_record *record, uint64_t i)) {
    ag_event_encoder_start(encoder, 1000);
    const struct ag_event alloc = {
        .kind = AG_RECORD_ALLOC, .address = 0x10000, .size = 24, .stack = 16};
    require(ag_event_encoder_add(encoder, &alloc, 1), "an event");
    flush_records();
    for (uint64_t i = 0; i < n; i++) {
        struct ag_record record = {0};
        fill(&record, i);
        require(ag_event_encoder_add_record(encoder, &record), "a record among events");
        const struct ag_event pair[] = {
            {.kind = AG_RECORD_STAMP, .size = 1000 + i},
            {.kind = AG_RECORD_ALLOC, .address = 0x20000 + i * 16, .size = 24, .stack = 16}};
        require(ag_event_encoder_add(encoder, pair, 2), "an event");
    }
    put_body(0, 1000);
}

static void fill_mark(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_MARK;
    record->u.mark.name = numbered("mark ", i);
}
static void fill_sampling(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_SAMPLING;
    record->u.sampling.interval_bytes = 1000 + i;
    record->u.sampling.method = 1;
}
static void fill_map(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_MAP;
    record->u.map.address = 0x100000000 + i * 0x2000;
    record->u.map.bytes = 0x1000;
    record->u.map.stack = 16;
}
static void fill_unmap_holes(struct ag_record *record, uint64_t i) {
    record->kind = i == 0 ? AG_RECORD_MAP : AG_RECORD_UNMAP; /* both kinds have the same layout */
    record->u.map.address =
        i == 0 ? 0x100000000 : 0x100001000 + (i * 0x9e3779b1 % 0x40000) * 0x2000;
    record->u.map.bytes = i == 0 ? 0x1000000000 : 0x1000;
}
static void fill_free_stack(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_FREE_STACK;
    record->u.free_stack.stack = (uint32_t)i;
}
static void fill_reset(struct ag_record *record, uint64_t i) {
    (void)i;
    record->kind = AG_RECORD_RESET;
}
static void fill_resident(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_RESIDENT;
    record->u.resident.time_ns = UINT64_C(1) << 40 >> (i % 40);
    record->u.resident.bytes = i << 12;
}
static void fill_move(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_MOVE;
    record->u.move.address = 0x10000 + i * 16;
    record->u.move.to = 0x10010 + i * 16;
}
static void fill_block_type(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_BLOCK_TYPE;
    record->u.block_type.address = 0x10000;
    record->u.block_type.size = 24;
    record->u.block_type.stack = (uint32_t)(i + 17);
}

/* ---- definitions ---- */

static void many(uint64_t n, void (*fill)(struct ag_record *record, uint64_t i)) {
    for (uint64_t i = 0; i < n; i++) {
        struct ag_record record = {0};
        fill(&record, i);
        put(&record);
    }
}

static void fill_image(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_IMAGE_LOAD;
    record->u.image_load.image = (uint32_t)i + 2;
    record->u.image_load.low = 0x7f0000000000 + i * 0x1000;
    record->u.image_load.high = 0x7f0000001000 + i * 0x1000;
    record->u.image_load.path = numbered("/nonexistent/image", i);
}
static void fill_image_overlapping(struct ag_record *record, uint64_t i) {
    fill_image(record, i);
    record->u.image_load.low = 0x7f0000000000;
    record->u.image_load.high = 0x7fffffffffff;
}
static void fill_image_same(struct ag_record *record, uint64_t i) {
    fill_image(record, i);
    record->u.image_load.path = text("/nonexistent/one");
}
static void fill_image_unload(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_IMAGE_UNLOAD;
    record->u.image_unload.image = (uint32_t)i;
}
static void nodes_of_images(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, 16, 0x7f0000000100 + i * 0x1000, (uint32_t)i + 2);
    }
    one_block_of_each_node(n);
}
static void images(uint64_t n) {
    many(n, fill_image);
    nodes_of_images(n);
}
static void images_overlapping(uint64_t n) {
    many(n, fill_image_overlapping);
    nodes_of_images(n);
}
static void images_of_one_file(uint64_t n) {
    many(n, fill_image_same);
    many(n, fill_image_unload);
    nodes_of_images(n);
}
static void images_undefined(uint64_t n) {
    nodes_of_images(n);
}

static void fill_heap(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_HEAP;
    record->u.heap.heap = (uint32_t)i + 64;
    record->u.heap.name = numbered("heap ", i);
    record->u.heap.allocator = numbered("allocator ", i);
    record->u.heap.runtime = numbered("runtime ", i);
}
static void fill_memory(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_MEMORY;
    record->u.memory.heap = (uint32_t)i + 64;
    record->u.memory.known = 15;
    record->u.memory.time_ns = 1000 + i;
    record->u.memory.reserved_bytes = record->u.memory.committed_bytes = 4096;
}
static void fill_runtime(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_RUNTIME;
    record->u.runtime.name = numbered("runtime ", i);
    record->u.runtime.version = numbered("1.", i);
    record->u.runtime.note = text("note");
}
static void fill_thread(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_THREAD;
    record->u.thread.stream = (uint32_t)i;
    record->u.thread.thread_id = 1000 + (uint32_t)i;
    record->u.thread.name = numbered("thread ", i);
}
static void fill_via(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_VIA;
    record->u.via.via = i % 256;
    record->u.via.heap = (uint32_t)i + 64;
    record->u.via.name = numbered("via ", i);
}
static void fill_undecided(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_UNDECIDED;
    record->u.undecided.via = i % 256;
}
static void fill_type(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_TYPE;
    record->u.type.type = (uint32_t)i + 1;
    record->u.type.name = numbered("std::vector<std::basic_string<char>>", i);
    record->u.type.runtime = text("c");
}
static void fill_label(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_LABEL;
    record->u.label.label = (uint32_t)i + 1;
    record->u.label.name = numbered("label ", i);
}
static void fill_gc(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_GC;
    record->u.gc.known = 31;
    record->u.gc.stack = 16 + (uint32_t)i;
    record->u.gc.start_ns = 1000 + i;
    record->u.gc.pause_ns = 100;
    record->u.gc.runtime = numbered("runtime ", i);
    record->u.gc.kind = text("major");
    record->u.gc.process = numbered("process ", i);
}
static void fill_frame(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_FRAME;
    record->u.frame.frame = (uint32_t)i + 1;
    record->u.frame.line = (uint32_t)i;
    record->u.frame.runtime = text("lua");
    record->u.frame.function = numbered("function_", i);
    record->u.frame.file = numbered("file.lua", i);
}
static void fill_frame_runtime(struct ag_record *record, uint64_t i) {
    fill_frame(record, i);
    record->u.frame.runtime = numbered("runtime ", i);
}
static void fill_functions(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_FUNCTIONS;
    record->u.functions.tree = (uint32_t)i;
    record->u.functions.snapshot = 1;
    record->u.functions.word_bytes = 8;
    record->u.functions.runtime = numbered("runtime ", i);
    record->u.functions.process = numbered("process ", i);
    record->u.functions.initial_call = numbered("call ", i);
}
static void fill_functions_snapshots(struct ag_record *record, uint64_t i) {
    fill_functions(record, 1);
    record->u.functions.snapshot = (uint32_t)i;
}
static void fill_code(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_CODE;
    record->u.code.pc = 0x600000 + i / 2;
    record->u.code.place = i % 2;
    record->u.code.n_places = 2;
    record->u.code.frame = (uint32_t)i + 1;
}
static void fill_code_same(struct ag_record *record, uint64_t i) {
    fill_code(record, 0);
    record->u.code.place = (uint32_t)i;
    record->u.code.n_places = UINT32_MAX;
}
static void fill_stack_type(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_STACK_TYPE;
    record->u.stack_type.stack = 16 + (uint32_t)i;
    record->u.stack_type.type = 1 + (uint32_t)i;
}
static void fill_lost(struct ag_record *record, uint64_t i) {
    record->kind = AG_RECORD_LOST;
    record->u.lost.cause = i % 5;
    record->u.lost.events = 1;
}

static void heaps(uint64_t n) {
    many(n, fill_heap);
    many(n, fill_memory);
    many(n, fill_via);
    few_events(16);
}
static void memory_of_one(uint64_t n) {
    many(n, fill_memory);
    few_events(16);
}
static void undecided(uint64_t n) {
    many(n, fill_heap);
    many(n, fill_via);
    for (uint64_t i = 0; i < n / 256; i++) {
        many(256, fill_via);
    }
    many(n, fill_undecided);
    few_events(16);
}
static void runtimes(uint64_t n) {
    many(n, fill_runtime);
    many(n, fill_lost);
    few_events(16);
}
static void threads(uint64_t n) {
    many(n, fill_thread);
    few_events(16);
}
static void types(uint64_t n) {
    many(n, fill_type);
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, 16, i + 1, UINT32_MAX - 1);
    }
    one_block_of_each_node(n);
}
static void labels(uint64_t n) {
    many(n, fill_label);
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, 16, i + 1, UINT32_MAX - 2);
    }
    one_block_of_each_node(n);
}
static void stack_types(uint64_t n) {
    many(n, fill_type);
    many(n, fill_stack_type);
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, 16, 0x400200 + i, 1);
    }
    one_block_of_each_node(n);
}
static void collections(uint64_t n) {
    many(n, fill_gc);
    few_events(16);
}
/* A look at the resident memory: N ranges of thread storage at the end of a mapping with N runs of
 * pages, the last of which has 2^49 pages. */
static void resident_look(uint64_t n) {
    enum { PAIR_BYTES_MOST = 20, PAGE_BYTES_LOG2 = 12 };
    const uint64_t high = UINT64_C(1) << 62;
    uint8_t *storage = grown(NULL, n * PAIR_BYTES_MOST), *pages = grown(NULL, n * PAIR_BYTES_MOST);
    uint8_t *storage_end = storage, *pages_end = pages;
    for (uint64_t i = 0; i < n; i++) {
        storage_end = ag_varint_put(storage_end, i == 0 ? high - n : 0);
        storage_end = ag_varint_put(storage_end, 1);
        pages_end = ag_varint_put(pages_end, 1);
        pages_end = ag_varint_put(pages_end, i + 1 < n ? 1 : UINT64_C(1) << 49);
    }
    put(&(struct ag_record){
        .kind = AG_RECORD_RESIDENT_LOOK,
        .u.resident_look = {.time_ns = 1,
                            .page_bytes = 1 << PAGE_BYTES_LOG2,
                            .rss_bytes = high / 2,
                            .storage = {(const char *)storage, (size_t)(storage_end - storage)}}});
    put(&(struct ag_record){
        .kind = AG_RECORD_RESIDENT_MAPPING,
        .u.resident_mapping = {.low = 1 << PAGE_BYTES_LOG2,
                               .high = high,
                               .rss_bytes = high / 2,
                               .anonymous_bytes = high / 2,
                               .flags = AG_RESIDENT_WRITE,
                               .path = text(""),
                               .pages = {(const char *)pages, (size_t)(pages_end - pages)}}});
    free(storage);
    free(pages);
    few_events(16);
}
static void managed_nodes(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, 16, ag_managed_pc((uint32_t)i + 1, (uint32_t)i), UINT32_MAX);
    }
    one_block_of_each_node(n);
}
static void managed(uint64_t n) {
    many(n, fill_frame);
    managed_nodes(n);
}
static void managed_runtimes(uint64_t n) {
    many(n, fill_frame_runtime);
    managed_nodes(n);
}
static void code(uint64_t n) {
    many(n, fill_code);
    many(n, fill_frame);
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, 16, 0x600000 + i / 2, 0);
    }
    one_block_of_each_node(n);
}
static void code_of_one(uint64_t n) {
    many(n, fill_code_same);
    node(17, 16, 0x600000, 0);
    end_nodes();
    few_events(17);
}

/* Writes a call tree: a chain of nodes, or one node that is the parent of all others. */
static void put_calls(uint32_t tree, uint64_t n, bool is_deep) {
    struct ag_call_path *paths = calloc(n, sizeof(*paths));
    if (paths == NULL) {
        die("calloc");
    }
    for (uint64_t i = 0; i < n; i++) {
        paths[i] = (struct ag_call_path){.tree = tree,
                                         .snapshot = 1,
                                         .node = (uint32_t)i + 1,
                                         .parent = is_deep  ? (uint32_t)i
                                                   : i == 0 ? 0
                                                            : 1,
                                         .frame = (uint32_t)(i % 1000) + 1,
                                         .calls = 1,
                                         .own_words = 2,
                                         .own_ns = 3};
    }
    require(ag_record_append_calls(&records, paths, n), "calls");
    free(paths);
}
static void call_trees(uint64_t n) {
    many(n, fill_functions);
    many(n, fill_frame);
    for (uint64_t i = 0; i < n; i++) {
        put_calls((uint32_t)i, 1, false);
    }
    few_events(16);
}
static void call_snapshots(uint64_t n) {
    many(n, fill_functions_snapshots);
    few_events(16);
}
static void one_call_tree(uint64_t n, bool is_deep) {
    struct ag_record record = {0};
    fill_functions(&record, 1);
    record.u.functions.n_calls = (uint32_t)n;
    put(&record);
    many(n < 1000 ? n : 1000, fill_frame);
    put_calls(1, n, is_deep);
    few_events(16);
}
static void calls_deep(uint64_t n) {
    one_call_tree(n, true);
}
static void calls_wide(uint64_t n) {
    one_call_tree(n, false);
}

static void cpu_samples(uint64_t n) {
    struct ag_cpu_sample *samples = calloc(n, sizeof(*samples));
    if (samples == NULL) {
        die("calloc");
    }
    for (uint64_t i = 0; i < n; i++) {
        samples[i] = (struct ag_cpu_sample){.time_ns = 1000 + i,
                                            .weight_ns = 10,
                                            .stack = 17 + (uint32_t)i,
                                            .thread_id = 1000 + (uint32_t)i};
        node((uint32_t)i + 17, 16, 0x400200 + i, 1);
    }
    end_nodes();
    require(ag_record_append_cpu_samples(&records, samples, n), "CPU samples");
    put(&(struct ag_record){.kind = AG_RECORD_OBSERVED,
                            .u.observed = {.rate_hz = 99, .samples = n, .complete_stacks = n}});
    free(samples);
    few_events(16);
}

/* ---- texts ---- */

static void colliding_names(uint64_t n) {
    uint64_t seed = 1;
    for (uint64_t i = 0; i < n; i++) {
        put(&(struct ag_record){.kind = AG_RECORD_FRAME,
                                .u.frame = {.frame = (uint32_t)i + 1,
                                            .runtime = text("lua"),
                                            .function = colliding_text(&seed, 14),
                                            .file = text("file")}});
    }
    managed_nodes(n);
}

/* A function and a file with names of N letters, in one stack. */
static void long_names(uint64_t n) {
    char *letters = malloc(n + 1);
    if (letters == NULL) {
        die("malloc");
    }
    memset(letters, 'x', n);
    letters[n] = '\0';
    put(&(struct ag_record){
        .kind = AG_RECORD_FRAME,
        .u.frame = {
            .frame = 1, .runtime = text("lua"), .function = text(letters), .file = text(letters)}});
    free(letters);
    node(17, 16, ag_managed_pc(1, 1), UINT32_MAX);
    node(18, 17, ag_managed_pc(1, 2), UINT32_MAX);
    end_nodes();
    few_events(18);
}

/* A type whose name is nested N deep. */
static void nested_types(uint64_t n) {
    char *letters = malloc(n * 12 + 1);
    if (letters == NULL) {
        die("malloc");
    }
    size_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(letters + at, "std::vector<", 12);
        at += 12;
    }
    for (uint64_t i = 0; i < n && at < n * 12; i++) {
        letters[at++] = '>';
    }
    letters[at] = '\0';
    struct ag_record record = {0};
    fill_type(&record, 0);
    record.u.type.name = text(letters);
    put(&record);
    free(letters);
    node(17, 16, 1, UINT32_MAX - 1);
    end_nodes();
    few_events(17);
}

/* ---- stacks ---- */

/* Nodes whose pcs and images are equal in all bits that a weak hash uses. */
static void colliding_sites(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, 16, 0x400100, (uint32_t)(i << 17) + 1);
    }
    end_nodes();
    few_events(17);
}

/* Stack nodes of one byte each. No event refers to these nodes. */
static void small_nodes(uint64_t n) {
    for (uint64_t done = 0; done < n; done += 4096) {
        uint8_t body[4096 + 16];
        size_t at = 0;
        body[at++] = 0x80; /* 4096 rows with one column: the id */
        body[at++] = 0x20;
        body[at++] = 1;
        uint64_t first = (done + 17) << 1; /* a zigzag-encoded difference to 0 */
        for (; first > 0x7f; first >>= 7) {
            body[at++] = (uint8_t)(first | 0x80);
        }
        body[at++] = (uint8_t)first;
        for (int i = 1; i < 4096; i++) {
            body[at++] = 2;
        }
        uint8_t head[8] = {AG_RECORD_NODES, 0x80 | (at & 0x7f), 0};
        size_t n_head = 1;
        uint64_t length = at;
        for (; length > 0x7f; length >>= 7) {
            head[n_head++] = (uint8_t)(length | 0x80);
        }
        head[n_head++] = (uint8_t)length;
        if (!ag_blob_reserve(&records, n_head + at)) {
            die("malloc");
        }
        memcpy(records.data + records.length, head, n_head);
        memcpy(records.data + records.length + n_head, body, at);
        records.length += n_head + at;
    }
    few_events(16);
}

/* Ids that are far apart: a table indexed by id would need as many rows as the largest id. */
static void sparse_nodes(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)(i * 0x9e3779b1) | 16, 0, 0x400100 + i, 1);
    }
    end_nodes();
    stamp(1000);
    for (uint64_t i = 0; i < n; i++) {
        allocate(0x10000 + i * 16, 24, (uint32_t)(i * 0x9e3779b1) | 16);
    }
    end_events(0);
}

/* One chain of nodes. With is_comb every node of the chain allocates a block, otherwise only the
 * last node. */
static void chain(uint64_t n, bool is_comb) {
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, (uint32_t)i + 16, 0x400200 + i, 1);
    }
    end_nodes();
    stamp(1000);
    for (uint64_t i = is_comb ? 0 : n - 1; i < n; i++) {
        allocate(0x10000 + i * 16, 24, (uint32_t)i + 17);
    }
    end_events(0);
}
static void deep_stack(uint64_t n) {
    chain(n, false);
}
static void deep_stacks(uint64_t n) {
    chain(n / 64 + 1, true);
}
static void recursion(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, (uint32_t)i + 16, 0x400200 + i % 2, 1);
    }
    end_nodes();
    few_events((uint32_t)n + 16);
}
static void wide_tree(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, 16, 0x400200 + i, 1);
    }
    one_block_of_each_node(n);
}
/* Many functions that the last function of a deep chain calls: their stacks differ only in the
 * innermost frame. */
static void deep_and_wide(uint64_t n) {
    const uint64_t depth = 1000, width = n / 100 + 1;
    for (uint64_t i = 0; i < depth; i++) {
        node((uint32_t)i + 17, (uint32_t)i + 16, 0x400200 + i, 1);
    }
    for (uint64_t i = 0; i < width; i++) {
        node((uint32_t)(depth + i) + 17, (uint32_t)depth + 16, 0x408000 + i, 1);
    }
    end_nodes();
    stamp(1000);
    for (uint64_t i = 0; i < width; i++) {
        allocate(0x10000 + i * 16, 24, (uint32_t)(depth + i) + 17);
    }
    end_events(0);
}
static void labels_on_labels(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        node((uint32_t)i + 17, (uint32_t)i + 16, i + 1, i % 2 ? UINT32_MAX - 1 : UINT32_MAX - 2);
    }
    end_nodes();
    few_events((uint32_t)n + 16);
}

/* ---- bombs: few bytes on disk that need much memory ---- */

static void zeros(uint64_t n) {
    uint8_t *bytes = calloc(1, n);
    if (bytes == NULL) {
        die("calloc");
    }
    for (uint64_t i = 0; i + 1 < n; i += 2) {
        bytes[i] = 63 + 50; /* records of an unknown kind, with no bytes */
    }
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS};
    flush_records();
    for (uint64_t at = 0; at < n; at += 1 << 20) {
        const uint64_t length = n - at < 1 << 20 ? n - at : 1 << 20;
        require(ag_trace_writer_chunk(writer, &info, bytes, length & ~UINT64_C(1)), "a chunk");
    }
    n_uncompressed += n;
    free(bytes);
    few_events(16);
}

/* Chunks with nearly nothing in them. */
static void small_chunks(uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t nothing[2] = {63 + 50, 0};
        const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS};
        require(ag_trace_writer_chunk(writer, &info, nothing, 2), "a chunk");
        n_uncompressed += 66;
    }
    few_events(16);
}

/* ---- the index ---- */

static void index_rows(uint64_t n) {
    few_events(16);
    struct ag_blob blob = {0};
    const struct ag_record summary = {.kind = AG_RECORD_SUMMARY,
                                      .u.summary = {.duration_ns = 1 << 30,
                                                    .allocated_blocks = n,
                                                    .allocated_bytes = n,
                                                    .peak_bytes = n,
                                                    .events = n}};
    require(ag_record_append(&blob, &summary), "a summary");
    struct ag_stack_sum *stacks = calloc(n, sizeof(*stacks));
    struct ag_timeline_point *points = calloc(n, sizeof(*points));
    struct ag_thread_sum *sums = calloc(n, sizeof(*sums));
    struct ag_thread_pair *pairs = calloc(n, sizeof(*pairs));
    struct ag_heap_sum *heap_sums = calloc(n, sizeof(*heap_sums));
    for (uint64_t i = 0; i < n; i++) {
        stacks[i] = (struct ag_stack_sum){
            .stack = 16, .via = (uint32_t)i, .allocated_blocks = 1, .allocated_bytes = 1};
        points[i] = (struct ag_timeline_point){.time_ns = n - i, .in_use_bytes = i};
        sums[i] = (struct ag_thread_sum){.stream = (uint32_t)i, .thread_id = (uint32_t)i};
        pairs[i] = (struct ag_thread_pair){
            .allocated_by = (uint32_t)i, .freed_by = (uint32_t)i + 1, .blocks = 1};
        heap_sums[i] = (struct ag_heap_sum){.heap = (uint32_t)i, .allocated_blocks = 1};
    }
    require(ag_record_append_stack_sums(&blob, stacks, n), "sums");
    require(ag_record_append_timeline(&blob, points, n), "sums");
    require(ag_record_append_thread_sums(&blob, sums, n), "sums");
    require(ag_record_append_thread_pairs(&blob, pairs, n), "sums");
    require(ag_record_append_heap_sums(&blob, heap_sums, n), "sums");
    n_uncompressed += blob.length;
    require(ag_trace_writer_finish(writer, &blob), "the index");
    writer = NULL;
    ag_blob_done(&blob);
    free(stacks);
    free(points);
    free(sums);
    free(pairs);
    free(heap_sums);
}

/* A trace is made by `make`, or by two_streams(first, second), or by body_records(fill). */
static const struct worst_case {
    const char *name;
    /* The N for a trace of one or two megabytes. N is smaller if more items would only make the
     * output larger. */
    uint64_t usual;
    void (*make)(uint64_t n);
    void (*first)(uint64_t i), (*second)(uint64_t i);
    void (*fill)(struct ag_record *record, uint64_t i);
} cases[] = {
    {"plain", 400000, .make = plain},
    {"live_blocks", 400000, .make = live_blocks},
    {"colliding_addresses", 150000, .make = colliding_addresses},
    {"colliding_stacks", 60000, .make = colliding_stacks},
    {"repair_allocs_frees", 200000, .first = one_alloc, .second = one_free},
    {"repair_frees_allocs", 200000, .first = one_free, .second = one_alloc},
    {"repair_pairs", 100000, .first = alloc_and_free, .second = free_and_alloc},
    {"repair_mirrored", 100000, .first = free_and_alloc, .second = alloc_and_free},
    {"repair_same", 100000, .first = free_and_alloc, .second = free_and_alloc},
    {"repair_allocs", 200000, .first = one_alloc, .second = one_alloc},
    {"repair_frees", 200000, .first = one_free, .second = one_free},
    {"repair_open_deaths", 100000, .first = many_alloc_free, .second = many_free_alloc},
    {"repair_many_frees", 100000, .first = many_alloc_free, .second = many_frees},
    {"repair_many_waiting", 100000, .first = many_frees, .second = many_allocs},
    {"repair_backward", 100000, .first = many_frees_forward, .second = many_allocs_backward},
    {"repair_reallocs", 100000, .first = realloc_pairs, .second = realloc_pairs},
    {"repair_streams", 20000, .make = repair_streams},
    {"repair_collisions", 50000, .make = repair_collisions},
    {"repair_random", 200000, .make = repair_random},
    {"many_streams", 20000, .make = many_streams},
    {"open_records", 20000, .make = open_records},
    {"many_pairs", 20000, .make = many_pairs},
    {"pairs_of_two", 20000, .make = pairs_of_two},
    {"extreme_numbers", 100000, .make = extreme_numbers},
    {"many_stamps", 200000, .make = many_stamps},
    {"many_peaks", 50000, .make = many_peaks},
    {"marks", 60000, .fill = fill_mark},
    {"samplings", 60000, .fill = fill_sampling},
    {"maps", 60000, .fill = fill_map},
    {"unmaps", 60000, .fill = fill_unmap_holes},
    {"free_stacks", 60000, .fill = fill_free_stack},
    {"resets", 60000, .fill = fill_reset},
    {"residents", 60000, .fill = fill_resident},
    {"moves", 60000, .fill = fill_move},
    {"block_types", 60000, .fill = fill_block_type},
    {"images", 30000, .make = images},
    {"images_overlapping", 30000, .make = images_overlapping},
    {"images_of_one_file", 30000, .make = images_of_one_file},
    {"images_undefined", 60000, .make = images_undefined},
    {"heaps", 30000, .make = heaps},
    {"memory_of_one", 60000, .make = memory_of_one},
    {"undecided", 30000, .make = undecided},
    {"runtimes", 60000, .make = runtimes},
    {"threads", 60000, .make = threads},
    {"types", 30000, .make = types},
    {"labels", 30000, .make = labels},
    {"stack_types", 30000, .make = stack_types},
    {"collections", 30000, .make = collections},
    {"resident_look", 200000, .make = resident_look},
    {"managed", 30000, .make = managed},
    {"managed_runtimes", 30000, .make = managed_runtimes},
    {"code", 30000, .make = code},
    {"code_of_one", 60000, .make = code_of_one},
    {"call_trees", 20000, .make = call_trees},
    {"call_snapshots", 30000, .make = call_snapshots},
    {"calls_deep", 100000, .make = calls_deep},
    {"calls_wide", 100000, .make = calls_wide},
    {"cpu_samples", 60000, .make = cpu_samples},
    {"colliding_names", 20000, .make = colliding_names},
    {"long_names", 1000000, .make = long_names},
    {"nested_types", 80000, .make = nested_types},
    {"colliding_sites", 32000, .make = colliding_sites},
    {"small_nodes", 2000000, .make = small_nodes},
    {"sparse_nodes", 60000, .make = sparse_nodes},
    {"deep_stack", 60000, .make = deep_stack},
    {"deep_stacks", 60000, .make = deep_stacks},
    {"recursion", 60000, .make = recursion},
    {"wide_tree", 60000, .make = wide_tree},
    {"deep_and_wide", 60000, .make = deep_and_wide},
    {"labels_on_labels", 100000, .make = labels_on_labels},
    {"zeros", 16 << 20, .make = zeros},
    {"small_chunks", 30000, .make = small_chunks},
    {"index_rows", 30000, .make = index_rows},
};

static void make_trace(const struct worst_case *worst, uint64_t n) {
    if (worst->make != NULL) {
        worst->make(n);
    } else if (worst->first != NULL) {
        two_streams(n, worst->first, worst->second);
    } else {
        body_records(n, worst->fill);
    }
}

/* Writes the file, an input of fuzz_chunk.c, as the body of three chunks. The first byte of the
 * file is the kind of chunk. The number of events in the other bytes is not known, so the header
 * of each chunk has a different number. A reader has to notice that a number is wrong. */
static void put_kept_body(const char *path) {
    static uint8_t bytes[1 << 20];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, bytes, sizeof(bytes)) : -1;
    require(n > 1 ? 0 : -1, path);
    close(fd);
    flush_records();
    for (uint32_t n_said = 0; n_said < 3; n_said++) {
        const struct ag_chunk_info info = {.kind = bytes[0] % 2 == 0 ? AG_CHUNK_KIND_EVENTS
                                                                     : AG_CHUNK_KIND_RECORDS,
                                           .stream = n_said,
                                           .thread_id = 1000,
                                           .sequences = 1,
                                           .events = n_said * ((uint32_t)n - 1) / 4};
        require(ag_trace_writer_chunk(writer, &info, bytes + 1, (size_t)n - 1), "a chunk");
        n_uncompressed += (size_t)n + 64;
    }
}

int main(int argc, char **argv) {
    const size_t n_cases = sizeof(cases) / sizeof(cases[0]);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < n_cases; i++) {
            printf("%s %" PRIu64 "\n", cases[i].name, cases[i].usual);
        }
        return 0;
    }
    if (argc == 4 && strcmp(argv[1], "--body") == 0) {
        begin(argv[3]);
        put_kept_body(argv[2]);
        end();
        return 0;
    }
    for (size_t i = 0; i < n_cases; i++) {
        if (argc == 4 && strcmp(argv[1], cases[i].name) == 0) {
            begin(argv[3]);
            make_trace(&cases[i], strtoull(argv[2], NULL, 10));
            end();
            return 0;
        }
    }
    fprintf(stderr, "usage: worst_traces --list | CASE N PATH | --body FILE PATH\n");
    return 2;
}
