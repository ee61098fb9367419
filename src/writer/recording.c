/* recording.c: writes the chunks of one process to its trace, and keeps totals along the way.
 *
 * A raw chunk is 64 KiB of a thread's words in the live segment (segment.h). A trace chunk is a
 * piece of the trace file that is compressed separately. The totals are the sums over all events so
 * far, which the ledger computes. If the process has several threads, the merge first puts their
 * events in the order of time.
 *
 * 1. One pass. The words of a full chunk are decoded in batches that stay in the L1 cache. Each
 *    batch goes to the stream's encoder (for the trace) and to the merge and the ledger (for the
 *    totals). The events of a single-threaded program take a faster path, one by one (one_pass.c).
 *    A trace chunk is written when it holds SEAL_CHUNKS raw chunks (SEAL_EARLY if the trace is
 *    small or limited), when memory is short, or when its first event is a second old. Only then
 *    are the raw chunks returned to the recorder.
 *
 *    Larger trace chunks make the trace smaller and faster to compress: a chunk lists each of its
 *    different tuples (stack, size, allocation function) once, and zstd starts anew with each
 *    chunk. With 16 instead of 4 raw chunks, the traces of the malloc benchmarks cfrac and espresso
 *    are smaller by a sixth and a twelfth, and zstd takes a fifth less time. But larger trace
 *    chunks hold more memory of the segment. If a thread has ended, its stream is written as soon
 *    as AG_ENDED_STREAMS such streams wait. Otherwise a program that creates many threads would
 *    need an encoder and a raw chunk for every thread that ever existed, which can be gigabytes.
 *
 * 2. Exactly once. A trace chunk holds whole raw chunks, and its header lists their sequence
 *    numbers in the stream. When the writer dies between writing a trace chunk and returning its
 *    raw chunks, the next writer compares sequence numbers. It returns a raw chunk without reading
 *    it if the chunk's number is in the file, and reads all other chunks again. Definitions (nodes,
 *    images, threads ...) are written before the events that need them. If a writer died,
 *    definitions may be in the trace twice, which is harmless. Mappings are written among the
 *    events.
 *
 * 3. The totals may be ahead of the trace. The merge waits until all threads have delivered their
 *    events up to a time, so a thread that rarely allocates would delay the totals. Therefore the
 *    writer peeks into ACTIVE chunks: their events go to the totals at once (totaled_words counts
 *    their words), and to the trace when the chunk is full.
 *
 *    A window is the time between two stamps of a stream. An event happened at an unknown moment of
 *    its window, so the peak of several threads is known only as a range (ledger/order_bounds.h).
 *    The last window of a thread that rests has no end yet, and would widen the range until the
 *    thread continues. So the writer ends the window: it reads the chunk's words, then the clock,
 *    then the number of words again. If the number is unchanged, the events happened before that
 *    clock value, which is therefore a correct stamp after them. The totals get this stamp at once,
 *    the trace gets it with the chunk.
 *
 * 4. Cut. When a write fails or the requested size is reached, the trace is cut: only its end is
 *    still written, and later events are counted as lost. The totals then include events that the
 *    file lacks, so the sums are computed from the file.
 *
 * 5. Names of threads. A thread does not report its name: that would need a system call that
 *    sandboxes forbid. (Only the record of a process' first thread contains its name.) So the
 *    writer asks the kernel: when it first sees the stream; a little later, when the thread may
 *    have named itself; then rarely; and when it writes the record that defines the thread. If a
 *    thread ends before the writer asks, its name is not known. If a thread renames itself later, a
 *    further record has the new name. */
#include "recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/varint.h"
#include "cgroup_memory.h"
#include "chunk_words.h"
#include "process_watch.h"
#include "resident_look.h"
#include "session_clock.h"

/* What decoded words are added to, as flags (section 3). */
enum destination { TO_TRACE = 1, TO_TOTALS = 2 };

enum {
    SEAL_CHUNKS = 16, /* 1 MiB of words: 20,000 to 80,000 events per trace chunk */
    SEAL_EARLY = 4,   /* used instead of SEAL_CHUNKS for small traces: see seal_at */
    SHORT_TRACE_BYTES = 512 << 10,
    BATCH_EVENTS = 512, /* 12 KiB: less than half of an L1 cache */
    ODD_EVENTS = 8,     /* one_pass.c stops at events of rare kinds; after this number of events it
                         * is tried again */
    STREAM_PAGE = 4096,
    MAX_STREAMS = 4096 * STREAM_PAGE,
    WINDOW_ENDS_MOST = 64,                /* per chunk; further windows get no end */
    REST_NS = 1000 * 1000,                /* a thread that has had no events for this time rests */
    FIRST_NAME_WAIT_NS = 8 * 1000 * 1000, /* the wait grows fourfold each time */
    RECORDS_MAX_BYTES = 4 << 20,
    SAMPLES_MAX_BYTES = 16 << 10,
    MEMORY_APART_NS = 100 * 1000 * 1000, /* between two samples of the memory that are kept */
    MEMORY_CHANGE_PART = 64, /* urgent samples are written if the resident memory changes by over
                              * 1/64 */
    MEMORY_WRITTEN_EVERY_NS = 500 * 1000 * 1000, /* least time between two such writes */
};

