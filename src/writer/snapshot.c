/* snapshot.c: a trace of now, while the recording goes on (`run --dump-at`, `run --serve`).
 *
 * 1. How. A child is forked off the writer. It has all that the writer knows: the books, the
 * open encoders, the list of what is in the file. It maps the live segment again, privately, so
 * that what it marks as taken is marked for nobody else; it copies the trace as far as it is
 * written, and then does what the writer does when a process has ended: takes what is left, ends
 * the trace, makes the index. Its trace says "detached".
 *
 * 2. What must not move meanwhile. The writer waits until the child has looked at the chunks,
 * once, and has copied them: else it could give one back, and the program would write into it under
 * the child's eyes. That takes milliseconds. Copying the trace, which only ever grows, and
 * compressing go on without it; until they are done the slot, and with it the tree of stacks, goes
 * to nobody else (ag_writer_retire). The program waits for nobody, as long as the segment has
 * chunks.
 *
 * 3. Names. TRACE.dump1.allogram and so on, beside TRACE.allogram, never over another file; the
 * name is there when the trace is whole, before that it has ".part" at its end. At most one is
 * being written for a process; what asks for one meanwhile is answered by the next. After
 * DUMPS_MOST of a process there are no more. One that cannot be written is no reason to disturb
 * anybody: it is removed, and its number is left out.
 *
 * 4. The desk is a page that `run`, its writer and its endpoint share: whoever wants a trace of
 * the first process now writes the name and counts up (writer.h). Somebody outside asks by the
 * live segment (session_control.c), and is told the number of the dump. */
#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace_name.h"

enum {
    DUMPS_MOST = 1000,
    FREEZING_PATIENCE_MS = 20 * 1000, /* the child is stuck: it is ended, the recording goes on */
    WRITING_PATIENCE_NS = 60 * 1000 * 1000 * 1000LL,
    PEAK_LEAST_BYTES = 1 << 20,
    PEAK_GROWTH_DIVISOR = 10, /* a new peak is a tenth above the one that was dumped */
};

/* ---- in the child ---- */

static int make_own_memory(struct ag_session *session) {
    void *base = mmap(session->base, session->file_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, session->fd, 0);
    (void)close(session->fd); /* with it the lock is shared: it must end with the writer */
    session->fd = -1;
    return base == MAP_FAILED ? -errno : 0;
}

static int copy_trace(int from, int to, uint64_t bytes) {
    off_t at = 0;
    while ((uint64_t)at < bytes) {
        const ssize_t n = sendfile(to, from, &at, (size_t)(bytes - (uint64_t)at));
        if (n <= 0 && errno != EINTR) {
            return n < 0 ? -errno : -EIO;
        }
    }
    return 0;
}

/* The recording goes on in the file at PATH, which holds what is written so far. Its header names
 * no session: nobody is to look for a live file because of it. */
static int move_recording(struct ag_recording *recording, const char *path) {
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    struct ag_trace_header header;
    int r = copy_trace(recording->trace_fd, fd, ag_trace_writer_bytes(recording->writer));
    r = r < 0 ? r : ag_trace_header_read(fd, &header);
    if (r == 0) {
        header.session = 0;
        r = ag_trace_header_write(fd, &header);
    }
    const int writers = r < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (writers < 0) {
        r = r < 0 ? r : -errno;
        (void)close(fd); /* it failed already */
        return r;
    }
    ag_trace_writer_move(recording->writer, writers);
    (void)close(recording->trace_fd); /* the writer has it */
    recording->trace_fd = fd;
    (void)snprintf(recording->path, sizeof(recording->path), "%s", path);
    ag_trace_room_start(&recording->room, fd, recording->session->max_trace_bytes);
    return 0;
}

/* Only this slot is left, and as if its process had left the session just now. */
static void end_all_but(struct ag_writer *writer, uint32_t index) {
    enum { HAS_LEFT = 2 };
    for (uint32_t i = 0; i < writer->session->n_slots; i++) {
        if (i != index) {
            writer->slots[i].phase = AG_PHASE_NONE;
        }
    }
    struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    struct ag_watched_slot *watched = &writer->slots[index];
    atomic_store_explicit(&slot->exiting, HAS_LEFT, memory_order_relaxed);
    watched->cpu_ns = ag_process_watch_cpu_ns(&watched->watch);
    watched->has_ended = watched->has_unread = true;
    writer->n_open = 1;
    writer->n_retired = 0;
    writer->first_has_ended = false;
}

/* The name is there when the trace is. */
static int publish(const char *part, const char *path) {
    if (link(part, path) == 0) {
        (void)unlink(part); /* one name too many is a pity, no more */
        return 0;
    }
    /* a file system without links */
    return errno != EEXIST && rename(part, path) == 0 ? 0 : -1;
}

