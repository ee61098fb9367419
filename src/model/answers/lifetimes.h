/* lifetimes.h: how long blocks live, by what allocated them: a pass over the events. */
#ifndef AG_LIFETIMES_H
#define AG_LIFETIMES_H

#include "model/profile.h"

#define AG_LIFETIME_UNKNOWN UINT64_MAX
struct ag_lifetime {
    uint64_t blocks, bytes;      /* allocated */
    uint64_t ended, ended_bytes; /* of those, freed; the rest describes these */
    uint64_t min_ns, mean_ns, max_ns;
    /* Nearest rank, from counts in steps of 1/16: up to 3.2 % off; min and max are exact. */
    uint64_t p50_ns, p90_ns, p99_ns; /* of a sampled trace: of all blocks, those in use at the end
                                        included; AG_LIFETIME_UNKNOWN where too few have died */
};
/* Blocks in heaps whose collector moves or promotes what it keeps, and reports that. Other blocks
 * are old from the beginning, or what they survive is unknown. */
struct ag_survival {
    uint64_t blocks;            /* 0: none is in such a heap, and the other fields are undefined */
    uint64_t survived_blocks;   /* were kept by a collection, once or more */
    uint64_t died_young_blocks; /* died, and no collection had kept them */
    uint64_t promoted_blocks, promoted_bytes; /* of those that survived */
    double mean_collections; /* that kept a block: how often it was moved or promoted, whichever is
                              * more */
    uint32_t max_collections;
};
struct ag_lifetime_row {
    uint32_t frame;    /* stands for the key; by type, heap or stack as in struct ag_site_row */
    const char *label; /* by heap and type; NULL for an unknown type */
    const char *type;  /* of all its blocks; NULL if they have several or none is known */
    struct ag_lifetime lifetime;
    struct ag_survival survival;
};
struct ag_lifetime_step { /* of the histogram: blocks that lived from_ns <= t < to_ns */
    uint64_t from_ns, to_ns, blocks, bytes;
};
struct ag_lifetimes {
    const struct ag_lifetime_row *rows;
    size_t n_rows;
    const struct ag_lifetime_step *steps; /* a decade each, from the shortest to the longest */
    size_t n_steps;
    struct ag_lifetime all;
    struct ag_survival all_survival;
};
/* BY: AG_BY_FUNCTION, AG_BY_LINE, AG_BY_IMAGE (of the innermost frame) or AG_BY_TYPE; of another
 * key -EINVAL. The answer lives as long as the profile. 0 or negative errno. */
int ag_profile_lifetimes(struct ag_profile *profile, enum ag_site_key by,
                         const struct ag_lifetimes **ret_lifetimes);

#endif
