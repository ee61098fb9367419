/* weights.c: numbers the groups of samples with equal weight, and computes their weights (how many
 * blocks and bytes a sample represents), for a pass over a sampled trace. Numbers in a trace are
 * not trusted: every double is clamped before it is converted to an integer. */
#include "model/pass/weights.h"

#include <stdlib.h>

#include "base/skip.h"
#include "model/interval.h"
#include "table/array.h"

uint64_t ag_weight_whole_bytes(const struct ag_weight *weight) {
    return ag_estimate_whole(weight->bytes);
}

void ag_weights_done(struct ag_weights *weights) {
    ag_index_map_done(&weights->index);
    free(weights->groups);
    *weights = (struct ag_weights){0};
}

const struct ag_weight *ag_weights_of(const struct ag_weights *weights, uint32_t group) {
    return group < weights->n_groups ? &weights->groups[group] : NULL;
}

static uint64_t mixed(uint64_t value) {
    value = (value ^ value >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

static uint32_t add_group(struct ag_weights *weights, uint64_t key, uint32_t stack, uint64_t size,
                          uint64_t interval_bytes, uint32_t extra_bytes) {
    const double p = ag_skip_probability(size + extra_bytes - 1, interval_bytes);
    const double most_bytes = size > 0 ? (double)size : 1;
    const struct ag_weight made = {.stack = stack,
                                   .size = size,
                                   .interval_bytes = interval_bytes,
                                   .extra_bytes = extra_bytes,
                                   .blocks = 1 / p,
                                   .bytes = (double)size / p,
                                   .spread = (1 - p) / (p * p),
                                   .portion_bytes = (double)interval_bytes * most_bytes /
                                                    ((double)size + extra_bytes)};
    const bool is_added =
        AG_ARRAY_ADD(weights->groups, weights->n_groups, made) == 0 &&
        ag_index_map_insert(&weights->index, key, (uint32_t)weights->n_groups - 1) == 0;
    return is_added ? (uint32_t)weights->n_groups - 1 : AG_INDEX_NONE;
}

uint32_t ag_weights_group(struct ag_weights *weights, uint32_t stack, uint64_t size,
                          uint64_t interval_bytes, uint32_t extra_bytes) {
    if (interval_bytes > AG_INTERVAL_MAX_BYTES) {
        interval_bytes = AG_INTERVAL_MAX_BYTES; /* the sampler limits intervals in the same way */
    }
    const uint64_t key = mixed(mixed(size + stack) ^ interval_bytes) + stack + extra_bytes;
    size_t cursor = 0;
    for (uint32_t at; (at = ag_index_map_next(&weights->index, key, &cursor)) != AG_INDEX_NONE;) {
        const struct ag_weight *found = &weights->groups[at];
        if (found->stack == stack && found->size == size &&
            found->interval_bytes == interval_bytes && found->extra_bytes == extra_bytes) {
            return at;
        }
    }
    return add_group(weights, key, stack, size, interval_bytes, extra_bytes);
}
