/* recording.c: chunks of raw words become chunks of a trace, and books are kept along the way.
 *
 * 1. One pass. A full chunk's words are decoded in batches that stay in the L1 cache; each batch
 * goes to the stream's encoder (the trace) and to the merge and ledger (the books). A trace chunk
 * is written when SEAL_CHUNKS raw ones are in it, or when the collector asks because memory is
 * short or time has passed. Only then are the raw chunks given back.
 *
 * 2. Exactly once. A trace chunk holds whole raw chunks, and its header says which sequences of its
 * stream. So after a death between the write and the giving back, a raw chunk whose sequence is in
 * the file is given back unread, and all others are read again. Definitions (nodes, images, threads
 * ...) are written before the events that need them; twice after a death, which is harmless.
 * Mappings are events and travel with them.
 *
 * 3. The books may run ahead of the trace. With several threads, a quiet one would hold up the
 * merge; so ACTIVE chunks are peeked into: their events go to the books only (booked_words says how
 * far), and to the trace when the chunk is full.
 *
 * 4. Cut. When a write fails or the size asked for is reached, the trace ends there. What comes
 * later is counted as lost. The books know more than the file then: the sums are made anew, from
 * the file. */
#include "recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chunk_words.h"
#include "session_clock.h"
#include "trace_index.h"
#include "trace_name.h"

enum {
    SEAL_CHUNKS = 4,    /* 256 KiB of words: 5,000 to 20,000 events a trace chunk */
    BATCH_EVENTS = 512, /* 16 KiB: half of an L1 cache */
    STREAM_PAGE = 4096,
    MAX_STREAMS = 4096 * STREAM_PAGE,
    RECORDS_MAX_BYTES = 4 << 20,
    SAMPLES_MAX_BYTES = 16 << 10,
    END_RESERVE_BYTES = 4096, /* of max_bytes: what LOST, END and the like take */
};

struct ag_stream {
    struct ag_event_encoder *encoder; /* NULL when nothing is pending */
    uint32_t thread_id;
    uint32_t pending[SEAL_CHUNKS]; /* raw chunks in the encoder, in order */
    uint32_t n_pending;
    uint64_t next_sequence; /* the next raw chunk's; the pending ones end before it */
    uint64_t first_ns;      /* of what is in the encoder */
    uint64_t encoded_ns;    /* last stamp encoded */
    uint64_t booked_ns;     /* last stamp in the books */
    uint32_t booked_words;  /* of chunk next_sequence */
};

/* ---- streams
 * -------------------------------------------------------------------------------------------------------
 */

static struct ag_stream *find_stream(const struct ag_recording *recording, uint32_t number) {
    if (number >= MAX_STREAMS || !recording->stream_pages[number / STREAM_PAGE]) {
        return NULL;
    }
    return recording->stream_pages[number / STREAM_PAGE][number % STREAM_PAGE];
}

/* The stream of this number, made when it is new. NULL: impossible number or no memory. */
static struct ag_stream *stream_of(struct ag_recording *recording, uint32_t number) {
    struct ag_stream *stream = find_stream(recording, number);
    if (stream || number >= MAX_STREAMS) {
        return stream;
    }
    struct ag_stream ***page = &recording->stream_pages[number / STREAM_PAGE];
    if (!*page) {
        *page = calloc(STREAM_PAGE, sizeof(**page));
    }
    stream = *page ? calloc(1, sizeof(*stream)) : NULL;
    if (stream) {
        (*page)[number % STREAM_PAGE] = stream;
        recording->n_streams++;
        stream->next_sequence =
            recording->writer
                ? (uint64_t)(ag_trace_writer_last_sequence(recording->writer, number) + 1)
                : 0;
    }
    return stream;
}

typedef void visit_stream(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                          uint64_t argument);

