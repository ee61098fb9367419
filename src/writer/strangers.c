/* strangers.c: finds processes that the command started and that are not recorded (strangers.h), in
 * two ways. Each recorded process has a slot, an entry in the live file (the file that the recorded
 * processes and the writer have mapped).
 *
 * 1. Processes. The kernel lists the children of each thread (/proc/PID/task/TID/children).
 * Starting from the first process and from every recorded process (whose parent may have ended),
 * these lists give the process tree. A process of the tree that has no slot may be about to take
 * one; it may have been forked and not have allocated yet (then it has the live file mapped); or it
 * is a stranger. The process is counted as a stranger if a look PATIENCE_NS later still finds it
 * without a slot and without the live file in its mappings. A process that was recorded and then
 * executed another program is counted even if it ends before that look. Looks are LOOK_EVERY_NS
 * apart, so strangers that live for 0.4 s (2 s in mode SAMPLE) are found, with their names. A look
 * takes some microseconds per process. The next look follows after at least 200 times its duration,
 * which limits the cost to half a percent of a CPU.
 *
 * 2. Programs. Each recorded process counts the programs that it executes, in itself or in children
 * (adapters/libc/executions.c), and each executed program in which a recorder starts takes a slot.
 * So the number of executed programs minus the number of these slots is the number of programs
 * without a recorder (missing programs), however short their lives were. When a recorder takes a
 * slot (joins), one missing program is subtracted:
 *
 *  1. from the recorded process that had the recorder's pid before, if there is one. (If that
 *     process has no missing programs, nothing is subtracted, provided that both pids in the
 *     writer's namespace are known.)
 *  2. otherwise from the parent of the recorder's process, if the parent has missing programs;
 *  3. otherwise, if the parent is recorded, from another descendant of the parent that has missing
 *     programs. The parent may have adopted the recorder's process, as the first process of a PID
 *     namespace or a subreaper does. If there is no such descendant, the parent executes programs
 *     by system calls of its own, as Go's runtime does, and step 3 is not applied to its children
 *     from then on.
 *  4. otherwise from the sum of all missing programs, if the parent is unknown or has ended. If the
 *     parent lives and is a stranger, nothing is subtracted.
 *
 * The programs that way 2 finds include most of the processes that way 1 finds, so the result is
 * the larger of the two numbers. The result is a lower bound: way 2 does not see programs that are
 * executed by a system call of the program's own. A program that was killed before its recorder
 * started is counted, although it allocated nothing.
 *
 * Rejected ways to see strangers with short lives:
 *
 *  - The stranger reports itself, if it has the agent and only the live file is out of its reach
 *    (another /dev/shm). Each channel that crosses mount namespaces is blocked by another
 *    namespace: abstract sockets by network, message queues by IPC, signals by PID namespaces, and
 *    /proc/PID/root of the writer by user namespaces. A sandbox creates all of these namespaces.
 *    Static programs have no agent.
 *  - The kernel's own log of executions. The process connector and process accounting require root.
 *    Records of perf (comm_exec) need an event for each CPU, which every forked process and every
 *    new thread of the program inherits. This costs more than recording the program.
 *  - The executing process writes the pid of the new program into the live file. A child of vfork
 *    can find its pid only by a system call that its sandbox may forbid, and the parent cannot find
 *    it for system and popen. The counts of way 2 need no pid.
 *  - The kind of end: a process that has ended without a signal and without having called exit,
 *    _exit or quick_exit has executed another program, or made the system call itself. Go's runtime
 *    makes the system call itself, so this way would count programs that are recorded
 *    completely. */
#include "strangers.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process_watch.h"
#include "table/array.h"
#include "writer_state.h"

enum {
    PATIENCE_NS = 300 * 1000 * 1000,
    LOOK_EVERY_NS = 100 * 1000 * 1000,
    SAMPLES_LOOK_EVERY_NS = 1000 * 1000 * 1000, /* time between two looks in mode SAMPLE, where the
                                                 * writer sleeps longer */
    REST_FACTOR = 200,
    PROCESSES_MOST = 4096,
    SEEN_SLOTS = 4 * PROCESSES_MOST,
};

struct walk { /* the processes of the tree, each once */
    uint32_t pids[PROCESSES_MOST];
    size_t n;
    uint32_t seen[SEEN_SLOTS]; /* the pids as a hash table with open addressing; 0: free */
};

