/* weights.h: what a sampled block stands for, and how the ledger counts it.
 *
 * A ledger counts blocks and adds sizes, in integers. A sample stands for a fraction of blocks. So
 * a pass over a sampled trace gives the ledger groups in place of stacks: all samples of one stack,
 * size and interval are one group. Within a group every sample has the same weight, so the ledger's
 * count, times the weight, is the estimate, and its variance follows from the same count: nothing
 * is rounded on the way, and the ledger does not depend on samples. The size that it adds is the
 * estimate in whole bytes, so that it finds the highest moment of the program's memory and not of
 * the samples. docs/explanation/sampling.md has the formulas. */
#ifndef AG_WEIGHTS_H
#define AG_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/ledger.h"
#include "table/index_map.h"

struct ag_weight {  /* of one sample of a group */
    uint32_t stack; /* the stack that the group replaces */
    uint64_t size, interval_bytes;
    uint32_t extra_bytes;
    double blocks, bytes; /* 1/p, size/p */
    double spread;        /* variance of blocks: (1 - p)/p^2; of bytes: size^2 times it */
    double portion_bytes; /* of small blocks of its kind: what one stands for */
};
struct ag_weights { /* zero-initialize: empty */
    struct ag_weight *groups;
    size_t n_groups;
    struct ag_index_map index;
};

void ag_weights_done(struct ag_weights *weights);
/* The group of a sample; AG_INDEX_NONE: out of memory. interval_bytes 0: every block was recorded;
 * extra_bytes: bytes beyond its size with which a block counted. */
uint32_t ag_weights_group(struct ag_weights *weights, uint32_t stack, uint64_t size,
                          uint64_t interval_bytes, uint32_t extra_bytes);
/* NULL: there is no such group. */
const struct ag_weight *ag_weights_of(const struct ag_weights *weights, uint32_t group);
/* What the ledger adds for a sample. */
uint64_t ag_weight_whole_bytes(const struct ag_weight *weight);

#endif
