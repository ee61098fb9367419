/* call_trees.h: the function counters in a trace: of each tree of calls the one snapshot that
 * counts. docs/reference/trace-format.md, records 25 and 26, says which that is; functions.h sums
 * the trees.
 *
 * A trace may contain a snapshot of every tree for every second: only the newest complete one of
 * each and the one that is being read are kept. */
#ifndef AG_CALL_TREES_H
#define AG_CALL_TREES_H

#include <stdbool.h>

#include "format/decode.h"
#include "table/index_map.h"
#include "table/text_store.h"

struct ag_call_row {
    uint32_t node, parent, frame; /* numbers from the trace, not checked */
    uint64_t calls, own_words, own_ns;
};
struct ag_call_snapshot {
    uint32_t snapshot, epoch, n_calls, word_bytes, thread_id;
    uint32_t runtime, process, initial_call; /* texts */
    uint64_t messages, message_words, spawns, spawn_words, profiler_events, profiler_words;
    struct ag_call_row *rows;
    size_t n_rows; /* n_rows <= n_calls; it is whole when they are equal */
};
struct ag_call_tree {
    struct ag_call_snapshot newest, whole; /* whole: the newest whole one before newest */
    bool has_whole;
};
struct ag_call_trees { /* zero-initialize: empty */
    struct ag_call_tree *trees;
    size_t count;
    struct ag_index_map by_id;
};

void ag_call_trees_done(struct ag_call_trees *trees);
/* A FUNCTIONS or CALLS record. 0 or -ENOMEM. */
int ag_call_trees_take(struct ag_call_trees *trees, struct ag_text_store *texts,
                       const struct ag_record *record);
/* The snapshot of a tree that counts: the newest complete one, or if none is complete, the
 * newest. */
const struct ag_call_snapshot *ag_call_tree_snapshot(const struct ag_call_tree *tree);
static inline bool ag_call_snapshot_is_whole(const struct ag_call_snapshot *snapshot) {
    return snapshot->n_rows == snapshot->n_calls;
}
/* Trees of an older epoch than this have been set back since, and do not count. */
uint32_t ag_call_trees_epoch(const struct ag_call_trees *trees);

#endif