static _Noreturn void write_snapshot(struct ag_writer *writer, uint32_t index, const char *path,
                                     int frozen_fd) {
    struct ag_watched_slot *watched = &writer->slots[index];
    struct ag_recording *recording = watched->recording;
    char part[4096];
    const bool fits = (size_t)snprintf(part, sizeof(part), "%s.part", path) < sizeof(part);
    if (!fits || make_own_memory(writer->session) < 0) {
        _exit(1);
    }
    end_all_but(writer, index);
    if (ag_writer_freeze(writer) < 0 || write(frozen_fd, "", 1) != 1 ||
        move_recording(recording, part) < 0) {
        _exit(1);
    }
    int64_t taken = 1;
    while (taken > 0) {
        taken = ag_writer_round(writer);
    }
    const bool is_good = taken == 0 && !recording->is_cut;
    (void)ag_writer_finish_ended(writer, ag_monotonic_ns()); /* frees the recording */
    const bool is_whole = is_good && writer->n_open == 0 && publish(part, path) == 0;
    if (!is_whole) {
        (void)unlink(part); /* a torn one helps nobody */
    }
    _exit(!is_whole);
}

/* ---- in the writer ---- */

/* false: the child is gone, or was ended. */
static bool wait_until_frozen(int frozen_fd, pid_t child) {
    struct pollfd polled = {.fd = frozen_fd, .events = POLLIN};
    char byte = 0;
    int r = 0;
    do {
        r = poll(&polled, 1, FREEZING_PATIENCE_MS);
    } while (r < 0 && errno == EINTR);
    if (r > 0 && read(frozen_fd, &byte, 1) == 1) {
        return true;
    }
    (void)kill(child, SIGKILL); /* ended already, or stuck */
    return false;
}

/* The process that writes it; 0: none, nothing was begun. */
static pid_t begin(struct ag_writer *writer, uint32_t index, const char *path) {
    int frozen[2];
    if (pipe2(frozen, O_CLOEXEC) < 0) {
        return 0;
    }
    const pid_t child = fork();
    if (child == 0) {
        write_snapshot(writer, index, path, frozen[1]);
    }
    (void)close(frozen[1]); /* nothing was written */
    if (child > 0 && !wait_until_frozen(frozen[0], child)) {
        char part[4096];
        (void)waitpid(child, NULL, 0);
        (void)snprintf(part, sizeof(part), "%s.part", path);
        (void)unlink(part); /* where the child was ended */
    }
    (void)close(frozen[0]);
    return child > 0 ? child : 0;
}

static bool can_dump(const struct ag_watched_slot *watched) {
    return watched->phase == AG_PHASE_OPEN && !watched->has_ended && watched->recording->writer &&
           !watched->recording->is_cut && watched->dumps.writer == 0;
}

static void dump(struct ag_writer *writer, uint32_t index) {
    struct ag_watched_slot *watched = &writer->slots[index];
    char path[4096];
    struct stat status;
    do {
        watched->dumps.number++;
        ag_trace_name_dump(watched->recording->path, watched->dumps.number, path);
    } while (lstat(path, &status) == 0 && watched->dumps.number < DUMPS_MOST);
    watched->dumps.writer = begin(writer, index, path);
}

/* Is this condition due? It is not again until it has come about anew. */
static bool is_due(struct ag_dump_state *state, size_t i, const struct ag_dump_when *when,
                   const struct ag_recording *recording, uint64_t session_ns) {
    uint64_t in_use_bytes = 0, allocated_bytes = 0;
    if (recording->ledger) {
        ag_ledger_now(recording->ledger, &in_use_bytes, &allocated_bytes);
    }
    const uint64_t told = state->told[i];
    switch (when->kind) {
    case AG_DUMP_GC:
        state->told[i] = recording->n_collections;
        return recording->n_collections > told;
    case AG_DUMP_PEAK:
        if (in_use_bytes < told + told / PEAK_GROWTH_DIVISOR + PEAK_LEAST_BYTES) {
            return false;
        }
        state->told[i] = in_use_bytes;
        return true;
    case AG_DUMP_BYTES:
        state->told[i] = allocated_bytes / when->every;
        return state->told[i] > told;
    case AG_DUMP_TIME:
        state->told[i] = (session_ns - recording->start_ns) / when->every;
        return session_ns > recording->start_ns && state->told[i] > told;
    case AG_DUMP_SIGNAL:
        return false; /* at the desk */
    }
    return false;
}

static void dump_when_due(struct ag_writer *writer, uint32_t index, uint64_t session_ns) {
    struct ag_watched_slot *watched = &writer->slots[index];
    const struct ag_session *session = writer->session;
    if (!can_dump(watched) || watched->dumps.number >= DUMPS_MOST) {
        return;
    }
    bool due = false;
    for (size_t i = 0; i < session->n_dumps; i++) {
        due |= is_due(&watched->dumps, i, &session->dumps[i], watched->recording, session_ns);
    }
    if (session->desk && watched->is_first) {
        const uint32_t asked =
            atomic_load_explicit(&session->desk->n_signals, memory_order_relaxed);
        due |= asked != watched->dumps.signals;
        watched->dumps.signals = asked;
    }
    if (due) {
        dump(writer, index);
    }
}

