/* process_tree.h: the processes of a recording as a tree of parents and children, with the sums of
 * each process and of its descendants. Each trace is of one process, or of one program, if the
 * process executed several programs one after the other.
 *
 *     struct ag_process_tree *tree = ag_process_tree_new();
 *     r = ag_process_tree_add(tree, profile);   // once for each trace, in any order
 *     r = ag_process_tree_link(tree);           // once, after the last trace
 *     tree = ag_process_tree_free(tree);
 *
 * The tree copies what it needs, so that each profile can be closed before the next one is
 * opened. */
#ifndef AG_PROCESS_TREE_H
#define AG_PROCESS_TREE_H

#include "model/profile.h"

struct ag_process_tree;

struct ag_process {
    /* of the trace, without the members `host`, `filter`, `undecided` and `damage.what` */
    struct ag_profile_identity identity;
    uint64_t recording_ns;             /* duration of the recording of this process */
    uint64_t rss_peak_bytes;           /* 0: not known */
    uint64_t lost_events, lost_stacks; /* lost by the recorder, for any cause */
    /* frees of blocks that the process had inherited from its parent, and other frees of blocks
     * whose allocation is not in the trace */
    uint64_t inherited_frees, ghost_frees;
    struct ag_metrics own; /* the sums of this process */
    struct ag_metrics all; /* the sums of this process and of all its descendants */
    /* The process has executed another program. The entry of that program is a child of this
     * entry. */
    bool has_executed;
    /* The parent in the tree is an earlier program of the same process, which executed this
     * program. */
    bool was_executed;
    /* Another trace that was added is of the same process and program, and is longer (a snapshot
     * that was taken during the recording, or the same file again). Such a trace is not in the
     * tree, and not in its sums. */
    bool is_repeated;
    /* numbers of processes; AG_PROCESS_NONE: there is none */
    uint32_t parent, first_child, next_sibling;
};
#define AG_PROCESS_NONE UINT32_MAX
/* entry 0 is the parent of all processes whose parent is not among the traces; it is no process */
enum { AG_PROCESS_ROOT = 0 };

struct ag_process_tree *ag_process_tree_new(void); /* NULL: out of memory */
struct ag_process_tree *ag_process_tree_free(struct ag_process_tree *tree);
/* Adds the process of the trace; of a merged profile, all its processes. 0 or -ENOMEM. */
int ag_process_tree_add(struct ag_process_tree *tree, struct ag_profile *profile);
/* Finds the parent of each process, and computes the sums `all`. 0 or -ENOMEM. */
int ag_process_tree_link(struct ag_process_tree *tree);
/* Returns the number of entries. Entry AG_PROCESS_ROOT has the sums of all processes in `all`; the
 * others are the processes in the order in which they were added. */
size_t ag_process_tree_list(const struct ag_process_tree *tree,
                            const struct ag_process **ret_processes);

#endif
