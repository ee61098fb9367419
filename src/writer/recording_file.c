/* recording_file.c: chooses the trace file of a recording, limits its size, and writes its end.
 * recording.c writes everything between the start and the end.
 *
 * 1. Which file. A recording uses the file that `run` or `attach` created, the file that a previous
 *    writer began, or a new one. Each process has a slot in the live segment (format/segment.h). A
 *    note after the slot (struct ag_slot_trace) names the file of a previous writer. The program
 *    can write to that memory, so the note is only a hint: the file must belong to this writer's
 *    user, and its header must name this session, this process and this use of the slot. (This
 *    writer's user is the owner of the session: the process that made the session is the writer or
 *    starts it, and only the owner may seal the traces later, see seal.c.) If the previous writer
 *    was killed before it wrote the note, its file is found because it has the name that the new
 *    file would get (trace_file.c).
 *
 * 2. Room. The trace's end and index must fit even when the disk is full, or the trace has reached
 *    a quota or its own size limit. So disk space for them is reserved before each chunk, as blocks
 *    after the file's end (FALLOC_FL_KEEP_SIZE), if the file system supports that.
 *
 * 3. End. The end of a trace contains the number of lost events, how the process ended, its last
 *    title, the cost of allogram, and the index, which contains the sums. The end is written even
 *    if a full disk cut the trace: truncating the file to its last whole chunk has freed a little
 *    room, and the end needs little. Readers report a trace without an end as cut. */
#include "recording_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "recording.h"
#include "session_clock.h"
#include "trace_file.h"
#include "trace_index.h"

/* ---- 1. which file ---- */

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

static void set_program(struct ag_recording *recording, struct ag_bytes exe) {
    size_t begin = exe.length;
    while (begin > 0 && exe.data[begin - 1] != '/') {
        begin--;
    }
    const size_t length = exe.length - begin;
    const size_t kept =
        length < sizeof(recording->program) ? length : sizeof(recording->program) - 1;
    memcpy(recording->program, exe.data + begin, kept);
    recording->program[kept] = '\0';
}

static void define_process(struct ag_recording *recording, const struct ag_process_slot *copy) {
    struct utsname machine = {0};
    (void)uname(&machine); /* fails only for an invalid pointer */
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
                      .command = slot_text(copy, copy->command_offset, copy->text_bytes),
                      .host = {machine.nodename, (uint32_t)strlen(machine.nodename)},
                      .identity = copy->identity,
                      .parent_identity = recording->parent.identity,
                      .origin = recording->parent.origin}};
    record.u.process.n_arguments = count_strings(record.u.process.command);
    ag_recording_define(recording, &record);
    if (recording->session->mode == AG_MODE_SAMPLE) {
        const struct ag_record sampling = {
            .kind = AG_RECORD_SAMPLING,
            .u.sampling = {.interval_bytes = recording->session->interval_bytes,
                           .seed = recording->session->seed,
                           .method = AG_SAMPLING_POISSON_BYTES}};
        ag_recording_define(recording, &sampling);
    }
    const char *filter = recording->session->filter;
    if (filter[0] != '\0') {
        const struct ag_record record_of_filter = {
            .kind = AG_RECORD_FILTER,
            .u.filter.expression = {.data = filter, .length = (uint32_t)strlen(filter)}};
        ag_recording_define(recording, &record_of_filter);
    }
}

static struct ag_slot_trace *trace_note(const struct ag_recording *recording) {
    return (struct ag_slot_trace *)(void *)((uint8_t *)ag_session_slot(recording->session,
                                                                       recording->slot) +
                                            AG_SLOT_TRACE_OFFSET);
}

static struct ag_trace_header header_of(const struct ag_recording *recording) {
    return (struct ag_trace_header){.session = recording->session->id,
                                    .pid = recording->pid,
                                    .slot = recording->number,
                                    .start_realtime_ns = realtime_of(recording)};
}

/* Opens the file that a previous writer began, and whose path is in the note. -ENOENT: there is no
 * note, or it names no trace of this process. */
static int open_noted(struct ag_recording *recording) {
    struct ag_slot_trace note;
    memcpy(&note, trace_note(recording), sizeof(note));
    note.path[sizeof(note.path) - 1] = '\0';
    if (note.path[0] != '/' || note.generation != recording->generation) {
        return -ENOENT;
    }
    const struct ag_trace_header header = header_of(recording);
    const int fd = ag_trace_file_open_begun(note.path, &header);
    if (fd >= 0) {
        memcpy(recording->path, note.path, sizeof(note.path));
    }
    return fd;
}

