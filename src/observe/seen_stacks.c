/* seen_stacks.c: stores the stacks that `observe` has seen, and their counts, in four tables. Each
 * table is an array of items with a map of their hashes, so that equal items are stored once. */
#include "seen_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "table/array.h"

enum { MOST = 1 << 28 }; /* items of a table */

uint32_t ag_seen_text(struct ag_seen_stacks *stacks, const char *text) {
    const uint32_t id = ag_text_id(&stacks->texts, text, text != NULL ? strlen(text) : 0);
    return id != 0 || text == NULL || text[0] == '\0' ? id : UINT32_MAX;
}

static bool is_same_frame(const struct ag_seen_frame *a, const struct ag_seen_frame *b) {
    return a->pc == b->pc && a->image == b->image && a->is_exact == b->is_exact &&
           a->runtime == b->runtime && a->function == b->function && a->file == b->file &&
           a->line == b->line;
}

uint32_t ag_seen_frame_id(struct ag_seen_stacks *stacks, const struct ag_seen_frame *frame) {
    uint64_t hash = ag_keyed_hash_pair(frame->pc, frame->image);
    hash = ag_keyed_hash_pair(hash, (uint64_t)frame->runtime << 33 |
                                        (uint64_t)frame->function << 1 | frame->is_exact);
    hash = ag_keyed_hash_pair(hash, (uint64_t)frame->file << 32 | frame->line);
    size_t cursor = 0;
    uint32_t at;
    while ((at = ag_index_map_next(&stacks->frame_index, hash, &cursor)) != AG_INDEX_NONE &&
           !is_same_frame(&stacks->frames[at], frame)) {
    }
    if (at != AG_INDEX_NONE) {
        return at;
    }
    at = (uint32_t)stacks->n_frames;
    return at < MOST && AG_ARRAY_ADD(stacks->frames, stacks->n_frames, *frame) == 0 &&
                   ag_index_map_insert(&stacks->frame_index, hash, at) == 0
               ? at
               : UINT32_MAX;
}

uint32_t ag_seen_node_id(struct ag_seen_stacks *stacks, uint32_t parent, uint32_t frame) {
    uint32_t at;
    int r = stacks->n_nodes < MOST
                ? ag_index_map_number(&stacks->node_index, (uint64_t)parent << 32 | frame, &at)
                : -ENOMEM;
    r = r > 0 ? AG_ARRAY_ADD(stacks->nodes, stacks->n_nodes, (struct ag_seen_node){parent, frame})
              : r;
    return r == 0 ? at + AG_SEEN_FIRST : UINT32_MAX;
}

int ag_seen_count(struct ag_seen_stacks *stacks, uint32_t node, uint32_t thread, uint32_t source,
                  uint64_t weight) {
    const uint64_t hash = ag_keyed_hash_pair((uint64_t)node << 32 | thread, source);
    size_t cursor = 0;
    uint32_t at;
    while ((at = ag_index_map_next(&stacks->count_index, hash, &cursor)) != AG_INDEX_NONE &&
           (stacks->counts[at].node != node || stacks->counts[at].thread != thread ||
            stacks->counts[at].source != source)) {
    }
    if (at == AG_INDEX_NONE) {
        at = (uint32_t)stacks->n_counts;
        const struct ag_seen_count count = {node, thread, source, 0, 0};
        if (at >= MOST || AG_ARRAY_ADD(stacks->counts, stacks->n_counts, count) < 0 ||
            ag_index_map_insert(&stacks->count_index, hash, at) < 0) {
            return -ENOMEM;
        }
    }
    stacks->counts[at].samples++;
    stacks->counts[at].weight += weight;
    return 0;
}

void ag_seen_stacks_done(struct ag_seen_stacks *stacks) {
    free(stacks->frames);
    free(stacks->nodes);
    free(stacks->counts);
    ag_text_store_done(&stacks->texts);
    ag_index_map_done(&stacks->frame_index);
    ag_index_map_done(&stacks->node_index);
    ag_index_map_done(&stacks->count_index);
    *stacks = (struct ag_seen_stacks){0};
}
