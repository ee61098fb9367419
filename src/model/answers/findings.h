/* findings.h: findings are the facts of a profile that the summary suggests to examine, with their
 * numbers. findings.c contains the rules and their limits; docs/reference/report-schema.md
 * describes them for users. */
#ifndef AG_FINDINGS_H
#define AG_FINDINGS_H

#include "model/profile.h"

/* In the order in which rules are applied. Gaps in the recording come first, because they make
 * other numbers wrong; then memory that is never freed. */
enum ag_finding_kind {
    /* blocks that were allocated by a function of an allocator that is not recorded */
    AG_FINDING_UNSEEN,
    AG_FINDING_UNSEEN_FREES, /* blocks whose frees are not recorded */
    AG_FINDING_LEAK,         /* memory in use at the end that grew until then */
    /* reallocations that enlarge a block by equally many bytes each time */
    AG_FINDING_STEPS,
    AG_FINDING_OUTSIZED,      /* a few blocks far larger than all others of the same line */
    AG_FINDING_TEMPORARY,     /* blocks freed before their thread allocates again */
    AG_FINDING_FOREIGN_FREES, /* a thread frees blocks that another allocated */
    AG_FINDING_PEAK,          /* more than half of the bytes in use at the peak */
};
enum { AG_FINDING_KINDS = AG_FINDING_PEAK + 1 };
struct ag_finding {
    enum ag_finding_kind kind;
    uint32_t frame;       /* a frame of the profile, with the line; UINT32_MAX: not known */
    uint64_t part, whole; /* the share part / whole, by which findings are sorted */
    /* the blocks of the finding, by kind: repeated ghosts, in use, reallocated, outsized,
     * temporary, freed, at the peak */
    uint64_t blocks, bytes;
    bool knows_half_way;
    /* leak: the part of `bytes` that was made before half of all blocks were made */
    uint64_t half_way_bytes;
    /* steps: bytes by which each reallocation enlarges the block */
    uint64_t step_bytes;
    uint64_t largest_bytes;             /* steps, outsized: the largest block */
    uint64_t other_blocks, other_bytes; /* outsized: all other blocks of that line */
    /* temporary: how many other allocations of the thread may come before the free (--within) */
    uint32_t within;
    /* foreign frees: the pair of threads with the most blocks */
    const struct ag_thread_row *allocated_by, *freed_by;
};
enum { AG_FINDINGS_MOST = 3 };
enum ag_findings_reach {
    AG_FINDINGS_USUAL, /* the events are read only if there are few */
    AG_FINDINGS_ALL,   /* the events are always read if a rule needs them */
};
/* The rule for AG_FINDING_UNSEEN_FREES: the frees of BURIED of the FREED blocks were not
 * recorded. */
bool ag_findings_miss_frees(uint64_t buried, uint64_t freed);
struct ag_findings {
    struct ag_finding rows[AG_FINDINGS_MOST];
    size_t count;
    /* the events were not read because the trace is large or merged: only rules on sums were
     * applied */
    bool is_partial;
};
/* 0 or negative errno. */
int ag_profile_findings(struct ag_profile *profile, enum ag_findings_reach reach,
                        struct ag_findings *ret_findings);

#endif