/* Takes the file that `run` or `attach` created for the first process, or the trace that a private
 * session (which seal.c or snapshot.c opens for one trace) completes. The file is used once: if the
 * process executes another program, that program gets a new file. In a private session, the
 * recordings of other processes have no file. */
static int take_first_file(struct ag_recording *recording) {
    struct ag_session *session = recording->session;
    const struct ag_trace_header header = header_of(recording);
    const bool is_any_first = session->is_private && session->first_own_pid == 0;
    const int fd = session->first_trace_fd;
    if (fd < 0 || !(recording->is_first || is_any_first) || !ag_trace_file_is_of(fd, &header)) {
        return -ENOENT;
    }
    session->first_trace_fd = -1;
    memcpy(recording->path, session->first_trace_path, sizeof(recording->path));
    return fd;
}

static int make_file(struct ag_recording *recording, const struct ag_process_slot *copy) {
    struct ag_session *session = recording->session;
    const struct ag_trace_header header = header_of(recording);
    const int fd = take_first_file(recording);
    if (fd >= 0) {
        return fd;
    }
    char exe[AG_SLOT_TEXT_BYTES + 1];
    const struct ag_bytes exe_bytes = slot_string(copy, copy->exe_offset);
    memcpy(exe, exe_bytes.data, exe_bytes.length);
    exe[exe_bytes.length] = '\0';
    const bool has_only_this_writer =
        session->locked_since_raw > 0 && copy->start_raw > session->locked_since_raw;
    const struct ag_trace_names names = {.program = exe,
                                         .pid = recording->pid,
                                         .start_s = session->clock_origin_realtime_ns / 1000000000u,
                                         .numbers =
                                             has_only_this_writer ? &session->numbers : NULL};
    return ag_trace_file_create(session->trace_pattern, &names, &header, recording->path);
}

static void leave_note(const struct ag_recording *recording) {
    struct ag_slot_trace *note = trace_note(recording);
    const size_t length = strlen(recording->path);
    note->path[0] = '\0';
    note->generation = recording->generation;
    if (length < sizeof(note->path)) { /* otherwise the next writer begins another file */
        memcpy(note->path, recording->path, length + 1);
    }
}

