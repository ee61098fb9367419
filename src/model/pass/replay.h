/* replay.h: the history of a profile, block by block, for exporters and views that need more than
 * sums. It contains every allocation (birth) and every free (death) that the profile's filters
 * select, in the order from which the peak was computed. Times never decrease.
 *
 * Steps that the ledger takes back (after a failed realloc, or when two threads raced for an
 * address) are not in the history: steps are held until they can no longer change. A death follows
 * the birth of its block. If threads raced for an address, the lives of two blocks there may
 * overlap by the resolution of the clock. A replay needs one pass over the events, whose memory is
 * bounded by the largest number of blocks in use. Several merged processes are replayed one after
 * the other; times never decrease within one process.
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
    uint64_t time_ns; /* since the start of the recording */
    uint64_t size;
    /* How many bytes and blocks the block represents: itself, or more if it is a sample. Blocks are
     * counted in units of 1 / AG_REPLAY_ONE_BLOCK, so that sums stay integers. */
    uint64_t bytes, block_parts;
    /* when the block was allocated, by the clock of its thread; may be earlier than time_ns of its
     * birth */
    uint64_t born_ns;
    uint64_t lifetime_ns; /* of a death; in the resolution of the trace's clock */
    uint32_t row;         /* index in the rows of ag_profile_stacks */
    bool is_death, is_temporary;
};
/* Returns 0, or a negative errno, which ends the replay and is its result. */
typedef int ag_replay_visit(void *context, const struct ag_replay_step *step);
int ag_profile_replay(struct ag_profile *profile, ag_replay_visit *visit, void *context);

/* ---- sums per stack that only a replay has ---- */
struct ag_stack_life {   /* one for each row of ag_profile_stacks */
    uint64_t max_bytes;  /* the most that this stack had in use at once */
    uint64_t max_blocks; /* blocks in use at that moment */
    /* sum over all blocks; of a block still in use: until the end of the recording */
    uint64_t lifetime_us;
};
/* The caller frees *ret_lives. 0 or a negative errno. */
int ag_profile_stack_lives(struct ag_profile *profile, struct ag_stack_life **ret_lives);

/* ---- memory in use at given times ---- */
struct ag_moment {
    uint64_t time_ns, in_use_bytes, in_use_blocks;
    /* by row of ag_profile_stacks: bytes in use at this time; NULL: not requested */
    uint64_t *row_bytes;
};
/* Computes what was in use at N moments, sorted by time_ns: the state before the steps at that
 * time. If the row_bytes of a moment is set, the bytes of each row are stored there. */
int ag_profile_moments(struct ag_profile *profile, struct ag_moment *moments, size_t n);

#endif
