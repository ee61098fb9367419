/* weights.h: how many blocks and bytes a sampled block represents, and how the ledger (the code
 * that computes sums from events) counts a sample.
 *
 * A ledger counts blocks and adds sizes as integers, but the number of blocks that a sample
 * represents is not an integer. So a pass over a sampled trace gives the ledger groups in place of
 * stacks: all samples of one stack, size and sampling interval are one group. Every sample of a
 * group has the same weight, so the estimate is the ledger's count times the weight, and the
 * variance is computed from the same count. No number is rounded before the multiplication, and the
 * ledger needs no code for samples. As the size of a sample, the ledger gets the number of bytes
 * that the sample represents, rounded to whole bytes. So the ledger finds the peak of the program's
 * memory and not the peak of the samples. docs/explanation/sampling.md has the formulas. */
#ifndef AG_WEIGHTS_H
#define AG_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/ledger.h"
#include "table/index_map.h"

/* the weight of each sample of a group */
struct ag_weight {
    uint32_t stack; /* the stack of the samples, which the group replaces in the ledger */
    uint64_t size, interval_bytes;
    uint32_t extra_bytes;
    /* what one sample represents: 1/p and size/p, where p is the probability that the block is
     * sampled */
    double blocks, bytes;
    /* variance of `blocks`: (1 - p)/p^2; the variance of `bytes` is size^2 * spread */
    double spread;
    /* bytes that a sample represents if its block is small compared with the interval */
    double portion_bytes;
};
struct ag_weights { /* zero-initialize: empty */
    struct ag_weight *groups;
    size_t n_groups;
    struct ag_index_map index;
};

void ag_weights_done(struct ag_weights *weights);
/* Returns the group of a sample, and adds it if it is missing. AG_INDEX_NONE: out of memory.
 * interval_bytes 0: every block was recorded. extra_bytes: the sampler adds this to the size of
 * each block when it counts bytes. */
uint32_t ag_weights_group(struct ag_weights *weights, uint32_t stack, uint64_t size,
                          uint64_t interval_bytes, uint32_t extra_bytes);
/* Returns the weight of a group; NULL: there is no such group. */
const struct ag_weight *ag_weights_of(const struct ag_weights *weights, uint32_t group);
/* Returns the size that the ledger gets for a sample: the bytes that the sample represents,
 * rounded. */
uint64_t ag_weight_whole_bytes(const struct ag_weight *weight);

#endif
