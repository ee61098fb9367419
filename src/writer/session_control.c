/* session_control.c: see session_control.h.
 *
 * 1. Who may. Whoever can open the live file: the user whose session it is, and root. The session
 * is mapped as its writer maps it, but nothing is drained and no lock of the writer's taken.
 *
 * 2. A dump is asked for by three words in the header and answered by one, so there is one asker at
 * a time: a lock on those bytes of the file, which ends with who holds it. One who died asking left
 * a request that is served, or a writer that is gone; the next waits for the answer first. */
#include "session_control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/error_message.h"
#include "session.h"
#include "session_clock.h"
#include "trace_name.h"

enum {
    DUMP_PATIENCE_MS = 60 * 1000, /* of a writer that lives */
    LOCK_PATIENCE_MS = 60 * 1000,
    DOUBT_MS = 100, /* an answer takes some milliseconds, or as long as the file is written */
};

enum ag_keeper ag_session_keeper(const struct ag_session *session, pid_t *ret_pid) {
    *ret_pid = (pid_t)session->header->keeper_pid;
    return session->header->keeper;
}

/* ---- the process ---- */

/* Its slot; of who keeps the session, that of the first process. NULL: none. */
static struct ag_process_slot *find_slot(const struct ag_session *session,
                                         const struct ag_controlled *process, uint32_t *ret_index) {
    const uint32_t n_used = ag_session_slots_used(session);
    const bool is_keeper = process->pid == session->header->keeper_pid &&
                           process->pid_namespace == session->pid_namespace;
    for (uint32_t i = 0; i < n_used; i++) {
        struct ag_process_slot *slot = ag_session_slot(session, i);
        const bool is_live =
            atomic_load_explicit(&slot->state, memory_order_acquire) == AG_SLOT_LIVE;
        if (is_live &&
            (is_keeper || ag_session_slot_is(slot, process->pid, process->pid_namespace))) {
            *ret_index = i;
            return slot;
        }
    }
    return NULL;
}

/* The name of its trace, "" while it has none. */
static void read_trace(const struct ag_process_slot *slot, char ret_path[4096]) {
    const struct ag_slot_trace *note =
        (const struct ag_slot_trace *)(const void *)((const uint8_t *)slot + AG_SLOT_TRACE_OFFSET);
    ret_path[0] = '\0';
    /* acquire: pairs with the writer's release; the note is whole */
    if (atomic_load_explicit(&slot->trace_created, memory_order_acquire)) {
        (void)snprintf(ret_path, 4096, "%.*s", (int)sizeof note->path, note->path);
    }
}

/* ---- words of the header ---- */

static int change_pause(struct ag_session *session, enum ag_pause from, enum ag_pause to,
                        const char *already, char message[512]) {
    uint32_t was = from;
    if (atomic_compare_exchange_strong_explicit(&session->header->paused, &was, to,
                                                memory_order_relaxed, memory_order_relaxed)) {
        return 0;
    }
    return was == to              ? ag_error_message(message, -EALREADY, "%s", already)
           : was == AG_PAUSE_OVER ? ag_error_message(message, -EALREADY, "its recording is over")
                                  : ag_error_message(message, -EBUSY,
                                                     "nothing is recorded now: its --delay has not "
                                                     "passed, or its --duration has");
}

static int stop(struct ag_session *session, char message[512]) {
    return ag_session_pause(session, AG_PAUSE_OVER) == AG_PAUSE_OVER
               ? ag_error_message(message, -EALREADY, "its recording is over")
               : 0;
}

static void reset(struct ag_session *session) {
    const uint64_t raw = ag_session_clock_raw(session->clock_kind) - session->clock_origin;
    atomic_store_explicit(&session->header->reset_raw, raw, memory_order_relaxed);
    atomic_fetch_add_explicit(&session->header->n_resets, 1, memory_order_release);
}

/* ---- dumps ---- */

static int lock_requests(const struct ag_session *session) {
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = offsetof(struct ag_segment_header, dump_slot),
                         .l_len = 1};
    for (int ms = 0; fcntl(session->fd, F_OFD_SETLK, &lock) < 0; ms++) {
        if ((errno != EAGAIN && errno != EACCES) || ms > LOCK_PATIENCE_MS) {
            return -errno;
        }
        (void)poll(NULL, 0, 1);
    }
    return 0;
}

