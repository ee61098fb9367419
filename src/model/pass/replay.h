/* replay.h: the history of a profile, block by block, for exporters that need more than sums: every
 * birth and every death that the profile's filters let through, in the order that made the peak,
 * with times that never fall.
 *
 * What the ledger took back again (a failed realloc, two threads that raced) is not in it: steps
 * are held until they are settled. A death follows the birth of its block; if threads raced for an
 * address, the lives of two blocks there may overlap by the resolution of the clock. One pass over
 * the events; memory is bounded by what was in use in the program. Several merged processes are
 * replayed one after the other: times never fall within one.
 *
 * Of a sampled trace the blocks are the samples, each with what it stands for. */
#ifndef AG_REPLAY_H
#define AG_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "model/profile.h"

enum { AG_REPLAY_ONE_BLOCK = 1 << 16 };
struct ag_replay_step {
    uint64_t time_ns; /* since the start of the recording */
    uint64_t size;
    /* What it stands for: itself; a sample for more: bytes, and blocks in parts of
     * AG_REPLAY_ONE_BLOCK, so that sums stay integers. */
    uint64_t bytes, block_parts;
    uint64_t born_ns;     /* of the block, by its own thread's clock: a birth may say it late */
    uint64_t lifetime_ns; /* of a death; as fine as the trace's clock */
    uint32_t row;         /* of ag_profile_stacks */
    bool is_death, is_temporary;
};
/* Returns 0, or a negative errno, which ends the replay and is its result. */
typedef int ag_replay_visit(void *context, const struct ag_replay_step *step);
int ag_profile_replay(struct ag_profile *profile, ag_replay_visit *visit, void *context);

/* ---- sums per stack that only a replay has ---- */
struct ag_stack_life {    /* beside the rows of ag_profile_stacks */
    uint64_t max_bytes;   /* the most that this stack had in use at once */
    uint64_t max_blocks;  /* at that moment */
    uint64_t lifetime_us; /* of all blocks together; open ones until the end */
};
/* The caller frees. */
int ag_profile_stack_lives(struct ag_profile *profile, struct ag_stack_life **ret_lives);

/* ---- memory in use at given times ---- */
struct ag_moment {
    uint64_t time_ns, in_use_bytes, in_use_blocks;
    uint64_t *row_bytes; /* by row of ag_profile_stacks: in use then; NULL where not asked for */
};
/* What was in use at N moments of rising time_ns, each before what happened at that time or later;
 * those whose row_bytes is set get the rows as well. */
int ag_profile_moments(struct ag_profile *profile, struct ag_moment *moments, size_t n);

#endif