static void walk_add(struct walk *walk, uint32_t pid) {
    size_t at = pid * UINT32_C(2654435761) % SEEN_SLOTS;
    while (walk->seen[at] != 0 && walk->seen[at] != pid) {
        at = (at + 1) % SEEN_SLOTS;
    }
    if (pid != 0 && walk->seen[at] == 0 && walk->n < PROCESSES_MOST) {
        walk->seen[at] = pid;
        walk->pids[walk->n++] = pid;
    }
}

static void add_children(struct walk *walk, uint32_t pid) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%u/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char file[128];
        unsigned child = 0;
        if (!isdigit((unsigned char)entry->d_name[0])) {
            continue;
        }
        (void)snprintf(file, sizeof(file), "/proc/%u/task/%.16s/children", pid, entry->d_name);
        FILE *children = fopen(file, "re");
        while (children && fscanf(children, "%u", &child) == 1) {
            walk_add(walk, child);
        }
        if (children) {
            (void)fclose(children); /* nothing was written */
        }
    }
    if (tasks) {
        (void)closedir(tasks); /* nothing was written */
    }
}

static void walk_tree(struct walk *walk, const struct ag_writer *writer) {
    walk_add(walk, writer->session->first_pid);
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        if (writer->slots[i].phase == AG_PHASE_OPEN && !writer->slots[i].has_ended) {
            walk_add(walk, writer->slots[i].watch.pid);
        }
    }
    for (size_t i = 0; i < walk->n; i++) {
        add_children(walk, walk->pids[i]);
    }
}

bool ag_process_is_recorded(const struct ag_writer *writer, uint32_t pid) {
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        const struct ag_watched_slot *watched = &writer->slots[i];
        const bool may_be_it =
            watched->watch.pid == pid ||
            (watched->watch.pid == 0 && ag_process_has_own_pid(pid, watched->ids.own_pid));
        if (watched->phase == AG_PHASE_OPEN && !watched->has_ended && may_be_it) {
            return true;
        }
    }
    return false;
}

/* Pids are reused: pid and start time together identify a process. */
static struct ag_stranger *strangers_find(const struct ag_strangers *strangers, uint32_t pid,
                                          uint64_t start_ticks) {
    for (size_t i = 0; i < strangers->n_known; i++) {
        if (strangers->known[i].pid == pid && strangers->known[i].start_ticks == start_ticks) {
            return &strangers->known[i];
        }
    }
    return NULL;
}

static struct ag_stranger *strangers_add(struct ag_strangers *strangers, uint32_t pid,
                                         uint64_t now_ns) {
    struct ag_stranger stranger = {
        .pid = pid, .start_ticks = ag_process_start_ticks(pid), .since_ns = now_ns};
    ag_process_name(pid, stranger.name);
    if (strangers->n_known == PROCESSES_MOST ||
        AG_ARRAY_ADD(strangers->known, strangers->n_known, stranger) < 0) {
        return NULL;
    }
    return &strangers->known[strangers->n_known - 1];
}

static void forget(struct ag_strangers *strangers, const struct ag_stranger *stranger) {
    strangers->known[stranger - strangers->known] = strangers->known[--strangers->n_known];
}

static bool is_named(const char *names, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at++) {
        if ((at == names || at[-1] == ' ') && (at[length] == '\0' || at[length] == ',')) {
            return true;
        }
    }
    return false;
}

void ag_program_names_add(char names[AG_STRANGERS_NAMES_BYTES], const char *name) {
    const size_t used = strlen(names);
    if (name[0] == '\0' || is_named(names, name)) {
        return;
    }
    if (used + strlen(name) + sizeof(", , ...") < AG_STRANGERS_NAMES_BYTES) {
        (void)snprintf(names + used, AG_STRANGERS_NAMES_BYTES - used, "%s%s", used > 0 ? ", " : "",
                       name);
    } else if (used > 3 && strcmp(names + used - 3, "...") != 0) {
        (void)snprintf(names + used, AG_STRANGERS_NAMES_BYTES - used, ", ...");
    }
}

/* Counts the process as a stranger, unless it is recorded or may still begin to record. */
static void judge(const struct ag_writer *writer, struct ag_stranger *stranger) {
    const bool is_the_first =
        stranger->pid == writer->session->first_pid && !writer->report.registered;
    if (!stranger->is_counted && !is_the_first && !ag_process_is_recorded(writer, stranger->pid) &&
        !ag_process_has_surely_mapped(stranger->pid, writer->session->path)) {
        ag_process_name(stranger->pid, stranger->name);
        stranger->is_counted = true;
    }
}

