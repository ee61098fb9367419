/* seal.c: finishes a session whose writer (the process that writes the traces) was killed. Adds the
 * events in the live file (the file of the session's shared memory) to the traces of their
 * processes, and seals (completes) these traces, as the writer would have done. The command
 * `allogram check` completes the traces themselves. For a command that only reads one trace, a copy
 * of that trace is completed, and neither the trace nor the live file is changed.
 *
 * The trace's header holds the session's number, and the live file is in a folder whose name
 * contains that number, in shared memory or in the folder of the trace. So no data in a trace can
 * lead to any other file.
 *
 * The words of the live file were written by the recorded program, which may have run with fewer
 * rights than the user who reads its trace. So only the owner of a session seals it. Traces that
 * are still to be created are put into the folder of the trace that was named on the command line
 * or, if the live file was named, into the current folder. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "cut_files.h"
#include "format/encode.h"
#include "trace_file.h"
#include "writer_state.h"

struct clue {           /* what the file at a path shows about its session */
    uint64_t session;   /* 0: the file is neither a trace nor a live file */
    bool is_live;       /* the file is the session's live file */
    uid_t owner;        /* of the file */
    uint32_t first_pid; /* the process of a trace that holds only its header, because the process
                         * never began to record; otherwise 0 */
};

static struct clue look_at(const char *path) {
    struct segment_start {
        uint64_t magic;
        uint32_t version, header_bytes;
        uint64_t file_bytes, session;
    } live;
    _Static_assert(offsetof(struct ag_segment_header, session) ==
                       offsetof(struct segment_start, session),
                   "segment_start is the beginning of the segment header");
    struct ag_trace_header trace;
    struct stat status;
    struct clue clue = {0};
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        clue.owner = status.st_uid;
        clue.is_live = pread(fd, &live, sizeof(live), 0) == (ssize_t)sizeof(live) &&
                       live.magic == AG_SEGMENT_MAGIC;
        if (clue.is_live) {
            clue.session = live.session;
        } else if (ag_trace_header_read(fd, &trace) == 0) {
            clue.session = trace.session;
            clue.first_pid = trace.slot == AG_NUMBER_FIRST ? trace.pid : 0;
        }
    }
    ag_descriptor_close(fd);
    return clue;
}

/* Finds the live file of the session. false: the live file is gone or has another owner, so nothing
 * can be added to the trace. */
static bool find_live(const char *path, const struct clue *clue, char ret_live[4096],
                      char ret_folder[4096]) {
    if (clue->session == 0 || clue->owner != geteuid()) {
        return false;
    }
    if (clue->is_live) {
        memcpy(ret_folder, ".", 2);
        return (size_t)snprintf(ret_live, 4096, "%s", path) < 4096;
    }
    ag_trace_file_folder(path, ret_folder);
    return ag_session_find_live("/dev/shm", clue->session, clue->owner, ret_live) ||
           ag_session_find_live(ret_folder, clue->session, clue->owner, ret_live);
}

/* Changes the session's pattern for the paths of traces so that new traces are created in FOLDER,
 * whatever folder the live file names. */
static int move_pattern(struct ag_session *session, const char *folder, char ret_message[512]) {
    char pattern[2 * 4096 + sizeof(session->trace_pattern)];
    const size_t length = ag_trace_pattern_escape(folder, pattern, 2 * 4096);
    const char *slash = strrchr(session->trace_pattern, '/');
    (void)snprintf(pattern + length, sizeof(pattern) - length, "/%s",
                   slash ? slash + 1 : session->trace_pattern);
    return ag_trace_pattern_complete(pattern, session->trace_pattern, ret_message);
}

/* Opens the trace at PATH, which holds only its header because it was created before its program
 * ran. The recording of process PID will continue it. */
static void offer_first_trace(struct ag_session *session, const char *path, uint32_t pid) {
    session->first_trace_fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (session->first_trace_fd >= 0) { /* otherwise the process gets a new trace */
        session->first_own_pid = pid;
        (void)snprintf(session->first_trace_path, sizeof(session->first_trace_path), "%s", path);
    }
}

/* Whether the session is about to start: no process has joined yet, and the process that made the
 * session lives. */
static bool is_beginning(const struct ag_session *session) {
    return ag_session_slots_used(session) == 0 &&
           ag_process_has_mapped(session->header->keeper_pid, session->path);
}

/* Seals the traces of all ended processes of the session. Returns the number of sealed traces, or
 * negative errno. */
static int64_t seal_ended(struct ag_session *session) {
    struct ag_writer writer;
    const int64_t n_finished = ag_writer_drain(&writer, session);
    if (n_finished >= 0 && !session->is_private) {
        ag_writer_retire(&writer, ag_monotonic_ns(), /* after_ns= */ 0);
        if (!ag_writer_has_live(&writer) && !is_beginning(session)) {
            ag_session_remove(session);
        }
    }
    ag_writer_done(&writer);
    return n_finished;
}