/* Creates a trace writer that appends to the file, with a descriptor of its own. */
static int resume_writer(struct ag_recording *recording) {
    const int fd = fcntl(recording->trace_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    const int r = ag_trace_writer_resume(fd, &recording->writer);
    if (r < 0) {
        (void)close(fd); /* nothing was written */
    }
    return r;
}

static int start_trace(struct ag_recording *recording, const struct ag_process_slot *copy) {
    const struct ag_trace_header header = header_of(recording);
    const int fd = fcntl(recording->trace_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    const int r = ag_trace_writer_new(fd, &header, &recording->writer);
    if (r < 0) {
        (void)close(fd); /* the failure is reported already */
        return r;
    }
    recording->ledger = ag_ledger_new();
    recording->merge = recording->ledger ? ag_merge_new(recording->ledger) : NULL;
    if (!recording->merge) { /* needed to add the events of several threads */
        recording->ledger = ag_ledger_free(recording->ledger);
    }
    if (recording->ledger && recording->parent.origin == AG_ORIGIN_FORKED) {
        ag_ledger_expect_inherited(recording->ledger);
    }
    define_process(recording, copy);
    ag_recording_write_definitions(recording);
    return 0;
}

static int resume_trace(struct ag_recording *recording, const struct ag_process_slot *copy) {
    /* a previous writer may have sealed the file, and died before it could note that */
    recording->was_finished = ag_trace_file_is_sealed(recording->trace_fd);
    if (recording->was_finished) {
        recording->is_cut = true; /* nothing more is written */
        return 0;
    }
    const int r = resume_writer(recording);
    if (r == 0 && ag_trace_writer_bytes(recording->writer) <= AG_SESSION_EMPTY_TRACE_BYTES) {
        /* the file holds only its header, because its first chunk was incomplete */
        define_process(recording, copy);
        ag_recording_write_definitions(recording);
    }
    return r;
}

int ag_recording_open_trace(struct ag_recording *recording, const struct ag_process_slot *copy) {
    set_program(recording, slot_string(copy, copy->exe_offset));
    int r = recording->session->is_private ? take_first_file(recording) : open_noted(recording);
    if (r < 0 && !recording->session->is_private) {
        r = make_file(recording, copy);
    }
    if (r < 0) {
        return r;
    }
    recording->trace_fd = r;
    ag_trace_room_start(&recording->room, r, recording->session->max_trace_bytes);
    leave_note(recording);
    return ag_recording_bytes(recording) > AG_SESSION_EMPTY_TRACE_BYTES
               ? resume_trace(recording, copy)
               : start_trace(recording, copy);
}

/* ---- 2. room ---- */

enum {
    END_BYTES = 24 * 1024, /* timeline, heaps, threads, end and footer, compressed */
    BYTES_PER_STACK = 16,  /* compressed size of the sums of one stack: 10 to 14 bytes were
                            * measured */
    /* size of a trace divided by that of its list of chunks, which has 10 bytes for each chunk of 5
     * KiB or more */
    TRACE_BYTES_PER_LIST_BYTE = 512,
    STEP_MAX_BYTES = 1024 * 1024,
};

void ag_trace_room_start(struct ag_trace_room *room, int fd, uint64_t max_bytes) {
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_FSIZE, &limit); /* cannot fail for a known limit */
    *room = (struct ag_trace_room){
        .fd = fd,
        .max_bytes = max_bytes,
        .limit_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur,
    };
}

/* An upper estimate of the size of the end and the index. */
static uint64_t end_bytes(const struct ag_trace_room *room, uint64_t trace_bytes,
                          uint64_t n_stacks) {
    const uint64_t bytes =
        END_BYTES + n_stacks * BYTES_PER_STACK + trace_bytes / TRACE_BYTES_PER_LIST_BYTE;
    /* a trace with a small size limit contains more events instead of an index */
    const uint64_t most = room->max_bytes / 4;
    return room->max_bytes > 0 && bytes > most ? most : bytes;
}

static int room_reserve(struct ag_trace_room *room, uint64_t from, uint64_t to) {
    if (fallocate(room->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) == 0) {
        room->reserved_to = to;
        return 0;
    }
    if (errno == ENOSPC || errno == EDQUOT || errno == EINTR) {
        return -errno;
    }
    room->cannot_reserve = true;
    return 0;
}

int ag_trace_room_check(struct ag_trace_room *room, uint64_t trace_bytes, uint64_t bytes,
                        uint64_t n_stacks) {
    const uint64_t wanted = trace_bytes + bytes + end_bytes(room, trace_bytes, n_stacks);
    if (room->max_bytes > 0 && wanted > room->max_bytes) {
        return AG_ROOM_AS_ASKED;
    }
    if (wanted > room->limit_bytes) {
        return -EFBIG;
    }
    if (wanted <= room->reserved_to || room->cannot_reserve) {
        return 0;
    }
    const uint64_t from = room->reserved_to > trace_bytes ? room->reserved_to : trace_bytes;
    /* Reserves a quarter of the trace's size in advance, so that a trace of many chunks needs few
     * calls. Reserving more would be harmful: each process of a session reserves its own space, and
     * busy processes cannot use what idle processes have reserved. */
    uint64_t step = trace_bytes / 4;
    step = step > STEP_MAX_BYTES ? STEP_MAX_BYTES : step;
    int r = room_reserve(room, from, wanted + step);
    if (r == -ENOSPC || r == -EDQUOT) {
        r = room_reserve(room, from, wanted); /* without the step */
    }
    return r == -EINTR ? 0 : r; /* interrupted: tried again before the next chunk */
}

/* Frees the reserved disk space that was not used. */
static void room_done(const struct ag_trace_room *room, uint64_t trace_bytes) {
    if (room->fd >= 0 && room->reserved_to > trace_bytes) {
        /* blocks that stay reserved are wasted but harmless */
        (void)!ftruncate(room->fd, (off_t)trace_bytes);
    }
}

/* ---- 3. end ---- */

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

/* The CPU time that the process spent on taking samples. */
static uint64_t sampler_ns(const struct ag_recording *recording) {
    const struct ag_session *session = recording->session;
    const struct ag_process_slot *slot = ag_session_slot(session, recording->slot);
    return ag_segment_ns(session->header,
                         atomic_load_explicit(&slot->sampler_raw, memory_order_relaxed));
}

/* Returns the strings without the NUL of the last string, and without empty strings after it. */
static struct ag_bytes trimmed(struct ag_bytes strings) {
    while (strings.length > 0 && strings.data[strings.length - 1] == '\0') {
        strings.length--;
    }
    return strings;
}

/* Appends the last known title of the process. The command is left out if it has not changed since
 * the start. (If the command was truncated, only its first part can be compared.) */
static void append_title(const struct ag_recording *recording, struct ag_blob *blob) {
    const struct ag_process_slot *slot = ag_session_slot(recording->session, recording->slot);
    const struct ag_process_title *title = &recording->title;
    const struct ag_bytes now = {title->command, title->command_bytes};
    const struct ag_bytes begun = trimmed(slot_text(slot, slot->command_offset, slot->text_bytes)),
                          shown = trimmed(now);
    const bool is_cut = now.length == AG_TITLE_COMMAND_BYTES && begun.length > shown.length;
    const bool is_same = (begun.length == shown.length || is_cut) &&
                         memcmp(begun.data, shown.data, shown.length) == 0;
    const struct ag_record record = {
        .kind = AG_RECORD_TITLE,
        .u.title = {.name = {title->name, (uint32_t)strlen(title->name)},
                    .n_arguments = is_same ? 0 : count_strings(now),
                    .command = is_same ? (struct ag_bytes){0} : now,
                    .user_id = title->user_id,
                    .user = {title->user, (uint32_t)strlen(title->user)},
                    .address_space_limit_bytes = title->address_space_limit_bytes}};
    if (title->is_known) {
        (void)ag_record_append(blob, &record);
    }
}

/* Appends a note if `attach` found that the code of a hooked function had changed. */
static void append_changed_code(struct ag_recording *recording, struct ag_blob *blob) {
    const struct ag_session *session = recording->session;
    const struct ag_process_slot *slot = ag_session_slot(session, recording->slot);
    const uint64_t changed_ns =
        atomic_load_explicit(&session->header->code_changed_ns, memory_order_relaxed);
    if (changed_ns <= recording->start_ns ||
        !ag_session_is_first(session, slot->pid, slot->pid_namespace)) {
        return;
    }
    static const char name[] = "libc (changed code)";
    char note[256];
    const int n = snprintf(note, sizeof(note),
                           "the code of an allocation function was changed, at the latest %.3g s "
                           "after the recording began; calls since then may be missing",
                           (double)(changed_ns - recording->start_ns) / 1e9);
    const struct ag_record changed = {
        .kind = AG_RECORD_RUNTIME,
        .u.runtime = {.name = {name, sizeof(name) - 1}, .note = {note, (uint32_t)n}}};
    (void)ag_record_append(blob, &changed); /* as in append_end */
    ag_recording_note_runtime(recording, &changed);
}

static void append_end(struct ag_recording *recording, struct ag_blob *blob,
                       const struct ag_recording_end *end) {
    const struct ag_process_slot *slot = ag_session_slot(recording->session, recording->slot);
    append_title(recording, blob);
    append_changed_code(recording, blob);
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        const struct ag_record lost = {
            .kind = AG_RECORD_LOST,
            .u.lost = {.cause = cause, .events = lost_by(recording, cause)}};
        if (lost.u.lost.events > 0) {
            /* the function that writes the blob returns errors of these calls */
            (void)ag_record_append(blob, &lost);
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
                           atomic_load_explicit(&slot->failed_stack_checks, memory_order_relaxed),
                       .waited_ns = atomic_load_explicit(&slot->waited_ns, memory_order_relaxed),
                       .n_waits = atomic_load_explicit(&slot->n_waits, memory_order_relaxed)}};
    (void)ag_record_append(blob, &profiler);
    const struct ag_session *session = recording->session;
    const struct ag_record sampler = {
        .kind = AG_RECORD_SAMPLER,
        .u.sampler = {.cpu_ns = sampler_ns(recording),
                      .budget_millionths = (uint32_t)(session->budget_percent * 10000),
                      .least_interval_bytes = session->least_interval_bytes,
                      .most_interval_bytes = session->most_interval_bytes}};
    if (session->mode == AG_MODE_SAMPLE) {
        (void)ag_record_append(blob, &sampler);
    }
    const struct ag_record ended = {
        .kind = AG_RECORD_END,
        .u.end = {.how = end->how,
                  .wait_status = atomic_load_explicit(&slot->wait_status, memory_order_relaxed),
                  .wait_status_known =
                      atomic_load_explicit(&slot->wait_status_known, memory_order_acquire) != 0,
                  .time_ns = end->time_ns}};
    (void)ag_record_append(blob, &ended);
    if (end->kill) {
        const struct ag_record kill = {.kind = AG_RECORD_KERNEL_KILL, .u.kernel_kill = *end->kill};
        (void)ag_record_append(blob, &kill);
    }
}

