/* memory_kill.c: samples the memory of processes and cgroups, and decides whether the kernel killed
 * a process for lack of memory (memory_kill.h).
 *
 * 1. Samples. Every 250 ms (up to 1 s if there are many processes) the writer reads how much memory
 *    a process and its cgroup use. If the resident memory has changed by more than 1/64, and by
 *    more than 256 KiB, since the last sample, the next sample is taken at once (but at least 10 ms
 *    after the last). So the last sample before a kill is close to the memory at the kill, even if
 *    the program grows fast. The recording keeps the samples of the last seconds, and writes them
 *    into the trace if the process was killed, or may have been. In case the writer is killed too,
 *    the samples are also written while the memory of the process changes in a cgroup that is
 *    nearly full.
 *
 * 2. Was it the kernel? A process that the kernel killed has the same wait status as after
 *    `kill -9`. There are two signs of a kill by the kernel:
 *
 *     the kernel's log (kernel_log.c)    It names the process, so it decides, if it can be read and
 *                                        has no gap.
 *     the counter of the cgroup          The number of kills is larger than before. The kernel
 *                                        increments it before it sends the signal.
 *
 *    The counter does not say which process was killed. So the kill is certain only if no other
 *    process can have been the victim of the counted kills, otherwise it is probable:
 *
 *    - At least as many kills were counted as recorded processes of the cgroup have ended by
 *      SIGKILL or are ending.
 *    - The processes of the cgroup that are not recorded are alive: all that the last reading of
 *      its list found are still in the list, and none in the list is ending.
 *    - The killed process and the processes that still live use at least half of the limit. So
 *      processes that began after that reading (at most a second before the kill) and have ended,
 *      of which the writer knows nothing, were not needed to reach the limit.
 *
 *    Without a cgroup, only the counter of the whole machine is left; then the kill is at most
 *    probable.
 *
 *    The earlier count must be from a time when the process had certainly not been killed yet.
 *    After each reading of the counters, the writer checks that the process lives: it has memory,
 *    and no SIGKILL is pending. But some microseconds pass between the increment and the signal,
 *    and a reading and its check may fall into this time. So the last reading that passed the check
 *    is not used, but the one before it.
 *
 * 3. Which limit? The log names the cgroup whose limit was reached. Without the log, it is the
 *    limit of the cgroup or of an ancestor that was reached since the earlier reading; of several
 *    such limits, the one with the least room. If no limit was reached, and none is nearly reached,
 *    the whole machine was out of memory. */
#include "memory_kill.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "writer_state.h"

enum {
    SAMPLE_EVERY_NS = 250 * 1000 * 1000,
    SAMPLE_EVERY_MOST_NS = 1000 * 1000 * 1000,
    PROCESSES_PER_RATE = 64, /* per 64 processes, the pause between two samples grows by 250 ms */
    CHANGE_PART = 64,        /* a sample is due if the resident memory changes by more than 1/64 */
    CHANGE_LEAST_BYTES = 256 << 10, /* smaller changes may be errors of the kernel's counters */
    CHANGED_PAUSE_NS = 10 * 1000 * 1000, /* least pause before such a sample */
    CGROUP_EVERY_NS = 10 * 1000 * 1000,  /* for this time, all processes of a cgroup use the same
                                          * reading */
    LONG_READING_NS = 200 * 1000, /* a reading of /proc/PID/status is repeated if it took longer */
    LIST_EVERY_NS = 1000 * 1000 * 1000, /* period of readings of the list of processes */
    /* a cgroup is nearly full if less than 1/8 of its limit is free or page cache */
    NEARLY_FULL_PART = 8,
    NEARLY_REACHED_PART = 16,    /* a limit is nearly reached if less than 1/16 of it is free */
    SIGNAL_NS = 5 * 1000 * 1000, /* longer than the time between the count of a kill and its
                                  * signal */
    CGROUPS_KEPT_LEAST = 256,    /* this many are kept even if their processes have ended */
};

void ag_memory_kills_start(struct ag_memory_kills *kills, bool is_resumed) {
    const uint64_t past_us = UINT64_C(60) * 1000 * 1000, now_us = ag_monotonic_ns() / 1000;
    *kills = (struct ag_memory_kills){.cgroups = NULL};
    ag_kernel_log_open(&kills->log, is_resumed && now_us > past_us ? now_us - past_us : 0);
}