static void for_each_stream(struct ag_recording *recording, visit_stream *visit,
                            uint64_t argument) {
    for (uint32_t page = 0; page < AG_ARRAY_SIZE(recording->stream_pages); page++) {
        if (!recording->stream_pages[page]) {
            continue;
        }
        for (uint32_t i = 0; i < STREAM_PAGE; i++) {
            if (recording->stream_pages[page][i]) {
                visit(recording, page * STREAM_PAGE + i, recording->stream_pages[page][i],
                      argument);
            }
        }
    }
}

static void release_pending(struct ag_recording *recording, struct ag_stream *stream) {
    for (uint32_t i = 0; i < stream->n_pending; i++) {
        ag_session_release_chunk(recording->session, stream->pending[i]);
    }
    stream->n_pending = 0;
}

/* ---- cut
 * -----------------------------------------------------------------------------------------------------------
 */

static void discard_stream(struct ag_recording *recording, uint32_t number,
                           struct ag_stream *stream, uint64_t unused) {
    (void)number;
    (void)unused;
    if (stream->encoder) {
        recording->lost[AG_LOST_STOPPED] += ag_event_encoder_events(stream->encoder);
        stream->encoder = ag_event_encoder_free(stream->encoder);
    }
    release_pending(recording, stream);
}

/* Ends the recording here. error 0: the size asked for is reached, an affair of this trace alone.
 */
static void cut(struct ag_recording *recording, int error) {
    if (recording->is_cut) {
        return;
    }
    recording->is_cut = true;
    recording->error = error;
    if (error < 0) {
        /* release: nothing depends on it; the recorders look at it now and then */
        atomic_store_explicit(&recording->session->header->stop, 1, memory_order_release);
    }
    for_each_stream(recording, discard_stream, 0);
}

/* ---- definitions
 * ---------------------------------------------------------------------------------------------------
 */

static void write_records(struct ag_recording *recording, struct ag_blob *blob) {
    if (blob->length == 0 || recording->is_cut) {
        blob->length = 0;
        return;
    }
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS,
                                       .first_time_ns = recording->last_event_ns};
    const int r = blob->error < 0
                      ? blob->error
                      : ag_trace_writer_chunk(recording->writer, &info, blob->data, blob->length);
    blob->length = 0;
    blob->error = 0;
    if (r < 0) {
        cut(recording, r);
    }
}

static void write_definitions(struct ag_recording *recording) {
    enum { NODES_AT_ONCE = 4096 };
    struct ag_stack_harvest *stacks = &recording->stacks;
    for (size_t i = 0; i < stacks->n_nodes; i += NODES_AT_ONCE) {
        const size_t left = stacks->n_nodes - i;
        (void)ag_record_append_nodes(&recording->records, stacks->nodes + i,
                                     left < NODES_AT_ONCE ? left : NODES_AT_ONCE);
        if (recording->records.length >
            RECORDS_MAX_BYTES) { /* its error is sticky: seen by write_records */
            write_records(recording, &recording->records);
        }
    }
    ag_stack_harvest_written(stacks);
    write_records(recording, &recording->records);
}

static void define(struct ag_recording *recording, const struct ag_record *record) {
    (void)ag_record_append(&recording->records, record); /* sticky: seen by write_records */
    if (recording->records.length > RECORDS_MAX_BYTES) {
        write_records(recording, &recording->records);
    }
}

/* ---- events
 * --------------------------------------------------------------------------------------------------------
 */

enum destination { TO_TRACE = 1, TO_BOOKS = 2 };

/* Kernel's name of a thread that gave none. */
static void name_thread(const struct ag_recording *recording, struct ag_record *record,
                        char name[64]) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", recording->pid,
                   record->u.thread.thread_id);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        const ssize_t n = read(fd, name, 63);
        (void)close(fd); /* nothing was written */
        record->u.thread.name =
            (struct ag_bytes){.data = name, .length = n > 1 ? (uint32_t)n - 1 : 0};
    }
}

static void book_mapping(struct ag_recording *recording, const struct ag_record *record) {
    if (!recording->ledger) {
        return;
    }
    if (record->kind == AG_RECORD_MAP) {
        const uint32_t heap = recording->heap_of_via[record->u.map.via & 255];
        ag_ledger_map(recording->ledger, heap, record->u.map.address, record->u.map.bytes);
    } else {
        ag_ledger_unmap(recording->ledger, record->u.map.address, record->u.map.bytes);
    }
}