/* Takes the writer's lock. Waits for readers, which share the lock while they copy (seconds at
 * most). -EWOULDBLOCK: another writer holds the lock. */
static int lock_after_readers(struct ag_session *session) {
    const int r = ag_session_lock(session, /* wait= */ false);
    return r == -EWOULDBLOCK && !ag_session_has_writer(session)
               ? ag_session_lock(session, /* wait= */ true)
               : r;
}

static int seal(const char *path, char ret_message[512]) {
    char live[4096], folder[4096];
    const struct clue clue = look_at(path);
    if (!find_live(path, &clue, live, folder)) {
        if (clue.session != 0 && !clue.is_live && clue.owner == geteuid()) {
            ag_session_remove_empty_folder("/dev/shm", clue.session, clue.owner);
            ag_session_remove_empty_folder(folder, clue.session, clue.owner);
        }
        return 0;
    }
    struct ag_session *session = NULL;
    int64_t r = ag_session_open(live, &session, ret_message);
    if (r < 0) {
        return r == -ENOENT ? 0 : (int)r; /* the session's writer finished meanwhile */
    }
    r = lock_after_readers(session);
    if (r == -EWOULDBLOCK || r == -ENOENT) {
        r = 0; /* the session's writer lives and will seal the traces, or has just finished */
    } else if (r == 0) {
        r = move_pattern(session, folder, ret_message);
        if (clue.first_pid != 0) {
            offer_first_trace(session, path, clue.first_pid);
        }
        r = r < 0 ? r : seal_ended(session);
    }
    if (r < 0) {
        (void)snprintf(ret_message, 512, "cannot complete the traces from the live file %.400s: %s",
                       live, strerror((int)-r));
    }
    (void)ag_session_close(session); /* returns NULL */
    return r > 0 ? 1 : (int)r;
}

int ag_writer_seal(const char *path, char ret_message[512]) {
    ag_cut_files_guard();
    return seal(path, ret_message);
}

int ag_writer_seal_own(const char *path, char ret_message[512]) {
    return seal(path, ret_message);
}

/* ---- for readers ---- */

/* Copies the trace to a file without a name, which disappears with its descriptor. The copy is in
 * the folder of the trace if the file system supports that, because traces may be large. Returns
 * the descriptor; -EALREADY: the trace is sealed. */
static int copy_trace(const char *path, const char *folder) {
    const char *const places[] = {folder, "/tmp", "/dev/shm"};
    struct stat status;
    const int from = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int to = -EALREADY;
    if (from < 0) {
        return -errno;
    }
    if (!ag_trace_file_is_sealed(from)) {
        to = -1;
        for (size_t i = 0; to < 0 && i < AG_ARRAY_SIZE(places); i++) {
            to = open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        }
        int r = to < 0 || fstat(from, &status) < 0 ? -errno : 0;
        r = r < 0 ? r : ag_trace_file_copy(from, to, (uint64_t)status.st_size);
        if (r < 0 && to >= 0) {
            (void)close(to); /* the failure is reported already */
        }
        to = r < 0 ? r : to;
    }
    (void)close(from); /* nothing was written */
    return to;
}

/* Completes and seals the copy of a trace with the session's events of its process. Returns 1; 0 if
 * the session has no events of that process; negative errno. */
static int complete_copy(struct ag_session *session, int copy, uint32_t first_pid) {
    session->first_trace_fd = fcntl(copy, F_DUPFD_CLOEXEC, 0);
    session->first_own_pid = first_pid;
    if (session->first_trace_fd < 0) {
        return -errno;
    }
    const int64_t r = seal_ended(session);
    const bool was_taken = session->first_trace_fd < 0;
    return r < 0 ? (int)r : was_taken;
}

int ag_writer_complete_copy(const char *path, int *ret_fd, char ret_message[512]) {
    char live[4096], folder[4096];
    const struct clue clue = look_at(path);
    struct ag_session *session = NULL;
    if (clue.is_live || !find_live(path, &clue, live, folder)) {
        return 0;
    }
    ag_cut_files_guard();
    int r = ag_session_open_private(live, &session, ret_message);
    if (r < 0) {
        return r == -ENOENT ? 0 : r; /* the session's writer finished meanwhile */
    }
    /* otherwise the writer lives, and will seal the trace */
    if (ag_session_lock_out_writer(session)) {
        int copy = copy_trace(path, folder);
        r = copy < 0 ? copy : complete_copy(session, copy, clue.first_pid);
        if (r > 0) {
            *ret_fd = copy;
        } else {
            ag_descriptor_close(copy); /* nothing was added to the copy */
        }
        if (r == -EALREADY) {
            r = 0;
        } else if (r < 0) {
            (void)snprintf(ret_message, 512,
                           "cannot complete a copy of the trace from the live file %.380s: %s",
                           live, strerror(-r));
        }
    }
    (void)ag_session_close(session); /* returns NULL */
    return r;
}
