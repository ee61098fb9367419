/* process_tree.c: finds the parents of recorded processes, for `report --view=process_tree`.
 *
 * A trace contains the pid of its process and that of the parent. Pids are reused, and a process
 * that executes another program keeps its pid, so that several traces of a session may have the
 * same pid. The times decide between them:
 *
 *     pid 10  |----- sh -----|                      sh executes make, so it has no exit status
 *     pid 10                 |----- make -----|     child of sh, because it has the same pid
 *     pid 11                     |- cc -|           child of make, the latest with pid 10 before cc
 *     pid 11                                 |-ld-| no child of cc: cc had ended, its pid is reused
 *
 * A trace also contains a random number of its process and program (the identity), and the identity
 * of the process from which it comes. If a trace has identities, only they decide. A pid in a trace
 * is the one that the process itself sees, and in a PID namespace of its own, a process may have
 * the pid of a process outside. Pids and times decide only for traces of older versions, which have
 * no identities.
 *
 * The parent is a process of the same session that started earlier, so the tree has no cycle. The
 * pid of the parent in a trace is that of the process that was the parent when the recording
 * started. The recorder of a forked child stores the pid and the identity of the process that
 * forked it, so a daemon whose parent has ended still has the right parent. */
#include "model/answers/process_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/segment.h"
#include "model/metric.h"
#include "model/profile_state.h"
#include "table/array.h"
#include "table/index_map.h"
#include "table/text_store.h"

/* The longest time from the moment when the writer saw that a program had ended, to the start of
 * the recording in the program that the process executed; the dynamic loader runs in between. A pid
 * is not reused so soon, because the kernel first assigns all other pids. */
#define EXECUTION_MOST_NS UINT64_C(2000000000)

struct ag_process_tree {
    struct ag_process *processes;
    size_t n_processes;
    const char **arguments; /* of all processes, one after the other */
    size_t n_arguments, arguments_capacity;
    struct ag_text_store texts;
};

struct ag_process_tree *ag_process_tree_new(void) {
    static const struct ag_process root = {.identity = {.end = "", .mode = ""},
                                           .parent = AG_PROCESS_NONE,
                                           .first_child = AG_PROCESS_NONE,
                                           .next_sibling = AG_PROCESS_NONE};
    struct ag_process_tree *tree = calloc(1, sizeof(*tree));
    if (tree && AG_ARRAY_ADD(tree->processes, tree->n_processes, root) < 0) {
        return ag_process_tree_free(tree);
    }
    return tree;
}

struct ag_process_tree *ag_process_tree_free(struct ag_process_tree *tree) {
    if (tree) {
        free(tree->processes);
        free(tree->arguments);
        ag_text_store_done(&tree->texts);
        free(tree);
    }
    return NULL;
}

/* ---- adding traces ---- */

static const char *keep(struct ag_process_tree *tree, const char *text) {
    return text ? ag_text_keep(&tree->texts, text, strlen(text)) : "";
}

int ag_process_tree_add(struct ag_process_tree *tree, struct ag_profile *profile) {
    for (size_t p = 0; p < profile->n_parts; p++) {
        const int r = ag_process_tree_add(tree, profile->parts[p].profile);
        if (r < 0) {
            return r;
        }
    }
    if (profile->n_parts > 0) {
        return 0;
    }
    struct ag_process process = {.identity = *ag_profile_identity(profile),
                                 .recording_ns = ag_profile_recording_ns(profile),
                                 .rss_peak_bytes = ag_profile_summary(profile)->rss_peak_bytes,
                                 .lost_stacks = ag_profile_summary(profile)->lost_stacks,
                                 .inherited_frees = ag_profile_summary(profile)->inherited_frees,
                                 .ghost_frees = ag_profile_summary(profile)->ghost_frees,
                                 .own = ag_profile_sums(profile),
                                 .parent = AG_PROCESS_NONE,
                                 .first_child = AG_PROCESS_NONE,
                                 .next_sibling = AG_PROCESS_NONE};
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        process.lost_events += ag_profile_lost(profile, cause);
    }
    struct ag_profile_identity *identity = &process.identity;
    const uint32_t n_arguments = identity->n_arguments;
    int r = AG_ARRAY_RESERVE(tree->arguments, tree->arguments_capacity,
                             tree->n_arguments + n_arguments + 1);
    for (uint32_t i = 0; i < n_arguments && r == 0; i++) {
        tree->arguments[tree->n_arguments++] = keep(tree, identity->arguments[i]);
    }
    identity->file = keep(tree, identity->file);
    identity->exe = keep(tree, identity->exe);
    identity->title = identity->title ? keep(tree, identity->title) : NULL;
    identity->user = identity->user ? keep(tree, identity->user) : NULL;
    identity->kernel_kill.cgroup =
        identity->kernel_kill.cgroup ? keep(tree, identity->kernel_kill.cgroup) : NULL;
    identity->arguments = NULL; /* the array of all arguments may still move */
    identity->host = "";
    identity->cgroup = identity->cgroup ? keep(tree, identity->cgroup) : NULL;
    identity->filter = NULL;
    identity->undecided = NULL;
    identity->n_undecided = 0;
    identity->damage.what = "";
    return r < 0 ? r : AG_ARRAY_ADD(tree->processes, tree->n_processes, process);
}