/* Its writer holds this lock as long as it lives (ag_session_lock). Whoever else takes it looks
 * first whether it is to be had, and this is for a moment only. */
bool ag_session_has_writer(const struct ag_session *session) {
    if (flock(session->fd, LOCK_SH | LOCK_NB) < 0) {
        return true;
    }
    (void)flock(session->fd, LOCK_UN); /* cannot fail where it is held */
    return false;
}

/* Until the writer has answered everybody. */
static int wait_for_answer(const struct ag_session *session) {
    const struct ag_segment_header *header = session->header;
    for (int ms = 0; ms < DUMP_PATIENCE_MS; ms++) {
        /* acquire: pairs with the writer's release; the number is there */
        if (atomic_load_explicit(&header->n_dumps_done, memory_order_acquire) ==
            atomic_load_explicit(&header->n_dumps_asked, memory_order_relaxed)) {
            return 0;
        }
        if (ms % DOUBT_MS == DOUBT_MS - 1 && !ag_session_has_writer(session)) {
            return -ESRCH;
        }
        (void)poll(NULL, 0, 1);
    }
    return -ETIMEDOUT;
}

static int ask_for_dump(struct ag_session *session, const struct ag_process_slot *slot,
                        uint32_t index, uint32_t *ret_number) {
    struct ag_segment_header *header = session->header;
    int r = lock_requests(session); /* until the session is closed */
    r = r < 0 ? r : wait_for_answer(session);
    if (r < 0) {
        return r;
    }
    header->dump_slot = index;
    header->dump_generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
    /* release: pairs with the writer's acquire; which one is there */
    atomic_fetch_add_explicit(&header->n_dumps_asked, 1, memory_order_release);
    r = wait_for_answer(session);
    *ret_number = header->dump_number;
    return r;
}

/* PATH: the trace's name, as far as it has one; then the dump's. */
static int dump(struct ag_session *session, const struct ag_process_slot *slot, uint32_t index,
                char path[4096], char message[512]) {
    uint32_t number = 0;
    if (session->header->keeper == AG_KEEPER_NONE) {
        return ag_error_message(message, -ENOTSUP,
                                "it records itself, so only it can: allogram_session_snapshot");
    }
    const int r = ask_for_dump(session, slot, index, &number);
    if (r == -ESRCH) {
        return ag_error_message(message, r, "its writer is gone, or it has ended: %s",
                                path[0] ? path : "it has no trace");
    }
    if (r < 0) {
        return ag_error_message(message, r, "its writer does not answer: %s", strerror(-r));
    }
    if (number == 0) {
        return ag_error_message(message, -EIO,
                                "no dump could be written beside its trace: is there room, and has "
                                "the recording not ended?");
    }
    char trace[4096];
    (void)snprintf(trace, sizeof(trace), "%s", path);
    if (trace[0] == '\0') {
        read_trace(slot, trace); /* now there is one; later the slot may be another process' */
    }
    ag_trace_name_dump(trace, number, path);
    return 0;
}

int ag_session_ask(struct ag_session *session, const struct ag_controlled *process,
                   enum ag_control action, char ret_path[4096], char ret_message[512]) {
    uint32_t index = 0;
    const struct ag_process_slot *slot = find_slot(session, process, &index);
    ret_path[0] = '\0';
    if (slot == NULL) {
        return ag_error_message(ret_message, -ENOENT, "it is not recorded any more");
    }
    read_trace(slot, ret_path);
    switch (action) {
    case AG_CONTROL_PAUSE:
        return change_pause(session, AG_PAUSE_NONE, AG_PAUSE_BIRTHS, "it is paused already",
                            ret_message);
    case AG_CONTROL_RESUME:
        return change_pause(session, AG_PAUSE_BIRTHS, AG_PAUSE_NONE, "it is not paused",
                            ret_message);
    case AG_CONTROL_RESET:
        reset(session);
        return 0;
    case AG_CONTROL_DUMP:
        return dump(session, slot, index, ret_path, ret_message);
    case AG_CONTROL_STOP:
        return stop(session, ret_message);
    }
    return -EINVAL;
}