static void strangers_walk(struct ag_strangers *strangers, const struct ag_writer *writer,
                           uint64_t now_ns) {
    struct walk *walk = calloc(1, sizeof(*walk));
    if (!walk) {
        return; /* the next look may get the memory */
    }
    walk_tree(walk, writer);
    for (size_t i = 0; i < strangers->n_known; i++) {
        strangers->known[i].is_seen = false;
    }
    for (size_t i = 0; i < walk->n; i++) {
        const uint32_t pid = walk->pids[i];
        struct ag_stranger *stranger = strangers_find(strangers, pid, ag_process_start_ticks(pid));
        if (!ag_process_lives(pid)) {
            continue;
        }
        if (!stranger && !ag_process_is_recorded(writer, pid)) {
            stranger = strangers_add(strangers, pid, now_ns);
        }
        if (stranger) {
            stranger->is_seen = true;
        }
        if (stranger && now_ns - stranger->since_ns >= PATIENCE_NS) {
            judge(writer, stranger);
        }
    }
    free(walk);
    for (size_t i = 0; i < strangers->n_known;) {
        struct ag_stranger *stranger = &strangers->known[i];
        stranger->is_counted |= !stranger->is_seen && stranger->has_executed;
        if (stranger->is_seen || stranger->is_counted) {
            i++;
        } else {
            forget(strangers, stranger);
        }
    }
}

/* Whether the session searches for strangers: only if `run` records a command with its children. */
static bool is_asked_for(const struct ag_writer *writer) {
    return !writer->session->is_attached && writer->session->first_pid != 0 &&
           writer->session->header->keeper == AG_KEEPER_RUN &&
           writer->session->header->follow_children;
}

void ag_strangers_look(struct ag_strangers *strangers, const struct ag_writer *writer,
                       uint64_t now_ns) {
    if (now_ns < strangers->next_look_ns || !is_asked_for(writer)) {
        return;
    }
    strangers_walk(strangers, writer, now_ns);
    const uint64_t rest_ns = (ag_monotonic_ns() - now_ns) * REST_FACTOR;
    const uint64_t every_ns =
        writer->session->mode == AG_MODE_SAMPLE ? SAMPLES_LOOK_EVERY_NS : LOOK_EVERY_NS;
    strangers->next_look_ns = now_ns + (rest_ns > every_ns ? rest_ns : every_ns);
}

/* A forked child reports the PID namespace of its parent, and may itself be in another one. So if
 * IDS has only such a namespace and no pid of the writer's namespace, equal parents are
 * required. */
bool ag_process_is_same(const struct ag_process_ids *ids, const struct ag_process_ids *joined) {
    if (ids->pid != 0 && joined->pid != 0) {
        return ids->pid == joined->pid;
    }
    const bool has_same_namespace =
        ids->pid_namespace != 0 && ids->pid_namespace == joined->pid_namespace;
    const bool has_same_parent = joined->parent == 0 || ids->parent == joined->parent;
    return ids->own_pid == joined->own_pid && ids->own_pid != 0 &&
           (has_same_namespace || (ids->namespace_is_inherited && has_same_parent));
}

bool ag_process_is_parent(const struct ag_process_ids *ids, const struct ag_process_ids *joined) {
    return (ids->pid != 0 && ids->pid == joined->parent) ||
           (joined->own_parent != 0 && ids->own_pid == joined->own_parent &&
            ids->pid_namespace == joined->pid_namespace);
}

void ag_strangers_executed(struct ag_strangers *strangers, const struct ag_process_ids *ids,
                           uint64_t now_ns) {
    const uint64_t start_ticks = ag_process_start_ticks(ids->pid);
    struct ag_stranger *stranger = strangers_find(strangers, ids->pid, start_ticks);
    stranger = stranger ? stranger : strangers_add(strangers, ids->pid, now_ns);
    if (stranger) {
        stranger->has_executed = true;
        stranger->before = *ids;
    }
}

/* The process may have been counted before, because its start took long. */
void ag_strangers_recorded(struct ag_strangers *strangers, const struct ag_process_ids *ids) {
    for (size_t i = strangers->n_known; i-- > 0;) {
        const struct ag_stranger *stranger = &strangers->known[i];
        if (ids->pid != 0 ? stranger->pid == ids->pid
                          : stranger->has_executed && ag_process_is_same(&stranger->before, ids)) {
            forget(strangers, &strangers->known[i]);
            return;
        }
    }
}

/* ---- programs without a recorder ---- */