static void take_wide(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                      const struct ag_wide *wide, unsigned destinations) {
    struct ag_record record;
    char name[64];
    if (!ag_wide_record(wide, number, &record)) {
        recording->lost[AG_LOST_DAMAGED] += destinations & TO_TRACE ? 1 : 0;
        return;
    }
    if (record.kind == AG_RECORD_VIA) {
        recording->heap_of_via[record.u.via.via] = (uint8_t)record.u.via.heap;
        if (recording->ledger) {
            ag_ledger_via_heap(recording->ledger, record.u.via.via, record.u.via.heap);
        }
    }
    const bool is_mapping = record.kind == AG_RECORD_MAP || record.kind == AG_RECORD_UNMAP;
    if (is_mapping && destinations & TO_BOOKS) {
        book_mapping(recording, &record);
    }
    if (!(destinations & TO_TRACE)) {
        return;
    }
    if (is_mapping) {
        ag_stack_harvest_learn(&recording->stacks, record.u.map.stack);
        (void)ag_event_encoder_add_record(
            stream->encoder, &record); /* sticky in the body's blob: seen at the write */
        return;
    }
    if (record.kind == AG_RECORD_THREAD && record.u.thread.name.length == 0) {
        name_thread(recording, &record, name);
    }
    define(recording, &record);
}

static void take_batch(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                       const struct ag_event *events, size_t count, unsigned destinations) {
    if (destinations & TO_TRACE) {
        for (size_t i = 0; i < count; i++) {
            if (events[i].kind == AG_RECORD_ALLOC) {
                ag_stack_harvest_name(&recording->stacks, events[i].stack);
            }
        }
        (void)ag_event_encoder_add(stream->encoder, events,
                                   count); /* sticky in the body's blob: seen at the write */
    }
    if (destinations & TO_BOOKS && recording->merge &&
        ag_merge_add(recording->merge, number, events, count) < 0) {
        recording->merge = ag_merge_free(
            recording->merge); /* no memory for books: they are made by reading back */
        recording->ledger = ag_ledger_free(recording->ledger);
    }
}

/* Decodes words [from, to) of a chunk to where they have to go. */
static void take_words(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                       struct ag_chunk_words *words, uint32_t to, unsigned destinations) {
    struct ag_event events[BATCH_EVENTS];
    static struct ag_wide wide; /* 16 KiB that one process needs once */
    words->end = to;
    for (;;) {
        const size_t count = ag_chunk_words_next(words, events, BATCH_EVENTS, &wide);
        if (count > 0) {
            take_batch(recording, number, stream, events, count, destinations);
        } else if (wide.kind != 0) {
            take_wide(recording, number, stream, &wide, destinations);
        } else {
            break;
        }
    }
    if (words->is_damaged && destinations & TO_TRACE) {
        recording->lost[AG_LOST_DAMAGED]++; /* at least one: behind an impossible word nobody can
                                               count */
    }
}

static struct ag_chunk_words open_words(const struct ag_recording *recording,
                                        const struct ag_chunk_ready *ready) {
    struct ag_session *session = recording->session;
    return (struct ag_chunk_words){
        .words = ag_session_chunk_words(session, ready->chunk),
        .ns_per_2_32 =
            atomic_load_explicit(&session->header->clock_ns_per_2_32, memory_order_relaxed),
        .now_ns = ag_session_clock_now_ns(session),
    };
}

/* ---- writing
 * -------------------------------------------------------------------------------------------------------
 */

static bool is_too_big(const struct ag_recording *recording, size_t body_bytes) {
    return recording->max_bytes > 0 &&
           ag_trace_writer_bytes(recording->writer) + body_bytes + END_RESERVE_BYTES >
               recording->max_bytes;
}