/* After a reset (`allogram control PID reset`) reports begin at that moment. The next event of the
 * program applies the reset. This function applies a reset after which there was no event. */
static void apply_unreported_reset(const struct ag_recording *recording) {
    const struct ag_segment_header *header = recording->session->header;
    const uint64_t raw = atomic_load_explicit(&header->reset_raw, memory_order_relaxed);
    const uint64_t asked_ns = ag_segment_ns(header, raw);
    if (raw > 0 && asked_ns > recording->start_ns && asked_ns > recording->reset_ns) {
        ag_ledger_reset_at(recording->ledger, asked_ns);
    }
}

/* Computes the sums of the index from the ledger, which has the running sums of all events. If
 * there is no ledger, if it fails, or if the trace was cut (then the ledger includes events that
 * the file lacks), the sums are computed from the file. */
static int make_sums(struct ag_recording *recording, const struct ag_index_facts *facts,
                     struct ag_blob *ret_blob) {
    if (recording->ledger && !recording->is_cut) {
        int r = ag_merge_finish(recording->merge); /* does nothing for a single thread */
        apply_unreported_reset(recording);
        ag_ledger_reach(recording->ledger, facts->end_ns);
        r = r < 0 ? r : ag_ledger_close(recording->ledger);
        if (r == 0) {
            return ag_trace_index_of_ledger(recording->ledger, &recording->stacks, facts, ret_blob,
                                            &recording->sums);
        }
    }
    char path[64]; /* works even if the file was renamed */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", recording->trace_fd);
    return ag_trace_index_of_file(path, facts, ret_blob, &recording->sums);
}

