/* writer.c: the loop of the writer process, and the life of a slot (the entry of a process in the
 * live segment, the memory that the writer shares with the recorded processes). A recorder is the
 * code that records inside a program; it joins the session when it takes a slot.
 *
 * 1. The loop. About every millisecond the writer increments the session's tick (session_clock.c),
 *    adopts new processes (opens their traces and watches them), takes the chunks that are ready,
 *    and checks which processes have ended. It also measures the memory of the processes, keeps the
 *    budget of a sampled recording, and writes snapshots. After a round that took chunks, the next
 *    one follows at once; otherwise the writer sleeps in epoll_wait until a process ends, or for a
 *    millisecond (longer in a sampled or quiet session: pause_ms).
 *
 * 2. The life of a slot, as the writer sees it
 *
 *        NONE --- LIVE ---> OPEN --- ended, drained, sealed ---> RETIRED --- 300 ms ---> NONE
 *
 *    A retired slot keeps its state and its stack tree for 300 ms (unless most slots are in use): a
 *    child that was forked right before the end uses that stack tree, and may not have claimed a
 *    slot of its own yet. The session ends when the first process has ended and every slot is free.
 *    So programs that were spawned right before the end also have 300 ms to join. If no process is
 *    left that could join (session_is_over), the session ends at once.
 *
 * 3. Liveness. A process holds locks on the live file (the file of the live segment) as long as its
 *    memory lives (segment.h, section 6): a lock of its own, and one that is shared by its family
 *    (a process and those that were forked from it). The writer trusts these locks. A pidfd only
 *    wakes the writer and shows how a process ended. The pid of a process may remain unknown
 *    (process_watch.c). The tests have this order, and the first one that decides is used:
 *
 *     its own lock, if it has one   the process lives while the lock is held. If a process with its
 *                                   pid lives after that, it has executed another program
 *     its family's lock             a forked child is dead when that lock is dropped
 *     its pid, if it is known       the process lives as long as there is a process with this pid
 *                                   that executes the same program
 *     candidates for its pid        the process may live as long as there is a candidate
 *
 *    The trace of a process that may live is not sealed (completed), so a session lasts until its
 *    last lock is dropped.
 *
 * 4. Death of the writer. All durable state is in the segment and the traces: the next writer
 *    adopts the slots again and finds the traces by the note after each slot (recording_file.c,
 *    section 1). The lock on the live file shows whether the session has a writer. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "counter_harvest.h"
#include "cut_files.h"
#include "resident_look.h"
#include "snapshot.h"
#include "trace_index.h"
#include "writer_state.h"

enum {
    RSS_EVERY_NS = 10 * 1000 * 1000,
    TITLE_EVERY_NS = 50 * 1000 * 1000, /* reading a title takes 30 us */
    TITLES_AT_ONCE = 4,                /* with more processes, each title is read less often */
    SAMPLES_RSS_EVERY_NS = 50 * 1000 * 1000,
    FLUSH_EVERY_NS = 100 * 1000 * 1000,
    FLUSH_AFTER_NS = 1000 * 1000 * 1000, /* events that are older are written to the trace */
    /* the time a forked child may need until its first instruction */
    RETIRE_AFTER_NS = 300 * 1000 * 1000,
    /* longest wait for `run` to report how its child ended; normally it takes microseconds, unless
     * `run` was killed */
    STATUS_PATIENCE_NS = 500 * 1000 * 1000,
    LOOK_EVERY_NS = 20 * 1000 * 1000,    /* checks of locks, and of /proc if there are no pidfds */
    SEARCH_EVERY_NS = 250 * 1000 * 1000, /* searches of /proc for a process whose pid is unknown */
    N_WOKEN = 64,                        /* the most events that one epoll_wait returns */
    FIRST_PROCESS = UINT32_MAX, /* epoll's number for the first process; other numbers are slots */
};

_Static_assert(sizeof(((struct ag_writer_report *)0)->strangers) == AG_STRANGERS_NAMES_BYTES &&
                   sizeof(((struct ag_writer_report *)0)->killed) == AG_STRANGERS_NAMES_BYTES,
               "the writer fills all bytes of `strangers` and `killed`");

/* ---- start and end ---- */

static void wake_when_ended(struct ag_writer *writer, int pidfd, uint32_t number) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = number};
    if (pidfd >= 0) {
        (void)epoll_ctl(writer->epoll_fd, EPOLL_CTL_ADD, pidfd,
                        /* on failure, the checks every 20 ms find the end of the process */
                        &event);
    }
}

int ag_writer_start(struct ag_writer *writer, struct ag_session *session) {
    *writer = (struct ag_writer){.session = session};
    writer->first_watch = (struct ag_process_watch){.pidfd = -1, .statm_fd = -1};
    writer->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    writer->slots = calloc(session->n_slots, sizeof(*writer->slots));
    writer->kills.log.fd = -1;
    if (writer->epoll_fd < 0 || !writer->slots) {
        return writer->slots ? -errno : -ENOMEM;
    }
    if (session->first_pid != 0) {
        ag_process_watch_start(&writer->first_watch, session->first_pid);
        wake_when_ended(writer, writer->first_watch.pidfd, FIRST_PROCESS);
    }
    return 0;
}

void ag_writer_done(struct ag_writer *writer) {
    for (uint32_t i = 0; writer->slots && i < writer->session->n_slots; i++) {
        if (writer->slots[i].phase == AG_PHASE_OPEN) {
            writer->slots[i].recording = ag_recording_free(writer->slots[i].recording);
            ag_process_watch_done(&writer->slots[i].watch);
        }
    }
    ag_process_watch_done(&writer->first_watch);
    ag_descriptor_close(writer->epoll_fd);
    ag_strangers_done(&writer->strangers);
    ag_memory_kills_done(&writer->kills);
    free(writer->slots);
    free(writer->ready);
}

/* ---- slots ---- */

static void note_end(struct ag_writer *writer, uint32_t index, uint64_t now_ns) {
    struct ag_watched_slot *watched = &writer->slots[index];
    const uint64_t cpu_ns = ag_process_watch_cpu_ns(&watched->watch);
    watched->cpu_ns = cpu_ns > watched->cpu_ns ? cpu_ns : watched->cpu_ns;
    watched->has_ended = true;
    watched->has_unread = true; /* until a round has also examined its ACTIVE chunks, which its
                                 * threads have not filled */
    watched->ended_ns = now_ns;
    if (writer->session->is_attached && watched->is_first) {
        /* the process has left the session, and may continue unrecorded */
        writer->first_has_ended = true;
        writer->first_ended_ns = now_ns;
    }
}

/* Do the slots have the same pid? Compares pids of one namespace: the writer's, or the one that
 * both processes reported. */
static bool is_same_pid(const struct ag_watched_slot *a, const struct ag_watched_slot *b) {
    return a->watch.pid != 0 && b->watch.pid != 0
               ? a->watch.pid == b->watch.pid
               : a->ids.own_pid == b->ids.own_pid && a->ids.own_pid != 0 &&
                     a->ids.pid_namespace == b->ids.pid_namespace && a->ids.pid_namespace != 0;
}

static bool was_forked(const struct ag_session *session, uint32_t index) {
    return ag_session_slot(session, index)->parent_slot != UINT32_MAX;
}

/* Notes the end of the older of two recordings with the same pid: its process has executed another
 * program, even if its slot does not show that. If the newer process was forked, it was not
 * executed: then the pid was reused, or a reported pid is wrong, and no recording ends. */
static void end_replaced(struct ag_writer *writer, uint32_t index) {
    const struct ag_session *session = writer->session;
    const uint64_t start_raw = ag_session_slot(session, index)->start_raw;
    for (uint32_t i = 0; i < session->n_slots; i++) {
        const struct ag_watched_slot *other = &writer->slots[i];
        if (i != index && other->phase == AG_PHASE_OPEN && !other->has_ended &&
            is_same_pid(other, &writer->slots[index])) {
            const bool is_older = ag_session_slot(session, i)->start_raw < start_raw;
            const uint32_t older = is_older ? i : index, newer = is_older ? index : i;
            if (!was_forked(session, newer)) {
                note_end(writer, older, ag_monotonic_ns());
            }
        }
    }
}

/* ---- liveness ---- */

struct seen { /* what a slot contains about its process */
    uint64_t identity, family;
    uint32_t parent_slot;
    struct ag_process_sought sought;
};

