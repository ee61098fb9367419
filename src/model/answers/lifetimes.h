/* lifetimes.h: computes how long blocks live, by the function, line, image, type, label or process
 * that allocated them. The computation makes a pass over the events. */
#ifndef AG_LIFETIMES_H
#define AG_LIFETIMES_H

#include <stdbool.h>

#include "model/profile.h"

#define AG_LIFETIME_UNKNOWN UINT64_MAX
struct ag_lifetime {
    uint64_t blocks, bytes; /* all blocks that were allocated */
    /* the freed blocks; the members below describe only freed blocks, except for the percentiles of
     * a sampled trace */
    uint64_t ended, ended_bytes;
    uint64_t min_ns, mean_ns, max_ns;
    /* Percentiles by nearest rank. Lifetimes are counted in 16 steps between two powers of two, so
     * the error of a percentile is at most 1/32 of its value; min_ns and max_ns are exact. In a
     * sampled trace these are percentiles of all blocks, including those in use at the end;
     * AG_LIFETIME_UNKNOWN: too few blocks were freed. */
    uint64_t p50_ns, p90_ns, p99_ns;
    /* Of a sampled trace: the numbers of blocks above, as allocated and freed, with their
     * variances; and intervals of the percentiles, from [0] to [1], that contain the true
     * percentile in 95 of 100 recordings. AG_LIFETIME_UNKNOWN: that end is not known. */
    bool has_intervals;
    struct ag_metrics metrics;
    uint64_t p50_interval_ns[2], p90_interval_ns[2], p99_interval_ns[2];
};
/* How many garbage collections blocks survive. A block is counted only if the collector of its heap
 * moves or promotes live blocks and reports each move or promotion. For other blocks the number of
 * survived collections is unknown. */
struct ag_survival {
    /* number of counted blocks; 0: no block is in such a heap, and the other members have no
     * meaning */
    uint64_t blocks;
    uint64_t survived_blocks;                 /* survived at least one collection */
    uint64_t died_young_blocks;               /* died without having survived a collection */
    uint64_t promoted_blocks, promoted_bytes; /* blocks that were promoted at least once */
    /* mean number of collections that a block survived; for each block this is the larger of the
     * number of its moves and the number of its promotions */
    double mean_collections;
    uint32_t max_collections;
};
struct ag_lifetime_row {
    uint32_t frame; /* the innermost frame of one of the row's stacks */
    /* if rows are types, labels or processes: the name of the type, label or process; NULL: unknown
     * type, or blocks without a label */
    const char *label;
    uint32_t process; /* if rows are processes: number for ag_profile_process */
    /* the type of all blocks of the row; NULL: the blocks have several types, or the type is
     * unknown */
    const char *type;
    struct ag_lifetime lifetime;
    struct ag_survival survival;
};
/* a step of the histogram: freed blocks with from_ns <= lifetime < to_ns */
struct ag_lifetime_step {
    uint64_t from_ns, to_ns, blocks, bytes;
};
struct ag_lifetimes {
    const struct ag_lifetime_row *rows;
    size_t n_rows;
    /* powers of ten, from the shortest lifetime to the longest */
    const struct ag_lifetime_step *steps;
    size_t n_steps;
    struct ag_lifetime all;
    struct ag_survival all_survival;
};
/* BY is AG_BY_FUNCTION, AG_BY_LINE or AG_BY_IMAGE (of the innermost frame), AG_BY_TYPE, AG_BY_LABEL
 * or AG_BY_OS_PROCESS. The result is valid until the profile is closed. Returns 0 or a negative
 * errno; -EINVAL: another value of BY. */
int ag_profile_lifetimes(struct ag_profile *profile, enum ag_site_key by,
                         const struct ag_lifetimes **ret_lifetimes);

#endif
