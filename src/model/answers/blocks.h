/* blocks.h: visits the single blocks of a profile: a pass over the events that keeps only the
 * blocks in use (and ghosts, until the end). */
#ifndef AG_BLOCKS_H
#define AG_BLOCKS_H

#include "model/profile.h"

enum ag_block_state {                      /* flags, so that a caller can ask for several */
                      AG_BLOCK_OPEN = 1,   /* allocated and never freed */
                      AG_BLOCK_CLOSED = 2, /* allocated and freed */
                      AG_BLOCK_GHOST = 4,  /* freed, without a recorded allocation */
};
enum { AG_BLOCK_STATES = AG_BLOCK_OPEN | AG_BLOCK_CLOSED | AG_BLOCK_GHOST };

struct ag_block_row { /* times since the start of the recording */
    enum ag_block_state state;
    uint64_t address, size;
    uint64_t allocated_ns;           /* UINT64_MAX: never seen (a ghost) */
    uint64_t freed_ns;               /* UINT64_MAX: not freed */
    uint32_t stack, via;             /* of the allocation; unknown for a ghost */
    uint32_t allocated_by;           /* stream; UINT32_MAX: never seen */
    uint32_t freed_by;               /* stream; UINT32_MAX: not freed, or its free was lost */
    uint32_t free_stack;             /* stack of the free; 0: none, or not in the trace */
    struct ag_profile *free_profile; /* profile that this stack belongs to: in a merged one, the
                                      * part's own */
    double stands_for;               /* blocks: 1, and of a sampled trace what this sample weighs */
    const char *domain, *allocator;  /* of its heap, "": not in the trace */
    bool is_of_moving;               /* the collector of its heap reports what it keeps */
    uint32_t n_moves, n_promotions;  /* how often it was moved and promoted */
};
typedef void ag_block_row_visit(void *context, const struct ag_block_row *row);

/* Visits the blocks in the states STATES that the profile's filters let through: closed ones as
 * they die, then open ones, then ghosts by time. 0 or negative errno. */
int ag_profile_blocks(struct ag_profile *profile, unsigned states, ag_block_row_visit *visit,
                      void *context);

#endif