struct ag_stream {
    struct ag_event_encoder *encoder; /* NULL when no event waits to be written */
    uint32_t thread_id;
    /* indexes of the raw chunks whose events are in the encoder, in order */
    uint32_t pending[SEAL_CHUNKS];
    uint32_t n_pending;
    uint64_t next_sequence; /* sequence number of the next raw chunk, which follows the pending
                             * chunks */
    uint64_t first_ns;      /* first stamp in the encoder */
    uint64_t encoded_ns;    /* last stamp that went to the encoder */
    uint64_t totaled_ns;    /* last stamp in the totals */
    uint32_t totaled_words; /* words of chunk next_sequence that are in the totals already */
    /* number of words of chunk next_sequence, unchanged since seen_ns (ag_recording_rests) */
    uint32_t seen_words;
    uint64_t seen_ns;
    bool is_named;         /* the trace has a record that defines the thread */
    char name[16];         /* the thread's name, as last read; empty: unknown */
    uint64_t next_name_ns; /* when to read the name again */
    uint64_t name_wait_ns; /* how long to wait after that until the next reading */
    /* Stamps that the writer added to the totals, in chunk next_sequence. */
    uint32_t n_window_ends;
    struct {
        uint32_t words; /* number of words of the chunk before the stamp */
        uint64_t ns;
    } * window_ends; /* an array of WINDOW_ENDS_MOST elements; NULL if there are no such stamps */
};

/* ---- streams ---- */

static struct ag_stream *find_stream(const struct ag_recording *recording, uint32_t number) {
    if (number >= MAX_STREAMS || !recording->stream_pages[number / STREAM_PAGE]) {
        return NULL;
    }
    return recording->stream_pages[number / STREAM_PAGE][number % STREAM_PAGE];
}

/* Returns the stream of this number, and creates it when it is new. NULL: invalid number or no
 * memory. */
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
        stream->next_sequence =
            recording->writer
                ? (uint64_t)(ag_trace_writer_last_sequence(recording->writer, number) + 1)
                : 0;
    }
    return stream;
}

/* ---- names of threads ---- */

static void define_outside(struct ag_recording *recording, uint32_t pid) {
    char cgroup[AG_CGROUP_PATH_BYTES];
    if (pid == 0 || !ag_process_lives(pid)) {
        return;
    }
    ag_cgroup_name(pid, cgroup);
    const struct ag_record record = {
        .kind = AG_RECORD_OUTSIDE,
        .u.outside = {.pid = pid, .cgroup = {cgroup, (uint32_t)strlen(cgroup)}}};
    ag_recording_define(recording, &record);
}

void ag_recording_set_pid(struct ag_recording *recording, uint32_t pid) {
    recording->found_pid = pid;
    recording->shares_namespace = pid != 0 && ag_process_shares_namespace(pid, recording->pid);
    /* a process that `attach` recorded for a moment has left the session before it was found */
    define_outside(recording,
                   pid != 0 || !recording->is_first ? pid : recording->session->first_pid);
}

static void ask_for_name(const struct ag_recording *recording, struct ag_stream *stream,
                         uint32_t thread_id) {
    if (recording->found_pid != 0) {
        ag_process_thread_name(recording->found_pid, recording->shares_namespace,
                               thread_id & ~AG_THREAD_NESTED, stream->name);
    }
}

static struct ag_bytes name_bytes(const char name[16]) {
    return (struct ag_bytes){.data = name, .length = (uint32_t)strnlen(name, 16)};
}

void ag_recording_look_for_name(struct ag_recording *recording, uint32_t number, uint32_t thread_id,
                                uint64_t now_ns) {
    const uint64_t longest_wait_ns = UINT64_C(1) << 33;
    struct ag_stream *stream = stream_of(recording, number);
    char before[16];
    if (!stream || now_ns < stream->next_name_ns) {
        return;
    }
    const uint64_t wait_ns = stream->name_wait_ns ? stream->name_wait_ns : FIRST_NAME_WAIT_NS;
    stream->next_name_ns = now_ns + wait_ns;
    stream->name_wait_ns = wait_ns < longest_wait_ns ? 4 * wait_ns : wait_ns;
    memcpy(before, stream->name, sizeof(before));
    ask_for_name(recording, stream, thread_id);
    if (stream->is_named && memcmp(before, stream->name, sizeof(before)) != 0) {
        const struct ag_record record = {.kind = AG_RECORD_THREAD,
                                         .u.thread = {.stream = number,
                                                      .thread_id = thread_id,
                                                      .name = name_bytes(stream->name)}};
        ag_recording_define(recording, &record);
    }
}

