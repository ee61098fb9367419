/* snapshot.c: writes a sealed (complete) trace of the recording up to now, while the recording
 * continues (`run --dump-at`, `run --serve`, `allogram control`).
 *
 * 1. Method. The writer forks a child, which inherits the writer's state: the totals (running
 *    sums), the open encoders, the list of chunks in the file. The child maps the live segment (the
 *    memory with the program's events) again, privately, so that it can mark chunks as taken
 *    without an effect on other processes. The child copies the trace as it is written so far, and
 *    then does what the writer does when a process has ended: takes the remaining events, and
 *    writes the end and the index. In that trace, the process has the end "detached".
 *
 * 2. Synchronization. The writer waits until the child has examined and copied the chunks.
 *    Otherwise the writer could return a chunk to the program, which would overwrite it while the
 *    child reads it. This wait takes milliseconds. Then the writer continues, while the child
 *    copies the trace (which only grows) and compresses. Until the child is done, the process' slot
 *    (its entry in the segment) and its stack tree are not reused (ag_writer_retire in
 *    writer_state.h). The program does not wait while the segment has free chunks.
 *
 * 3. Names. The dumps of TRACE.allogram are named TRACE.dump1.allogram and so on, in the same
 *    folder, and never replace a file. A dump gets its name when it is complete; before that its
 *    name ends in ".part". At most one snapshot of a process is written at a time; requests that
 *    come meanwhile are answered by the next snapshot. A process has at most AG_DUMP_NUMBERS dumps.
 *    A dump that cannot be written is removed without a message, and its number is skipped.
 *
 * 4. Requests. The command, its writer, its endpoint (the server of `run --serve`) and its screen
 *    (--live) share a page, struct ag_snapshot_requests. To request a trace of the first process,
 *    one of these processes writes the file's name and increments a counter (ag_snapshot_take).
 *    Requests of other processes go through the live segment (session_control.c); the answer is the
 *    number of the dump.
 *
 * 5. Inside the recording program. A program that records itself has no writer process. To make a
 *    snapshot, it maps its live file (the file of the live segment) again, privately, so that
 *    changes in that mapping have no effect on the recording (ag_session_open_private). In that
 *    mapping, the slot of the process is changed so that the process has left the session; then the
 *    trace is sealed as for any ended process, into a file of its own. The trace names no session,
 *    so that no reader looks for a live file.
 *
 *    Meanwhile the program's threads continue to record. The copied chunk controls (segment.h) show
 *    how many words each stream (thread) has written. Without a writer no chunk is ever returned,
 *    so a later chunk of a stream has a higher index. The controls are copied from the last to the
 *    first (writing to a private page copies it). So if a chunk is in the copy, all earlier chunks
 *    of its stream are in the copy and full. The program writes a stack node before the first word
 *    that refers to the node. */
#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counter_harvest.h"
#include "trace_file.h"
#include "writer_state.h"

enum {
    /* a child that has not copied the chunks after this time is stuck: the child is killed, and
     * the recording goes on */
    FREEZING_PATIENCE_MS = 20 * 1000,
    /* a child whose file does not grow for this time while the writer waits for it at the end is
     * stuck, for example because its file system does not answer; it is killed */
    WRITING_PATIENCE_NS = 60 * 1000 * 1000 * 1000LL,
    /* how long the writer waits until a killed child has ended */
    KILLED_PATIENCE_NS = 1000 * 1000 * 1000LL,
    ASKER_NAP_MS = 10,
    SOON_NS = 100 * 1000 * 1000,
    PEAK_LEAST_BYTES = 1 << 20,
    PRESSURE_EVERY_NS = 1000 * 1000 * 1000, /* the kernel computes the averages every 2 s */
    PEAK_GROWTH_DIVISOR = 10, /* a new peak must be a tenth above the peak that was dumped last */
};

/* ---- in the process that requests a trace ---- */

/* Waits until no other live process requests a trace, and makes this process the requester. Returns
 * false if the time is over, or if *is_over is set. */
