/* micro_format.c: measures the time to encode and to decode an event of a trace, and its bytes, for
 * developers who change src/format/.
 *
 *     micro_format [SECONDS_EACH=1] [EVENTS.raw ...]
 *
 *     cfrac      events like those of cfrac: 200 stacks, 20 sizes, short lifetimes; the newest
 *                block is usually freed first
 *     espresso   events like those of espresso: 17,000 routines of about 6 stacks each, 60 sizes,
 *                mixed lifetimes
 *     EVENTS.raw a recorded stream: an array of struct ag_event
 *
 * Targets: encode 5 ns, decode 150 M events/s, at most 2.5 bytes per event on disk, preferably at
 * most 1.5. The result is the CPU time of the fastest round. The simulated heap of cfrac and
 * espresso reuses the most recently freed block of a size class, as real heaps do. A chunk has
 * 20,000 events; chunks of the writer (src/writer/) are up to four times as long. The decoded
 * events are compared with the encoded ones, so that a codec which loses events cannot appear
 * fast. */
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "format/decode_chunk.h"
#include "format/encode.h"
#include "random_word.h"

enum {
    EVENTS = 2000000,
    CHUNK_EVENTS = 20000,
    STAMP_EVERY = 64,
    CLASSES = 64,
    PORTION = 1024,
    ROUTINE_STEPS = 12
};

struct shape {
    const char *name;
    uint32_t n_routines; /* each has at most ROUTINE_STEPS stacks */
    /* n_sizes: the number of size classes; n_alive: the most live blocks at a time */
    uint32_t n_sizes, n_alive;
    /* 0: each block is freed by a later step of the routine that allocated it. Otherwise each
     * routine also allocates a block that remains after its end, and frees a random one of the
     * `keeps` newest remaining blocks. */
    uint32_t keeps;
};

struct block {
    uint64_t address;
    uint32_t class;
};

struct heap { /* one list of freed blocks per size class, the newest first */
    uint64_t *freed[CLASSES];
    size_t n_freed[CLASSES], capacity[CLASSES];
    uint64_t top;
};

static uint64_t random_below(uint64_t n) {
    return (random_word() >> 11) % n;
}

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t heap_take(struct heap *heap, uint32_t class) {
    if (heap->n_freed[class] != 0) {
        return heap->freed[class][--heap->n_freed[class]];
    }
    heap->top += 16 * (class + 2);
    return heap->top;
}

static void heap_give(struct heap *heap, struct block block) {
    const uint32_t class = block.class;
    if (heap->n_freed[class] == heap->capacity[class]) {
        heap->capacity[class] = 2 * heap->capacity[class] + 64;
        heap->freed[class] = realloc(heap->freed[class], heap->capacity[class] * sizeof(uint64_t));
        if (heap->freed[class] == NULL) {
            abort();
        }
    }
    heap->freed[class][heap->n_freed[class]++] = block.address;
}

static uint32_t mix(uint32_t value) {
    value = (value ^ value >> 16) * 0x7feb352du;
    value = (value ^ value >> 15) * 0x846ca68bu;
    return value ^ value >> 16;
}

/* The simulated program consists of loops over routines. A routine is a fixed sequence of steps,
 * each an allocation or a free of one of the routine's newest blocks. If shape.keeps is not 0, the
 * routine's first step allocates a block that remains, and the second step frees one of the
 * `keeps` newest of these blocks. */
struct step {
    bool is_free;
    uint32_t back; /* free: how many blocks are newer than the freed one */
    uint32_t stack, class;
};