static void write_stream(struct ag_recording *recording, uint32_t number,
                         struct ag_stream *stream) {
    const struct ag_blob *body = ag_event_encoder_body(stream->encoder);
    if (recording->stacks.error < 0) {
        cut(recording, recording->stacks.error);
    } else if (is_too_big(recording, body->length + recording->records.length +
                                         recording->stacks.n_nodes * sizeof(struct ag_node))) {
        cut(recording, /* error= */ 0);
    } else {
        write_definitions(recording);
    }
    if (recording->is_cut) {
        return; /* and this stream was discarded with all others */
    }
    const struct ag_chunk_info info = {
        .kind = AG_CHUNK_KIND_EVENTS,
        .stream = number,
        .thread_id = stream->thread_id,
        .sequences = stream->n_pending,
        .events = ag_event_encoder_events(stream->encoder),
        .first_sequence = stream->next_sequence - stream->n_pending,
        .first_time_ns = stream->first_ns,
    };
    const int r = body->error < 0
                      ? body->error
                      : ag_trace_writer_chunk(recording->writer, &info, body->data, body->length);
    if (r < 0) {
        cut(recording, r);
        return;
    }
    release_pending(recording, stream);
    stream->encoder = ag_event_encoder_free(stream->encoder);
}

static void flush_stream(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                         uint64_t older_than_ns) {
    if (stream->encoder && stream->first_ns < older_than_ns) {
        write_stream(recording, number, stream);
    }
}

void ag_recording_flush(struct ag_recording *recording, uint64_t older_than_ns) {
    for_each_stream(recording, flush_stream, older_than_ns);
    if (recording->samples.length > SAMPLES_MAX_BYTES) {
        write_records(recording, &recording->samples);
    }
}

/* ---- chunks
 * --------------------------------------------------------------------------------------------------------
 */

static uint64_t count_events(struct ag_chunk_words words, uint32_t end) {
    struct ag_event events[BATCH_EVENTS];
    static struct ag_wide wide;
    uint64_t total = 0;
    words.end = end;
    for (size_t count = 1; count > 0 || wide.kind != 0;) {
        count = ag_chunk_words_next(&words, events, BATCH_EVENTS, &wide);
        for (size_t i = 0; i < count; i++) {
            total += events[i].kind != AG_RECORD_STAMP;
        }
    }
    return total;
}

static enum ag_taken give_back(struct ag_recording *recording, uint32_t chunk) {
    ag_session_release_chunk(recording->session, chunk);
    return AG_TAKEN_RELEASED;
}

static bool start_encoder(struct ag_stream *stream, struct ag_chunk_words *words,
                          uint64_t first_raw) {
    stream->encoder = ag_event_encoder_new();
    if (!stream->encoder) {
        return false;
    }
    const uint64_t ns = ag_session_clock_ns(words->ns_per_2_32, first_raw);
    const uint64_t first = ns > words->now_ns ? words->now_ns : ns;
    stream->first_ns = first > stream->encoded_ns ? first : stream->encoded_ns;
    ag_event_encoder_start(stream->encoder, stream->first_ns);
    return true;
}

