/* finding_search.h: the state of the search for findings; shared by its two files.
 *
 *     finding_evidence.c  events -> the evidence of each line that only events have
 *     findings.c          the rules */
#ifndef AG_FINDING_SEARCH_H
#define AG_FINDING_SEARCH_H

#include "model/answers/findings.h"
#include "model/profile_state.h"

enum {
    AG_COURSE_SLICES = 32, /* slices of a trace, equal in number of blocks made */
    AG_SIZE_CLASSES = 17, /* class 0: 0 to 7 bytes, 1: 8 to 63, 2: to 511 ...; the last: the rest */
};
struct ag_line_evidence {
    uint64_t in_use_bytes;
    uint64_t course_bytes[AG_COURSE_SLICES]; /* in use when each slice ended */
    uint64_t left_bytes[AG_COURSE_SLICES];   /* made in each slice, and in use at the end */
    uint64_t class_blocks[AG_SIZE_CLASSES], class_bytes[AG_SIZE_CLASSES];
    uint64_t largest_bytes;
    /* reallocations that enlarged a block; of these, those by as much as the one before it */
    uint64_t enlarged_blocks, enlarged_bytes, stepped_blocks;
    uint64_t longest_chain, step_bytes; /* the longest chain of these of one block, and its
                                         * increment */
    uint64_t largest_enlarged_bytes;
    uint64_t foreign_blocks; /* freed by another thread than the one that allocated them */
};
struct ag_finding_search {
    struct ag_profile *profile;
    const struct ag_summary *whole; /* of everything, without filters */
    const struct ag_blamed_line *blamed_lines;
    size_t n_blamed_lines;
    bool *is_taken;                      /* by blamed_line: a line has one finding */
    bool watches_threads;                /* set it to have foreign_blocks counted */
    struct ag_line_evidence *evidence;   /* beside the blamed_lines; NULL: the events were
                                          * not read */
    uint64_t slice_ns[AG_COURSE_SLICES]; /* when each ended, since the start of the recording */
    /* Frees of a block without a recorded allocation, at an address where there had been such a
     * free already; and the stack of most of them, if frees have stacks (0: none). */
    uint64_t repeated_ghosts;
    uint64_t buried_blocks; /* whose address was allocated again while they were in use */
    uint32_t ghost_stack;
};

/* Whether the row's allocation function may enlarge a block. */
bool ag_finding_is_realloc(const struct ag_stack_row *row);
/* One pass over the events. 0 or negative errno; the caller frees evidence. */
int ag_finding_read_events(struct ag_finding_search *search);

#endif