void ag_memory_kills_done(struct ag_memory_kills *kills) {
    ag_kernel_log_close(&kills->log);
    for (size_t i = 0; i < kills->n_cgroups; i++) {
        free(kills->cgroups[i]);
    }
    free(kills->cgroups);
    *kills = (struct ag_memory_kills){.log = {.fd = -1}};
}

/* ---- 1. samples ---- */

static bool is_watched(const struct ag_writer *writer, const struct ag_watched_cgroup *cgroup) {
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        const struct ag_memory_watch *watch = &writer->slots[i].memory;
        if (watch->cgroup == cgroup || watch->before[0].cgroup == cgroup ||
            watch->before[1].cgroup == cgroup) {
            return true;
        }
    }
    return false;
}

/* Forgets the cgroups whose processes have all ended, each time that the number of cgroups has
 * doubled. */
static void forget_cgroups(struct ag_writer *writer) {
    struct ag_memory_kills *kills = &writer->kills;
    if (kills->n_cgroups < 2 * kills->n_cgroups_kept + CGROUPS_KEPT_LEAST) {
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < kills->n_cgroups; i++) {
        if (is_watched(writer, kills->cgroups[i])) {
            kills->cgroups[n++] = kills->cgroups[i];
        } else {
            free(kills->cgroups[i]);
        }
    }
    kills->n_cgroups = kills->n_cgroups_kept = n;
}

/* Returns the cgroup of process PID. NULL: the process is gone, or there is no memory. */
static struct ag_watched_cgroup *find_cgroup(struct ag_writer *writer, uint32_t pid) {
    struct ag_memory_kills *kills = &writer->kills;
    struct ag_watched_cgroup found = {.n_pids = AG_CGROUP_PIDS + 1};
    if (!ag_cgroup_find(pid, &found.cgroup)) {
        return NULL;
    }
    for (size_t i = 0; i < kills->n_cgroups; i++) {
        if (ag_cgroup_is_same(&kills->cgroups[i]->cgroup, &found.cgroup)) {
            return kills->cgroups[i];
        }
    }
    forget_cgroups(writer);
    struct ag_watched_cgroup *new = malloc(sizeof(*new));
    struct ag_watched_cgroup **grown =
        new ? realloc(kills->cgroups, (kills->n_cgroups + 1) * sizeof(*grown)) : NULL;
    if (!grown) {
        free(new);
        return NULL;
    }
    *new = found;
    kills->cgroups = grown;
    kills->cgroups[kills->n_cgroups++] = new;
    return new;
}

static void look_at_cgroup(struct ag_watched_cgroup *cgroup, uint64_t now_ns) {
    if (cgroup->looked_ns != 0 && now_ns - cgroup->looked_ns < CGROUP_EVERY_NS) {
        return;
    }
    ag_cgroup_look(&cgroup->cgroup, &cgroup->look);
    cgroup->looked_ns = now_ns;
    if (cgroup->listed_ns == 0 || now_ns - cgroup->listed_ns >= LIST_EVERY_NS) {
        cgroup->n_pids = ag_cgroup_list(&cgroup->cgroup, cgroup->pids);
        cgroup->listed_ns = now_ns;
    }
}

bool ag_memory_watch_is_due(const struct ag_writer *writer, uint32_t index, uint64_t rss_bytes,
                            uint64_t now_ns) {
    const struct ag_memory_watch *watch = &writer->slots[index].memory;
    const uint64_t pause_ns =
        (uint64_t)SAMPLE_EVERY_NS * (1 + (uint64_t)writer->n_open / PROCESSES_PER_RATE);
    const uint64_t since_ns = now_ns - watch->looked_ns, before = watch->looked_rss_bytes;
    const uint64_t change = rss_bytes > before ? rss_bytes - before : before - rss_bytes;
    return watch->looked_ns == 0 || since_ns >= SAMPLE_EVERY_MOST_NS || since_ns >= pause_ns ||
           (rss_bytes > 0 && since_ns >= CHANGED_PAUSE_NS &&
            change > before / CHANGE_PART + CHANGE_LEAST_BYTES);
}

/* Reads the memory of a process and, in ret_time_ns, the session's time directly before it. A
 * reading that took long (the kernel had to free memory of the cgroup for the writer) may contain
 * what the program allocated meanwhile; it is repeated once. */
static bool read_memory(struct ag_writer *writer, uint32_t pid,
                        struct ag_process_memory *ret_memory, uint64_t *ret_time_ns) {
    for (int i = 0; i < 2; i++) {
        *ret_time_ns = ag_session_clock_mark(&writer->clock, writer->session);
        if (!ag_process_memory(pid, ret_memory)) {
            return false;
        }
        if (ag_session_clock_now_ns(writer->session) - *ret_time_ns < LONG_READING_NS) {
            break;
        }
    }
    return true;
}