enum ag_taken ag_recording_take(struct ag_recording *recording, const struct ag_chunk_ready *ready,
                                bool skip_gap) {
    struct ag_chunk_words words = open_words(recording, ready);
    if (recording->is_cut) {
        recording->lost[AG_LOST_STOPPED] += count_events(words, ready->used_words);
        return give_back(recording, ready->chunk);
    }
    struct ag_stream *stream = stream_of(recording, ready->stream);
    if (!stream || ready->sequence < stream->next_sequence) {
        recording->lost[AG_LOST_DAMAGED] += !stream;
        return give_back(recording, ready->chunk); /* in the trace already */
    }
    if (ready->sequence > stream->next_sequence) {
        if (!skip_gap) {
            return AG_TAKEN_NOT_YET;
        }
        if (stream->encoder) { /* a trace chunk's sequences have no gap */
            write_stream(recording, ready->stream, stream);
        }
        recording->lost[AG_LOST_DAMAGED] +=
            ready->sequence - stream->next_sequence; /* chunks: at least one event each */
        stream->next_sequence = ready->sequence;
        stream->booked_words = 0;
    }
    if (!stream->encoder && !start_encoder(stream, &words, ready->first_raw)) {
        cut(recording, -ENOMEM);
        return give_back(recording, ready->chunk);
    }
    stream->thread_id = ready->thread_id;
    const uint32_t booked =
        stream->booked_words < ready->used_words ? stream->booked_words : ready->used_words;
    words.last_ns = stream->encoded_ns;
    take_words(recording, ready->stream, stream, &words, booked, TO_TRACE);
    take_words(recording, ready->stream, stream, &words, ready->used_words, TO_TRACE | TO_BOOKS);
    stream->encoded_ns = words.last_ns;
    stream->booked_ns = words.last_ns > stream->booked_ns ? words.last_ns : stream->booked_ns;
    recording->last_event_ns =
        words.last_ns > recording->last_event_ns ? words.last_ns : recording->last_event_ns;
    stream->booked_words = 0;
    stream->pending[stream->n_pending++] = ready->chunk;
    stream->next_sequence++;
    if (stream->n_pending == SEAL_CHUNKS) {
        write_stream(recording, ready->stream, stream);
    }
    return AG_TAKEN;
}

bool ag_recording_peek(struct ag_recording *recording, const struct ag_chunk_ready *ready) {
    struct ag_stream *stream =
        recording->merge && !recording->is_cut ? stream_of(recording, ready->stream) : NULL;
    if (!stream || ready->sequence != stream->next_sequence) {
        return !recording->merge;
    }
    if (ready->used_words <= stream->booked_words) {
        return true;
    }
    struct ag_chunk_words words = open_words(recording, ready);
    words.at = stream->booked_words;
    words.last_ns = stream->booked_ns;
    take_words(recording, ready->stream, stream, &words, ready->used_words, TO_BOOKS);
    stream->booked_words = ready->used_words;
    stream->booked_ns = words.last_ns;
    return true;
}

bool ag_recording_has(const struct ag_recording *recording, const struct ag_chunk_ready *ready) {
    const struct ag_stream *stream = find_stream(recording, ready->stream);
    if (stream) {
        for (uint32_t i = 0; i < stream->n_pending; i++) {
            if (stream->pending[i] == ready->chunk) {
                return true;
            }
        }
    }
    return false;
}

uint64_t ag_recording_booked_ns(const struct ag_recording *recording, uint32_t stream) {
    const struct ag_stream *found = find_stream(recording, stream);
    return found ? found->booked_ns : 0;
}

void ag_recording_advance(struct ag_recording *recording, uint64_t time_ns) {
    if (recording->merge && ag_merge_advance(recording->merge, time_ns) < 0) {
        recording->merge = ag_merge_free(recording->merge); /* as in take_batch */
        recording->ledger = ag_ledger_free(recording->ledger);
    }
}

void ag_recording_resident(struct ag_recording *recording, uint64_t time_ns, uint64_t rss_bytes) {
    const struct ag_record record = {.kind = AG_RECORD_RESIDENT,
                                     .u.resident = {.time_ns = time_ns, .bytes = rss_bytes}};
    (void)ag_record_append(&recording->samples, &record); /* sticky: seen by write_records */
    recording->rss_peak_bytes =
        rss_bytes > recording->rss_peak_bytes ? rss_bytes : recording->rss_peak_bytes;
    if (recording->ledger) {
        ag_ledger_resident(recording->ledger, time_ns, rss_bytes);
    }
}

/* ---- the end
 * -------------------------------------------------------------------------------------------------------
 */

static uint64_t lost_by(const struct ag_recording *recording, uint32_t cause) {
    const struct ag_process_slot *slot = ag_session_slot(recording->session, recording->slot);
    return recording->lost[cause] + atomic_load_explicit(&slot->lost[cause], memory_order_relaxed);
}

uint64_t ag_recording_lost(const struct ag_recording *recording) {
    uint64_t total = 0;
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        total += lost_by(recording, cause);
    }
    return total;
}

