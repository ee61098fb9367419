/* call_trees.h: the function counters in a trace. A tree contains the call paths of one thread or
 * process of a runtime, with their counts; the trace contains snapshots of each tree.
 * ag_call_tree_snapshot selects the snapshot that reports use, by the rules for records 25 and 26
 * in docs/reference/trace-format.md. src/model/answers/functions.c merges the trees into one.
 *
 * A trace may contain a snapshot of every tree for every second. Only two snapshots of each tree
 * are kept: the newest complete one, and the newest one, which may be incomplete. */
#ifndef AG_CALL_TREES_H
#define AG_CALL_TREES_H

#include <stdbool.h>

#include "format/decode.h"
#include "table/index_map.h"
#include "table/text_store.h"

struct ag_call_row {
    /* numbers of the call path, of its caller's path and of a FRAME record, as in the trace; the
     * path or the record may not exist */
    uint32_t node, parent, frame;
    uint64_t calls, own_words, own_ns;
};
struct ag_call_snapshot {
    /* the first members are those of the record FUNCTIONS (docs/reference/trace-format.md) */
    uint32_t snapshot, epoch, n_calls, word_bytes, thread_id;
    uint32_t runtime, process, initial_call; /* ids of texts */
    uint64_t messages, message_words, spawns, spawn_words, profiler_events, profiler_words;
    struct ag_call_row *rows;
    /* at most n_calls, the number of rows that the trace announced; the snapshot is whole
     * (complete) if n_rows equals n_calls */
    size_t n_rows;
};
struct ag_call_tree {
    /* whole: the last complete snapshot before `newest`, if has_whole */
    struct ag_call_snapshot newest, whole;
    bool has_whole;
};
struct ag_call_trees { /* zero-initialize: empty */
    struct ag_call_tree *trees;
    size_t count;
    struct ag_index_map by_id;
};

void ag_call_trees_done(struct ag_call_trees *trees);
/* Reads a FUNCTIONS or CALLS record. Returns 0 or -ENOMEM. */
int ag_call_trees_take(struct ag_call_trees *trees, struct ag_text_store *texts,
                       const struct ag_record *record);
/* Returns the snapshot that reports use: the newest complete one. If there is no complete snapshot,
 * or the counters were reset (a new epoch) after it, returns the newest snapshot, which is
 * incomplete. */
const struct ag_call_snapshot *ag_call_tree_snapshot(const struct ag_call_tree *tree);
static inline bool ag_call_snapshot_is_whole(const struct ag_call_snapshot *snapshot) {
    return snapshot->n_rows == snapshot->n_calls;
}
/* The newest epoch, a number that rises when the runtime's counters are reset. The counts of trees
 * with an older epoch are from before the reset, and are not used. */
uint32_t ag_call_trees_epoch(const struct ag_call_trees *trees);

#endif