/* A trace writer that failed once refuses all further writes, so a new trace writer writes the
 * end. */
static void revive_writer(struct ag_recording *recording) {
    recording->writer = ag_trace_writer_free(recording->writer);
    if (recording->trace_fd >= 0) {
        (void)resume_writer(recording); /* if this fails, the trace gets no end */
    }
}

/* Writes the index, and removes it again if the trace then exceeds the requested size: readers work
 * without an index. */
static int write_index(struct ag_recording *recording, const struct ag_blob *sums) {
    const uint64_t before_bytes = ag_trace_writer_bytes(recording->writer);
    const int r = ag_trace_writer_finish(recording->writer, sums);
    const uint64_t max_bytes = recording->room.max_bytes;
    if (r == 0 && max_bytes > 0 && ag_trace_writer_bytes(recording->writer) > max_bytes) {
        return ftruncate(recording->trace_fd, (off_t)before_bytes) < 0 ? -errno : 0;
    }
    return r;
}

static int write_end(struct ag_recording *recording, const struct ag_recording_end *end,
                     const struct ag_blob *sums) {
    struct ag_recording_end actual = *end;
    if (recording->is_cut) {
        actual.how = AG_END_CUT;
    }
    struct ag_blob blob = {0};
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS,
                                       .first_time_ns = end->time_ns};
    append_end(recording, &blob, &actual);
    int r = blob.error < 0
                ? blob.error
                : ag_trace_writer_chunk(recording->writer, &info, blob.data, blob.length);
    ag_blob_done(&blob);
    return r < 0 ? r : write_index(recording, sums);
}

void ag_recording_finish(struct ag_recording *recording, const struct ag_recording_end *end) {
    ag_recording_flush(recording, UINT64_MAX);
    if (!recording->is_cut) {
        ag_recording_write_definitions(recording);
        if (end->may_be_killed) {
            ag_recording_add_memory(recording);
        }
        ag_recording_write_records(recording, &recording->samples);
        ag_recording_write_records(recording, &recording->peak_look);
        ag_recording_write_records(recording, &recording->last_look);
        ag_recording_write_records(recording, &recording->counters);
    }
    if (recording->is_cut && recording->error < 0 && !recording->was_finished) {
        revive_writer(recording);
    }
    struct ag_index_facts facts = {
        .start_ns = recording->start_ns,
        .end_ns = end->time_ns,
        .rss_peak_bytes = recording->rss_peak_bytes,
    };
    if (facts.end_ns < recording->last_event_ns) {
        facts.end_ns = recording->last_event_ns;
    }
    struct ag_blob sums = {0};
    int r = recording->trace_fd < 0 ? 0 : make_sums(recording, &facts, &sums);
    if (r == 0 && recording->writer && !recording->was_finished) {
        struct ag_recording_end actual = *end;
        actual.time_ns = recording->start_ns + recording->sums.summary.duration_ns;
        r = write_end(recording, &actual, &sums);
    }
    room_done(&recording->room, ag_recording_bytes(recording));
    if (r < 0 && recording->error == 0) {
        recording->error = r; /* `run` reports the error; readers work without the index */
    }
    ag_blob_done(&sums);
}