/* Puts the thread's name, if known, into the record that defines the thread. */
static void name_thread(struct ag_recording *recording, struct ag_stream *stream,
                        struct ag_record *record) {
    if (stream->name[0] == '\0' && record->u.thread.name.length > 0) {
        const uint32_t length = record->u.thread.name.length;
        memcpy(stream->name, record->u.thread.name.data, length < 15 ? length : 15);
    }
    if (ag_monotonic_ns() >= stream->next_name_ns) { /* otherwise the name was read a moment ago */
        ask_for_name(recording, stream, record->u.thread.thread_id);
    }
    stream->is_named = true;
    record->u.thread.name = name_bytes(stream->name);
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

/* An encoder has at least 128 KiB of tables, so a stream that has written its events gives its
 * encoder to another stream. */
static struct ag_event_encoder *take_encoder(struct ag_recording *recording) {
    return recording->n_spare > 0 ? recording->spare_encoders[--recording->n_spare]
                                  : ag_event_encoder_new();
}

static void put_encoder(struct ag_recording *recording, struct ag_stream *stream) {
    if (recording->n_spare < AG_ARRAY_SIZE(recording->spare_encoders)) {
        recording->spare_encoders[recording->n_spare++] = stream->encoder;
    } else {
        (void)ag_event_encoder_free(stream->encoder); /* returns NULL */
    }
    stream->encoder = NULL;
}

/* ---- cut ---- */

static void discard_stream(struct ag_recording *recording, uint32_t number,
                           struct ag_stream *stream, uint64_t unused) {
    (void)number;
    (void)unused;
    if (stream->encoder) {
        recording->lost[AG_LOST_STOPPED] += ag_event_encoder_events(stream->encoder);
        put_encoder(recording, stream);
    }
    release_pending(recording, stream);
}

/* Does the error concern the disk, so that all traces of the session have to end? */
static bool concerns_all(int error) {
    return error == -ENOSPC || error == -EDQUOT || error == -EFBIG || error == -EIO ||
           error == -EROFS;
}

void ag_recording_cut(struct ag_recording *recording, int error) {
    if (recording->is_cut) {
        return;
    }
    recording->is_cut = true;
    recording->error = error;
    if (concerns_all(error)) {
        recording->session->stop_error = error;
        /* relaxed: no other data depends on it; the recorders read it now and then */
        atomic_store_explicit(&recording->session->header->stop, 1, memory_order_relaxed);
    }
    for_each_stream(recording, discard_stream, 0);
}

/* Whether `bytes` more fit into the trace. If not, cuts the trace. */
static bool has_room(struct ag_recording *recording, size_t bytes) {
    if (recording->is_cut) {
        return false;
    }
    const uint64_t now_bytes = ag_trace_writer_bytes(recording->writer);
    const int r =
        ag_trace_room_check(&recording->room, now_bytes, bytes, recording->stacks.n_stacks);
    if (r != 0) {
        ag_recording_cut(recording, r == AG_ROOM_AS_ASKED ? 0 : r);
    }
    return r == 0;
}

/* ---- definitions ---- */

void ag_recording_write_records(struct ag_recording *recording, struct ag_blob *blob) {
    if (blob->length == 0 || !has_room(recording, blob->length)) {
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
        ag_recording_cut(recording, r);
    }
}

void ag_recording_write_definitions(struct ag_recording *recording) {
    enum { NODES_AT_ONCE = 4096 };
    struct ag_stack_harvest *stacks = &recording->stacks;
    for (size_t i = 0; i < stacks->n_nodes; i += NODES_AT_ONCE) {
        const size_t left = stacks->n_nodes - i;
        /* an error stays in the blob; the function that writes the blob returns it */
        (void)ag_record_append_nodes(&recording->records, stacks->nodes + i,
                                     left < NODES_AT_ONCE ? left : NODES_AT_ONCE);
        if (recording->records.length > RECORDS_MAX_BYTES) {
            ag_recording_write_records(recording, &recording->records);
        }
    }
    ag_stack_harvest_written(stacks);
    ag_recording_write_records(recording, &recording->records);
}

void ag_recording_define(struct ag_recording *recording, const struct ag_record *record) {
    /* an error stays in the blob; the function that writes the blob returns it */
    (void)ag_record_append(&recording->records, record);
}

/* ---- events ---- */

/* Drops the totals for lack of memory: the sums are then computed from the file at the end. */
static void close_totals(struct ag_recording *recording) {
    recording->merge = ag_merge_free(recording->merge);
    recording->ledger = ag_ledger_free(recording->ledger);
}

static void totals_add_events(struct ag_recording *recording, uint32_t number,
                              const struct ag_event *events, size_t count) {
    if (!recording->ledger) {
        return;
    }
    const int r = recording->has_threads
                      ? ag_merge_add(recording->merge, number, events, count)
                      : ag_ledger_apply(recording->ledger, number, events, count);
    if (r < 0) {
        close_totals(recording);
    }
}

static void take_batch(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                       const struct ag_event *events, size_t count, unsigned destinations) {
    if (destinations & TO_TRACE) {
        for (size_t i = 0; i < count; i++) {
            if (events[i].kind == AG_RECORD_ALLOC) {
                ag_stack_harvest_name(&recording->stacks, events[i].stack);
            } else if (events[i].stack != 0) {
                /* the stack of a free does not count as a stack of allocations */
                ag_stack_harvest_learn(&recording->stacks, events[i].stack);
            }
        }
        /* an error stays in the body; the function that writes the body returns it */
        (void)ag_event_encoder_add(stream->encoder, events, count);
    }
    if (destinations & TO_TOTALS) {
        totals_add_events(recording, number, events, count);
    }
}

/* Adds the events of a single thread to the trace and the totals in one pass. Returns false if that
 * is not possible; then nothing was added. */
static bool take_one_pass(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                          struct ag_chunk_words *words, unsigned destinations) {
    if (destinations != (TO_TRACE | TO_TOTALS) || !recording->ledger || recording->has_threads ||
        recording->session->has_free_stacks) {
        return false;
    }
    if (ag_one_pass_take(&recording->one_pass, words, stream->encoder, recording->ledger,
                         &recording->stacks, number) < 0) {
        close_totals(recording);
    }
    return true;
}

/* ---- records among the words ---- */

static void totals_add_mapping(struct ag_recording *recording, const struct ag_record *record) {
    if (!recording->ledger) {
        return;
    }
    if (record->kind == AG_RECORD_MAP) {
        const uint32_t heap = recording->heap_of_via[record->u.map.via & 255];
        ag_ledger_map(recording->ledger, heap, record->u.map.address, record->u.map.bytes);
    } else {
        ag_ledger_unmap(recording->ledger, record->u.unmap.address, record->u.unmap.bytes);
    }
}

/* Keeps the name of a runtime (a language's virtual machine or library) for the closing line of
 * `run`. If several records have the same name, the last one counts, as for the readers of a
 * trace. */
void ag_recording_note_runtime(struct ag_recording *recording, const struct ag_record *record) {
    char name[sizeof(recording->runtimes[0].name)];
    const struct ag_bytes *bytes = &record->u.runtime.name;
    (void)snprintf(name, sizeof(name), "%.*s", (int)bytes->length, bytes->data);
    uint32_t i = 0;
    while (i < recording->n_runtimes && strcmp(recording->runtimes[i].name, name) != 0) {
        i++;
    }
    if (i < AG_ARRAY_SIZE(recording->runtimes)) {
        memcpy(recording->runtimes[i].name, name, sizeof(name));
        recording->runtimes[i].is_unseen = record->u.runtime.hooked == 0;
        recording->n_runtimes = i == recording->n_runtimes ? i + 1 : recording->n_runtimes;
    }
}

/* Extends the recording to the time in a record, which may be later than the last event. */
static void note_time(struct ag_recording *recording, uint64_t time_ns) {
    const uint64_t last_ns = recording->last_event_ns;
    recording->last_event_ns = time_ns > last_ns ? time_ns : last_ns;
}

static void totals_take_record(struct ag_recording *recording, const struct ag_record *record) {
    if (record->kind == AG_RECORD_MAP || record->kind == AG_RECORD_UNMAP) {
        totals_add_mapping(recording, record);
    }
    recording->n_collections += record->kind == AG_RECORD_GC;
}

static void note_calls(struct ag_recording *recording, const struct ag_record *record) {
    struct ag_call_path row;
    size_t cursor = 0;
    while (!recording->has_counts && ag_calls_next(record, &cursor, &row) == 1) {
        recording->has_counts = row.calls > 0;
    }
}

/* Records whose position among the events matters go to the stream's encoder; definitions are
 * written before the next trace chunk. */
static void trace_take_record(struct ag_recording *recording, struct ag_stream *stream,
                              struct ag_record *record) {
    bool is_among_events = false;
    switch (record->kind) {
    case AG_RECORD_MAP:
        ag_stack_harvest_learn(&recording->stacks, record->u.map.stack);
        is_among_events = true;
        break;
    case AG_RECORD_UNMAP:
    case AG_RECORD_MARK:     /* stays after the stamp that has its time */
    case AG_RECORD_SAMPLING: /* stays before the events that it describes */
        is_among_events = true;
        break;
    case AG_RECORD_RUNTIME:
        ag_recording_note_runtime(recording, record);
        break;
    case AG_RECORD_GC:
        ag_stack_harvest_learn(&recording->stacks, record->u.gc.stack);
        note_time(recording, record->u.gc.start_ns + record->u.gc.pause_ns);
        break;
    case AG_RECORD_MEMORY:
        note_time(recording, record->u.memory.time_ns);
        break;
    case AG_RECORD_FUNCTIONS:
        note_time(recording, record->u.functions.time_ns);
        break;
    case AG_RECORD_CALLS:
        note_calls(recording, record);
        break;
    case AG_RECORD_THREAD:
        name_thread(recording, stream, record);
        break;
    default:
        break;
    }
    if (is_among_events) {
        /* an error stays in the body; the function that writes the body returns it */
        (void)ag_event_encoder_add_record(stream->encoder, record);
    } else {
        ag_recording_define(recording, record);
    }
}

static void take_record(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                        struct ag_copied_record *copy, unsigned destinations) {
    struct ag_record record;
    if (!ag_copied_record_decode(copy, &record)) {
        recording->lost[AG_LOST_DAMAGED] += destinations & TO_TRACE ? 1 : 0;
        return;
    }
    if (record.kind == AG_RECORD_THREAD) {
        record.u.thread.stream = number;
    }
    if (record.kind == AG_RECORD_VIA) {
        recording->heap_of_via[record.u.via.via] = (uint8_t)record.u.via.heap;
        if (recording->ledger) {
            ag_ledger_via_heap(recording->ledger, record.u.via.via, record.u.via.heap);
        }
    }
    if (destinations & TO_TOTALS) {
        totals_take_record(recording, &record);
    }
    if (destinations & TO_TRACE) {
        trace_take_record(recording, stream, &record);
    }
}

/* Decodes the chunk's unread words before TO, and adds them to the destinations. */
static void take_words(struct ag_recording *recording, uint32_t number, struct ag_stream *stream,
                       struct ag_chunk_words *words, uint32_t to, unsigned destinations) {
    struct ag_event events[BATCH_EVENTS];
    static struct ag_copied_record copy; /* static, because it takes 32 KiB */
    words->end = to;
    for (;;) {
        const bool was_one_pass = take_one_pass(recording, number, stream, words, destinations);
        const size_t capacity = was_one_pass ? ODD_EVENTS : BATCH_EVENTS;
        const size_t count = ag_chunk_words_next(words, events, capacity, &copy);
        if (count > 0) {
            take_batch(recording, number, stream, events, count, destinations);
        } else if (copy.kind != 0) {
            take_record(recording, number, stream, &copy, destinations);
        } else {
            break;
        }
    }
    if (words->is_damaged && destinations & TO_TRACE) {
        /* at least one: after an invalid word no event can be counted */
        recording->lost[AG_LOST_DAMAGED]++;
    }
}

/* The events of a single thread go to the ledger directly, those of several through the merge. A
 * second thread is noticed in time: it increments n_streams before its first event. An event of the
 * first thread that depends on an event of the second thread (such as the free of a block that the
 * second thread allocated) is written later. */
static void look_for_threads(struct ag_recording *recording) {
    const struct ag_process_slot *slot = ag_session_slot(recording->session, recording->slot);
    if (!recording->has_threads && recording->ledger &&
        atomic_load_explicit(&slot->n_streams, memory_order_acquire) > 1) {
        recording->has_threads = true;
        ag_ledger_expect_streams(recording->ledger);
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

/* ---- writing ---- */

static void write_stream(struct ag_recording *recording, uint32_t number,
                         struct ag_stream *stream) {
    const struct ag_blob *body = ag_event_encoder_body(stream->encoder);
    if (body->error == 0 && body->length == 0) {
        /* The process ended when the thread's chunk was still empty, or the words were damaged,
         * which has been counted. A trace has no empty chunks. */
        release_pending(recording, stream);
        put_encoder(recording, stream);
        return;
    }
    if (recording->stacks.error < 0) {
        ag_recording_cut(recording, recording->stacks.error);
    } else if (has_room(recording, body->length + recording->records.length +
                                       recording->stacks.n_nodes * sizeof(struct ag_node))) {
        ag_recording_write_definitions(recording);
    }
    if (recording->is_cut) {
        return; /* this stream was discarded with all other streams */
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
        ag_recording_cut(recording, r);
        return;
    }
    release_pending(recording, stream);
    put_encoder(recording, stream);
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
        ag_recording_write_records(recording, &recording->samples);
    }
}

/* ---- chunks ---- */

static uint64_t count_events(struct ag_chunk_words words, uint32_t end) {
    struct ag_event events[BATCH_EVENTS];
    static struct ag_copied_record copy;
    uint64_t total = 0;
    words.end = end;
    for (size_t count = 1; count > 0 || copy.kind != 0;) {
        count = ag_chunk_words_next(&words, events, BATCH_EVENTS, &copy);
        for (size_t i = 0; i < count; i++) {
            total += events[i].kind != AG_RECORD_STAMP;
        }
    }
    return total;
}

static bool start_encoder(struct ag_recording *recording, struct ag_stream *stream,
                          const struct ag_chunk_words *words, uint64_t first_raw) {
    stream->encoder = take_encoder(recording);
    if (!stream->encoder) {
        return false;
    }
    const uint64_t ns = ag_clock_ns(words->ns_per_2_32, first_raw);
    const uint64_t first = ns > words->now_ns ? words->now_ns : ns;
    stream->first_ns = first > stream->encoded_ns ? first : stream->encoded_ns;
    ag_event_encoder_start(stream->encoder, stream->first_ns);
    return true;
}

static void forget_window_ends(struct ag_stream *stream) {
    free(stream->window_ends);
    stream->window_ends = NULL;
    stream->n_window_ends = 0;
}

/* Counts the chunks that are missing before this chunk as lost. Writes the stream's waiting events
 * first, because the raw chunks of a trace chunk have consecutive sequence numbers. */
static void skip_to(struct ag_recording *recording, struct ag_stream *stream,
                    const struct ag_chunk_ready *ready) {
    if (stream->encoder) {
        write_stream(recording, ready->stream, stream);
    }
    /* a lower bound: each chunk has at least one event */
    recording->lost[AG_LOST_DAMAGED] += ready->sequence - stream->next_sequence;
    stream->next_sequence = ready->sequence;
    stream->totaled_words = stream->seen_words = 0;
    forget_window_ends(stream);
}

/* Encodes for the trace the words up to `totaled`, which the totals include already. The stamps
 * that the writer added to the totals (section 3) are encoded at the same places among the
 * words. */
static void encode_totaled(struct ag_recording *recording, uint32_t number,
                           struct ag_stream *stream, struct ag_chunk_words *words,
                           uint32_t totaled) {
    for (uint32_t i = 0; i < stream->n_window_ends && stream->window_ends[i].words <= totaled;
         i++) {
        const struct ag_event stamp = {.kind = AG_RECORD_STAMP, .size = stream->window_ends[i].ns};
        take_words(recording, number, stream, words, stream->window_ends[i].words, TO_TRACE);
        take_batch(recording, number, stream, &stamp, 1, TO_TRACE);
        words->last_ns = stamp.size > words->last_ns ? stamp.size : words->last_ns;
    }
    take_words(recording, number, stream, words, totaled, TO_TRACE);
}

/* Sends the chunk's events to the encoder, and to the totals unless they are there already. */
static void recording_take_chunk(struct ag_recording *recording, struct ag_stream *stream,
                                 const struct ag_chunk_ready *ready, struct ag_chunk_words *words) {
    const uint32_t end = ready->used_words;
    const uint32_t totaled = stream->totaled_words < end ? stream->totaled_words : end;
    look_for_threads(recording);
    stream->thread_id = ready->thread_id;
    if (recording->ledger) {
        ag_ledger_thread(recording->ledger, ready->stream, ready->thread_id);
    }
    words->last_ns = stream->encoded_ns;
    encode_totaled(recording, ready->stream, stream, words, totaled);
    take_words(recording, ready->stream, stream, words, end, TO_TRACE | TO_TOTALS);
    stream->encoded_ns = words->last_ns;
    stream->totaled_ns = words->last_ns > stream->totaled_ns ? words->last_ns : stream->totaled_ns;
    note_time(recording, words->last_ns);
    if (words->reset_ns > 0) {
        recording->reset_ns = words->reset_ns;
    }
    /* A reset (a request that reports begin at this moment) may be in the totals already, but with
     * a time that was computed with another clock factor. */
    if (recording->ledger && words->reset_ns > 0) {
        ag_ledger_reset_at(recording->ledger, words->reset_ns);
    }
    stream->totaled_words = stream->seen_words = 0;
    forget_window_ends(stream);
}

/* Returns how many raw chunks make one trace chunk. If there is no room for a trace chunk, all its
 * events are lost. So trace chunks are smaller in a trace with a size limit, and while the trace is
 * short. */
static uint32_t seal_at(const struct ag_recording *recording) {
    const bool is_early = ag_trace_room_is_bounded(&recording->room) ||
                          ag_trace_writer_bytes(recording->writer) < SHORT_TRACE_BYTES;
    return is_early ? SEAL_EARLY : SEAL_CHUNKS;
}

/* Is this the last chunk of its stream? A chunk that is not full is taken only if its process has
 * ended, or for a snapshot. A thread hands over a chunk with much room left only when the thread
 * has ended. */
static bool is_last(const struct ag_chunk_ready *ready) {
    return !ready->is_full || ready->used_words < AG_CHUNK_WORDS / 2;
}

/* Writes the ended streams together, since each write is preceded by a chunk of new definitions,
 * and few large chunks compress better. */
static void write_ended(struct ag_recording *recording) {
    for (uint32_t i = 0; i < recording->n_ended_streams; i++) {
        struct ag_stream *stream = find_stream(recording, recording->ended_streams[i]);
        if (stream && stream->encoder) { /* otherwise it has been written already */
            write_stream(recording, recording->ended_streams[i], stream);
        }
    }
    recording->n_ended_streams = 0;
}

bool ag_recording_take(struct ag_recording *recording, const struct ag_chunk_ready *ready,
                       bool skip_gap) {
    struct ag_chunk_words words = open_words(recording, ready);
    if (recording->is_cut) {
        if (!recording->was_finished) { /* otherwise the sealed trace has the chunk's events */
            recording->lost[AG_LOST_STOPPED] += count_events(words, ready->used_words);
        }
        ag_session_release_chunk(recording->session, ready->chunk);
        return true;
    }
    struct ag_stream *stream = stream_of(recording, ready->stream);
    /* the chunk is invalid, or in the trace already */
    if (!stream || ready->sequence < stream->next_sequence) {
        recording->lost[AG_LOST_DAMAGED] += !stream;
        ag_session_release_chunk(recording->session, ready->chunk);
        return true;
    }
    if (ready->sequence > stream->next_sequence) {
        if (!skip_gap) {
            return false;
        }
        skip_to(recording, stream, ready);
        if (recording->is_cut) {
            /* counts the chunk's events as lost */
            return ag_recording_take(recording, ready, skip_gap);
        }
    }
    if (!stream->encoder && !start_encoder(recording, stream, &words, ready->first_raw)) {
        ag_recording_cut(recording, -ENOMEM);
        ag_session_release_chunk(recording->session, ready->chunk);
        return true;
    }
    recording_take_chunk(recording, stream, ready, &words);
    stream->pending[stream->n_pending++] = ready->chunk;
    stream->next_sequence++;
    if (stream->n_pending >= seal_at(recording) || recording->records.length > RECORDS_MAX_BYTES) {
        write_stream(recording, ready->stream, stream);
    } else if (is_last(ready)) {
        recording->ended_streams[recording->n_ended_streams++] = ready->stream;
    }
    if (recording->n_ended_streams == AG_ARRAY_SIZE(recording->ended_streams)) {
        write_ended(recording);
    }
    return true;
}

bool ag_recording_has_threads(struct ag_recording *recording) {
    look_for_threads(recording);
    return recording->has_threads;
}

bool ag_recording_peek(struct ag_recording *recording, const struct ag_chunk_ready *ready) {
    struct ag_stream *stream =
        recording->ledger && !recording->is_cut ? stream_of(recording, ready->stream) : NULL;
    if (!stream || ready->sequence != stream->next_sequence) {
        return !recording->ledger;
    }
    if (ready->used_words <= stream->totaled_words) {
        return true;
    }
    look_for_threads(recording);
    struct ag_chunk_words words = open_words(recording, ready);
    words.at = stream->totaled_words;
    words.last_ns = stream->totaled_ns;
    if (stream->n_window_ends > 0 &&
        stream->window_ends[stream->n_window_ends - 1].ns > words.last_ns) {
        words.last_ns = stream->window_ends[stream->n_window_ends - 1].ns;
    }
    take_words(recording, ready->stream, stream, &words, ready->used_words, TO_TOTALS);
    stream->totaled_words = ready->used_words;
    stream->totaled_ns = words.last_ns;
    return true;
}

bool ag_recording_rests(struct ag_recording *recording, const struct ag_chunk_ready *ready,
                        uint64_t now_ns) {
    struct ag_stream *stream = find_stream(recording, ready->stream);
    if (!stream || ready->sequence != stream->next_sequence) {
        return false;
    }
    if (stream->seen_words != ready->used_words) {
        stream->seen_words = ready->used_words;
        stream->seen_ns = now_ns;
    }
    return now_ns - stream->seen_ns >= REST_NS;
}

void ag_recording_end_window(struct ag_recording *recording, const struct ag_chunk_ready *ready) {
    struct ag_stream *stream = find_stream(recording, ready->stream);
    if (!stream || ready->sequence != stream->next_sequence || !recording->ledger ||
        stream->totaled_words != ready->used_words || stream->n_window_ends == WINDOW_ENDS_MOST ||
        (stream->n_window_ends > 0 &&
         stream->window_ends[stream->n_window_ends - 1].words == ready->used_words)) {
        return;
    }
    stream->window_ends = stream->window_ends
                              ? stream->window_ends
                              : calloc(WINDOW_ENDS_MOST, sizeof(*stream->window_ends));
    if (!stream->window_ends) {
        return; /* the window gets no end */
    }
    const struct ag_chunk_control *control = ag_session_control(recording->session, ready->chunk);
    const uint64_t now_ns = ag_session_clock_now_ns(recording->session);
    /* the clock is read before used_words is read again */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&control->used_words, memory_order_acquire) != ready->used_words ||
        now_ns < stream->totaled_ns) {
        return;
    }
    const struct ag_event stamp = {.kind = AG_RECORD_STAMP, .size = now_ns};
    totals_add_events(recording, ready->stream, &stamp, 1);
    stream->window_ends[stream->n_window_ends].words = ready->used_words;
    stream->window_ends[stream->n_window_ends++].ns = now_ns;
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

uint64_t ag_recording_totaled_ns(const struct ag_recording *recording, uint32_t stream) {
    const struct ag_stream *found = find_stream(recording, stream);
    return found ? found->totaled_ns : 0;
}

void ag_recording_advance(struct ag_recording *recording, uint64_t time_ns) {
    if (recording->has_threads && recording->ledger &&
        ag_merge_advance(recording->merge, time_ns) < 0) {
        close_totals(recording);
    }
}

void ag_recording_resident(struct ag_recording *recording, uint64_t time_ns, uint64_t rss_bytes) {
    const struct ag_record record = {.kind = AG_RECORD_RESIDENT,
                                     .u.resident = {.time_ns = time_ns, .bytes = rss_bytes}};
    (void)ag_record_append(&recording->samples, &record); /* an error stays in the blob */
    recording->rss_peak_bytes =
        rss_bytes > recording->rss_peak_bytes ? rss_bytes : recording->rss_peak_bytes;
    if (recording->ledger) {
        ag_ledger_resident(recording->ledger, time_ns, rss_bytes);
    }
}

/* The newest sample is always kept. Of the last three samples A, B and C, the newest sample C
 * replaces B if B is less than MEMORY_APART_NS, and C less than 2 * MEMORY_APART_NS, after A. */
void ag_recording_memory(struct ag_recording *recording, const struct ag_memory_sample *sample,
                         bool is_urgent) {
    const size_t n = recording->n_memory;
    const uint64_t before_last_ns =
        n > 1 ? recording->memory[(n - 2) % AG_MEMORY_SAMPLES].time_ns : 0;
    const bool replaces =
        n > 1 &&
        recording->memory[(n - 1) % AG_MEMORY_SAMPLES].time_ns - before_last_ns < MEMORY_APART_NS &&
        sample->time_ns - before_last_ns < 2 * MEMORY_APART_NS;
    recording->n_memory = replaces ? n : n + 1;
    recording->memory[(recording->n_memory - 1) % AG_MEMORY_SAMPLES] = *sample;
    const uint64_t rss = sample->anonymous_bytes + sample->file_bytes + sample->shmem_bytes,
                   written = recording->memory_written_bytes;
    if (is_urgent && sample->time_ns - recording->memory_written_ns >= MEMORY_WRITTEN_EVERY_NS &&
        (rss > written ? rss - written : written - rss) > written / MEMORY_CHANGE_PART) {
        ag_recording_add_memory(recording);
        recording->memory_written_bytes = rss;
        ag_recording_write_records(recording, &recording->samples);
    }
}

void ag_recording_add_memory(struct ag_recording *recording) {
    const size_t n = recording->n_memory;
    for (size_t i = n > AG_MEMORY_SAMPLES ? n - AG_MEMORY_SAMPLES : 0; i < n; i++) {
        const struct ag_record record = {.kind = AG_RECORD_MEMORY_SAMPLE,
                                         .u.memory_sample =
                                             recording->memory[i % AG_MEMORY_SAMPLES]};
        if (record.u.memory_sample.time_ns > recording->memory_written_ns) {
            (void)ag_record_append(&recording->samples, &record); /* an error stays in the blob */
            recording->memory_written_ns = record.u.memory_sample.time_ns;
        }
    }
}

void ag_recording_look(struct ag_recording *recording, uint64_t time_ns, enum ag_look_kind kind,
                       const struct ag_resident_look *look) {
    const bool is_near_peak = kind == AG_LOOK_NEAR_PEAK;
    struct ag_blob *blob = is_near_peak ? &recording->peak_look : &recording->last_look;
    uint8_t *storage = malloc(look->n_storage * 2 * AG_VARINT_MAX_BYTES + 1),
            *storage_end = storage;
    uint64_t before = 0;
    for (size_t i = 0; storage != NULL && i < look->n_storage; i++) {
        const struct ag_storage_range *range = &look->storage[i];
        if (range->low >= before) { /* ranges may overlap if threads ended meanwhile */
            storage_end = ag_varint_put(storage_end, range->low - before);
            storage_end = ag_varint_put(storage_end, range->high - range->low);
            before = range->high;
        }
    }
    const struct ag_record head = {
        .kind = AG_RECORD_RESIDENT_LOOK,
        .u.resident_look = {.time_ns = time_ns,
                            .page_bytes = look->page_bytes,
                            .rss_bytes = look->rss_bytes,
                            .page_table_bytes = look->page_table_bytes,
                            .hugetlb_bytes = look->hugetlb_bytes,
                            .swap_bytes = look->swap_bytes,
                            .storage = {.data = (const char *)storage,
                                        .length = (uint32_t)(storage_end - storage)}}};
    ag_blob_done(&recording->last_look);
    recording->last_look = (struct ag_blob){0};
    if (is_near_peak) {
        ag_blob_done(blob);
        *blob = (struct ag_blob){0};
    }
    (void)ag_record_append(blob, &head); /* an error stays in the blob */
    free(storage);
    for (size_t i = 0; i < look->n_mappings; i++) {
        const struct ag_resident_mapping *mapping = &look->mappings[i];
        const struct ag_record record = {
            .kind = AG_RECORD_RESIDENT_MAPPING,
            .u.resident_mapping = {
                .low = mapping->low,
                .high = mapping->high,
                .rss_bytes = mapping->rss_bytes,
                .anonymous_bytes = mapping->anonymous_bytes,
                .flags = mapping->flags,
                .path = {.data = mapping->path, .length = (uint32_t)strlen(mapping->path)},
                .pages = {.data = (const char *)mapping->pages,
                          .length = (uint32_t)mapping->pages_length}}};
        (void)ag_record_append(blob, &record);
    }
}

/* ---- life ---- */

uint64_t ag_recording_bytes(const struct ag_recording *recording) {
    struct stat status;
    return recording->trace_fd >= 0 && fstat(recording->trace_fd, &status) == 0
               ? (uint64_t)status.st_size
               : 0;
}

bool ag_recording_has_trace(const struct ag_recording *recording) {
    struct stat file, name;
    if (recording->trace_fd < 0 || fstat(recording->trace_fd, &file) < 0) {
        return false;
    }
    return file.st_nlink > 0 || /* some file systems do not count links: then the name decides */
           (lstat(recording->path, &name) == 0 && name.st_dev == file.st_dev &&
            name.st_ino == file.st_ino);
}

struct ag_recording *ag_recording_begin(struct ag_session *session, uint32_t slot_index,
                                        bool is_first, const struct ag_process_parent *parent) {
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
    recording->is_first = is_first;
    recording->parent = *parent;
    recording->tree = copy->tree < session->n_trees ? copy->tree : 0;
    recording->trace_fd = recording->room.fd = -1;
    recording->start_ns = ag_segment_ns(session->header, copy->start_raw - session->clock_origin);
    recording->last_event_ns = recording->start_ns;
    for (uint32_t via = AG_VIA_HOST; via < AG_VIAS_MOST; via++) {
        recording->heap_of_via[via] = (uint8_t)via;
    }
    if (ag_stack_harvest_start(&recording->stacks, ag_session_tree(session, recording->tree),
                               ag_tree_size_of(session->tree_bytes)) < 0) {
        goto failed;
    }
    const int r = ag_recording_open_trace(recording, copy);
    if (r < 0) {
        ag_recording_cut(recording, r);
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
    (void)ag_event_encoder_free(stream->encoder); /* returns NULL */
    free(stream->window_ends);
    free(stream);
}

struct ag_recording *ag_recording_free(struct ag_recording *recording) {
    if (recording) {
        for_each_stream(recording, free_stream, 0);
        for (uint32_t page = 0; page < AG_ARRAY_SIZE(recording->stream_pages); page++) {
            free(recording->stream_pages[page]);
        }
        while (recording->n_spare > 0) {
            (void)ag_event_encoder_free(recording->spare_encoders[--recording->n_spare]);
        }
        recording->merge = ag_merge_free(recording->merge);
        recording->ledger = ag_ledger_free(recording->ledger);
        recording->writer = ag_trace_writer_free(recording->writer);
        ag_descriptor_close(recording->trace_fd);
        ag_one_pass_done(&recording->one_pass);
        ag_stack_harvest_done(&recording->stacks);
        ag_blob_done(&recording->records);
        ag_blob_done(&recording->samples);
        ag_blob_done(&recording->peak_look);
        ag_blob_done(&recording->last_look);
        ag_blob_done(&recording->counters);
        free(recording);
    }
    return NULL;
}