static void append_end(struct ag_recording *recording, struct ag_blob *blob,
                       const struct ag_recording_end *end) {
    const struct ag_process_slot *slot = ag_session_slot(recording->session, recording->slot);
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        const struct ag_record lost = {
            .kind = AG_RECORD_LOST,
            .u.lost = {.cause = cause, .events = lost_by(recording, cause)}};
        if (lost.u.lost.events > 0) {
            (void)ag_record_append(blob, &lost); /* sticky: seen at the write, as all below */
        }
    }
    const struct ag_record profiler = {
        .kind = AG_RECORD_PROFILER,
        .u.profiler = {.rss_bytes = slot->profiler_private_bytes + end->profiler_rss_bytes,
                       .cpu_ns = end->profiler_cpu_ns,
                       .target_cpu_ns = end->target_cpu_ns,
                       .stack_checks =
                           atomic_load_explicit(&slot->stack_checks, memory_order_relaxed),
                       .failed_stack_checks =
                           atomic_load_explicit(&slot->failed_stack_checks, memory_order_relaxed)}};
    (void)ag_record_append(blob, &profiler);
    const struct ag_record ended = {
        .kind = AG_RECORD_END,
        .u.end = {.how = end->how,
                  .wait_status = atomic_load_explicit(&slot->wait_status, memory_order_relaxed),
                  .wait_status_known =
                      atomic_load_explicit(&slot->wait_status_known, memory_order_acquire) != 0,
                  .time_ns = end->time_ns}};
    (void)ag_record_append(blob, &ended);
}

/* The sums as kept along the way; or, when the books do not match the file, read back from it. */
static int make_index(struct ag_recording *recording, struct ag_blob *ret_blob) {
    const struct ag_index_facts facts = {
        .start_ns = recording->start_ns,
        .end_ns = recording->end_ns,
        .rss_peak_bytes = recording->rss_peak_bytes,
    };
    if (recording->merge && !recording->is_cut) {
        int r = ag_merge_finish(recording->merge);
        r = r < 0 ? r : ag_ledger_close(recording->ledger);
        if (r == 0) {
            return ag_trace_index_of_ledger(recording->ledger, &recording->stacks, &facts, ret_blob,
                                            &recording->summary);
        }
    }
    char path[64]; /* whatever became of the name */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", recording->trace_fd);
    return ag_trace_index_of_file(path, &facts, ret_blob, &recording->summary);
}

void ag_recording_finish(struct ag_recording *recording, const struct ag_recording_end *end) {
    if (!recording->writer) {
        return;
    }
    ag_recording_flush(recording, UINT64_MAX);
    write_definitions(recording);
    struct ag_recording_end actual = *end;
    actual.how = recording->is_cut ? AG_END_CUT : end->how;
    recording->end_ns =
        end->time_ns > recording->last_event_ns ? end->time_ns : recording->last_event_ns;
    actual.time_ns = recording->end_ns;
    append_end(recording, &recording->samples, &actual);
    const bool was_cut = recording->is_cut;
    recording->is_cut =
        false; /* the end is written even so: room was kept for it, or there may be some again */
    write_records(recording, &recording->samples);
    const bool end_written = !recording->is_cut;
    recording->is_cut = was_cut || recording->is_cut;
    struct ag_blob index = {0};
    int r = make_index(recording, &index);
    if (r == 0 && end_written && !is_too_big(recording, index.length)) {
        r = ag_trace_writer_finish(recording->writer, &index);
    }
    if (r < 0 && recording->error == 0) {
        recording->error =
            r; /* a reader does without the index; what failed is still worth saying */
    }
    ag_blob_done(&index);
}

uint64_t ag_recording_bytes(const struct ag_recording *recording) {
    return recording->writer ? ag_trace_writer_bytes(recording->writer) : 0;
}

/* ---- the beginning
 * -------------------------------------------------------------------------------------------------
 */