static struct seen slot_see(const struct ag_session *session, uint32_t index) {
    const struct ag_process_slot *slot = ag_session_slot(session, index);
    struct seen seen = {.parent_slot = slot->parent_slot,
                        .sought = {.own_pid = slot->pid,
                                   .namespace = slot->pid_namespace,
                                   .namespace_is_inherited = slot->namespace_is_inherited == 1,
                                   .path = session->path,
                                   .not_before_ticks = session->begun_ticks}};
    if (session->has_locks) {
        seen.identity = slot->has_own_lock == 1 ? slot->identity : 0;
        seen.family = slot->family;
    }
    return seen;
}

/* Tests the locks alone. AG_PROCESS_UNCLEAR: the locks do not decide. */
static enum ag_process_found ask_locks(const struct ag_session *session, uint64_t identity,
                                       uint64_t family) {
    if (identity != 0) {
        return ag_session_is_locked(session, identity, AG_LOCK_OWN) ? AG_PROCESS_FOUND
                                                                    : AG_PROCESS_GONE;
    }
    return family != 0 && !ag_session_is_locked(session, family, AG_LOCK_FAMILY)
               ? AG_PROCESS_GONE
               : AG_PROCESS_UNCLEAR;
}

static bool is_other_recorded(const void *context, uint32_t pid) {
    return ag_process_is_recorded(context, pid);
}

/* Finds the process' pid in the writer's namespace, by its locks and by /proc. */
static enum ag_process_found find_process(const struct ag_writer *writer, struct seen *seen,
                                          uint32_t *ret_pid) {
    *ret_pid = 0;
    if (ask_locks(writer->session, seen->identity, seen->family) == AG_PROCESS_GONE) {
        return AG_PROCESS_GONE;
    }
    /* `attach` records one process, and knows its pid. A search could find another one: if the
     * process has just unmapped the live file, and another user's process, whose mappings cannot be
     * read, has the same pid in its own namespace. In containers this pid is often 1. */
    if (writer->session->is_attached && writer->session->first_pid != 0) {
        *ret_pid = writer->session->first_pid;
        return AG_PROCESS_FOUND;
    }
    if (seen->parent_slot < writer->session->n_slots) {
        const struct ag_watched_slot *parent = &writer->slots[seen->parent_slot];
        seen->sought.parent = parent->phase == AG_PHASE_OPEN ? parent->watch.pid : 0;
    }
    seen->sought.is_other = is_other_recorded;
    seen->sought.context = writer;
    const enum ag_process_found found = ag_process_find(&seen->sought, ret_pid);
    if (found == AG_PROCESS_GONE && seen->identity != 0) {
        return AG_PROCESS_UNCLEAR; /* the process lives, because it holds its lock */
    }
    if (found == AG_PROCESS_UNCLEAR && seen->identity == 0 && seen->family == 0 &&
        ag_process_own_namespace() == 0) {
        *ret_pid = seen->sought.own_pid; /* without locks and /proc, only this pid is left */
        return AG_PROCESS_FOUND;
    }
    return found;
}

static void watch_process(struct ag_writer *writer, uint32_t index, uint32_t pid) {
    struct ag_watched_slot *watched = &writer->slots[index];
    ag_process_watch_start(&watched->watch, pid);
    watched->ids.pid = pid != 0 ? pid : watched->ids.pid;
    if (watched->program == 0 && pid != 0) {
        watched->program = ag_process_program(pid);
    }
    ag_recording_set_pid(watched->recording, pid);
    wake_when_ended(writer, watched->watch.pidfd, index);
    end_replaced(writer, index);
}

/* Returns the time that counts as the end of a process that had ended before the writer adopted it.
 * If the first process has ended, and not all slots were examined since (note_ends_before_first),
 * the process counts as ended before the first process. */
static uint64_t end_of_unseen_ns(const struct ag_writer *writer) {
    return writer->first_has_ended && !writer->knows_ends_before_first ? writer->first_ended_ns
                                                                       : ag_monotonic_ns();
}

/* The pid of a process in the writer's namespace, even if the process had ended before it was
 * adopted. 0: unknown. */
static uint32_t pid_of(const struct ag_writer *writer, const struct ag_process_ids *ids) {
    const bool shares_namespace = /* as far as can be known */
        ids->pid_namespace == writer->session->pid_namespace || ids->pid_namespace == 0;
    return ids->pid != 0 ? ids->pid : shares_namespace ? ids->own_pid : 0;
}

/* The number of programs that the process executed and whose recorders did not join. */
static uint32_t n_unseen_executions(const struct ag_writer *writer, uint32_t index) {
    const struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    const uint32_t n = atomic_load_explicit(&slot->n_executions, memory_order_relaxed);
    const uint32_t n_joined = writer->slots[index].n_joined;
    return n > n_joined && n <= INT32_MAX ? n - n_joined : 0;
}

/* Does PID descend from ANCESTOR, by the known parents of recorded processes? */
static bool descends_from(const struct ag_writer *writer, uint32_t pid, uint32_t ancestor) {
    enum { GENERATIONS = 64 };
    for (int n = 0; n < GENERATIONS && pid != 0 && pid != ancestor; n++) {
        uint32_t parent = 0;
        for (uint32_t i = 0; i < writer->n_slots_seen && parent == 0; i++) {
            const struct ag_watched_slot *watched = &writer->slots[i];
            const bool is_it =
                watched->phase != AG_PHASE_NONE && pid_of(writer, &watched->ids) == pid;
            parent = is_it ? watched->ids.parent : 0;
        }
        pid = parent;
    }
    return pid == ancestor;
}

enum relation { IS_SURELY_SAME, IS_SAME, IS_PARENT, IS_UNDER_PARENT };

/* Is the process of IDS the one that joined, or its parent, or another descendant of its parent?
 * The numbers of PID namespaces and the pids in them are reused, so IS_SAME may be wrong if a pid
 * in the writer's namespace is unknown. */
static bool is_related(const struct ag_writer *writer, enum relation relation,
                       const struct ag_process_ids *ids, const struct ag_process_ids *joined) {
    switch (relation) {
    case IS_SURELY_SAME:
        return ids->pid != 0 && ids->pid == joined->pid;
    case IS_SAME:
        return ag_process_is_same(ids, joined);
    case IS_PARENT:
        return ag_process_is_parent(ids, joined);
    case IS_UNDER_PARENT:
        return joined->parent != 0 && descends_from(writer, ids->parent, joined->parent);
    }
    return false;
}

/* Attributes the recorder that joined in slot INDEX to an execution by a process that has the given
 * RELATION to the recorder's process. false: no process with this relation has executed a program
 * whose recorder is missing. */
static bool attribute_joined(struct ag_writer *writer, uint32_t index, enum relation relation) {
    const struct ag_process_ids *joined = &writer->slots[index].ids;
    struct ag_strangers *strangers = &writer->strangers;
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        if (i != index && watched->phase == AG_PHASE_OPEN && n_unseen_executions(writer, i) > 0 &&
            is_related(writer, relation, &watched->ids, joined)) {
            watched->n_joined++;
            return true;
        }
    }
    for (size_t i = strangers->n_missing; i-- > 0;) { /* the newest process first */
        struct ag_missing_programs *missing = &strangers->missing[i];
        if (missing->n_programs > 0 && is_related(writer, relation, &missing->ids, joined)) {
            missing->n_programs--;
            return true;
        }
    }
    return false;
}

/* Returns the recorded process that has the given RELATION to the process in slot INDEX. NULL:
 * there is none. */
static struct ag_watched_slot *related_slot(const struct ag_writer *writer, uint32_t index,
                                            enum relation relation) {
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        if (i != index && writer->slots[i].phase == AG_PHASE_OPEN &&
            is_related(writer, relation, &writer->slots[i].ids, &writer->slots[index].ids)) {
            return &writer->slots[i];
        }
    }
    return NULL;
}

/* Attributes the recorder of a program to the process that executed the program: the recorder's own
 * process, or its parent (strangers.c, section 2). */
static void note_joined(struct ag_writer *writer, uint32_t index) {
    struct ag_process_ids *joined = &writer->slots[index].ids;
    if (attribute_joined(writer, index, IS_SAME) || related_slot(writer, index, IS_SURELY_SAME) ||
        attribute_joined(writer, index, IS_PARENT)) {
        return;
    }
    struct ag_watched_slot *parent = related_slot(writer, index, IS_PARENT);
    joined->parent = joined->parent == 0 && parent ? parent->ids.pid : joined->parent;
    if (!parent) {
        ag_strangers_joined_alone(&writer->strangers, writer, joined->parent);
    } else if (parent->executes_itself || !attribute_joined(writer, index, IS_UNDER_PARENT)) {
        parent->executes_itself = true;
    }
}

