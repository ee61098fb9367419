/* call_trees.c: reads the function counters in a trace. A tree contains the call paths of one
 * thread or process of a runtime, with their counts. The trace contains snapshots of each tree;
 * this file keeps the newest complete snapshot and the newest snapshot, which may be incomplete. */
#include "model/definitions/call_trees.h"

#include <errno.h>
#include <stdlib.h>

#include "table/array.h"

static void end_snapshot(struct ag_call_snapshot *snapshot) {
    free(snapshot->rows);
    *snapshot = (struct ag_call_snapshot){0};
}

void ag_call_trees_done(struct ag_call_trees *trees) {
    for (size_t i = 0; i < trees->count; i++) {
        end_snapshot(&trees->trees[i].newest);
        end_snapshot(&trees->trees[i].whole);
    }
    free(trees->trees);
    ag_index_map_done(&trees->by_id);
    *trees = (struct ag_call_trees){0};
}

static struct ag_call_tree *call_trees_find(const struct ag_call_trees *trees, uint32_t id) {
    const uint32_t at = ag_index_map_find(&trees->by_id, id);
    return at != AG_INDEX_NONE ? &trees->trees[at] : NULL;
}

static struct ag_call_tree *call_trees_add(struct ag_call_trees *trees, uint32_t id) {
    if (ag_index_map_insert(&trees->by_id, id, (uint32_t)trees->count) < 0 ||
        AG_ARRAY_ADD(trees->trees, trees->count, (struct ag_call_tree){.has_whole = false}) < 0) {
        return NULL;
    }
    return &trees->trees[trees->count - 1];
}

static int call_trees_begin(struct ag_call_trees *trees, struct ag_text_store *texts,
                            const struct ag_record *record) {
    const uint32_t id = record->u.functions.tree;
    struct ag_call_tree *tree = call_trees_find(trees, id);
    const bool is_known = tree != NULL;
    tree = is_known ? tree : call_trees_add(trees, id);
    if (!tree) {
        return -ENOMEM;
    }
    if (is_known && record->u.functions.snapshot <= tree->newest.snapshot) {
        return 0; /* the numbers of snapshots rise, so this snapshot was read already */
    }
    if (is_known && ag_call_snapshot_is_whole(&tree->newest)) {
        end_snapshot(&tree->whole);
        tree->whole = tree->newest;
        tree->has_whole = true;
    } else {
        end_snapshot(&tree->newest);
    }
    const struct ag_bytes runtime = record->u.functions.runtime,
                          process = record->u.functions.process,
                          initial_call = record->u.functions.initial_call;
    const uint32_t word_bytes = record->u.functions.word_bytes;
    tree->newest = (struct ag_call_snapshot){
        .snapshot = record->u.functions.snapshot,
        .epoch = record->u.functions.epoch,
        .n_calls = record->u.functions.n_calls,
        .word_bytes = word_bytes != 0 ? word_bytes : sizeof(uint64_t),
        .thread_id = record->u.functions.thread_id,
        .runtime = ag_text_id(texts, runtime.data, runtime.length),
        .process = ag_text_id(texts, process.data, process.length),
        .initial_call = ag_text_id(texts, initial_call.data, initial_call.length),
        .messages = record->u.functions.messages,
        .message_words = record->u.functions.message_words,
        .spawns = record->u.functions.spawns,
        .spawn_words = record->u.functions.spawn_words,
        .profiler_events = record->u.functions.profiler_events,
        .profiler_words = record->u.functions.profiler_words,
    };
    return 0;
}

static int add_rows(struct ag_call_trees *trees, const struct ag_record *record) {
    struct ag_call_path path;
    struct ag_call_tree *tree = NULL;
    uint32_t id = 0;
    for (size_t cursor = 0; ag_calls_next(record, &cursor, &path) > 0;) {
        if (!tree || path.tree != id) {
            id = path.tree;
            tree = call_trees_find(trees, id);
        }
        if (!tree || path.snapshot != tree->newest.snapshot ||
            ag_call_snapshot_is_whole(&tree->newest)) {
            /* the row is of an unknown tree, of another snapshot, or one more than the FUNCTIONS
             * record announced */
            continue;
        }
        const struct ag_call_row row = {.node = path.node,
                                        .parent = path.parent,
                                        .frame = path.frame,
                                        .calls = path.calls,
                                        .own_words = path.own_words,
                                        .own_ns = path.own_ns};
        if (AG_ARRAY_ADD(tree->newest.rows, tree->newest.n_rows, row) < 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

int ag_call_trees_take(struct ag_call_trees *trees, struct ag_text_store *texts,
                       const struct ag_record *record) {
    return record->kind == AG_RECORD_FUNCTIONS ? call_trees_begin(trees, texts, record)
                                               : add_rows(trees, record);
}

const struct ag_call_snapshot *ag_call_tree_snapshot(const struct ag_call_tree *tree) {
    const bool is_older_better = tree->has_whole && !ag_call_snapshot_is_whole(&tree->newest) &&
                                 tree->whole.epoch >= tree->newest.epoch;
    return is_older_better ? &tree->whole : &tree->newest;
}

uint32_t ag_call_trees_epoch(const struct ag_call_trees *trees) {
    uint32_t epoch = 0;
    for (size_t i = 0; i < trees->count; i++) {
        epoch = trees->trees[i].newest.epoch > epoch ? trees->trees[i].newest.epoch : epoch;
    }
    return epoch;
}
