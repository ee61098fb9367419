/* trace_opening.c: decides to which file a process' trace goes: the one that `run` created, the one
 * that a previous writer began, or a new one.
 *
 * The note behind the slot (recording.h) says where a previous writer's file is. The program can
 * write to that memory, so the note is only a hint: the file must belong to the user of this
 * writer, and its header must carry this session, this process and this use of the slot. (Only the
 * session's owner drains and seals it, so that user is the owner.) When the previous writer was
 * killed before it wrote the note, its file is found by the name that the new file would get
 * (trace_file.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording.h"
#include "session_clock.h"
#include "trace_file.h"

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

/* Opens the file that a previous writer began, by its note. -ENOENT: there is none, or it cannot be
 * trusted. */
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

/* Takes the file that `run` created for the first process. It is used once: after an exec the next
 * image gets a new one. */
static int take_first_file(struct ag_recording *recording, const struct ag_trace_header *header) {
    struct ag_session *session = recording->session;
    const int fd = session->first_trace_fd;
    if (fd < 0 || !recording->is_first) {
        return -ENOENT;
    }
    session->first_trace_fd = -1;
    if (!ag_trace_file_is_of(fd, header)) {
        (void)close(fd); /* nothing was written */
        return -ENOENT;
    }
    memcpy(recording->path, session->first_trace_path, sizeof(recording->path));
    return fd;
}

/* In a private session (seal.c, snapshot_own.c) one trace is written, to the file that waits for
 * it. The recordings of other processes are dropped. */
static int take_copy(struct ag_recording *recording) {
    struct ag_session *session = recording->session;
    const struct ag_trace_header header = header_of(recording);
    const int fd = session->first_trace_fd;
    if (fd < 0 || !ag_trace_file_is_of(fd, &header) ||
        (session->first_own_pid != 0 && !recording->is_first)) {
        return -ENOENT;
    }
    session->first_trace_fd = -1;
    memcpy(recording->path, session->first_trace_path, sizeof(recording->path));
    return fd;
}

static int make_file(struct ag_recording *recording, const struct ag_process_slot *copy) {
    struct ag_session *session = recording->session;
    const struct ag_trace_header header = header_of(recording);
    const int fd = take_first_file(recording, &header);
    if (fd >= 0) {
        return fd;
    }
    char exe[AG_SLOT_TEXT_BYTES + 1];
    const struct ag_bytes exe_bytes = slot_string(copy, copy->exe_offset);
    memcpy(exe, exe_bytes.data, exe_bytes.length);
    exe[exe_bytes.length] = '\0';
    const bool is_ours_alone =
        session->collected_since_raw > 0 && copy->start_raw > session->collected_since_raw;
    const struct ag_trace_names names = {.program = exe,
                                         .pid = recording->pid,
                                         .start_s = session->clock_origin_realtime_ns / 1000000000u,
                                         .numbers = is_ours_alone ? &session->numbers : NULL};
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

/* Creates a trace writer that appends to the file. It gets a descriptor of its own. */
int ag_recording_resume_writer(struct ag_recording *recording) {
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
    define_process(recording, copy);
    ag_recording_write_definitions(recording);
    return 0;
}

static int go_on(struct ag_recording *recording, const struct ag_process_slot *copy) {
    /* a previous writer may have sealed it, and died before it could note that */
    recording->was_finished = ag_trace_file_is_sealed(recording->trace_fd);
    if (recording->was_finished) {
        recording->is_cut = true; /* nothing more is written */
        return 0;
    }
    const int r = ag_recording_resume_writer(recording);
    if (r == 0 && ag_trace_writer_bytes(recording->writer) <= AG_SESSION_EMPTY_TRACE_BYTES) {
        define_process(recording, copy); /* its first chunk was torn */
        ag_recording_write_definitions(recording);
    }
    return r;
}

int ag_recording_open_trace(struct ag_recording *recording, const struct ag_process_slot *copy) {
    int r = recording->session->is_private ? take_copy(recording) : open_noted(recording);
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
               ? go_on(recording, copy)
               : start_trace(recording, copy);
}