static struct step next_step(const struct shape *shape) {
    static uint32_t routine, position, depth, loop, loop_end, turns;
    if (position == ROUTINE_STEPS) {
        position = 0;
        depth = 0;
        routine++;
        if (routine >= loop_end && turns != 0) {
            turns--;
            routine = loop;
        } else if (routine >=
                   loop_end) { /* a few routines do most of the work: log(loop) is uniform */
            loop = (uint32_t)exp((double)random_below(1 << 20) / (1 << 20) *
                                 log((double)shape->n_routines));
            loop_end = loop + 1 + (uint32_t)random_below(8);
            turns = (uint32_t)random_below(12);
            routine = loop;
        }
        routine %= shape->n_routines;
    }
    const uint32_t number = routine * ROUTINE_STEPS + position++;
    const uint32_t random = mix(number + 1);
    struct step step = {.stack = 16 + number * 5,
                        .class = (random >> 16) % shape->n_sizes % CLASSES};
    if (shape->keeps != 0 && position <= 2) {
        step.is_free = position == 2;
        step.back = (uint32_t)random_below(shape->keeps);
    } else if (depth != 0 && (ROUTINE_STEPS - position < depth || random % 2 == 0)) {
        step.is_free = true;
        step.back = (random >> 12) % 3 == 0 ? (random >> 1) % depth : 0;
        depth--;
    } else {
        depth++;
    }
    return step;
}

static struct ag_event *make_events(const struct shape *shape) {
    struct ag_event *events = calloc(EVENTS, sizeof(*events));
    struct block *alive = calloc(shape->n_alive, sizeof(*alive));
    struct heap heap = {.top = 0x55d0c0a01000};
    uint32_t n_alive = 0;
    uint64_t time_ns = 0;
    if (events == NULL || alive == NULL) {
        abort();
    }
    for (size_t i = 0; i < EVENTS; i++) {
        if (i % STAMP_EVERY == 0) {
            time_ns += 1500 + random_below(500);
            events[i] = (struct ag_event){.kind = AG_RECORD_STAMP, .size = time_ns};
            continue;
        }
        const struct step step = next_step(shape);
        if (n_alive == shape->n_alive || (step.is_free && n_alive > step.back)) {
            const uint32_t at = n_alive - 1 - step.back;
            events[i] = (struct ag_event){.kind = AG_RECORD_FREE, .address = alive[at].address};
            heap_give(&heap, alive[at]);
            memmove(&alive[at], &alive[at + 1], (--n_alive - at) * sizeof(*alive));
        } else {
            alive[n_alive] =
                (struct block){.address = heap_take(&heap, step.class), .class = step.class};
            events[i] = (struct ag_event){.kind = AG_RECORD_ALLOC,
                                          .address = alive[n_alive++].address,
                                          .size = 16 * (step.class + 1) - 8,
                                          .stack = step.stack};
        }
    }
    for (size_t i = 0; i < CLASSES; i++) {
        free(heap.freed[i]);
    }
    free(alive);
    return events;
}

/* ---- measuring ---- */

struct result {
    double encode_s, write_s,
        decode_s;    /* write_s and decode_s include compression, hashing and the file */
    double events_s; /* decoding alone */
    uint64_t body_bytes, file_bytes;
};

static void encode_all(const struct ag_event *events, size_t n_events, int fd,
                       struct result *result) {
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    struct ag_trace_writer *writer;
    if (encoder == NULL ||
        ag_trace_writer_new(fd, &(struct ag_trace_header){.session = 1}, &writer) < 0) {
        abort();
    }
    for (size_t done = 0; done < n_events;) {
        const size_t n = n_events - done < CHUNK_EVENTS ? n_events - done : CHUNK_EVENTS;
        const double start = cpu_s();
        ag_event_encoder_start(encoder, 0);
        if (ag_event_encoder_add(encoder, events + done, n) < 0) {
            abort();
        }
        const double encoded = cpu_s();
        const struct ag_blob *body = ag_event_encoder_body(encoder);
        const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_EVENTS,
                                           .events = ag_event_encoder_events(encoder)};
        if (ag_trace_writer_chunk(writer, &info, body->data, body->length) < 0) {
            abort();
        }
        result->write_s += cpu_s() - encoded;
        result->encode_s += encoded - start;
        result->body_bytes += body->length;
        done += n;
    }
    result->file_bytes = ag_trace_writer_bytes(writer);
    if (ag_trace_writer_finish(writer, NULL) < 0) {
        abort();
    }
    (void)ag_trace_writer_free(writer);   /* always returns NULL */
    (void)ag_event_encoder_free(encoder); /* always returns NULL */
}

