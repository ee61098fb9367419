/* findings.h: findings are the facts of a profile that the summary suggests to examine, with their
 * numbers. findings.c contains the rules and their limits; docs/reference/report-schema.md
 * describes them for users. */
#ifndef AG_FINDINGS_H
#define AG_FINDINGS_H

#include "model/profile.h"

/* The kinds are in the order in which rules are applied. Allocations and frees that are not
 * recorded come first, because without them other numbers are wrong. Mapped memory comes next,
 * because it is more than all blocks; then memory that is never freed. */
enum ag_finding_kind {
    /* blocks from an allocation function whose calls are not recorded */
    AG_FINDING_UNSEEN,
    AG_FINDING_UNSEEN_FREES, /* blocks whose frees are not recorded */
    AG_FINDING_MAPPED,       /* memory that the program mapped itself, far more than its blocks */
    AG_FINDING_LEAK,         /* memory that grew until the end of the recording and was not freed */
    /* free memory of malloc that is most of the resident memory */
    AG_FINDING_RESIDENT,
    /* reallocations that enlarge a block by equally many bytes each time */
    AG_FINDING_STEPS,
    AG_FINDING_OUTSIZED,      /* a few blocks that are far larger than all other blocks of the same
                               * line */
    AG_FINDING_TEMPORARY,     /* many blocks that are freed before their thread allocates again */
    AG_FINDING_FOREIGN_FREES, /* threads free many blocks that other threads allocated */
    AG_FINDING_PEAK,          /* a line that has at least 40 % of the bytes in use at the peak */
    /* memory that grew until the end of the recording, and that the program freed at exit */
    AG_FINDING_GROWTH,
};
enum { AG_FINDING_KINDS = AG_FINDING_GROWTH + 1 };
struct ag_finding {
    enum ag_finding_kind kind;
    /* a frame of the profile, with the line of the finding; UINT32_MAX: not known. Mapped: a frame
     * of `mappings`. */
    uint32_t frame;
    const struct ag_profile *mappings; /* mapped: the profile of the mappings; otherwise NULL */
    /* the line has the share part / whole of the bytes or blocks that the rule counts */
    uint64_t part, whole;
    /* The blocks of the finding. Unseen: repeated ghosts, which are second and later frees at an
     * address without a recorded allocation. Unseen frees: blocks whose frees are not recorded.
     * Leak: in use at the end; if is_collected, those of them that survived the last collection.
     * Growth: as for a leak, but at the time of the last allocation. Steps: reallocated. Outsized:
     * the outsized blocks. Temporary: the temporary blocks. Resident: those of the line that keeps
     * most free bytes resident. Foreign frees: freed by another thread. Peak: in use at the peak.
     * bytes is 0 for unseen, unseen frees and temporary. Mapped: `bytes` are mapped by this line at
     * the peak of the mappings, `blocks` is 0. */
    uint64_t blocks, bytes;
    /* Leak, temporary: other lines whose findings have the same cause, because they are in the same
     * function, or (leak) in functions that it calls: their number and their sums. The members
     * above are of the line alone. Findings are sorted by (part + merged_part) / whole. */
    uint64_t merged_lines, merged_part, merged_blocks, merged_bytes;
    bool is_collected; /* leak, growth: a garbage collector frees the blocks */
    bool knows_half_way;
    /* leak, growth: the part of `bytes` that was allocated before half of all blocks of the
     * recording were allocated; valid if knows_half_way */
    uint64_t half_way_bytes;
    /* resident, in bytes, in the order of the members: the resident memory; the blocks in it; the
     * free bytes on pages with blocks; those on the pages of `blocks`; free pages; what
     * malloc_trim(0) would give back */
    uint64_t resident_bytes, live_bytes, pinned_bytes, line_pinned_bytes, free_page_bytes,
        trim_bytes;
    /* steps: bytes by which each reallocation enlarges the block */
    uint64_t step_bytes;
    uint64_t largest_bytes;             /* steps, outsized: the largest block */
    uint64_t other_blocks, other_bytes; /* outsized: all other blocks of the same line */
    /* temporary: how many other blocks the thread may allocate before it frees the block
     * (--within) */
    uint32_t within;
    /* mapped: bytes of blocks at their peak, and the largest resident size of the process */
    uint64_t blocks_peak_bytes, rss_peak_bytes;
    /* foreign frees: the pair of threads with the most foreign frees */
    const struct ag_thread_row *allocated_by, *freed_by;
    /* Of a merged profile: the number of processes that have some of `part`, the process that has
     * most of it (number for ag_profile_process), and how much it has. n_processes 0: the profile
     * is of one process. */
    uint32_t n_processes, process;
    uint64_t process_part;
};
enum { AG_FINDINGS_MOST = 3 };
enum ag_findings_reach {
    AG_FINDINGS_USUAL, /* the events are read if a rule needs them and the trace has few events */
    AG_FINDINGS_ALL,   /* the events are always read if a rule needs them */
};
/* Whether AG_FINDING_UNSEEN_FREES applies to a profile with FREED freed blocks. BURIED of them
 * count as freed only because their address was allocated again: their frees were not recorded. */
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
