/* blocks.h: visits the single blocks of a profile. A visit of all blocks is a pass over the events
 * of the trace, which keeps in memory only the blocks in use and the unseen ones (whose allocation
 * is not in the trace). */
#ifndef AG_BLOCKS_H
#define AG_BLOCKS_H

#include "model/profile.h"

enum ag_block_state {                      /* flags, so that a caller can ask for several */
                      AG_BLOCK_OPEN = 1,   /* allocated and never freed */
                      AG_BLOCK_CLOSED = 2, /* allocated and freed */
                      AG_BLOCK_GHOST = 4,  /* freed, without a recorded allocation */
                      /* freed by a forked process; its parent had allocated the block */
                      AG_BLOCK_INHERITED = 8,
};
enum {
    AG_BLOCK_UNSEEN = AG_BLOCK_GHOST | AG_BLOCK_INHERITED,
    AG_BLOCK_STATES = AG_BLOCK_OPEN | AG_BLOCK_CLOSED | AG_BLOCK_UNSEEN,
};

struct ag_block_row { /* times are since the start of the recording */
    enum ag_block_state state;
    uint64_t address, size;
    uint64_t allocated_ns; /* UINT64_MAX: not recorded (an unseen block) */
    uint64_t freed_ns;     /* UINT64_MAX: not freed */
    uint32_t stack, via;   /* stack and function of the allocation; unknown if unseen */
    uint32_t allocated_by; /* stream (thread); UINT32_MAX: not recorded (unseen) */
    uint32_t freed_by;     /* stream (thread); UINT32_MAX: not freed, or the free was lost */
    uint32_t free_stack;   /* stack of the free; 0: none, or not in the trace */
    /* the profile to which free_stack belongs; if profiles of processes are merged, the profile of
     * the process of this block */
    struct ag_profile *free_profile;
    /* number of blocks that this row represents: 1; in a sampled trace, the weight of the sample */
    double stands_for;
    const struct ag_weight *weight; /* of the sample; NULL in an exact trace */
    const char *domain, *allocator; /* of the block's heap; "": not in the trace */
    /* the garbage collector of the block's heap reports which blocks it moves or promotes */
    bool is_of_moving;
    uint32_t n_moves, n_promotions; /* how often a collector moved and promoted the block */
};
typedef void ag_block_row_visit(void *context, const struct ag_block_row *row);

/* Visits the blocks in the states STATES (flags) that the profile's filters select: first closed
 * blocks, about in the order of their frees, then open blocks in the order of their addresses, then
 * unseen blocks in the order of their frees. The processes of a merged profile are visited one
 * after the other. Returns 0 or a negative errno. */
int ag_profile_blocks(struct ag_profile *profile, unsigned states, ag_block_row_visit *visit,
                      void *context);

#endif