void ag_strangers_executed_unseen(struct ag_strangers *strangers, const struct ag_process_ids *ids,
                                  uint32_t n_programs, const char *name, uint64_t now_ns) {
    struct ag_missing_programs missing = {
        .ids = *ids, .n_programs = n_programs, .since_ns = now_ns};
    (void)snprintf(missing.name, sizeof(missing.name), "%s", name);
    for (size_t i = 0; i < strangers->n_missing; i++) {
        if (strangers->missing[i].n_programs == 0) {
            /* all recorders of this element have joined: the element can be reused */
            strangers->missing[i] = missing;
            return;
        }
    }
    if (strangers->n_missing < PROCESSES_MOST) {
        /* if there is no memory, the number is only a lower bound */
        (void)AG_ARRAY_ADD(strangers->missing, strangers->n_missing, missing);
    } else {
        strangers->missing[PROCESSES_MOST - 1].n_programs += n_programs;
    }
}

/* Is the process a descendant of the first one, and surely not recorded? */
static bool is_unrecorded_descendant(const struct ag_writer *writer, uint32_t pid) {
    enum { GENERATIONS = 64 };
    const struct ag_session *session = writer->session;
    if (!ag_process_lives(pid) || ag_process_has_mapped(pid, session->path)) {
        return false;
    }
    for (int i = 0; i < GENERATIONS && pid > 1; i++) {
        if (pid == session->first_pid) {
            return true;
        }
        pid = ag_process_parent(pid);
    }
    return false;
}

void ag_strangers_joined_alone(struct ag_strangers *strangers, const struct ag_writer *writer,
                               uint32_t parent) {
    if (parent <= 1 || !is_unrecorded_descendant(writer, parent)) {
        strangers->n_unattributed++;
    }
}

/* The number of programs whose recorders did not join. */
static uint32_t n_missing_programs(const struct ag_strangers *strangers) {
    uint64_t n_missing = 0;
    for (size_t i = 0; i < strangers->n_missing; i++) {
        n_missing += strangers->missing[i].n_programs;
    }
    n_missing = n_missing > strangers->n_unattributed ? n_missing - strangers->n_unattributed : 0;
    return n_missing < UINT32_MAX ? (uint32_t)n_missing : UINT32_MAX;
}

bool ag_strangers_may_still_join(const struct ag_strangers *strangers, uint64_t now_ns) {
    bool is_any_new = false;
    for (size_t i = 0; i < strangers->n_missing; i++) {
        is_any_new |= strangers->missing[i].n_programs > 0 &&
                      now_ns - strangers->missing[i].since_ns < PATIENCE_NS;
    }
    return is_any_new && n_missing_programs(strangers) > 0;
}

/* Programs that only the counts of way 2 show have no known names. Adds the names of the programs
 * that executed them, for N_UNNAMED programs in all. */
static void name_missing(const struct ag_strangers *strangers, uint32_t n_unnamed,
                         char names[AG_STRANGERS_NAMES_BYTES]) {
    for (size_t i = 0; i < strangers->n_missing && n_unnamed > 0; i++) {
        const struct ag_missing_programs *missing = &strangers->missing[i];
        if (missing->n_programs > 0) {
            char name[sizeof("executed by ") + sizeof(missing->name)];
            (void)snprintf(name, sizeof(name), "executed by %s", missing->name);
            ag_program_names_add(names, name);
            n_unnamed -= n_unnamed < missing->n_programs ? n_unnamed : missing->n_programs;
        }
    }
}

uint32_t ag_strangers_conclude(struct ag_strangers *strangers, const struct ag_writer *writer,
                               uint64_t now_ns, char ret_names[AG_STRANGERS_NAMES_BYTES]) {
    uint32_t n_counted = 0;
    const uint32_t n_refused = /* their recorders started and found no slot */
        atomic_load_explicit(&writer->session->header->n_refused_processes, memory_order_relaxed);
    ret_names[0] = '\0';
    if (is_asked_for(writer)) {
        strangers_walk(strangers, writer, now_ns);
    }
    for (size_t i = 0; i < strangers->n_known; i++) {
        if (strangers->known[i].is_counted) {
            n_counted++;
            ag_program_names_add(ret_names, strangers->known[i].name);
        }
    }
    const uint32_t n_without = is_asked_for(writer) ? n_missing_programs(strangers) : 0;
    if (n_without > n_counted + n_refused) {
        name_missing(strangers, n_without - n_counted - n_refused, ret_names);
        n_counted = n_without - n_refused;
    }
    return n_counted;
}

void ag_strangers_done(struct ag_strangers *strangers) {
    free(strangers->known);
    free(strangers->missing);
    *strangers = (struct ag_strangers){0};
}
