/* seen_stacks.h: the observed stacks and their counts; each frame and each stack is stored once.
 * Frames of functions that a runtime (virtual machine) executes are managed, all others are native.
 * A node is a frame and the node of its caller. A stack is identified by the id of its innermost
 * node.
 *
 * Ids of nodes are those of the trace (docs/reference/trace-format.md, nodes). An id below
 * AG_SEEN_FIRST is no node: it is the parent of an outermost node, and shows how the walk of the
 * stack ended. */
#ifndef AG_SEEN_STACKS_H
#define AG_SEEN_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table/text_store.h"

enum { AG_SEEN_COMPLETE = 0, AG_SEEN_INCOMPLETE = 1, AG_SEEN_CUT = 2, AG_SEEN_FIRST = 16 };

struct ag_seen_frame {
    bool is_exact;                 /* native: pc is the instruction itself, not a return address */
    uint32_t image;                /* native: id of the mapped file; 0: none */
    uint64_t pc;                   /* native */
    uint32_t runtime;              /* managed: number of a text; 0: native */
    uint32_t function, file, line; /* managed: numbers of texts, and the line */
};
struct ag_seen_node {
    uint32_t parent, frame;
};
struct ag_seen_count { /* the samples of one source (kind of event), one thread and one stack */
    uint32_t node, thread, source;
    uint64_t samples, weight; /* weight: ns or bytes, depending on the source */
};
struct ag_seen_stacks { /* all zero: empty */
    struct ag_seen_frame *frames;
    struct ag_seen_node *nodes; /* [0] is the node with the id AG_SEEN_FIRST */
    struct ag_seen_count *counts;
    size_t n_frames, n_nodes, n_counts;
    struct ag_text_store texts; /* number 0: no text */
    struct ag_index_map frame_index, node_index, count_index;
};
/* Return the id of an item, which is stored if it is new. UINT32_MAX: out of memory. */
uint32_t ag_seen_text(struct ag_seen_stacks *stacks, const char *text);
uint32_t ag_seen_frame_id(struct ag_seen_stacks *stacks, const struct ag_seen_frame *frame);
uint32_t ag_seen_node_id(struct ag_seen_stacks *stacks, uint32_t parent, uint32_t frame);
/* Counts one sample. Returns 0 or -ENOMEM. */
int ag_seen_count(struct ag_seen_stacks *stacks, uint32_t node, uint32_t thread, uint32_t source,
                  uint64_t weight);
static inline const struct ag_seen_node *ag_seen_node(const struct ag_seen_stacks *stacks,
                                                      uint32_t node) {
    return &stacks->nodes[node - AG_SEEN_FIRST];
}
void ag_seen_stacks_done(struct ag_seen_stacks *stacks);

#endif