static bool become_asker(struct ag_snapshot_requests *requests, uint64_t end_ns,
                         const volatile sig_atomic_t *is_over) {
    const int32_t own = (int32_t)getpid();
    while (ag_monotonic_ns() < end_ns && !(is_over && *is_over)) {
        int32_t asker = atomic_load_explicit(&requests->asker, memory_order_relaxed);
        const bool is_free = asker == 0 || (kill(asker, 0) < 0 && errno == ESRCH);
        /* acquire: pairs with the release of the previous asker, whose path this process
         * overwrites */
        if (is_free &&
            atomic_compare_exchange_strong_explicit(&requests->asker, &asker, own,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
        (void)poll(NULL, 0, ASKER_NAP_MS);
    }
    return false;
}

bool ag_snapshot_take(struct ag_snapshot_requests *requests, const char *path, unsigned patience_ms,
                      const volatile sig_atomic_t *is_over, uint64_t *ret_until_ns) {
    const uint64_t begin_ns = ag_monotonic_ns(),
                   end_ns = begin_ns + patience_ms * UINT64_C(1000000);
    if (!become_asker(requests, end_ns, is_over)) {
        return false;
    }
    const uint32_t asked = atomic_load_explicit(&requests->n_asked, memory_order_relaxed) + 1;
    (void)snprintf(requests->path, sizeof(requests->path), "%s", path);
    /* release: synchronizes with the writer's acquire, so that the writer sees the whole path */
    atomic_store_explicit(&requests->n_asked, asked, memory_order_release);
    bool is_done = false;
    for (uint64_t now_ns = begin_ns; !is_done && now_ns < end_ns && !(is_over && *is_over);) {
        is_done = atomic_load_explicit(&requests->n_done, memory_order_acquire) == asked;
        if (!is_done) {
            /* most traces are complete after some ms */
            (void)poll(NULL, 0, now_ns - begin_ns < SOON_NS ? 1 : ASKER_NAP_MS);
            now_ns = ag_monotonic_ns();
        }
    }
    if (is_done && ret_until_ns) {
        *ret_until_ns = requests->until_ns;
    }
    atomic_store_explicit(&requests->asker, 0, memory_order_release);
    return is_done && access(path, R_OK) == 0;
}

/* ---- in the process that writes the traces ---- */

bool ag_snapshot_is_requested(const struct ag_snapshot_requests *requests) {
    /* acquire: pairs with the requester's release; the path is complete */
    return atomic_load_explicit(&requests->n_asked, memory_order_acquire) != requests->n_begun;
}

void ag_snapshot_request_begin(struct ag_snapshot_requests *requests, uint64_t until_ns,
                               char ret_path[4096]) {
    requests->until_ns = until_ns;
    requests->n_begun = atomic_load_explicit(&requests->n_asked, memory_order_acquire);
    (void)snprintf(ret_path, sizeof(requests->path), "%s", requests->path);
}

void ag_snapshot_request_end(struct ag_snapshot_requests *requests, uint64_t cost_ns) {
    requests->cost_ns = cost_ns;
    /* release: pairs with the requester's acquire; the file is complete, or does not exist */
    atomic_store_explicit(&requests->n_done, requests->n_begun, memory_order_release);
}

/* ---- in the child ---- */

/* Replaces the mapping of the live segment by a private one. */
static int make_own_memory(struct ag_session *session) {
    void *base = mmap(session->base, session->file_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, session->fd, 0);
    /* the child shares the writer's lock through this descriptor, but the lock must end with the
     * writer */
    (void)close(session->fd);
    session->fd = -1;
    return base == MAP_FAILED ? -errno : 0;
}

/* Continues the recording in a new file at PATH, after copying the trace so far to it. The header
 * names no session, so that no reader looks for a live file. */
static int move_recording(struct ag_recording *recording, const char *path) {
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    struct ag_trace_header header;
    int r = ag_trace_file_copy(recording->trace_fd, fd, ag_trace_writer_bytes(recording->writer));
    r = r < 0 ? r : ag_trace_header_read(fd, &header);
    if (r == 0) {
        header.session = 0;
        r = ag_trace_header_write(fd, &header);
    }
    const int writers = r < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (writers < 0) {
        r = r < 0 ? r : -errno;
        (void)close(fd); /* an earlier failure is reported */
        return r;
    }
    ag_trace_writer_move(recording->writer, writers);
    (void)close(recording->trace_fd); /* the descriptor of the original trace */
    recording->trace_fd = fd;
    (void)snprintf(recording->path, sizeof(recording->path), "%s", path);
    ag_trace_room_start(&recording->room, fd, recording->session->max_trace_bytes);
    return 0;
}

/* Drops all slots except slot INDEX, and marks the process of that slot as having just left the
 * session. */
static void end_all_but(struct ag_writer *writer, uint32_t index) {
    for (uint32_t i = 0; i < writer->session->n_slots; i++) {
        if (i != index) {
            writer->slots[i].phase = AG_PHASE_NONE;
        }
    }
    struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    struct ag_watched_slot *watched = &writer->slots[index];
    atomic_store_explicit(&slot->exiting, AG_SLOT_LEAVES, memory_order_relaxed);
    watched->cpu_ns = ag_process_watch_cpu_ns(&watched->watch);
    watched->has_ended = watched->has_unread = true;
    writer->n_open = 1;
    writer->n_retired = 0;
    writer->first_has_ended = false;
}

/* Gives a complete trace its name. */
static int snapshot_publish(const char *part, const char *path) {
    if (link(part, path) == 0) {
        (void)unlink(part); /* a leftover second name is harmless */
        return 0;
    }
    /* link failed: the file system may have no links */
    return errno != EEXIST && rename(part, path) == 0 ? 0 : -1;
}

static _Noreturn void write_snapshot(struct ag_writer *writer, uint32_t index, const char *path,
                                     const char *part, int frozen_fd) {
    struct ag_watched_slot *watched = &writer->slots[index];
    struct ag_recording *recording = watched->recording;
    if (make_own_memory(writer->session) < 0) {
        _exit(1);
    }
    end_all_but(writer, index);
    /* The counters are read before the chunks. If a counter set is freed later, its values are in
     * the program's later events. */
    ag_counter_harvest(recording);
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
    const bool is_whole = is_good && writer->n_open == 0 && snapshot_publish(part, path) == 0;
    if (!is_whole) {
        (void)unlink(part); /* an incomplete file is of no use */
    }
    _exit(!is_whole);
}

/* ---- in the writer ---- */

/* Waits until the child has copied the chunks. false: the child has failed, or this function has
 * killed it. */
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
    (void)kill(child, SIGKILL); /* the child has ended already, or is stuck */
    return false;
}

/* Starts the process that writes a snapshot to PATH. If that fails, dumps.writer stays 0. */
static void snapshot_begin(struct ag_writer *writer, uint32_t index, const char *path) {
    int frozen[2];
    char part[4096];
    if ((size_t)snprintf(part, sizeof(part), "%s.part", path) >= sizeof(part) ||
        pipe2(frozen, O_CLOEXEC) < 0) {
        return;
    }
    const pid_t child = fork();
    if (child == 0) {
        write_snapshot(writer, index, path, part, frozen[1]);
    }
    (void)close(frozen[1]); /* nothing was written */
    if (child > 0 && !wait_until_frozen(frozen[0], child)) {
        (void)waitpid(child, NULL, 0);
        (void)unlink(part); /* exists if the child was killed */
    }
    (void)close(frozen[0]);
    if (child > 0) {
        writer->slots[index].dumps.writer = child;
        writer->slots[index].dumps.part =
            strdup(part); /* NULL, if there is no memory, is allowed */
    }
}

static bool can_dump(const struct ag_watched_slot *watched) {
    return watched->phase == AG_PHASE_OPEN && !watched->has_ended && watched->recording->writer &&
           !watched->recording->is_cut && watched->dumps.writer == 0;
}

/* Starts the next dump of the process. */
static void snapshot_dump(struct ag_writer *writer, uint32_t index) {
    struct ag_watched_slot *watched = &writer->slots[index];
    char path[4096];
    struct stat status;
    do {
        watched->dumps.number++;
        ag_trace_name_dump(watched->recording->path, watched->dumps.number, path);
    } while (lstat(path, &status) == 0 && watched->dumps.number < AG_DUMP_NUMBERS);
    snapshot_begin(writer, index, path);
}

/* Whether the process' cgroup, as of the last sample, is newly full to PERCENT. After that, the
 * condition is met again only once it was full to less than PERCENT - 5. */
static bool reaches_memory(const struct ag_watched_cgroup *cgroup, uint64_t percent,
                           uint64_t *reached) {
    enum { LESS = 5 };
    const struct ag_cgroup_look *look = cgroup ? &cgroup->look : NULL;
    const bool was_reached = *reached != 0;
    const uint64_t least = was_reached ? (percent > LESS ? percent - LESS : 0) : percent;
    *reached = look && look->nearest >= 0 &&
               ag_cgroup_kept_bytes(look) >= look->full_bytes[look->nearest] / 100 * least;
    return *reached && !was_reached;
}

/* Reads the pressure of the process' cgroup for the conditions that need it, at most once in
 * PRESSURE_EVERY_NS. */
static void read_pressure(const struct ag_session *session, struct ag_watched_slot *watched) {
    const struct ag_cgroup machine = {.is_machine = true};
    const struct ag_watched_cgroup *cgroup = watched->memory.cgroup;
    const uint64_t now_ns = ag_monotonic_ns();
    bool is_needed = false;
    for (size_t i = 0; i < session->n_dumps; i++) {
        is_needed |= session->dumps[i].kind == AG_DUMP_PRESSURE;
    }
    if (is_needed && now_ns >= watched->dumps.next_pressure_ns) {
        watched->dumps.pressure_percent =
            ag_cgroup_pressure_percent(cgroup ? &cgroup->cgroup : &machine);
        watched->dumps.next_pressure_ns = now_ns + PRESSURE_EVERY_NS;
    }
}

/* Whether processes have newly begun to wait for memory in PERCENT of the time. After that, the
 * condition is met again only once the share was less than half of that. */
static bool reaches_pressure(double pressure_percent, uint64_t percent, uint64_t *reached) {
    const bool was_reached = *reached != 0;
    *reached = pressure_percent >= (was_reached ? (double)percent / 2 : (double)percent);
    return *reached && !was_reached;
}

/* Whether condition I is met. Stores in the slot's state how far it was met, so that the same event
 * causes one dump. */
static bool is_due(struct ag_watched_slot *watched, size_t i, const struct ag_dump_when *when,
                   uint64_t session_ns) {
    struct ag_dump_state *state = &watched->dumps;
    const struct ag_recording *recording = watched->recording;
    uint64_t in_use_bytes = 0, allocated_bytes = 0;
    if (recording->ledger) {
        ag_ledger_now(recording->ledger, &in_use_bytes, &allocated_bytes);
    }
    const uint64_t reached = state->reached[i];
    switch (when->kind) {
    case AG_DUMP_GC:
        state->reached[i] = recording->n_collections;
        return recording->n_collections > reached;
    case AG_DUMP_PEAK:
        if (in_use_bytes < reached + reached / PEAK_GROWTH_DIVISOR + PEAK_LEAST_BYTES) {
            return false;
        }
        state->reached[i] = in_use_bytes;
        return true;
    case AG_DUMP_BYTES:
        state->reached[i] = allocated_bytes / when->every;
        return state->reached[i] > reached;
    case AG_DUMP_TIME:
        state->reached[i] = (session_ns - recording->start_ns) / when->every;
        return session_ns > recording->start_ns && state->reached[i] > reached;
    case AG_DUMP_MEMORY:
        return reaches_memory(watched->memory.cgroup, when->every, &state->reached[i]);
    case AG_DUMP_PRESSURE:
        return reaches_pressure(state->pressure_percent, when->every, &state->reached[i]);
    case AG_DUMP_SIGNAL:
        return false; /* dump_when_due counts signals itself */
    }
    return false;
}

static void dump_when_due(struct ag_writer *writer, uint32_t index, uint64_t session_ns) {
    struct ag_watched_slot *watched = &writer->slots[index];
    const struct ag_session *session = writer->session;
    if (!can_dump(watched) || watched->dumps.number >= AG_DUMP_NUMBERS) {
        return;
    }
    bool due = false;
    read_pressure(session, watched);
    for (size_t i = 0; i < session->n_dumps; i++) {
        due |= is_due(watched, i, &session->dumps[i], session_ns);
    }
    if (session->requests && watched->is_first) {
        const uint32_t asked =
            atomic_load_explicit(&session->requests->n_signals, memory_order_relaxed);
        due |= asked != watched->dumps.signals;
        watched->dumps.signals = asked;
    }
    if (due) {
        snapshot_dump(writer, index);
    }
}

/* Writes the trace that a process of `run` has requested (section 4). */
static void serve_request(struct ag_writer *writer, uint32_t index) {
    struct ag_snapshot_requests *requests = writer->session->requests;
    struct ag_watched_slot *watched = &writer->slots[index];
    if (!ag_snapshot_is_requested(requests) || !watched->is_first || !can_dump(watched)) {
        return;
    }
    char path[sizeof(requests->path)];
    ag_writer_end_windows(writer, index);
    ag_snapshot_request_begin(
        requests, ag_session_clock_now_ns(writer->session) - watched->recording->start_ns, path);
    watched->dumps.is_for_request = true;
    snapshot_begin(writer, index, path);
}

static void answer_control(struct ag_segment_header *header, uint32_t number) {
    header->dump_number = number;
    /* release: pairs with the requester's acquire; the file is complete */
    atomic_store_explicit(&header->n_dumps_done,
                          atomic_load_explicit(&header->n_dumps_asked, memory_order_relaxed),
                          memory_order_release);
}

/* Writes a dump that is requested through the live segment. */
static void serve_control(struct ag_writer *writer) {
    struct ag_segment_header *header = writer->session->header;
    /* acquire: pairs with the requester's release; the request is complete */
    const uint32_t asked = atomic_load_explicit(&header->n_dumps_asked, memory_order_acquire);
    if (asked == atomic_load_explicit(&header->n_dumps_done, memory_order_relaxed)) {
        return;
    }
    const uint32_t index = header->dump_slot;
    struct ag_watched_slot *watched = index < writer->n_slots_seen ? &writer->slots[index] : NULL;
    if (watched && watched->dumps.is_for_control) {
        /* the dump is being written, and will be complete even if its process has ended since */
        return;
    }
    const bool is_there =
        watched && watched->phase == AG_PHASE_OPEN && !watched->has_ended &&
        !watched->recording->is_cut && watched->dumps.number < AG_DUMP_NUMBERS &&
        header->dump_generation ==
            atomic_load_explicit(&ag_session_slot(writer->session, index)->generation,
                                 memory_order_relaxed);
    if (!is_there) {
        answer_control(header, 0);
    } else if (can_dump(watched)) {
        watched->dumps.is_for_control = true;
        snapshot_dump(writer, index);
    }
}

/* If the child that writes a snapshot of this process has ended, notes that and answers the
 * requests. */
static void look_at_writer(struct ag_writer *writer, struct ag_watched_slot *watched) {
    int status = 1; /* kept if snapshot_begin has waited for the child, which failed */
    if (watched->dumps.writer != 0 && waitpid(watched->dumps.writer, &status, WNOHANG) == 0) {
        return;
    }
    watched->dumps.writer = 0;
    free(watched->dumps.part);
    watched->dumps.part = NULL;
    if (watched->dumps.is_for_control) {
        watched->dumps.is_for_control = false;
        answer_control(writer->session->header, status == 0 ? watched->dumps.number : 0);
    }
    if (watched->dumps.is_for_request) {
        watched->dumps.is_for_request = false;
        ag_snapshot_request_end(writer->session->requests, /* cost_ns= */ 0);
    }
}

void ag_snapshots_keep(struct ag_writer *writer) {
    const struct ag_session *session = writer->session;
    const struct ag_segment_header *header = session->header;
    const bool is_asked = atomic_load_explicit(&header->n_dumps_asked, memory_order_relaxed) !=
                          atomic_load_explicit(&header->n_dumps_done, memory_order_relaxed);
    if (session->n_dumps == 0 && !session->requests && !is_asked) {
        return;
    }
    const uint64_t session_ns = ag_session_clock_now_ns(session);
    const bool is_any_there = writer->n_open > 0 || writer->n_retired > 0;
    for (uint32_t i = 0; i < writer->n_slots_seen && is_any_there; i++) {
        look_at_writer(writer, &writer->slots[i]);
        dump_when_due(writer, i, session_ns);
        if (session->requests) {
            serve_request(writer, i);
        }
    }
    serve_control(writer);
}

/* Waits for the child that writes a snapshot. If the child is stuck, kills it. */
static void wait_for_writer(struct ag_writer *writer, struct ag_watched_slot *watched) {
    uint64_t end_ns = ag_monotonic_ns() + WRITING_PATIENCE_NS;
    struct stat status;
    off_t n_written = 0;
    bool is_killed = false;
    for (uint64_t now_ns = 0; watched->dumps.writer != 0 && now_ns < end_ns;) {
        look_at_writer(writer, watched);
        (void)poll(NULL, 0, 1);
        now_ns = ag_monotonic_ns();
        if (watched->dumps.writer == 0 || is_killed) {
            continue;
        }
        const char *part = watched->dumps.part;
        if (part && stat(part, &status) == 0 && status.st_size != n_written) {
            n_written = status.st_size;
            end_ns = now_ns + WRITING_PATIENCE_NS;
        }
        if (now_ns >= end_ns) {
            (void)kill(watched->dumps.writer, SIGKILL);
            if (part) {
                (void)unlink(part); /* an incomplete file is of no use */
            }
            is_killed = true;
            end_ns = now_ns + KILLED_PATIENCE_NS;
        }
    }
}

void ag_snapshots_finish(struct ag_writer *writer) {
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        wait_for_writer(writer, &writer->slots[i]);
    }
    struct ag_segment_header *header = writer->session->header;
    if (atomic_load_explicit(&header->n_dumps_asked, memory_order_relaxed) !=
        atomic_load_explicit(&header->n_dumps_done, memory_order_relaxed)) {
        answer_control(header, 0); /* the request came too late */
    }
}