void ag_memory_watch_look(struct ag_writer *writer, uint32_t index, uint64_t now_ns) {
    struct ag_watched_slot *watched = &writer->slots[index];
    struct ag_memory_watch *watch = &watched->memory;
    struct ag_process_memory memory;
    const uint32_t pid = watched->watch.pid;
    watch->pid = pid;
    watch->began_us = watch->looked_ns == 0 ? now_ns / 1000 : watch->began_us;
    watch->looked_ns = now_ns;
    struct ag_watched_cgroup *cgroup = watch->cgroup;
    if (!cgroup || !ag_cgroup_has(&cgroup->cgroup, pid)) {
        cgroup = find_cgroup(writer, pid);
    }
    if (!cgroup) {
        return;
    }
    look_at_cgroup(cgroup, now_ns);
    uint64_t time_ns = 0;
    if (!read_memory(writer, pid, &memory, &time_ns)) {
        return; /* the process has ended, so it is in the root cgroup now */
    }
    watch->cgroup = cgroup;
    watch->looked_rss_bytes = memory.anonymous_bytes + memory.file_bytes + memory.shmem_bytes;
    const struct ag_cgroup_look *look = &watch->cgroup->look;
    const struct ag_counts_before now = {
        .cgroup = watch->cgroup, .time_ns = watch->cgroup->looked_ns, .counts = look->counts};
    watch->before[0] = watch->before[1].cgroup == watch->cgroup ? watch->before[1] : now;
    watch->before[1] = now;
    struct ag_memory_sample sample = {.time_ns = time_ns,
                                      .known = AG_SAMPLE_PROCESS,
                                      .anonymous_bytes = memory.anonymous_bytes,
                                      .file_bytes = memory.file_bytes,
                                      .shmem_bytes = memory.shmem_bytes,
                                      .swap_bytes = memory.swap_bytes};
    bool is_nearly_full = false;
    if (look->n_levels > 0) {
        const size_t level = look->nearest > 0 ? (size_t)look->nearest : 0;
        const uint64_t used = look->used_bytes[level], limit = look->limit_bytes[level];
        sample.known |= AG_SAMPLE_CGROUP | (limit != UINT64_MAX ? AG_SAMPLE_LIMIT : 0) |
                        (look->has_parts ? AG_SAMPLE_PARTS : 0);
        sample.cgroup_bytes = used;
        sample.cgroup_limit_bytes = limit != UINT64_MAX ? limit : 0;
        sample.cgroup_anonymous_bytes = look->anonymous_bytes;
        sample.cgroup_cache_bytes = look->cache_bytes;
        sample.cgroup_shmem_bytes = look->shmem_bytes;
        const uint64_t full = look->full_bytes[level];
        is_nearly_full =
            full != UINT64_MAX && ag_cgroup_kept_bytes(look) > full - full / NEARLY_FULL_PART;
    }
    ag_recording_memory(watched->recording, &sample, is_nearly_full);
}

/* ---- 2. was it the kernel? ---- */

/* Whether the process in slot INDEX, which was in the cgroup, may have been killed since
 * SINCE_NS. */