/* PID: in the writer's namespace; 0: unknown. */
static struct ag_process_ids ids_of(const struct ag_writer *writer, uint32_t index,
                                    const struct seen *seen, uint32_t pid) {
    struct ag_process_ids ids = {.own_pid = seen->sought.own_pid,
                                 .own_parent = ag_session_slot(writer->session, index)->parent_pid,
                                 .pid_namespace = seen->sought.namespace,
                                 .namespace_is_inherited = seen->sought.namespace_is_inherited};
    const bool shares_namespace = /* as far as can be known */
        !ids.namespace_is_inherited &&
        (ids.pid_namespace == writer->session->pid_namespace || ids.pid_namespace == 0);
    ids.pid = pid == 0 && shares_namespace ? ids.own_pid : pid;
    ids.parent = pid != 0 ? ag_process_parent(pid) : 0;
    if (ids.parent == 0 && seen->parent_slot < writer->session->n_slots) {
        ids.parent = pid_of(writer, &writer->slots[seen->parent_slot].ids);
    } else if (ids.parent == 0 && shares_namespace) {
        ids.parent = ids.own_parent;
    }
    return ids;
}

/* The latest recorded process that has the given RELATION to the process in slot INDEX, which has
 * the ids JOINED. 0: there is none. A process whose trace is complete is included until its slot is
 * used again, because it may have executed the program in slot INDEX. But if its exit was seen, it
 * is not the same process: the pid of JOINED was reused. */
static uint64_t latest_related(const struct ag_writer *writer, uint32_t index,
                               enum relation relation, const struct ag_process_ids *joined) {
    const struct ag_watched_slot *latest = NULL;
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        const struct ag_watched_slot *watched = &writer->slots[i];
        if (i != index && watched->process != 0 && !(relation == IS_SAME && watched->has_exited) &&
            (!latest || watched->start_raw >= latest->start_raw) &&
            is_related(writer, relation, &watched->ids, joined)) {
            latest = watched;
        }
    }
    return latest ? latest->process : 0;
}

/* A forked process knows the identity of its parent. An executed program knows neither the program
 * that its process executed before nor its parent, so the writer searches for both by their
 * pids. */
static struct ag_process_parent find_parent(const struct ag_writer *writer, uint32_t index,
                                            const struct ag_process_ids *ids) {
    const uint64_t forked_from = ag_session_slot(writer->session, index)->forked_from;
    if (forked_from != 0) {
        return (struct ag_process_parent){.identity = forked_from, .origin = AG_ORIGIN_FORKED};
    }
    const uint64_t earlier = latest_related(writer, index, IS_SAME, ids);
    if (earlier != 0) {
        return (struct ag_process_parent){.identity = earlier, .origin = AG_ORIGIN_EXECUTED};
    }
    const uint64_t parent = latest_related(writer, index, IS_PARENT, ids);
    return (struct ag_process_parent){
        .identity = parent, .origin = parent != 0 ? AG_ORIGIN_SPAWNED : AG_ORIGIN_UNKNOWN};
}

static void adopt_slot(struct ag_writer *writer, uint32_t index) {
    struct ag_session *session = writer->session;
    struct ag_watched_slot *watched = &writer->slots[index];
    struct seen seen = slot_see(session, index);
    uint32_t pid = 0;
    const enum ag_process_found found =
        writer->is_offline ? AG_PROCESS_GONE : find_process(writer, &seen, &pid);
    if (seen.sought.own_pid == 0 && pid != 0) {
        uint64_t namespace = 0;
        seen.sought.own_pid = ag_process_own_pid(pid, &namespace);
        ag_session_slot(session, index)->pid = seen.sought.own_pid;
    }
    const bool is_first =
        pid != 0 ? pid == session->first_pid
                 : ag_session_is_first(session, seen.sought.own_pid, seen.sought.namespace);
    const struct ag_process_ids ids = ids_of(writer, index, &seen, pid);
    const struct ag_process_parent parent = find_parent(writer, index, &ids);
    struct ag_recording *recording = ag_recording_begin(session, index, is_first, &parent);
    if (!recording) {
        return; /* no memory */
    }
    *watched = (struct ag_watched_slot){.phase = AG_PHASE_OPEN,
                                        .recording = recording,
                                        .ids = ids,
                                        .process = ag_session_slot(session, index)->identity,
                                        .start_raw = ag_session_slot(session, index)->start_raw,
                                        .identity = seen.identity,
                                        .family = seen.family,
                                        .is_first = recording->is_first,
                                        .tree = recording->tree,
                                        .watch = {.pidfd = -1, .statm_fd = -1}};
    writer->n_open++;
    struct ag_process_slot *slot = ag_session_slot(session, index);
    /* release: pairs with the acquire in ag_recorder_trace; the note is complete */
    atomic_store_explicit(&slot->trace_created, 1, memory_order_release);
    if (writer->is_offline) {
        watched->has_ended = true;
        return;
    }
    const bool is_executed_by_run = watched->is_first && !writer->report.registered;
    if (!was_forked(session, index) && !is_executed_by_run) {
        note_joined(writer, index);
    }
    if (watched->is_first) {
        writer->report.registered = 1;
    }
    struct ag_process_ids recorded = watched->ids;
    recorded.pid = pid_of(writer, &recorded);
    ag_strangers_recorded(&writer->strangers, &recorded);
    if (seen.parent_slot < session->n_slots && seen.identity == 0 &&
        writer->slots[seen.parent_slot].phase == AG_PHASE_OPEN) {
        /* a forked child starts with its parent's program */
        watched->program = writer->slots[seen.parent_slot].program;
    }
    const bool is_unreaped = found == AG_PROCESS_GONE && session->pid_namespace != 0 &&
                             seen.sought.namespace == session->pid_namespace &&
                             ag_process_is_unreaped(seen.sought.own_pid, slot->parent_pid);
    /* an unreaped process has a wait status that can be read */
    watch_process(writer, index, is_unreaped ? seen.sought.own_pid : pid);
    if (found == AG_PROCESS_GONE) {
        note_end(writer, index, end_of_unseen_ns(writer));
    }
}

/* Does the process of the slot live? Called for a session whose writer is gone. */
static bool slot_lives(const struct ag_writer *writer, uint32_t index) {
    struct seen seen = slot_see(writer->session, index);
    uint32_t pid = 0;
    const enum ag_process_found found = find_process(writer, &seen, &pid);
    return found == AG_PROCESS_UNCLEAR ||
           (found == AG_PROCESS_FOUND && (seen.identity != 0 || /* the process' lock is held */
                                          ag_process_has_mapped(pid, writer->session->path)));
}

static bool is_to_adopt(const struct ag_writer *writer, uint32_t index) {
    const struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    /* acquire: pairs with the recorder's release of LIVE; the slot is filled */
    const uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    return writer->slots[index].phase == AG_PHASE_NONE &&
           (state == AG_SLOT_REPLACED || (state == AG_SLOT_LIVE && !writer->slots[index].lives_on));
}

/* The slot whose process started first, of those that are to be adopted. UINT32_MAX: there is
 * none. */
static uint32_t first_to_adopt(const struct ag_writer *writer) {
    const uint32_t n_slots = ag_session_slots_used(writer->session);
    uint64_t first_raw = 0;
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < n_slots; i++) {
        const uint64_t raw = ag_session_slot(writer->session, i)->start_raw;
        if (is_to_adopt(writer, i) && (first == UINT32_MAX || raw < first_raw)) {
            first_raw = raw;
            first = i;
        }
    }
    return first;
}

/* Adopts the processes in the order of their starts, not of their slots. So if a process has
 * executed a second program since the last look, its first program is adopted first: the trace of
 * the first program gets the name without a number, and the second program counts as executed by
 * the first.
 *
 * Processes start while others are adopted, which may take long if the disk is busy. When a program
 * has a slot, the program that executed it has one, too. So a search that starts after the slot of
 * the later program was seen finds the slot of the earlier one.
 *
 * A slot has two pages, so most of the cost of an idle writer would be to examine all slots.
 * Therefore only the first header.n_slots_used slots are examined; a process raises this number
 * before it takes a slot (record/process.c). */
