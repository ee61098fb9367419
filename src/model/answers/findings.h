/* findings.h: the facts in a profile that are most worth a look, with their numbers. Every finding
 * has evidence: the rules and their limits are in findings.c, and for users in
 * docs/reference/report-schema.md. */
#ifndef AG_FINDINGS_H
#define AG_FINDINGS_H

#include "model/profile.h"

/* In the order of the gain from a fix: memory that is never freed comes first. */
enum ag_finding_kind {
    AG_FINDING_UNSEEN,        /* blocks allocated by a function of an allocator that is
                               * not recorded */
    AG_FINDING_UNSEEN_FREES,  /* blocks whose frees are not recorded */
    AG_FINDING_LEAK,          /* in use at the end, and it grew until then */
    AG_FINDING_STEPS,         /* reallocations that make a block larger by the same each time */
    AG_FINDING_OUTSIZED,      /* a few blocks far larger than all others of the same line */
    AG_FINDING_TEMPORARY,     /* blocks freed before their thread allocates again */
    AG_FINDING_FOREIGN_FREES, /* a thread frees what another allocated */
    AG_FINDING_PEAK,          /* more than half of the highest moment */
};
enum { AG_FINDING_KINDS = AG_FINDING_PEAK + 1 };
struct ag_finding {
    enum ag_finding_kind kind;
    uint32_t frame;       /* the line: a frame of the profile; UINT32_MAX: none is known */
    uint64_t part, whole; /* the share that it is measured by */
    uint64_t blocks,
        bytes; /* ghosts, in use, reallocated, outsized, temporary, freed, at the peak */
    bool knows_half_way;
    uint64_t half_way_bytes;            /* leak: of these, made when half of all blocks had been */
    uint64_t step_bytes;                /* steps: how much larger each time */
    uint64_t largest_bytes;             /* steps, outsized: the largest block */
    uint64_t other_blocks, other_bytes; /* outsized: all others of that line together */
    uint32_t within;                    /* temporary: other allocations that may lie between */
    /* foreign frees: the largest pair */
    const struct ag_thread_row *allocated_by, *freed_by;
};
enum { AG_FINDINGS_MOST = 3 };
enum ag_findings_reach {
    AG_FINDINGS_USUAL, /* the events are read only where there are few */
    AG_FINDINGS_ALL,   /* they are read whatever that takes */
};
/* The rule for AG_FINDING_UNSEEN_FREES: of FREED blocks, BURIED had no free that was recorded. */
bool ag_findings_miss_frees(uint64_t buried, uint64_t freed);
struct ag_findings {
    struct ag_finding rows[AG_FINDINGS_MOST];
    size_t count;
    bool is_partial; /* the trace is large, or merged: only rules on sums were applied */
};
/* 0 or negative errno. */
int ag_profile_findings(struct ag_profile *profile, enum ag_findings_reach reach,
                        struct ag_findings *ret_findings);

#endif
