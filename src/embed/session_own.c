/* session_own.c: sessions of a program that is linked with the library and runs alone. The library
 * makes the live file (a mapped file that holds the recorded events), records into it, and seals
 * (completes) the trace itself when the session ends.
 *
 * There is no writer process: except for a snapshot, nothing in the program compresses or writes
 * files while it runs, and all records are in the live file even if the program is killed (then
 * `allogram check TRACE` completes the trace). The disadvantage: the live file has to hold all
 * events of the session. The events may take up to half of the free space in /dev/shm (or in the
 * trace's folder, if the live file is there), and at most 4 GiB. Further events are lost and
 * counted.
 *
 * A session can also belong to another process (allogram_session_join). That process has a writer,
 * which moves the events from the live file into the trace while the program runs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "allogram/allogram.h"
#include "counters.h"
#include "host_events.h"
#include "host_heaps.h"
#include "host_lock.h"
#include "record/block_choice.h"
#include "record/recorder.h"
#include "tracker.h"
#include "writer/live_session.h"
#include "writer/writer.h"

static struct {
    struct ag_host_lock lock;
    bool is_active, is_announced;
    bool is_joined; /* another process made the session, and its writer makes the trace */
    uint32_t pid;   /* the process that started the session: a forked child has no session */
    char trace[4096], live[4096];
} session; /* under the lock; is_ours and allogram_session_trace also read it without the lock */

static int session_fail(const char message[512], char *ret_message, size_t message_bytes,
                        int error) {
    if (ret_message && message_bytes > 0) {
        /* truncated to the size of the caller's buffer */
        (void)snprintf(ret_message, message_bytes, "%s", message);
    }
    return error;
}

static bool is_ours(void) {
    return session.is_active && session.pid == (uint32_t)getpid();
}

static int session_begin(const struct allogram_options *options, char message[512]) {
    struct ag_session *made = NULL;
    const struct ag_session_options wanted = {.size = sizeof(wanted),
                                              .output_pattern = options->output,
                                              .depth = options->depth,
                                              .filter = options->filter,
                                              .no_children = true};
    int r = ag_session_create(&wanted, &made, message);
    if (r < 0) {
        return r;
    }
    char trace[4096];
    const uint32_t pid = (uint32_t)getpid();
    r = ag_session_first_trace(made, pid, program_invocation_short_name, trace, message);
    if (r == 0) {
        r = ag_recorder_start(ag_session_path(made));
        if (r < 0) {
            (void)snprintf(message, 512, "cannot record into %.400s: %s", ag_session_path(made),
                           strerror(-r));
            /* the trace was created a moment ago; only the first failure is reported */
            (void)unlink(trace);
        }
    }
    if (r < 0) {
        ag_session_remove(made);
    } else {
        memcpy(session.trace, trace, sizeof(session.trace));
        (void)snprintf(session.live, sizeof(session.live), "%s", ag_session_path(made));
        session.pid = pid;
    }
    (void)ag_session_close(made);
    return r;
}

static int refuse_second(char message[512]) {
    if (!is_ours()) {
        return 0;
    }
    (void)snprintf(message, 512, "a session is active already; it writes %.400s", session.trace);
    return -EALREADY;
}

static void announce_once(void) {
    if (!session.is_announced) {
        ag_host_announce();
        session.is_announced = true;
    }
}

static void begin_reporting(void) {
    session.is_active = true;
    ag_counters_follow();
    ag_tracker_follow_session();
    ag_host_mode(ALLOGRAM_TELLS_ | ALLOGRAM_COUNTS_, 0);
}

static int start_locked(const struct allogram_options *options, char message[512]) {
    const struct allogram_options defaults = {.size = sizeof(defaults)};
    options = options ? options : &defaults;
    int r = refuse_second(message);
    if (r < 0) {
        return r;
    }
    if (options->size < sizeof(*options)) {
        (void)snprintf(
            message, 512,
            "session options have the wrong size of %zu bytes; set .size = sizeof(options)",
            options->size);
        return -EINVAL;
    }
    if (options->threads > ALLOGRAM_THIS_THREAD) {
        (void)snprintf(
            message, 512,
            "session option .threads = %u is unknown; set ALLOGRAM_ALL_THREADS or ALLOGRAM_THIS_THREAD",
            options->threads);
        return -EINVAL;
    }
    announce_once();
    ag_block_choice_follow_thread(options->threads == ALLOGRAM_THIS_THREAD);
    r = session_begin(options, message);
    session.is_active = false; /* is_active can be that of the parent, copied by fork */
    if (r == 0) {
        session.is_joined = false;
        begin_reporting();
    }
    return r;
}

static int join_locked(const char *live_path, char message[512]) {
    int r = refuse_second(message);
    if (r < 0) {
        return r;
    }
    announce_once();
    ag_block_choice_follow_thread(/* is_this_alone= */ false);
    ag_recorder_forget_left();
    r = ag_recorder_start(live_path);
    if (r < 0) {
        (void)snprintf(message, 512, "cannot record into %.400s: %s", live_path, strerror(-r));
        return r;
    }
    (void)snprintf(session.trace, sizeof(session.trace), "%s", live_path);
    session.pid = (uint32_t)getpid();
    session.is_joined = true;
    begin_reporting();
    return 0;
}

