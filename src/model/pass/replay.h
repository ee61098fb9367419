/* replay.h: the history of a profile, block by block, for exporters and views that need more than
 * sums. The history contains every allocation (birth) and every free (death) that the profile's
 * filters select, in the order from which the peak was computed. Times never decrease within one
 * process.
 *
 * A step is a birth or a death. The ledger, which computes the live blocks, may undo a step (after
 * a failed realloc, or when two threads raced for an address). Steps are held back for a while, and
 * a step that is undone in this time is left out of the history. If a step is undone later, the
 * history contains a step of the opposite kind. For example, if the type of a block becomes known
 * long after its birth, the history contains a death of the block without its type and then a birth
 * of the block with its type. The death of a block comes after its birth. If threads raced for an
 * address, the lives of two blocks at this address may overlap by the resolution of the clock. A
 * replay is one pass over the events; its memory is bounded by the largest number of blocks in use.
 * Merged processes are replayed one after the other.
 *
 * For a sampled trace the blocks are the samples, each with the numbers of blocks and bytes that it
 * represents. */
#ifndef AG_REPLAY_H
#define AG_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "model/profile.h"

enum { AG_REPLAY_ONE_BLOCK = 1 << 16 };
struct ag_replay_step {
    uint64_t time_ns; /* time of the step since the start of the recording */
    uint64_t size;
    /* How many bytes and blocks the block represents; more than itself if it is a sample.
     * block_parts counts in units of 1 / AG_REPLAY_ONE_BLOCK of a block, so that sums are
     * integers. */
    uint64_t bytes, block_parts;
    /* time of the allocation, as its thread recorded it; may be earlier than time_ns of the birth,
     * which never decreases from step to step */
    uint64_t born_ns;
    /* of a death: time from the allocation to the free, as exact as the time stamps of the trace */
    uint64_t lifetime_ns;
    uint32_t row; /* index in the rows of ag_profile_stacks */
    bool is_death, is_temporary;
};
/* Returns 0, or a negative errno, which ends the replay and which ag_profile_replay returns. */
typedef int ag_replay_visit(void *context, const struct ag_replay_step *step);
int ag_profile_replay(struct ag_profile *profile, ag_replay_visit *visit, void *context);

/* ---- sums per stack that only a replay has ---- */
struct ag_stack_life {   /* one for each row of ag_profile_stacks (model/profile.h) */
    uint64_t max_bytes;  /* the most that this stack had in use at once */
    uint64_t max_blocks; /* blocks in use at that moment */
    /* sum of the lifetimes of all blocks; the lifetime of a block still in use ends with the
     * recording */
    uint64_t lifetime_us;
};
/* The caller frees *ret_lives. 0 or a negative errno. */
int ag_profile_stack_lives(struct ag_profile *profile, struct ag_stack_life **ret_lives);

/* ---- memory in use at given times ---- */
struct ag_moment {
    uint64_t time_ns, in_use_bytes, in_use_blocks;
    /* by row of ag_profile_stacks: bytes in use at time_ns; NULL: not requested */
    uint64_t *row_bytes;
};
/* Computes what was in use at N moments. The caller sets time_ns of each, in rising order, and may
 * set row_bytes. Steps at time_ns itself are not included. */
int ag_profile_moments(struct ag_profile *profile, struct ag_moment *moments, size_t n);

#endif