static struct ag_bytes slot_text(const struct ag_process_slot *copy, uint32_t offset,
                                 uint32_t end) {
    end = end < AG_SLOT_TEXT_BYTES ? end : AG_SLOT_TEXT_BYTES;
    return offset < end ? (struct ag_bytes){.data = copy->text + offset, .length = end - offset}
                        : (struct ag_bytes){.data = "", .length = 0};
}

static struct ag_bytes slot_string(const struct ag_process_slot *copy, uint32_t offset) {
    struct ag_bytes bytes = slot_text(copy, offset, copy->text_bytes);
    bytes.length = (uint32_t)strnlen(bytes.data, bytes.length);
    return bytes;
}

static uint32_t count_strings(struct ag_bytes strings) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < strings.length; i++) {
        count += strings.data[i] == '\0';
    }
    return count;
}

static uint64_t realtime_of(const struct ag_recording *recording) {
    return recording->session->clock_origin_realtime_ns + recording->start_ns;
}

static void define_process(struct ag_recording *recording, const struct ag_process_slot *copy) {
    struct ag_record record = {
        .kind = AG_RECORD_PROCESS,
        .u.process = {.pid = recording->pid,
                      .parent_pid = copy->parent_pid,
                      .mode = recording->session->mode,
                      .depth = recording->session->depth,
                      .start_realtime_ns = realtime_of(recording),
                      .session = recording->session->id,
                      .start_ns = recording->start_ns,
                      .exe = slot_string(copy, copy->exe_offset),
                      .cwd = slot_string(copy, copy->cwd_offset),
                      .command = slot_text(copy, copy->command_offset, copy->text_bytes)}};
    record.u.process.n_arguments = count_strings(record.u.process.command);
    define(recording, &record);
}

static struct ag_slot_trace *trace_note(const struct ag_recording *recording) {
    return (struct ag_slot_trace *)(void *)((uint8_t *)ag_session_slot(recording->session,
                                                                       recording->slot) +
                                            AG_SLOT_TRACE_OFFSET);
}

/* The file that a collector before us began. -ENOENT: there is none, or none to be trusted. */
static int open_begun(struct ag_recording *recording) {
    struct ag_slot_trace note;
    memcpy(&note, trace_note(recording), sizeof(note));
    note.path[sizeof(note.path) - 1] = '\0';
    if (note.path[0] != '/' || note.generation != recording->generation) {
        return -ENOENT;
    }
    const int fd = open(note.path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    struct ag_trace_header header;
    if (fd < 0) {
        return -ENOENT;
    }
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != recording->session->owner ||
        (status.st_size > 0 &&
         (ag_trace_header_read(fd, &header) < 0 || header.session != recording->session->id ||
          header.pid != recording->pid || header.slot != recording->number))) {
        (void)close(fd); /* not ours */
        return -ENOENT;
    }
    memcpy(recording->path, note.path, sizeof(note.path));
    return fd;
}

static int make_file(struct ag_recording *recording, const struct ag_process_slot *copy) {
    struct ag_session *session = recording->session;
    if (session->first_trace_fd >= 0 && recording->pid == session->first_pid) {
        const int fd = session->first_trace_fd;
        session->first_trace_fd = -1;
        memcpy(recording->path, session->first_trace_path, sizeof(recording->path));
        return fd;
    }
    char exe[AG_SLOT_TEXT_BYTES + 1];
    const struct ag_bytes exe_bytes = slot_string(copy, copy->exe_offset);
    memcpy(exe, exe_bytes.data, exe_bytes.length);
    exe[exe_bytes.length] = '\0';
    const struct ag_trace_names names = {.program = exe,
                                         .pid = recording->pid,
                                         .start_s =
                                             session->clock_origin_realtime_ns / 1000000000u};
    return ag_trace_file_create(session->trace_pattern, &names, recording->path);
}

static void leave_note(const struct ag_recording *recording) {
    struct ag_slot_trace *note = trace_note(recording);
    const size_t length = strlen(recording->path);
    note->path[0] = '\0';
    note->generation = recording->generation;
    if (length <
        sizeof(note->path)) { /* else a successor makes a new file and readers find two halves */
        memcpy(note->path, recording->path, length + 1);
    }
}

