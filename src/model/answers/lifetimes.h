/* lifetimes.h: computes how long blocks live, by the function, line, image, type or label that
 * allocated them. It makes a pass over the events. */
#ifndef AG_LIFETIMES_H
#define AG_LIFETIMES_H

#include "model/profile.h"

#define AG_LIFETIME_UNKNOWN UINT64_MAX
struct ag_lifetime {
    uint64_t blocks, bytes;      /* all blocks that were allocated */
    uint64_t ended, ended_bytes; /* the freed ones; the members below describe only these */
    uint64_t min_ns, mean_ns, max_ns;
    /* Percentiles by nearest rank, from counts in steps of 1/16: up to 3.2 % off. (min_ns and
     * max_ns are exact.) In a sampled trace they are percentiles of all blocks, including those in
     * use at the end; AG_LIFETIME_UNKNOWN if too few blocks were freed. */
    uint64_t p50_ns, p90_ns, p99_ns;
};
/* How many collections blocks survive. Only blocks are counted whose heap has a collector that
 * moves or promotes live blocks and reports that; for other blocks it is unknown. */
struct ag_survival {
    /* 0: no block is in such a heap, and the other members are undefined */
    uint64_t blocks;
    uint64_t survived_blocks;                 /* survived at least one collection */
    uint64_t died_young_blocks;               /* died without having survived a collection */
    uint64_t promoted_blocks, promoted_bytes; /* of the blocks that survived */
    /* mean number of collections that a block survived: how often it was moved or how often it was
     * promoted, whichever is more */
    double mean_collections;
    uint32_t max_collections;
};
struct ag_lifetime_row {
    uint32_t frame; /* the innermost frame of one of its stacks */
    /* by type and label: its name; NULL for an unknown type, or without a label */
    const char *label;
    /* the type of all its blocks; NULL if they have several types or it is unknown */
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
    const struct ag_lifetime_step *steps; /* decades, from the shortest lifetime to the longest */
    size_t n_steps;
    struct ag_lifetime all;
    struct ag_survival all_survival;
};
/* BY: AG_BY_FUNCTION, AG_BY_LINE, AG_BY_IMAGE (of the innermost frame), AG_BY_TYPE or AG_BY_LABEL;
 * for others -EINVAL. The result is valid until the profile is closed. 0 or a negative errno. */
int ag_profile_lifetimes(struct ag_profile *profile, enum ag_site_key by,
                         const struct ag_lifetimes **ret_lifetimes);

#endif