/* ---- 5. inside the recording program ---- */

/* Copies the pages that the threads of the program change, in the order of section 5, and marks the
 * process as ended in the copy. */
static void hold_still(struct ag_session *session) {
    enum { CONTROLS_A_PAGE = 4096 / sizeof(struct ag_chunk_control) };
    /* writes the value that the word already has: a write makes the page private */
    *(volatile uint32_t *)&session->header->reserved2 = 0;
    atomic_thread_fence(memory_order_seq_cst);
    const uint32_t n = ag_session_chunks_touched(session);
    for (uint32_t page = n / CONTROLS_A_PAGE + 1; page-- > 0;) {
        volatile uint64_t *unused =
            &ag_session_control(session, page * CONTROLS_A_PAGE)->reserved[0];
        *unused = 0; /* writes the value that the word already has */
        atomic_thread_fence(memory_order_seq_cst);
    }
    struct ag_process_slot *slot = ag_session_slot(session, 0);
    atomic_store_explicit(&slot->exiting, AG_SLOT_LEAVES, memory_order_relaxed);
    atomic_store_explicit(&slot->state, AG_SLOT_REPLACED, memory_order_relaxed);
}

int ag_writer_snapshot_own(const char *live, const char *pattern, char ret_path[4096],
                           char ret_message[512]) {
    struct ag_session *session = NULL;
    int r = ag_session_open_private(live, &session, ret_message);
    if (r < 0) {
        return r;
    }
    session->id = 0;
    r = ag_trace_pattern_complete(pattern, session->trace_pattern, ret_message);
    if (r == 0) {
        const uint32_t pid = (uint32_t)getpid();
        r = ag_session_first_trace(session, pid, program_invocation_short_name, ret_path,
                                   ret_message);
    }
    if (r == 0) {
        hold_still(session);
        struct ag_writer writer;
        const int64_t n_sealed = ag_writer_drain(&writer, session);
        ag_writer_done(&writer);
        r = n_sealed < 0 ? (int)n_sealed : 0;
        if (r < 0) {
            (void)snprintf(ret_message, 512, "cannot write the snapshot %.400s: %s", ret_path,
                           strerror(-r));
            (void)unlink(ret_path); /* an incomplete file is of no use */
        }
    }
    (void)ag_session_close(session); /* returns NULL */
    return r;
}