static bool may_have_been_killed(const struct ag_writer *writer, uint32_t index,
                                 uint64_t since_ns) {
    const struct ag_watched_slot *watched = &writer->slots[index];
    const struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    struct ag_process_memory memory;
    if (watched->phase == AG_PHASE_OPEN && !watched->has_ended) {
        return watched->watch.pid != 0 && !ag_process_memory(watched->watch.pid, &memory);
    }
    if (watched->ended_ns < since_ns ||
        atomic_load_explicit(&slot->state, memory_order_relaxed) == AG_SLOT_REPLACED) {
        return false;
    }
    const uint32_t status = atomic_load_explicit(&slot->wait_status, memory_order_relaxed);
    return !atomic_load_explicit(&slot->wait_status_known, memory_order_acquire) ||
           (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static bool is_recorded(const struct ag_writer *writer, uint32_t pid) {
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        if (writer->slots[i].phase != AG_PHASE_NONE && writer->slots[i].memory.pid == pid) {
            return true;
        }
    }
    return false;
}

/* Whether the processes that are not recorded are alive: those that were in the cgroup are still in
 * it, and none that is in it now is ending. ret_bytes: the memory of all processes that are in it
 * now, recorded or not. */
static bool others_live(const struct ag_writer *writer, const struct ag_watched_cgroup *cgroup,
                        uint64_t *ret_bytes) {
    uint32_t pids[AG_CGROUP_PIDS];
    struct ag_process_memory memory;
    const size_t n = ag_cgroup_list(&cgroup->cgroup, pids);
    *ret_bytes = 0;
    if (n > AG_CGROUP_PIDS || cgroup->n_pids > AG_CGROUP_PIDS) {
        return false;
    }
    for (size_t i = 0; i < cgroup->n_pids; i++) {
        size_t at = 0;
        while (at < n && pids[at] != cgroup->pids[i]) {
            at++;
        }
        if (at == n && !is_recorded(writer, cgroup->pids[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (ag_process_memory(pids[i], &memory) && !ag_process_is_leaving(pids[i])) {
            *ret_bytes += memory.anonymous_bytes + memory.file_bytes + memory.shmem_bytes;
        } else if (!is_recorded(writer, pids[i])) {
            return false;
        }
    }
    return true;
}

/* Whether the process, with the memory of its last sample, and the processes that live now use at
 * least half of the limit of LEVEL. Returns false if LEVEL is AG_CGROUP_LIMIT_NONE (the machine was
 * out of memory). The memory that the cgroup accounts is not compared, because the memory of a
 * process may be freed after the process has left the list. */
static bool limit_is_explained(const struct ag_memory_watch *watch, int level,
                               uint64_t others_bytes) {
    return level >= 0 &&
           watch->looked_rss_bytes + others_bytes >= watch->cgroup->look.limit_bytes[level] / 2;
}

/* Returns how certain a kill by the kernel at the limit of LEVEL is according to the counters of
 * the cgroup (AG_KILL_CERTAIN or AG_KILL_PROBABLE). 0: there is no sign of a kill by the kernel. */
static uint32_t judge_by_counts(const struct ag_writer *writer, uint32_t index,
                                const struct ag_cgroup_counts *counts, int level) {
    const struct ag_memory_watch *watch = &writer->slots[index].memory;
    const struct ag_counts_before *before = &watch->before[0];
    if (!before->cgroup || before->counts.kills == UINT64_MAX || counts->kills == UINT64_MAX ||
        counts->kills <= before->counts.kills) {
        return 0;
    }
    uint64_t n_killed = 1;
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        const struct ag_watched_slot *other = &writer->slots[i];
        n_killed += i != index && other->phase != AG_PHASE_NONE &&
                    other->memory.cgroup == watch->cgroup &&
                    may_have_been_killed(writer, i, before->time_ns);
    }
    if (watch->cgroup->cgroup.is_machine || counts->kills - before->counts.kills < n_killed) {
        return AG_KILL_PROBABLE;
    }
    /* between the increment of the counter and the signal, the victim looks alive */
    (void)nanosleep(&(struct timespec){.tv_nsec = SIGNAL_NS}, NULL);
    uint64_t others_bytes;
    return others_live(writer, watch->cgroup, &others_bytes) &&
                   limit_is_explained(watch, level, others_bytes)
               ? AG_KILL_CERTAIN
               : AG_KILL_PROBABLE;
}

/* ---- 3. which limit? ---- */

static void name_level(const struct ag_watched_cgroup *cgroup, size_t level,
                       struct ag_kernel_kill *kill) {
    kill->record.reason = AG_KILL_REASON_CGROUP;
    kill->record.limit_bytes =
        cgroup->look.limit_bytes[level] != UINT64_MAX ? cgroup->look.limit_bytes[level] : 0;
    ag_cgroup_level_name(&cgroup->cgroup, level, kill->cgroup);
}

/* Returns the level whose limit was reached. AG_CGROUP_LIMIT_NONE: none. */
static int find_level(const struct ag_memory_watch *watch, const struct ag_cgroup_counts *counts) {
    const struct ag_cgroup_look *look = &watch->cgroup->look;
    uint64_t least_room = UINT64_MAX;
    int found = AG_CGROUP_LIMIT_NONE;
    if (watch->cgroup->cgroup.is_machine) {
        return AG_CGROUP_LIMIT_NONE;
    }
    for (size_t level = 0; level < look->n_levels; level++) {
        const uint64_t before = watch->before[0].counts.limit_hits[level],
                       after = counts->limit_hits[level], limit = look->limit_bytes[level],
                       used = look->used_bytes[level];
        const uint64_t room = limit > used ? limit - used : 0;
        if (limit != UINT64_MAX && before != UINT64_MAX && after != UINT64_MAX && after > before &&
            room < least_room) {
            least_room = room;
            found = (int)level;
        }
    }
    if (found != AG_CGROUP_LIMIT_NONE || look->nearest < 0) {
        return found;
    }
    const size_t nearest = (size_t)look->nearest;
    const uint64_t limit = look->limit_bytes[nearest], used = look->used_bytes[nearest];
    /* the limit was reached before the earlier reading already */
    return limit != UINT64_MAX && used > limit - limit / NEARLY_REACHED_PART ? look->nearest
                                                                             : AG_CGROUP_LIMIT_NONE;
}

/* Fills the record from a message of the kernel. In a cgroup namespace, the log may have another
 * name for the cgroup than /proc; then the counters decide which limit it was. */
static void take_message(const struct ag_memory_watch *watch,
                         const struct ag_kernel_log_kill *message, struct ag_kernel_kill *kill) {
    kill->record.has_sizes = 1;
    kill->record.anonymous_bytes = message->anonymous_bytes;
    kill->record.file_bytes = message->file_bytes;
    kill->record.shmem_bytes = message->shmem_bytes;
    if (message->reason == AG_KILL_REASON_MACHINE) {
        kill->record.reason = AG_KILL_REASON_MACHINE;
        kill->record.limit_bytes = 0;
        kill->cgroup[0] = '\0';
    }
    for (size_t level = 0; message->reason == AG_KILL_REASON_CGROUP && watch->cgroup &&
                           level < watch->cgroup->look.n_levels;
         level++) {
        char name[AG_CGROUP_PATH_BYTES];
        ag_cgroup_level_name(&watch->cgroup->cgroup, level, name);
        if (strcmp(name, message->cgroup) == 0) {
            name_level(watch->cgroup, level, kill);
            return;
        }
    }
    if (message->reason == AG_KILL_REASON_CGROUP &&
        kill->record.reason != AG_KILL_REASON_CGROUP) { /* a cgroup that is not visible here */
        kill->record.reason = AG_KILL_REASON_CGROUP;
        memcpy(kill->cgroup, message->cgroup, sizeof(message->cgroup));
    }
}

bool ag_memory_kill_find(struct ag_writer *writer, uint32_t index, const uint32_t *wait_status,
                         struct ag_kernel_kill *ret_kill) {
    const struct ag_watched_slot *watched = &writer->slots[index];
    const struct ag_process_slot *slot = ag_session_slot(writer->session, index);
    const struct ag_memory_watch *watch = &watched->memory;
    struct ag_cgroup_counts counts;
    *ret_kill = (struct ag_kernel_kill){.record = {.certainty = 0}};
    if (writer->is_offline || watch->pid == 0 || !watch->cgroup ||
        atomic_load_explicit(&slot->state, memory_order_relaxed) == AG_SLOT_REPLACED ||
        (wait_status && (!WIFSIGNALED(*wait_status) || WTERMSIG(*wait_status) != SIGKILL))) {
        return false;
    }
    const uint64_t slack_us = 1000 * 1000; /* the log has a clock of its own */
    const uint64_t began_us = watch->began_us > slack_us ? watch->began_us - slack_us : 0;
    struct ag_kernel_log *log = &writer->kills.log;
    const struct ag_kernel_log_kill *message = ag_kernel_log_find(log, watch->pid, began_us);
    if (!message && (!wait_status || (log->fd >= 0 && log->gap_us < began_us))) {
        return false;
    }
    ag_cgroup_count(&watch->cgroup->cgroup, &counts);
    const int level = find_level(watch, &counts);
    ret_kill->record.certainty =
        message ? (uint32_t)AG_KILL_CERTAIN : judge_by_counts(writer, index, &counts, level);
    if (ret_kill->record.certainty == 0) {
        return false;
    }
    if (level != AG_CGROUP_LIMIT_NONE) {
        name_level(watch->cgroup, (size_t)level, ret_kill);
    } else if (!watch->cgroup->cgroup.is_machine) {
        ret_kill->record.reason = AG_KILL_REASON_MACHINE;
    }
    if (message) {
        take_message(watch, message, ret_kill);
    }
    ret_kill->record.cgroup.data = ret_kill->cgroup;
    ret_kill->record.cgroup.length = (uint32_t)strlen(ret_kill->cgroup);
    return true;
}
