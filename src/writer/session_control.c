/* session_control.c: performs the requests that session_control.h describes.
 *
 * 1. Permission. Any process that can open the live file (the file of the live segment) may control
 *    the session: the processes of the session's user, and root's. Such a process maps the session
 *    as its writer does, but takes neither the writer lock nor events.
 *
 * 2. A dump request is three words in the header, and its answer is two, so there can be only one
 *    requester at a time. A requester locks a byte of the file; the lock ends with the requester's
 *    process. If a requester dies, the writer still serves its request, and the next requester
 *    waits for that answer first. */
#include "session_control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error_message.h"
#include "session.h"
#include "session_clock.h"
#include "snapshot.h"
#include "trace_file.h"

enum {
    DUMP_PATIENCE_MS = 60 * 1000, /* timeout while the writer lives */
    LOCK_PATIENCE_MS = 60 * 1000, /* timeout while another requester has the lock */
    HOOKS_PATIENCE_MS = 30 * 1000,
    ALIVE_EVERY_MS = 100, /* between two checks that the writer still lives */
};

enum ag_keeper ag_session_keeper(const struct ag_session *session, pid_t *ret_pid) {
    *ret_pid = (pid_t)session->header->keeper_pid;
    return session->header->keeper;
}

/* ---- the process ---- */

/* Returns the slot (the entry in the live segment) of the process. If the process is the session's
 * keeper (the process that made the session), returns the first live slot. NULL: there is none. */
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

/* Reads the path of the process' trace; "" while it has none. */
static void read_trace(const struct ag_process_slot *slot, char ret_path[4096]) {
    const struct ag_slot_trace *note =
        (const struct ag_slot_trace *)(const void *)((const uint8_t *)slot + AG_SLOT_TRACE_OFFSET);
    ret_path[0] = '\0';
    /* acquire: pairs with the writer's release; the note is complete */
    if (atomic_load_explicit(&slot->trace_created, memory_order_acquire)) {
        (void)snprintf(ret_path, 4096, "%.*s", (int)sizeof note->path, note->path);
    }
}

/* ---- words of the header ---- */

static int change_pause(struct ag_session *session, enum ag_pause from, enum ag_pause to,
                        const char *already, char message[512]) {
    uint32_t was = from;
    if (atomic_compare_exchange_strong_explicit(&session->header->paused, &was, to,
                                                memory_order_seq_cst, memory_order_relaxed)) {
        return 0;
    }
    return was == to ? ag_error_message(message, -EALREADY, "%s", already)
           : was == AG_PAUSE_OVER
               ? ag_error_message(message, -EALREADY,
                                  "its recording was stopped, and cannot be resumed")
               : ag_error_message(message, -EBUSY,
                                  "nothing is recorded now: the recording's --delay has not passed "
                                  "yet, or its --duration has passed");
}

/* Waits until all processes have again installed the hooks (code that reports events) that they
 * removed for the pause. */
static int wait_for_hooks(const struct ag_session *session, char message[512]) {
    for (int ms = 0; ms < HOOKS_PATIENCE_MS; ms++) {
        uint32_t n_resting = 0;
        for (uint32_t i = 0; i < ag_session_slots_used(session); i++) {
            struct ag_process_slot *slot = ag_session_slot(session, i);
            n_resting += atomic_load_explicit(&slot->state, memory_order_acquire) == AG_SLOT_LIVE &&
                         atomic_load_explicit(&slot->resting, memory_order_seq_cst) != 0;
        }
        if (n_resting == 0) {
            return 0;
        }
        (void)poll(NULL, 0, 1);
    }
    return ag_error_message(
        message, -ETIMEDOUT,
        "recording continues, but its runtime has not resumed counting function calls within %d seconds",
        HOOKS_PATIENCE_MS / 1000);
}

static int resume(struct ag_session *session, char message[512]) {
    const int r =
        change_pause(session, AG_PAUSE_BIRTHS, AG_PAUSE_NONE, "it is not paused", message);
    return r < 0 ? r : wait_for_hooks(session, message);
}

static int stop(struct ag_session *session, char message[512]) {
    return ag_session_pause(session, AG_PAUSE_OVER) == AG_PAUSE_OVER
               ? ag_error_message(message, -EALREADY, "its recording was stopped already")
               : 0;
}

static void session_reset(struct ag_session *session) {
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

/* Waits until the writer has answered all requests. */
static int wait_for_answer(const struct ag_session *session) {
    const struct ag_segment_header *header = session->header;
    for (int ms = 0; ms < DUMP_PATIENCE_MS; ms++) {
        /* acquire: pairs with the writer's release; the dump's number is set */
        if (atomic_load_explicit(&header->n_dumps_done, memory_order_acquire) ==
            atomic_load_explicit(&header->n_dumps_asked, memory_order_relaxed)) {
            return 0;
        }
        if (ms % ALIVE_EVERY_MS == ALIVE_EVERY_MS - 1 && !ag_session_has_writer(session)) {
            return -ESRCH;
        }
        (void)poll(NULL, 0, 1);
    }
    return -ETIMEDOUT;
}

static int ask_for_dump(struct ag_session *session, const struct ag_process_slot *slot,
                        uint32_t index, uint32_t *ret_number) {
    struct ag_segment_header *header = session->header;
    int r = lock_requests(session); /* held until the session is closed */
    r = r < 0 ? r : wait_for_answer(session);
    if (r < 0) {
        return r;
    }
    header->dump_slot = index;
    header->dump_generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
    /* release: pairs with the writer's acquire; the request is complete */
    atomic_fetch_add_explicit(&header->n_dumps_asked, 1, memory_order_release);
    r = wait_for_answer(session);
    *ret_number = header->dump_number;
    return r;
}

/* Before the call, PATH contains the path of the trace, or "" if there is none. After the call,
 * PATH contains the path of the dump. */
static int session_dump(struct ag_session *session, const struct ag_process_slot *slot,
                        uint32_t index, char path[4096], char message[512]) {
    uint32_t number = 0;
    if (session->header->keeper == AG_KEEPER_NONE) {
        return ag_error_message(message, -ENOTSUP,
                                "it records itself; only the program itself can write a snapshot "
                                "(allogram_session_snapshot)");
    }
    const int r = ask_for_dump(session, slot, index, &number);
    if (r == -ESRCH) {
        return ag_error_message(message, r, "it has ended, or its writer was killed; its trace: %s",
                                path[0] ? path : "none");
    }
    if (r < 0) {
        return ag_error_message(message, r, "its writer process does not respond: %s",
                                strerror(-r));
    }
    if (number == 0) {
        return ag_error_message(
            message, -EIO,
            "cannot write a dump in the folder of its trace: its recording has ended, it has reached "
            "the limit of %d dumps, or the file cannot be written; check the folder's free space "
            "and permissions",
            AG_DUMP_NUMBERS);
    }
    char trace[4096];
    (void)snprintf(trace, sizeof(trace), "%s", path);
    if (trace[0] == '\0') {
        /* The trace was created after `path` was read. (A path that was read earlier is preferred,
         * because the slot may belong to another process by now.) */
        read_trace(slot, trace);
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
        return resume(session, ret_message);
    case AG_CONTROL_RESET:
        session_reset(session);
        return 0;
    case AG_CONTROL_DUMP:
        return session_dump(session, slot, index, ret_path, ret_message);
    case AG_CONTROL_STOP:
        return stop(session, ret_message);
    }
    return -EINVAL;
}