/* ---- parents ---- */

/* Returns the number of the process with the given identity; AG_PROCESS_NONE: it is not among the
 * traces. */
static uint32_t find_identity(const struct ag_index_map *identities, uint64_t identity) {
    const uint32_t found = identity != 0 ? ag_index_map_find(identities, identity) : AG_INDEX_NONE;
    return found != AG_INDEX_NONE ? found : AG_PROCESS_NONE;
}

struct start { /* the sort key of a process: its session, pid and start time */
    uint64_t session, start_ns;
    uint32_t pid;
    uint32_t process;
};

static int compare_starts(const void *left, const void *right) {
    const struct start *a = left, *b = right;
    return a->session != b->session     ? (a->session < b->session ? -1 : 1)
           : a->pid != b->pid           ? (a->pid < b->pid ? -1 : 1)
           : a->start_ns != b->start_ns ? (a->start_ns < b->start_ns ? -1 : 1)
                                        : (a->process > b->process) - (a->process < b->process);
}

/* Of the processes with the given pid that started before BEFORE, returns the one that started
 * last. */
static uint32_t find_latest(const struct start *starts, size_t n_starts,
                            const struct start *before) {
    size_t low = 0, high = n_starts;
    while (low < high) { /* starts[low - 1] < *before <= starts[high] */
        const size_t middle = low + (high - low) / 2;
        if (compare_starts(&starts[middle], before) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const struct start *found = low > 0 ? &starts[low - 1] : NULL;
    return found && found->session == before->session && found->pid == before->pid
               ? found->process
               : AG_PROCESS_NONE;
}

/* Whether the process EARLIER can have executed the program of LATER, which has the same pid. */
static bool can_have_executed(const struct ag_process *earlier, const struct ag_process *later) {
    const struct ag_profile_identity *identity = &earlier->identity;
    const bool has_surely_ended =
        identity->wait_status_known || strcmp(identity->end, "signal") == 0;
    const uint64_t end_ns = identity->start_ns + earlier->recording_ns;
    return !has_surely_ended && later->identity.start_ns <= end_ns + EXECUTION_MOST_NS;
}

/* Marks all but the longest of the traces of the same process and program. Such traces have the
 * same session, pid, start and identity, so they are neighbors in STARTS. */
static size_t leave_out_repeated(struct ag_process_tree *tree, struct start *starts, size_t n) {
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct start *last = n_kept > 0 ? &starts[n_kept - 1] : NULL;
        if (!last || starts[i].session == 0 || last->session != starts[i].session ||
            last->pid != starts[i].pid || last->start_ns != starts[i].start_ns ||
            tree->processes[last->process].identity.process_identity !=
                tree->processes[starts[i].process].identity.process_identity) {
            starts[n_kept++] = starts[i];
            continue;
        }
        struct ag_process *kept = &tree->processes[last->process],
                          *other = &tree->processes[starts[i].process];
        const bool is_longer = other->recording_ns > kept->recording_ns;
        (is_longer ? kept : other)->is_repeated = true;
        last->process = is_longer ? starts[i].process : last->process;
    }
    return n_kept;
}

static void set_parent(struct ag_process_tree *tree, uint32_t number, uint32_t parent,
                       bool was_executed) {
    tree->processes[number].parent = parent;
    tree->processes[number].was_executed = was_executed;
    tree->processes[parent].has_executed |= was_executed;
}

/* Whether the process A started before the process B, in an order in which no two processes are
 * equal. */
static bool starts_before(const struct ag_process_tree *tree, uint32_t a, uint32_t b) {
    const uint64_t start_a = tree->processes[a].identity.start_ns,
                   start_b = tree->processes[b].identity.start_ns;
    return start_a != start_b ? start_a < start_b : a < b;
}

/* The parent of a process whose trace has identities: the process with the identity that its trace
 * contains. If the trace of this process was not added, the parent is unknown. */
static void find_identified_parent(struct ag_process_tree *tree,
                                   const struct ag_index_map *identities, uint32_t number) {
    const struct ag_profile_identity *identity = &tree->processes[number].identity;
    const uint32_t parent = find_identity(identities, identity->parent_identity);
    if (parent != AG_PROCESS_NONE && starts_before(tree, parent, number) &&
        tree->processes[parent].identity.session == identity->session) {
        set_parent(tree, number, parent, identity->origin == AG_ORIGIN_EXECUTED);
    }
}

static void find_parent(struct ag_process_tree *tree, const struct start *starts, size_t n,
                        const struct ag_index_map *identities, uint32_t number) {
    struct ag_process *process = &tree->processes[number];
    const struct ag_profile_identity *identity = &process->identity;
    struct start before = {.session = identity->session,
                           .start_ns = identity->start_ns,
                           .pid = identity->pid,
                           .process = 0};
    process->parent = AG_PROCESS_ROOT;
    if (identity->session == 0) {
        return; /* a process that was observed from outside, or a trace that is not of a session */
    }
    if (identity->process_identity != 0) {
        find_identified_parent(tree, identities, number);
        return;
    }
    const uint32_t earlier = find_latest(starts, n, &before);
    if (earlier != AG_PROCESS_NONE && can_have_executed(&tree->processes[earlier], process)) {
        set_parent(tree, number, earlier, /* was_executed= */ true);
        return;
    }
    before.pid = identity->parent_pid;
    const uint32_t parent =
        identity->parent_pid != 0 ? find_latest(starts, n, &before) : AG_PROCESS_NONE;
    process->parent = parent != AG_PROCESS_NONE ? parent : AG_PROCESS_ROOT;
}

static int compare_times(const void *left, const void *right) {
    const struct start *a = left, *b = right;
    return a->start_ns != b->start_ns ? (a->start_ns < b->start_ns ? -1 : 1)
                                      : (a->process > b->process) - (a->process < b->process);
}

/* Adds the sums of each process to its ancestors, and links it to its siblings. Children start
 * later than their parents. So if the processes are visited from the last to the first, the sums
 * of a process are complete when they are added to its parent. */
static void sum_up(struct ag_process_tree *tree, struct start *starts, size_t n) {
    qsort(starts, n, sizeof(*starts), compare_times);
    for (size_t i = n; i-- > 0;) {
        struct ag_process *process = &tree->processes[starts[i].process];
        struct ag_process *parent = &tree->processes[process->parent];
        ag_metrics_add(&process->all, &process->own);
        ag_metrics_add(&parent->all, &process->all);
        process->next_sibling = parent->first_child;
        parent->first_child = starts[i].process;
        struct ag_process *root = &tree->processes[AG_PROCESS_ROOT];
        root->lost_events += process->lost_events;
        root->lost_stacks += process->lost_stacks;
    }
}

int ag_process_tree_link(struct ag_process_tree *tree) {
    struct start *starts = calloc(tree->n_processes, sizeof(*starts));
    size_t n = 0, n_arguments = 0;
    if (!starts) {
        return -ENOMEM;
    }
    for (size_t i = AG_PROCESS_ROOT + 1; i < tree->n_processes; i++) {
        struct ag_profile_identity *identity = &tree->processes[i].identity;
        identity->arguments = tree->arguments + n_arguments;
        n_arguments += identity->n_arguments;
        starts[n++] = (struct start){.session = identity->session,
                                     .start_ns = identity->start_ns,
                                     .pid = identity->pid,
                                     .process = (uint32_t)i};
    }
    qsort(starts, n, sizeof(*starts), compare_starts);
    n = leave_out_repeated(tree, starts, n);
    struct ag_index_map identities = {0};
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const uint64_t identity = tree->processes[starts[i].process].identity.process_identity;
        r = identity != 0 ? ag_index_map_insert_first(&identities, identity, starts[i].process) : 0;
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        find_parent(tree, starts, n, &identities, starts[i].process);
    }
    ag_index_map_done(&identities);
    if (r == 0) {
        sum_up(tree, starts, n);
    }
    free(starts);
    return r;
}

size_t ag_process_tree_list(const struct ag_process_tree *tree,
                            const struct ag_process **ret_processes) {
    *ret_processes = tree->processes;
    return tree->n_processes;
}
