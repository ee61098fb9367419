/* finding_search.h: what the search for findings holds; shared by its two files.
 *
 *     finding_evidence.c  events -> what only they can tell of each line
 *     findings.c          the rules */
#ifndef AG_FINDING_SEARCH_H
#define AG_FINDING_SEARCH_H

#include "model/answers/findings.h"
#include "model/profile_state.h"

enum {
    AG_COURSE_SLICES = 32, /* the way of a trace, by blocks made */
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
    uint64_t longest_chain, step_bytes; /* the most such of one block in a row, and by how much */
    uint64_t largest_enlarged_bytes;
    uint64_t foreign_blocks; /* freed by another thread than the one that allocated them */
};
struct ag_finding_search {
    struct ag_profile *profile;
    const struct ag_summary *whole; /* of everything, whatever the filters let through */
    const struct ag_blamed_line *blamed_lines;
    size_t n_blamed_lines;
    bool *is_taken;                      /* by blamed_line: a line has one finding */
    bool watches_threads;                /* set it to have foreign_blocks counted */
    struct ag_line_evidence *evidence;   /* beside the blamed_lines; NULL: nobody read the events */
    uint64_t slice_ns[AG_COURSE_SLICES]; /* when each ended, since the start of the recording */
    /* Frees of a block that was never seen allocated, at an address where there had been one
     * already; and the stack of most of them, where frees have stacks (0: none). */
    uint64_t repeated_ghosts;
    uint64_t buried_blocks; /* whose address was allocated again while they were in use */
    uint32_t ghost_stack;
};

/* Is the row's allocation function one that may enlarge a block? */
bool ag_finding_is_realloc(const struct ag_stack_row *row);
/* One pass over the events. 0 or negative errno; the caller frees evidence. */
int ag_finding_read_events(struct ag_finding_search *search);

#endif