int allogram_session_start(const struct allogram_options *options, char *ret_message,
                           size_t message_bytes) {
    const int host_errno = errno;
    char message[512] = "";
    if (!ag_host_lock_take(&session.lock)) {
        (void)snprintf(message, sizeof(message),
                       "cannot start a session while another call starts or stops one");
        return session_fail(message, ret_message, message_bytes, -EDEADLK);
    }
    const int r = start_locked(options, message);
    ag_host_lock_give(&session.lock);
    errno = host_errno;
    return r < 0 ? session_fail(message, ret_message, message_bytes, r) : 0;
}

int allogram_session_join(const char *live_path, char *ret_message, size_t message_bytes) {
    const int host_errno = errno;
    char message[512] = "";
    if (!ag_host_lock_take(&session.lock)) {
        (void)snprintf(message, sizeof(message),
                       "cannot join a session while another call starts or stops one");
        return session_fail(message, ret_message, message_bytes, -EDEADLK);
    }
    const int r = join_locked(live_path, message);
    ag_host_lock_give(&session.lock);
    errno = host_errno;
    return r < 0 ? session_fail(message, ret_message, message_bytes, r) : 0;
}

void allogram_session_tell(void) {
    /* nothing to do: the counters are in the live file at any time */
}

static int stop_locked(void) {
    char message[512];
    if (!is_ours()) {
        return -ENOENT;
    }
    ag_host_mode(0, ALLOGRAM_TELLS_ | ALLOGRAM_COUNTS_);
    ag_recorder_leave();
    session.is_active = false;
    const int r = session.is_joined ? 0 : ag_writer_seal_own(session.trace, message);
    return r < 0 ? r : 0;
}

int allogram_session_stop(void) {
    const int host_errno = errno;
    if (!ag_host_lock_take(&session.lock)) {
        return -EDEADLK;
    }
    const int r = stop_locked();
    ag_host_lock_give(&session.lock);
    errno = host_errno;
    return r;
}

const char *allogram_session_trace(void) {
    return session.trace;
}

void allogram_session_pause(void) {
    if (ag_host_lock_take(&session.lock)) {
        ag_host_mode(0, ALLOGRAM_TELLS_);
        ag_host_lock_give(&session.lock);
    }
}

void allogram_session_resume(void) {
    if (ag_host_lock_take(&session.lock)) {
        if (is_ours()) {
            ag_host_mode(ALLOGRAM_TELLS_, 0);
        }
        ag_host_lock_give(&session.lock);
    }
}

int allogram_session_reset(void) {
    ag_host_get_ready();
    if (!is_ours()) {
        return -ENOENT;
    }
    ag_record_reset();
    return 0;
}

/* ---- snapshots ---- */

static int pass_on(const char *path, const struct allogram_snapshot_options *options) {
    char bytes[16 * 1024];
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    int r = 0;
    while (n > 0 && r == 0) {
        n = read(fd, bytes, sizeof(bytes));
        r = n > 0 && options->write(options->context, bytes, (size_t)n) != 0 ? -ECANCELED : 0;
    }
    r = n < 0 ? -errno : r;
    if (fd >= 0) {
        (void)close(fd); /* opened for reading only */
    }
    return r;
}

static int snapshot_locked(const struct allogram_snapshot_options *options, char message[512]) {
    char path[4096];
    if (!options || options->size < sizeof(*options)) {
        (void)snprintf(message, 512,
                       "snapshot options are missing, or have the wrong size; set .size = "
                       "sizeof(options)");
        return -EINVAL;
    }
    if (!options->output == !options->write) {
        (void)snprintf(message, 512, "snapshot options must set either .output or .write");
        return -EINVAL;
    }
    if (!is_ours()) {
        (void)snprintf(message, 512, "cannot take a snapshot: no session is active");
        return -ENOENT;
    }
    if (session.is_joined) {
        (void)snprintf(
            message, 512,
            "cannot take a snapshot: the session belongs to another process; take it there");
        return -ENOTSUP;
    }
    if (options->output) {
        return ag_writer_snapshot_own(session.live, options->output, path, message);
    }
    char pattern[4096 + 16];
    (void)snprintf(pattern, sizeof(pattern), "%.4000s.passing", session.trace);
    int r = ag_writer_snapshot_own(session.live, pattern, path, message);
    if (r == 0) {
        r = pass_on(path, options);
        (void)unlink(path); /* a temporary file, whose bytes have been passed on */
        if (r < 0) {
            (void)snprintf(message, 512, "cannot write the snapshot: %s", strerror(-r));
        }
    }
    return r;
}

int allogram_session_snapshot(const struct allogram_snapshot_options *options, char *ret_message,
                              size_t message_bytes) {
    const int host_errno = errno;
    char message[512] = "";
    if (!ag_host_lock_take(&session.lock)) {
        (void)snprintf(
            message, sizeof(message),
            "cannot take a snapshot while another call starts or stops a session, or takes a "
            "snapshot");
        return session_fail(message, ret_message, message_bytes, -EDEADLK);
    }
    const int r = snapshot_locked(options, message);
    ag_host_lock_give(&session.lock);
    errno = host_errno;
    return r < 0 ? session_fail(message, ret_message, message_bytes, r) : 0;
}

__attribute__((destructor)) static void stop_at_exit(void) {
    if (is_ours()) {
        ag_recorder_exiting();
        /* an error cannot be reported any more; `allogram check` can complete the trace */
        (void)allogram_session_stop();
    }
}