static void decode_all(const struct ag_event *events, size_t n_events, const char *path,
                       struct result *result) {
    static struct ag_event found[PORTION];
    struct ag_trace_file *file;
    struct ag_decode_error error;
    const struct ag_chunk_entry *entries;
    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    if (decoder == NULL || ag_trace_file_open(path, &file, &error) < 0) {
        abort();
    }
    const size_t n_entries = ag_trace_file_chunks(file, &entries);
    size_t done = 0;
    for (size_t i = 0; i + 1 < n_entries; i++) { /* the last chunk is the index */
        const double start = cpu_s();
        if (ag_chunk_decoder_start(decoder, file, &entries[i], &error) < 0) {
            abort();
        }
        double decoding = cpu_s();
        result->decode_s += decoding - start;
        struct ag_record record;
        for (int n; (n = ag_chunk_decoder_next(decoder, found, PORTION, &record, &error)) > 0;
             done += (size_t)n) {
            const double decoded = cpu_s();
            result->events_s += decoded - decoding;
            if (memcmp(found, events + done, (size_t)n * sizeof(*found)) != 0) {
                abort();
            }
            decoding = cpu_s();
        }
    }
    if (done != n_events) {
        abort();
    }
    result->decode_s += result->events_s;
    (void)ag_chunk_decoder_free(decoder); /* always returns NULL */
    (void)ag_trace_file_close(file);      /* always returns NULL */
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

static void measure(const char *name, const struct ag_event *events, size_t n_events,
                    double seconds) {
    struct result best = {.encode_s = 1e9, .write_s = 1e9, .decode_s = 1e9, .events_s = 1e9};
    const double end = cpu_s() + seconds;
    do {
        char path[] = "/tmp/micro_format.XXXXXX";
        struct result result = {0};
        encode_all(events, n_events, mkstemp(path), &result);
        decode_all(events, n_events, path, &result);
        unlink(path);
        best = (struct result){.encode_s = smaller(best.encode_s, result.encode_s),
                               .write_s = smaller(best.write_s, result.write_s),
                               .decode_s = smaller(best.decode_s, result.decode_s),
                               .events_s = smaller(best.events_s, result.events_s),
                               .body_bytes = result.body_bytes,
                               .file_bytes = result.file_bytes};
    } while (cpu_s() < end);

    const double n = (double)n_events;
    printf(
        "%-12s encode %5.1f ns  compress and write %5.1f ns  %5.2f bytes, in the file %5.2f  read %4.0f M/s, "
        "decoding alone %4.0f M/s\n",
        name, best.encode_s / n * 1e9, best.write_s / n * 1e9, (double)best.body_bytes / n,
        (double)best.file_bytes / n, n / best.decode_s * 1e-6, n / best.events_s * 1e-6);
}

static void measure_recorded(const char *path, double seconds) {
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0) {
        perror(path);
        exit(1);
    }
    struct ag_event *events = malloc((size_t)status.st_size + 1);
    if (events == NULL || read(fd, events, (size_t)status.st_size) != status.st_size) {
        perror(path);
        exit(1);
    }
    close(fd);
    const char *name = strrchr(path, '/');
    measure(name == NULL ? path : name + 1, events, (size_t)status.st_size / sizeof(*events),
            seconds);
    free(events);
}

int main(int argc, char **argv) {
    static const struct shape shapes[] = {
        {.name = "cfrac", .n_routines = 30, .n_sizes = 20, .n_alive = 500},
        {.name = "espresso", .n_routines = 17000, .n_sizes = 60, .n_alive = 50000, .keeps = 300},
    };
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
    for (size_t i = 0; i < AG_ARRAY_SIZE(shapes); i++) {
        struct ag_event *events = make_events(&shapes[i]);
        measure(shapes[i].name, events, EVENTS, seconds);
        free(events);
    }
    for (int i = 2; i < argc; i++) {
        measure_recorded(argv[i], seconds);
    }
    return 0;
}