static int resume_writer(struct ag_recording *recording) {
    struct ag_trace_file *file = NULL;
    struct ag_decode_error error;
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", recording->trace_fd);
    if (ag_trace_file_open(path, &file, &error) == 0) {
        recording->was_finished = ag_trace_file_has_index(file);
        (void)ag_trace_file_close(file); /* NULL */
    }
    if (recording->was_finished) {
        (void)close(recording->trace_fd); /* nothing was written */
        recording->trace_fd = -1;
        recording->is_cut = true; /* nothing more goes in */
        return 0;
    }
    return ag_trace_writer_resume(recording->trace_fd, &recording->writer);
}

static int open_trace(struct ag_recording *recording, const struct ag_process_slot *copy) {
    const struct ag_trace_header header = {.session = recording->session->id,
                                           .pid = recording->pid,
                                           .slot = recording->number,
                                           .start_realtime_ns = realtime_of(recording)};
    int r = open_begun(recording);
    const bool is_begun = r >= 0;
    if (!is_begun) {
        r = make_file(recording, copy);
    }
    if (r < 0) {
        return r;
    }
    recording->trace_fd = r;
    struct stat status;
    if (is_begun && fstat(r, &status) == 0 && status.st_size > 0) {
        return resume_writer(recording);
    }
    leave_note(recording);
    r = ag_trace_writer_new(recording->trace_fd, &header, &recording->writer);
    if (r == 0) {
        recording->ledger = ag_ledger_new();
        recording->merge = recording->ledger ? ag_merge_new(recording->ledger) : NULL;
        define_process(recording, copy);
        write_definitions(recording);
    }
    return r;
}

struct ag_recording *ag_recording_begin(struct ag_session *session, uint32_t slot_index) {
    const struct ag_process_slot *slot = ag_session_slot(session, slot_index);
    struct ag_recording *recording = calloc(1, sizeof(*recording));
    struct ag_process_slot *copy = malloc(sizeof(*copy));
    if (!recording || !copy) {
        goto failed;
    }
    memcpy(copy, slot, sizeof(*copy));
    recording->session = session;
    recording->slot = slot_index;
    recording->generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
    recording->number = recording->generation * session->n_slots + slot_index;
    recording->pid = copy->pid;
    recording->tree = copy->tree < session->n_trees ? copy->tree : 0;
    recording->trace_fd = -1;
    recording->max_bytes = session->max_trace_bytes;
    recording->start_ns = ag_session_clock_ns(
        atomic_load_explicit(&session->header->clock_ns_per_2_32, memory_order_relaxed),
        copy->start_raw - session->clock_origin);
    recording->last_event_ns = recording->start_ns;
    if (ag_stack_harvest_start(&recording->stacks, ag_session_tree(session, recording->tree)) < 0) {
        goto failed;
    }
    const int r = open_trace(recording, copy);
    if (r < 0) {
        cut(recording, r);
    }
    free(copy);
    return recording;
failed:
    free(copy);
    return ag_recording_free(recording);
}

static void free_stream(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                        uint64_t unused) {
    (void)recording;
    (void)number;
    (void)unused;
    (void)ag_event_encoder_free(stream->encoder); /* NULL */
    free(stream);
}

struct ag_recording *ag_recording_free(struct ag_recording *recording) {
    if (recording) {
        for_each_stream(recording, free_stream, 0);
        for (uint32_t page = 0; page < AG_ARRAY_SIZE(recording->stream_pages); page++) {
            free(recording->stream_pages[page]);
        }
        recording->merge = ag_merge_free(recording->merge);
        recording->ledger = ag_ledger_free(recording->ledger);
        recording->writer = ag_trace_writer_free(recording->writer);
        ag_stack_harvest_done(&recording->stacks);
        ag_blob_done(&recording->records);
        ag_blob_done(&recording->samples);
        free(recording);
    }
    return NULL;
}