void ag_writer_adopt(struct ag_writer *writer) {
    for (;;) {
        uint32_t seen = UINT32_MAX, next = first_to_adopt(writer);
        while (next != seen) {
            seen = next;
            next = first_to_adopt(writer);
        }
        if (next == UINT32_MAX) {
            return;
        }
        const struct ag_process_slot *slot = ag_session_slot(writer->session, next);
        if (writer->is_offline &&
            atomic_load_explicit(&slot->state, memory_order_acquire) == AG_SLOT_LIVE &&
            slot_lives(writer, next)) {
            writer->slots[next].lives_on = true;
            continue;
        }
        adopt_slot(writer, next);
        if (writer->slots[next].phase == AG_PHASE_NONE) {
            return; /* no memory: the process is adopted at the next look */
        }
        writer->n_slots_seen = next + 1 > writer->n_slots_seen ? next + 1 : writer->n_slots_seen;
    }
}

bool ag_writer_has_live(const struct ag_writer *writer) {
    const uint32_t n_used = ag_session_slots_used(writer->session);
    for (uint32_t i = 0; i < n_used; i++) {
        const struct ag_process_slot *slot = ag_session_slot(writer->session, i);
        const uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        if ((state == AG_SLOT_LIVE || state == AG_SLOT_REPLACED) &&
            writer->slots[i].phase != AG_PHASE_RETIRED) {
            return true;
        }
    }
    return false;
}

static bool tree_is_in_use(const struct ag_writer *writer, uint32_t tree, uint32_t except) {
    const uint32_t n_used = ag_session_slots_used(writer->session);
    for (uint32_t i = 0; i < n_used; i++) {
        const struct ag_process_slot *slot = ag_session_slot(writer->session, i);
        if (i != except && atomic_load_explicit(&slot->tree, memory_order_relaxed) == tree &&
            atomic_load_explicit(&slot->state, memory_order_acquire) != AG_SLOT_FREE) {
            return true;
        }
    }
    return false;
}

/* Clears a stack tree that no process uses. A forked child may use the tree without having
 * announced that: the child then finds that the tree's generation has changed, and starts over
 * (record/process.c, section 2). */