/* Somebody waits for a trace at a place of his own. */
static void serve_desk(struct ag_writer *writer, uint32_t index) {
    struct ag_snapshot_desk *desk = writer->session->desk;
    struct ag_watched_slot *watched = &writer->slots[index];
    /* acquire: pairs with the release of who asks; the path is there */
    const uint32_t asked = atomic_load_explicit(&desk->n_asked, memory_order_acquire);
    if (asked == desk->n_begun || !watched->is_first || !can_dump(watched)) {
        return;
    }
    ag_writer_end_windows(writer, index);
    desk->until_ns = ag_session_clock_now_ns(writer->session) - watched->recording->start_ns;
    desk->n_begun = asked;
    watched->dumps.is_for_desk = true;
    watched->dumps.writer = begin(writer, index, desk->path);
}

static void answer_control(struct ag_segment_header *header, uint32_t number) {
    header->dump_number = number;
    /* release: pairs with the acquire of who asked; the file is whole */
    atomic_store_explicit(&header->n_dumps_done,
                          atomic_load_explicit(&header->n_dumps_asked, memory_order_relaxed),
                          memory_order_release);
}

/* Somebody outside waits for a dump. */
static void serve_control(struct ag_writer *writer) {
    struct ag_segment_header *header = writer->session->header;
    /* acquire: pairs with the release of who asks; which one is there */
    const uint32_t asked = atomic_load_explicit(&header->n_dumps_asked, memory_order_acquire);
    if (asked == atomic_load_explicit(&header->n_dumps_done, memory_order_relaxed)) {
        return;
    }
    const uint32_t index = header->dump_slot;
    struct ag_watched_slot *watched = index < writer->n_slots_seen ? &writer->slots[index] : NULL;
    if (watched && watched->dumps.is_for_control) {
        return; /* it is being written, and will be whole even if its process has ended since */
    }
    const bool is_there =
        watched && watched->phase == AG_PHASE_OPEN && !watched->has_ended &&
        !watched->recording->is_cut && watched->dumps.number < DUMPS_MOST &&
        header->dump_generation ==
            atomic_load_explicit(&ag_session_slot(writer->session, index)->generation,
                                 memory_order_relaxed);
    if (!is_there) {
        answer_control(header, 0);
    } else if (can_dump(watched)) {
        watched->dumps.is_for_control = true;
        dump(writer, index);
    }
}

static void look_at_writer(struct ag_writer *writer, struct ag_watched_slot *watched) {
    int status = 1; /* of one that was ended, and has been waited for */
    if (watched->dumps.writer != 0 && waitpid(watched->dumps.writer, &status, WNOHANG) == 0) {
        return;
    }
    watched->dumps.writer = 0;
    if (watched->dumps.is_for_control) {
        watched->dumps.is_for_control = false;
        answer_control(writer->session->header, status == 0 ? watched->dumps.number : 0);
    }
    if (watched->dumps.is_for_desk) {
        watched->dumps.is_for_desk = false;
        /* release: pairs with the acquire of who asked; the file is whole */
        atomic_store_explicit(&writer->session->desk->n_done, writer->session->desk->n_begun,
                              memory_order_release);
    }
}

void ag_snapshots_keep(struct ag_writer *writer) {
    const struct ag_session *session = writer->session;
    const struct ag_segment_header *header = session->header;
    const bool is_asked = atomic_load_explicit(&header->n_dumps_asked, memory_order_relaxed) !=
                          atomic_load_explicit(&header->n_dumps_done, memory_order_relaxed);
    if (session->n_dumps == 0 && !session->desk && !is_asked) {
        return;
    }
    const uint64_t session_ns = ag_session_clock_now_ns(session);
    const bool is_any_there = writer->n_open > 0 || writer->n_retired > 0;
    for (uint32_t i = 0; i < writer->n_slots_seen && is_any_there; i++) {
        look_at_writer(writer, &writer->slots[i]);
        dump_when_due(writer, i, session_ns);
        if (session->desk) {
            serve_desk(writer, i);
        }
    }
    serve_control(writer);
}

void ag_snapshots_finish(struct ag_writer *writer) {
    const uint64_t end_ns = ag_monotonic_ns() + WRITING_PATIENCE_NS;
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        while (writer->slots[i].dumps.writer != 0 && ag_monotonic_ns() < end_ns) {
            look_at_writer(writer, &writer->slots[i]);
            (void)poll(NULL, 0, 1);
        }
    }
    struct ag_segment_header *header = writer->session->header;
    if (atomic_load_explicit(&header->n_dumps_asked, memory_order_relaxed) !=
        atomic_load_explicit(&header->n_dumps_done, memory_order_relaxed)) {
        answer_control(header, 0); /* it came too late */
    }
}