static void clear_unused_tree(const struct ag_writer *writer, uint32_t tree, uint32_t except) {
    if (tree >= ag_session_slots_used(writer->session) || tree_is_in_use(writer, tree, except)) {
        return;
    }
    struct ag_process_slot *owner = ag_session_slot(writer->session, tree);
    atomic_fetch_add_explicit(&owner->tree_generation, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with keep_tree in record/process.c */
    if (!tree_is_in_use(writer, tree, except)) {
        ag_session_clear_tree(writer->session, tree);
    }
}

void ag_writer_retire(struct ag_writer *writer, uint64_t now_ns, uint64_t after_ns) {
    for (uint32_t i = 0; i < writer->n_slots_seen && writer->n_retired > 0; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        const bool is_due = watched->phase == AG_PHASE_RETIRED &&
                            now_ns - watched->ended_ns >= after_ns &&
                            watched->dumps.writer == 0; /* no snapshot reads the tree */
        if (!is_due) {
            continue;
        }
        struct ag_process_slot *slot = ag_session_slot(writer->session, i);
        clear_unused_tree(writer, watched->tree, /* except= */ i);
        memset((uint8_t *)slot + AG_SLOT_TRACE_OFFSET, 0, sizeof(struct ag_slot_trace));
        atomic_fetch_add_explicit(&slot->generation, 1, memory_order_relaxed);
        /* release: pairs with the acquire of the process that claims the slot; note and generation
         * are set */
        atomic_store_explicit(&slot->state, AG_SLOT_FREE, memory_order_release);
        watched->phase = AG_PHASE_NONE;
        writer->n_retired--;
    }
}

/* ---- sealing ---- */

/* Asks the kernel how the process ended, unless `run`, its parent, has reported that. */
static void look_how_it_ended(const struct ag_watched_slot *watched, struct ag_process_slot *slot) {
    uint32_t status = 0;
    if (atomic_load_explicit(&slot->state, memory_order_relaxed) == AG_SLOT_LIVE &&
        !atomic_load_explicit(&slot->wait_status_known, memory_order_acquire) &&
        ag_process_watch_wait_status(&watched->watch, &status)) {
        atomic_store_explicit(&slot->wait_status, status, memory_order_relaxed);
        /* release: pairs with the acquire in how_it_ended */
        atomic_store_explicit(&slot->wait_status_known, 1, memory_order_release);
    }
}

static enum ag_slot_end how_it_ended(const struct ag_writer *writer,
                                     const struct ag_process_slot *slot) {
    enum { SIGNAL_BITS = 0x7f }; /* the bits of a wait status that contain the signal */
    if (atomic_load_explicit(&writer->session->header->stop, memory_order_relaxed)) {
        return AG_END_CUT;
    }
    /* acquire: pairs with the release in ag_session_child_ended; the status is set */
    if (atomic_load_explicit(&slot->wait_status_known, memory_order_acquire)) {
        const uint32_t status = atomic_load_explicit(&slot->wait_status, memory_order_relaxed);
        return status & SIGNAL_BITS ? AG_END_SIGNAL : AG_END_EXIT;
    }
    const uint32_t exiting = atomic_load_explicit(&slot->exiting, memory_order_relaxed);
    if (exiting == AG_SLOT_LEAVES) {
        return AG_END_DETACHED;
    }
    const bool has_exited =
        exiting != AG_SLOT_STAYS ||
        atomic_load_explicit(&slot->state, memory_order_relaxed) == AG_SLOT_REPLACED;
    return has_exited ? AG_END_EXIT : AG_END_NOT_KNOWN;
}

/* Returns why there is no trace: the errno of creating the trace; 0: the trace was deleted. */
static uint32_t why_missing(const struct ag_recording *recording) {
    return recording->trace_fd < 0 ? (uint32_t)-recording->error : 0;
}

static void note_if_missing(struct ag_writer *writer, const struct ag_recording *recording) {
    if (ag_recording_has_trace(recording)) {
        return;
    }
    if (writer->n_missing++ == 0) {
        writer->missing_error = why_missing(recording);
    }
}

static void name_unseen(const struct ag_recording *recording, char ret_names[96]) {
    size_t used = 0;
    ret_names[0] = '\0';
    for (uint32_t i = 0; i < recording->n_runtimes && used < 96; i++) {
        if (recording->runtimes[i].is_unseen) {
            const int n = snprintf(ret_names + used, 96 - used, "%s%s", used > 0 ? ", " : "",
                                   recording->runtimes[i].name);
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

static void fill_report(struct ag_writer_report *report, const struct ag_recording *recording) {
    const struct ag_summary *summary = &recording->sums.summary;
    report->trace_bytes = ag_recording_bytes(recording);
    report->duration_ns = summary->duration_ns;
    report->allocated_blocks = summary->allocated_blocks;
    report->allocated_bytes = summary->allocated_bytes;
    report->peak_bytes = summary->peak_bytes;
    report->rss_peak_bytes = summary->rss_peak_bytes;
    report->in_use_blocks = summary->in_use_blocks;
    report->in_use_bytes = summary->in_use_bytes;
    report->lost_events = ag_recording_lost(recording);
    report->lost_stacks = summary->lost_stacks;
    report->unseen_frees = recording->sums.buried_blocks;
    report->freed_blocks = summary->freed_blocks;
    report->is_cut = recording->is_cut && !recording->was_finished;
    report->error = (uint32_t)-recording->error;
    report->registered = 1;
    report->is_missing = !ag_recording_has_trace(recording);
    report->missing_error = why_missing(recording);
    report->is_sampled = recording->session->mode == AG_MODE_SAMPLE;
    report->is_filtered = recording->session->filter[0] != '\0';
    report->is_reset = summary->reset_ns > 0;
    name_unseen(recording, report->unseen);
    report->interval_bytes =
        atomic_load_explicit(&recording->session->header->interval_bytes, memory_order_relaxed);
    report->has_counts = recording->has_counts;
    memcpy(report->program, recording->program, sizeof(report->program));
    memcpy(report->path, recording->path, sizeof(report->path));
}

/* Adds a complete trace to the list of the largest ones. If two are equal, the earlier one comes
 * first. */
static void add_to_largest(struct ag_writer *writer, const struct ag_recording *recording) {
    struct ag_writer_report *report = &writer->report;
    struct ag_trace_size size = {.pid = recording->pid,
                                 .allocated_bytes = recording->sums.summary.allocated_bytes};
    memcpy(size.program, recording->program, sizeof(size.program));
    if (!ag_recording_has_trace(recording)) {
        return;
    }
    report->n_complete++;
    for (uint32_t i = 0; i < AG_LARGEST_TRACES; i++) {
        if (i == report->n_largest) {
            report->largest[report->n_largest++] = size;
            return;
        }
        if (size.allocated_bytes > report->largest[i].allocated_bytes) {
            const struct ag_trace_size smaller = report->largest[i];
            report->largest[i] = size;
            size = smaller;
        }
    }
}

/* ---- the main trace ---- */

/* Adds a trace that is not the main trace to the sums of the others. */
static void add_other(struct ag_writer *writer, const struct ag_writer_report *trace) {
    if (!trace->is_missing) {
        writer->report.others_blocks += trace->allocated_blocks;
        writer->report.others_bytes += trace->allocated_bytes;
    }
    if (trace->unseen[0] != '\0' && writer->report.n_others_unseen++ == 0) {
        memcpy(writer->report.other_unseen, trace->program, sizeof(trace->program));
    }
}

/* Keeps in writer->other, for choose_main, the trace that is more likely the main trace: TRACE, or
 * the trace that was kept before. The less likely of the two is added to the sums of the other
 * traces. */
static void offer_as_main(struct ag_writer *writer, const struct ag_writer_report *trace) {
    const struct ag_writer_report *kept = &writer->other;
    const bool is_better =
        kept->path[0] == '\0' ||
        (trace->has_counts != kept->has_counts ? trace->has_counts
                                               : trace->allocated_bytes > kept->allocated_bytes);
    if (trace->is_missing || !is_better) {
        add_other(writer, trace);
        return;
    }
    if (kept->path[0] != '\0') {
        add_other(writer, kept);
    }
    writer->other = *trace;
}

/* Called when a trace of the first process is complete. If the first process executed an earlier
 * program, the trace of that program counts as another trace from now on. */
static void report_first(struct ag_writer *writer, const struct ag_recording *recording) {
    struct ag_writer_report *report = &writer->report;
    if (report->path[0] != '\0') {
        offer_as_main(writer, report);
    }
    fill_report(report, recording);
}

/* Chooses the main trace: that of the last program of the first process, or the kept trace
 * (writer->other). The kept trace is chosen if only that trace has counts of a runtime's functions.
 * If both or neither have counts, it is chosen if it is of another program that allocated far more,
 * because then the first process has probably only started that program. It is not chosen if
 * the trace of the first process does not exist or was cut, or if allocations of the first process
 * were not recorded, because then the sizes do not say which program allocated more. */
static void choose_main(struct ag_writer *writer) {
    enum { FAR_MORE = 10 };
    struct ag_writer_report *first = &writer->report, *kept = &writer->other;
    if (kept->path[0] == '\0') {
        return;
    }
    const bool is_launcher = strcmp(kept->program, first->program) != 0 &&
                             first->unseen[0] == '\0' &&
                             kept->allocated_bytes / FAR_MORE > first->allocated_bytes;
    if (first->path[0] == '\0' || first->is_missing || first->is_cut ||
        !(kept->has_counts != first->has_counts ? kept->has_counts : is_launcher)) {
        add_other(writer, kept);
        return;
    }
    struct ag_writer_report main = *kept;
    add_other(writer, first);
    main.others_blocks = first->others_blocks;
    main.others_bytes = first->others_bytes;
    main.n_others_unseen = first->n_others_unseen;
    memcpy(main.other_unseen, first->other_unseen, sizeof(main.other_unseen));
    memcpy(main.largest, first->largest, sizeof(main.largest));
    main.n_largest = first->n_largest;
    main.n_complete = first->n_complete;
    *first = main;
}

static void note_unseen_executions(struct ag_writer *writer, uint32_t index, uint64_t now_ns) {
    const struct ag_watched_slot *watched = &writer->slots[index];
    const uint32_t n = n_unseen_executions(writer, index);
    if (n > 0 && !writer->is_offline) {
        ag_strangers_executed_unseen(&writer->strangers, &watched->ids, n,
                                     watched->recording->program, now_ns);
    }
}

/* Whether the kernel killed the process for lack of memory. The kernel's log shows this even if the
 * wait status of the process is not known. */
static bool find_kill(struct ag_writer *writer, uint32_t index, struct ag_kernel_kill *ret_kill) {
    struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    const bool knows_status =
        atomic_load_explicit(&slot->wait_status_known, memory_order_acquire) != 0;
    const uint32_t status = atomic_load_explicit(&slot->wait_status, memory_order_relaxed);
    const bool is_killed =
        ag_memory_kill_find(writer, index, knows_status ? &status : NULL, ret_kill);
    if (is_killed && !knows_status) {
        atomic_store_explicit(&slot->wait_status, SIGKILL, memory_order_relaxed);
        /* release: pairs with the acquire in how_it_ended */
        atomic_store_explicit(&slot->wait_status_known, 1, memory_order_release);
    }
    return is_killed;
}

static void seal(struct ag_writer *writer, uint32_t index, uint64_t now_ns) {
    struct ag_watched_slot *watched = &writer->slots[index];
    struct ag_recording *recording = watched->recording;
    struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    look_how_it_ended(watched, slot);
    const uint64_t max_rss_kib = atomic_load_explicit(&slot->max_rss_kib, memory_order_relaxed);
    if (writer->n_traces == 0 && writer->n_open == 1 &&
        max_rss_kib * 1024 > recording->rss_peak_bytes) {
        /* max_rss_kib may be that of a child, so it is used only if there is no other process */
        recording->rss_peak_bytes = max_rss_kib * 1024;
    }
    struct ag_kernel_kill kill;
    const bool is_killed = find_kill(writer, index, &kill);
    const enum ag_slot_end how = how_it_ended(writer, slot);
    struct ag_recording_end end = {
        .how = how,
        .may_be_killed = how == AG_END_SIGNAL || how == AG_END_NOT_KNOWN,
        .kill = is_killed ? &kill.record : NULL,
        .time_ns = writer->is_offline ? recording->last_event_ns
                                      : ag_session_clock_now_ns(writer->session),
        .target_cpu_ns = watched->cpu_ns,
    };
    ag_process_own_usage(&end.profiler_cpu_ns, &end.profiler_rss_bytes);
    ag_counter_harvest(recording);
    ag_counter_harvest_release(recording);
    ag_recording_finish(recording, &end);
    writer->n_traces++;
    note_if_missing(writer, recording);
    add_to_largest(writer, recording);
    if (is_killed && kill.record.certainty == AG_KILL_CERTAIN) {
        writer->n_killed++;
        ag_program_names_add(writer->killed, recording->program);
    }
    if (watched->is_first) {
        report_first(writer, recording);
        writer->report.is_killed = is_killed;
    } else {
        struct ag_writer_report report = {.registered = 1};
        fill_report(&report, recording);
        report.is_killed = is_killed;
        offer_as_main(writer, &report);
    }
    note_unseen_executions(writer, index, now_ns);
    watched->recording = ag_recording_free(recording);
    ag_process_watch_done(&watched->watch);
    watched->phase = AG_PHASE_RETIRED;
    watched->has_exited = atomic_load_explicit(
        &ag_session_slot(writer->session, index)->wait_status_known, memory_order_relaxed);
    watched->ended_ns = now_ns;
    writer->n_open--;
    writer->n_retired++;
}

/* Will `run` still report how this process ended? `run` can report only the end of the first
 * process. */
static bool waits_for_status(const struct ag_writer *writer, const struct ag_watched_slot *watched,
                             uint32_t index, uint64_t now_ns) {
    const struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    return !writer->is_offline && !writer->session->is_attached && watched->is_first &&
           writer->first_has_ended &&
           atomic_load_explicit(&slot->state, memory_order_relaxed) == AG_SLOT_LIVE &&
           !atomic_load_explicit(&slot->wait_status_known, memory_order_acquire) &&
           now_ns - watched->ended_ns < STATUS_PATIENCE_NS;
}

/* Seals only a few traces per call, because live processes wait for ticks and returned chunks
 * during the call, and new processes wait for slots. */
uint32_t ag_writer_finish_ended(struct ag_writer *writer, uint64_t now_ns) {
    enum { AT_ONCE = 8 };
    uint32_t count = 0;
    for (uint32_t i = 0; i < writer->n_slots_seen && writer->n_open > 0 && count < AT_ONCE; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        if (watched->phase == AG_PHASE_OPEN && watched->has_ended && !watched->has_unread &&
            !waits_for_status(writer, watched, i, now_ns)) {
            seal(writer, i, now_ns);
            count++;
            /* if the clock does not tick, recorders assume that the writer is dead */
            if (!writer->is_offline) {
                (void)ag_session_clock_tick(&writer->clock, writer->session);
            }
        }
    }
    return count;
}

int64_t ag_writer_drain(struct ag_writer *writer, struct ag_session *session) {
    int64_t n_sealed = 0, r = ag_writer_start(writer, session);
    writer->is_offline = true;
    if (r == 0) {
        ag_writer_adopt(writer);
        do {
            r = ag_writer_round(writer);
            n_sealed += ag_writer_finish_ended(writer, ag_monotonic_ns());
        } while (r > 0 || (r == 0 && writer->n_open > 0));
    }
    return r < 0 ? r : n_sealed;
}

/* ---- ends of processes ---- */

static bool is_replaced(const struct ag_writer *writer, uint32_t index) {
    const struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    return atomic_load_explicit(&slot->state, memory_order_acquire) == AG_SLOT_REPLACED;
}

/* Notes that the process has executed another program, which does not belong to this recording. */
static void note_exec(struct ag_writer *writer, uint32_t index, uint64_t now_ns) {
    struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    uint32_t expected = AG_SLOT_LIVE;
    (void)atomic_compare_exchange_strong_explicit(&slot->state, &expected, AG_SLOT_REPLACED,
                                                  memory_order_relaxed, memory_order_relaxed);
    note_end(writer, index, now_ns);
    ag_strangers_executed(&writer->strangers, &writer->slots[index].ids, now_ns);
}

/* Has the process executed another program? Only forked children need this test: they have no lock
 * of their own, and the family's lock lives on without them. */
static bool executes_another(const struct ag_watched_slot *watched) {
    const uint64_t program = watched->program != 0 ? ag_process_program(watched->watch.pid) : 0;
    return program != 0 && program != watched->program;
}

/* Whether the writer stops waiting for the end of the process. Without locks, and if /proc hides
 * processes, the writer cannot see this end, but the session has to end. */
static bool is_given_up(const struct ag_writer *writer, const struct ag_watched_slot *watched,
                        uint64_t now_ns) {
    const uint64_t patience_ns = UINT64_C(10000000000);
    return watched->identity == 0 && watched->family == 0 && writer->first_has_ended &&
           now_ns - writer->first_ended_ns > patience_ns && now_ns - writer->moved_ns > patience_ns;
}

/* Performs the tests of section 3. `thoroughly`: also those that need system calls. */
static void look_whether_it_lives(struct ag_writer *writer, uint32_t index, uint64_t now_ns,
                                  bool thoroughly) {
    struct ag_watched_slot *watched = &writer->slots[index];
    const bool is_known = watched->watch.pid != 0;
    if (is_replaced(writer, index)) {
        note_end(writer, index, now_ns);
        return;
    }
    if (!thoroughly) {
        return;
    }
    const enum ag_process_found locks =
        ask_locks(writer->session, watched->identity, watched->family);
    const bool has_ended = is_known && ag_process_watch_ended(&watched->watch);
    if (locks == AG_PROCESS_GONE) {
        if (!is_known || has_ended) {
            note_end(writer, index, now_ns);
        } else if (!ag_process_is_leaving(watched->watch.pid)) {
            note_exec(writer, index, now_ns);
        } /* otherwise the process is exiting, and counts as ended a moment later */
    } else if (locks == AG_PROCESS_UNCLEAR && has_ended) {
        note_end(writer, index, now_ns);
    } else if (locks == AG_PROCESS_UNCLEAR && executes_another(watched)) {
        note_exec(writer, index, now_ns);
    } else if (!is_known && now_ns >= watched->next_search_ns) {
        struct seen seen = slot_see(writer->session, index);
        uint32_t pid = 0;
        const enum ag_process_found found = find_process(writer, &seen, &pid);
        watched->next_search_ns = now_ns + SEARCH_EVERY_NS;
        if (found == AG_PROCESS_FOUND) {
            watch_process(writer, index, pid);
        } else if (found == AG_PROCESS_GONE || is_given_up(writer, watched, now_ns)) {
            note_end(writer, index, now_ns);
        }
    }
}

static void look_for_ends(struct ag_writer *writer, uint64_t now_ns, bool thoroughly) {
    for (uint32_t i = 0; i < writer->n_slots_seen && writer->n_open > 0; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        if (watched->phase != AG_PHASE_OPEN || watched->has_ended) {
            continue;
        }
        look_whether_it_lives(writer, i, now_ns, thoroughly);
    }
    if (thoroughly && writer->first_watch.pidfd < 0 && !writer->first_has_ended) {
        writer->first_has_ended = ag_process_watch_ended(&writer->first_watch);
        writer->first_ended_ns = now_ns;
    }
}

/* Called once, after the end of the first process is known: looks at all slots. Processes that are
 * dead by then count as ended before the first process. These include a child whose start and end
 * the writer has not seen yet, and a child whose end the kernel reports late. */
static void note_ends_before_first(struct ag_writer *writer) {
    for (uint32_t i = 0; i < writer->n_slots_seen && writer->n_open > 0; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        if (watched->phase == AG_PHASE_OPEN && !watched->has_ended) {
            look_whether_it_lives(writer, i, writer->first_ended_ns, /* thoroughly= */ true);
        }
    }
    writer->knows_ends_before_first = true;
}

/* Sleeps up to `timeout_ms`, or until a process ends. */
static void wait_for_ends(struct ag_writer *writer, int timeout_ms) {
    struct epoll_event woken[N_WOKEN];
    const int count = epoll_wait(writer->epoll_fd, woken, N_WOKEN, timeout_ms);
    const uint64_t now_ns = ag_monotonic_ns();
    for (int i = 0; i < count; i++) {
        if (woken[i].data.u32 == FIRST_PROCESS) {
            writer->first_has_ended = true;
            writer->first_ended_ns = now_ns;
        } else if (writer->slots[woken[i].data.u32].phase == AG_PHASE_OPEN &&
                   !writer->slots[woken[i].data.u32].has_ended) {
            look_whether_it_lives(writer, woken[i].data.u32, now_ns, /* thoroughly= */ true);
        }
    }
}

/* Returns the time between two measurements of a process' resident memory. The time grows with the
 * number of processes, which bounds the cost, and with the session's length, because a timeline
 * shows a limited number of points. */
static uint64_t rss_pause_ns(const struct ag_writer *writer) {
    enum { TIMELINE_POINTS = 4096 };
    const uint64_t session_ns = ag_session_clock_now_ns(writer->session);
    const uint64_t every_ns =
        writer->session->mode == AG_MODE_SAMPLE ? SAMPLES_RSS_EVERY_NS : RSS_EVERY_NS;
    const uint64_t pause_ns = every_ns * (1 + (uint64_t)writer->n_open / 4);
    return pause_ns > session_ns / TIMELINE_POINTS ? pause_ns : session_ns / TIMELINE_POINTS;
}

/* Whether the trace has all blocks of the process. A trace lacks the blocks that a forked child
 * inherited, and blocks that were allocated before allogram attached (is_attached) or while the
 * recording was paused or delayed. The memory of these blocks would be shown as free. */
static bool has_all_blocks(const struct ag_writer *writer, const struct ag_recording *recording) {
    const struct ag_process_slot *slot = ag_session_slot(writer->session, recording->slot);
    return slot->identity == slot->family &&
           atomic_load_explicit(&writer->session->header->paused, memory_order_relaxed) ==
               AG_PAUSE_NONE;
}

static bool is_attached(const struct ag_resident_look *look) {
    bool has_library = false;
    for (size_t i = 0; i < look->n_mappings && !has_library; i++) {
        has_library = strstr(look->mappings[i].path, "/liballogram-attached") != NULL;
    }
    return has_library;
}

/* Looks at what the resident memory of a process consists of. Two looks are kept: the latest one,
 * and the latest one while the resident memory was near its largest size. So a program that frees
 * most of its blocks, but whose resident memory stays, is shown as it was after it freed them. A
 * look is taken when the memory is larger by a sixteenth than in all earlier looks, and again from
 * time to time; the memory is near its largest size if it is at most a sixteenth smaller. A look
 * takes time in proportion to the memory, so the pause after it is LOOK_PAUSE times as long as its
 * CPU time (which, unlike its duration, is not longer on a busy machine). A process that is smaller
 * than 8 MiB is looked at only after 250 ms, so that short processes cost nothing. Looks are of use
 * only together with the table of live blocks, which a sampled recording does not have. */
static void look_at_memory(struct ag_writer *writer, const struct ag_watched_slot *watched,
                           uint64_t rss_bytes, uint64_t now_ns) {
    enum { LOOK_PAUSE = 20, LOOK_PART = 16, LOOK_STEP_BYTES = 256 << 10, FIRST_BYTES = 8 << 20 };
    const uint64_t least_pause_ns = 250000000u;
    struct ag_recording *recording = watched->recording;
    const uint64_t session_ns = ag_session_clock_now_ns(writer->session);
    const uint64_t pause_ns =
        session_ns / LOOK_PART > least_pause_ns ? session_ns / LOOK_PART : least_pause_ns;
    const uint64_t part = recording->looked_bytes / LOOK_PART;
    const bool is_first = recording->looked_ns == 0;
    const uint64_t step = is_first ? (uint64_t)FIRST_BYTES : part + LOOK_STEP_BYTES;
    const uint64_t since_ns =
        is_first ? session_ns > recording->start_ns ? session_ns - recording->start_ns : 0
                 : now_ns - recording->looked_ns;
    const bool is_larger = rss_bytes > recording->looked_bytes + step,
               is_due = since_ns >= pause_ns;
    struct ag_resident_look look;
    if (!has_all_blocks(writer, recording)) {
        recording->next_look_ns = UINT64_MAX;
    }
    if ((!is_larger && !is_due) || now_ns < recording->next_look_ns || watched->watch.pid == 0 ||
        writer->session->mode == AG_MODE_SAMPLE) {
        return;
    }
    const uint64_t start_cpu_ns = ag_kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (ag_resident_look_read(watched->watch.pid, &look) == 0) {
        if (is_attached(&look)) {
            ag_resident_look_done(&look);
            recording->next_look_ns = UINT64_MAX;
            return;
        }
        /* the pages are read after the sizes; the time of the look is between the two readings */
        const uint64_t time_ns = ag_session_clock_mark(&writer->clock, writer->session);
        if (ag_resident_look_read_pages(watched->watch.pid, &look) == 0) {
            ag_recording_look(recording, time_ns,
                              rss_bytes >= recording->looked_bytes - part ? AG_LOOK_NEAR_PEAK
                                                                          : AG_LOOK_BELOW_PEAK,
                              &look);
        }
        recording->looked_bytes =
            rss_bytes > recording->looked_bytes ? rss_bytes : recording->looked_bytes;
        ag_resident_look_done(&look);
    }
    recording->looked_ns = ag_monotonic_ns();
    recording->next_look_ns =
        recording->looked_ns +
        LOOK_PAUSE * (ag_kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_cpu_ns);
}

/* Reads the title, unless it may be that of a program that the process has just executed, and whose
 * recorder has not joined yet: the recorder counts an execution before it happens, but does not say
 * whether the process itself or a child of vfork executes. */
static void read_title(struct ag_writer *writer, uint32_t index) {
    struct ag_process_title *title = &writer->slots[index].recording->title;
    struct ag_process_title read = *title;
    ag_process_title_read(writer->slots[index].watch.pid, &read);
    const bool is_surely_same =
        title->command_address != 0 && read.command_address == title->command_address;
    if (is_surely_same || n_unseen_executions(writer, index) == 0) {
        *title = read;
    }
}

static void measure(struct ag_writer *writer, uint64_t now_ns) {
    for (uint32_t i = 0; i < writer->n_slots_seen && writer->n_open > 0; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        if (watched->phase != AG_PHASE_OPEN || watched->has_ended || watched->watch.pid == 0) {
            continue;
        }
        uint64_t rss_bytes = 0;
        if (now_ns >= watched->next_rss_ns) {
            watched->next_rss_ns = now_ns + rss_pause_ns(writer);
            rss_bytes = ag_process_watch_rss_bytes(&watched->watch);
        }
        if (now_ns >= watched->next_title_ns) {
            read_title(writer, i);
            watched->next_title_ns =
                now_ns + (1 + writer->n_open / TITLES_AT_ONCE) * (uint64_t)TITLE_EVERY_NS;
        }
        if (ag_memory_watch_is_due(writer, i, rss_bytes, now_ns)) {
            ag_memory_watch_look(writer, i, now_ns);
        }
        if (rss_bytes > 0) {
            ag_recording_resident(watched->recording, ag_session_clock_now_ns(writer->session),
                                  rss_bytes);
            look_at_memory(writer, watched, rss_bytes, ag_monotonic_ns());
        }
    }
}

/* ---- the loop ---- */

static void flush_all(struct ag_writer *writer, uint64_t older_than_ns) {
    for (uint32_t i = 0; i < writer->n_slots_seen && writer->n_open > 0; i++) {
        if (writer->slots[i].phase == AG_PHASE_OPEN) {
            ag_recording_flush(writer->slots[i].recording, older_than_ns);
        }
    }
}

static void flush_when_due(struct ag_writer *writer, uint64_t now_ns, uint64_t *next_flush_ns) {
    const struct ag_segment_header *header = writer->session->header;
    const uint32_t in_use = atomic_load_explicit(&header->n_chunks_in_use, memory_order_relaxed);
    if (in_use > header->soft_chunks / 2) {
        flush_all(writer, UINT64_MAX);
    } else if (now_ns >= *next_flush_ns) {
        const uint64_t session_ns = ag_session_clock_now_ns(writer->session);
        flush_all(writer, session_ns > FLUSH_AFTER_NS ? session_ns - FLUSH_AFTER_NS : 0);
        *next_flush_ns = now_ns + FLUSH_EVERY_NS;
    }
}

/* Whether a trace is unsealed that the user expects to be complete when `run` returns: a trace of
 * the first process, of a program that this process executed, or of a child that ended before this
 * process. */
static bool something_is_unsealed(const struct ag_writer *writer) {
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        const struct ag_watched_slot *watched = &writer->slots[i];
        if (watched->phase == AG_PHASE_OPEN &&
            (watched->is_first ||
             (watched->has_ended && watched->ended_ns <= writer->first_ended_ns))) {
            return true;
        }
    }
    return false;
}

/* Makes a pattern for a shell that matches the names of all traces: each letter such as %p becomes
 * a star. A pattern without letters has "-2", "-3" ... before its extension in the names of further
 * traces. */
static void make_glob(const char *pattern, char ret_glob[1024]) {
    const char *slash = strrchr(pattern, '/'), *dot = strrchr(pattern, '.');
    const char *extension = dot && (!slash || dot > slash + 1) ? dot : pattern + strlen(pattern);
    const bool has_letters = strchr(slash ? slash : pattern, '%') != NULL;
    size_t used = 0;
    for (const char *at = pattern; used < 1022 && (*at || at == extension); at++) {
        if (at == extension && !has_letters) {
            ret_glob[used++] = '*';
        }
        if (*at == '\0') {
            break;
        }
        const bool is_letter = at[0] == '%' && at[1] != '\0';
        at += is_letter;
        ret_glob[used++] = (char)(is_letter && *at != '%' ? '*' : *at);
    }
    ret_glob[used] = '\0';
}

static void count_others(struct ag_writer *writer) {
    struct ag_writer_report *report = &writer->report;
    make_glob(writer->session->trace_pattern, report->others_glob);
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        if (writer->slots[i].phase == AG_PHASE_OPEN) {
            note_if_missing(writer, writer->slots[i].recording);
            report->n_others_running += !writer->slots[i].has_ended;
            ag_program_names_add(report->incomplete, writer->slots[i].recording->program);
        }
    }
    report->n_without_trace = (uint32_t)(writer->n_missing - report->is_missing);
    report->without_error = writer->missing_error;
    report->n_killed = writer->n_killed;
    memcpy(report->killed, writer->killed, sizeof(report->killed));
    report->n_other_traces =
        writer->n_traces + writer->n_open - report->registered - report->n_without_trace;
}

/* Whether no process can record for this session any more. Recorders and forked children hold the
 * locks of their families. Between the execution of a program and the start of its recorder, no
 * lock is held. But such a program is known: the process that executed the program has counted it
 * (strangers.c, section 2), or its environment contains ALLOGRAM_SESSION. So the live file can be
 * removed at once, and not only RETIRE_AFTER_NS after the end of the last process. */
static bool session_is_over(const struct ag_writer *writer) {
    const struct ag_session *session = writer->session;
    char variable[4096 + sizeof("ALLOGRAM_SESSION=")];
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        if (writer->slots[i].phase == AG_PHASE_RETIRED && writer->slots[i].family == 0) {
            return false; /* a child of this process would hold no lock */
        }
    }
    const bool is_attach = session->header->keeper == AG_KEEPER_ATTACH;
    if (writer->n_open > 0 || !session->has_locks || session->first_pid == 0 ||
        (session->header->keeper != AG_KEEPER_RUN && !is_attach) ||
        ag_session_has_families(session) || ag_writer_has_live(writer)) {
        return false;
    }
    if (is_attach) {
        return true; /* programs that the process executes do not join the session */
    }
    (void)snprintf(variable, sizeof(variable), "ALLOGRAM_SESSION=%s", session->path);
    return !ag_process_any_with(session->first_pid, variable) &&
           /* tested again: a process may have joined while the processes were examined */
           !ag_session_has_families(session) && !ag_writer_has_live(writer);
}

/* Reports to `run` once, when no trace is unsealed that the user expects to be complete
 * (something_is_unsealed). If programs were executed a moment ago and their recorders have not
 * joined, the report waits up to 0.3 s for them. */
static void report_when_due(struct ag_writer *writer, int report_fd, bool ends_now) {
    if (!writer->first_has_ended || writer->has_reported || something_is_unsealed(writer) ||
        (!ends_now && ag_strangers_may_still_join(&writer->strangers, ag_monotonic_ns()))) {
        return;
    }
    ag_snapshots_finish(writer);
    writer->has_reported = true;
    choose_main(writer);
    if (writer->session->stop_error < 0 &&
        !writer->report.is_cut) { /* a trace of another process was cut */
        writer->report.is_cut = 1;
        writer->report.error = (uint32_t)-writer->session->stop_error;
    }
    count_others(writer);
    writer->report.n_strangers = ag_strangers_conclude(&writer->strangers, writer,
                                                       ag_monotonic_ns(), writer->report.strangers);
    writer->report.is_closed = !ag_session_can_be_joined(writer->session);
    writer->report.n_refused =
        atomic_load_explicit(&writer->session->header->n_refused_processes, memory_order_relaxed);
    writer->report.is_over = session_is_over(writer);
    if (writer->report.is_over) {
        ag_session_remove(writer->session); /* `run` may return when it has read the report */
    }
    const uint8_t *bytes = (const uint8_t *)&writer->report;
    for (size_t at = 0; at < sizeof(writer->report);) {
        const ssize_t n = write(report_fd, bytes + at, sizeof(writer->report) - at);
        if (n < 0 && errno != EINTR) {
            return; /* `run` is gone */
        }
        at += n > 0 ? (size_t)n : 0;
    }
}

/* Returns how many ms to sleep after a round without work. The writer sleeps longer if blocks are
 * sampled, if no thread has recorded an event for a second, or if all processes have ended and a
 * new one may still join. The times of the next events are then a few milliseconds less exact. */
static int pause_ms(struct ag_writer *writer, uint64_t now_ns) {
    enum {
        QUIET_AFTER_NS = 1000 * 1000 * 1000,
        QUIET_PAUSE_MS = 4,
        SAMPLES_PAUSE_MS = 50,
        BUDGET_PAUSE_MS = 10,
        BUDGET_BEGINS_NS = 1000 * 1000 * 1000
    };
    if (writer->pulse != writer->last_pulse || writer->moved_ns == 0) {
        writer->last_pulse = writer->pulse;
        writer->moved_ns = now_ns;
    }
    if (writer->session->mode == AG_MODE_SAMPLE) {
        const bool is_new = ag_session_clock_now_ns(writer->session) < BUDGET_BEGINS_NS;
        return is_new && writer->session->budget_percent > 0 ? BUDGET_PAUSE_MS : SAMPLES_PAUSE_MS;
    }
    const bool is_at_end = writer->first_has_ended && writer->n_open == 0;
    return is_at_end || now_ns - writer->moved_ns > QUIET_AFTER_NS ? QUIET_PAUSE_MS : 1;
}

/* The number of requests to end. The first takes effect when the first process has ended, the
 * second at once: traces are sealed as cut, and live processes are not recorded further. */
static _Atomic unsigned n_asked_to_end;

void ag_writer_ask_to_end(void) {
    atomic_fetch_add_explicit(&n_asked_to_end, 1, memory_order_relaxed);
}

static bool is_asked_to_end(const struct ag_writer *writer) {
    const unsigned n_asked = atomic_load_explicit(&n_asked_to_end, memory_order_relaxed);
    return n_asked > 1 || (n_asked == 1 && writer->has_reported);
}

static void end_all(struct ag_writer *writer, uint64_t now_ns) {
    writer->session->stop_error = -EINTR;
    /* relaxed: no other data depends on it */
    atomic_store_explicit(&writer->session->header->stop, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        if (writer->slots[i].phase == AG_PHASE_OPEN && !writer->slots[i].has_ended) {
            note_end(writer, i, now_ns);
        }
    }
    writer->first_has_ended = true;
    writer->first_ended_ns = now_ns;
}

static void loop(struct ag_writer *writer, int report_fd) {
    uint64_t next_flush_ns = 0, next_look_ns = 0;
    bool is_over = false;
    while (!is_over) {
        const uint64_t now_ns = ag_session_clock_tick(&writer->clock, writer->session);
        const bool first_had_ended = writer->first_has_ended; /* read before new slots are
                                                               * adopted */
        const bool ends_now = is_asked_to_end(writer);
        ag_writer_adopt(writer);
        if (ends_now) {
            end_all(writer, now_ns);
        }
        if (first_had_ended && !writer->knows_ends_before_first) {
            note_ends_before_first(writer);
        }
        look_for_ends(writer, now_ns, /* thoroughly= */ now_ns >= next_look_ns);
        next_look_ns = now_ns >= next_look_ns ? now_ns + LOOK_EVERY_NS : next_look_ns;
        const int64_t taken = ag_writer_round(writer);
        ag_session_prepare_chunks(writer->session);
        measure(writer, now_ns);
        ag_budget_keep(&writer->budget, writer, now_ns);
        ag_snapshots_keep(writer);
        ag_strangers_look(&writer->strangers, writer, now_ns);
        flush_when_due(writer, now_ns, &next_flush_ns);
        const uint32_t n_sealed = ag_writer_finish_ended(writer, now_ns);
        if (first_had_ended) {
            report_when_due(writer, report_fd, ends_now);
        }
        const bool is_crowded =
            writer->n_open + writer->n_retired > writer->session->n_slots * 3 / 4;
        ag_writer_retire(writer, now_ns, is_crowded || ends_now ? 0 : RETIRE_AFTER_NS);
        is_over = writer->has_reported && writer->n_open == 0 &&
                  (ends_now || writer->report.is_over ||
                   (writer->n_retired == 0 && !ag_writer_has_live(writer)));
        const bool is_busy = taken > 0 || n_sealed > 0 || is_over;
        wait_for_ends(writer, is_busy ? 0 : pause_ms(writer, now_ns));
    }
}

int ag_writer_run(struct ag_session *session, int report_fd) {
    struct ag_writer writer;
    int r = ag_session_lock(session, /* wait= */ true);
    if (r < 0) {
        return r;
    }
    ag_cut_files_guard();
    r = ag_writer_start(&writer, session);
    if (r == 0) {
        session->locked_since_raw = ag_session_clock_raw(session->clock_kind);
        /* processes that joined before are those of a writer that died */
        ag_memory_kills_start(&writer.kills, ag_session_slots_used(session) > 0);
        /* release: pairs with the acquire of recorders, which then rely on the tick */
        atomic_store_explicit(&session->header->writer_pid, (uint32_t)getpid(),
                              memory_order_release);
        loop(&writer, report_fd);
        atomic_store_explicit(&session->header->writer_pid, 0, memory_order_release);
        ag_session_remove(session);
    }
    ag_writer_done(&writer);
    return r;
}

/* ---- calls from `run` ---- */

void ag_session_child_ended(struct ag_session *session, uint32_t pid, int wait_status,
                            uint64_t max_rss_kib) {
    const uint32_t n_used = ag_session_slots_used(session);
    for (uint32_t i = 0; i < n_used; i++) {
        struct ag_process_slot *slot = ag_session_slot(session, i);
        if (ag_session_slot_is(slot, pid, session->pid_namespace) &&
            atomic_load_explicit(&slot->state, memory_order_acquire) == AG_SLOT_LIVE) {
            atomic_store_explicit(&slot->max_rss_kib, (uint32_t)max_rss_kib, memory_order_relaxed);
            atomic_store_explicit(&slot->wait_status, (uint32_t)wait_status, memory_order_relaxed);
            /* release: pairs with the writer's acquire */
            atomic_store_explicit(&slot->wait_status_known, 1, memory_order_release);
        }
    }
}
