/* blocks.c: visits the single blocks of a profile, for the blocks view, lifetimes.c and
 * resident_parts.c. The ledger, which computes the live blocks from the events, reports a freed
 * block as soon as no later event can undo the free. After the last event it reports the blocks
 * that are still in use. A ghost is a free whose allocation was not recorded. The ledger may take a
 * ghost back much later, when it finds the allocation, so all ghosts are kept in memory until the
 * end of the pass. Their number is normally at most that of the blocks in use when the recording
 * began. It is larger in a hostile trace, or if a function that allocates is not recorded. */
#include "model/answers/blocks.h"

#include <errno.h>
#include <stdlib.h>

#include "model/profile_state.h"
#include "table/array.h"

enum { GHOSTS_MOST = 1 << 26 }; /* limits the memory for ghosts to some GiB, for hostile traces */

struct ghost {
    struct ag_ghost ghost;
    uint32_t before; /* 1 + index of the previous ghost at the same address; 0: none */
    bool is_taken_back;
};
struct block_pass {
    struct ag_profile *profile;
    unsigned states;
    ag_block_row_visit *visit;
    void *context;
    struct ghost *ghosts;
    size_t n_ghosts;
    struct ag_index_map newest; /* address -> index in `places` */
    uint32_t *places;           /* for each address: 1 + index of its newest ghost; 0: none */
    size_t n_places;
    int error;
};

static uint64_t since_start(const struct block_pass *pass, uint64_t time_ns) {
    const uint64_t start_ns = pass->profile->definitions.start_ns;
    return time_ns > start_ns ? time_ns - start_ns : 0;
}

static void visit_block(void *context, const struct ag_block *block) {
    struct block_pass *pass = context;
    const struct ag_definitions *definitions = &pass->profile->definitions;
    const enum ag_block_state state =
        block->freed_ns == UINT64_MAX ? AG_BLOCK_OPEN : AG_BLOCK_CLOSED;
    const bool is_before = block->freed_ns < pass->profile->pass.from_ns;
    if (block->stack == AG_STACK_OTHER || !(pass->states & state) || is_before) {
        return;
    }
    const struct ag_model_heap *heap = ag_definitions_heap_of_via(definitions, block->via);
    const struct ag_block_row row = {
        .state = state,
        .address = AG_EVENT_PLACE(block->address),
        .size = block->size,
        .allocated_ns = since_start(pass, block->allocated_ns),
        .freed_ns = state == AG_BLOCK_OPEN ? UINT64_MAX : since_start(pass, block->freed_ns),
        .stack = block->stack,
        .via = block->via,
        .allocated_by = block->allocated_by,
        .freed_by = state == AG_BLOCK_OPEN ? UINT32_MAX : block->freed_by,
        .free_stack = block->free_stack,
        .free_profile = pass->profile,
        .stands_for = block->weight ? block->weight->blocks : 1,
        .weight = block->weight,
        .domain = heap ? heap->domain : "",
        .allocator = heap ? heap->allocator : "",
        .is_of_moving = heap && heap->is_moving,
        .n_moves = block->n_moves,
        .n_promotions = block->n_promotions,
    };
    pass->visit(pass->context, &row);
}

/* ---- ghosts and inherited blocks ---- */

static int add_ghost(struct block_pass *pass, struct ghost ghost) {
    uint32_t at;
    int r = pass->n_ghosts < GHOSTS_MOST
                ? ag_index_map_number(&pass->newest, ghost.ghost.address, &at)
                : -ENOMEM;
    r = r > 0 ? AG_ARRAY_ADD(pass->places, pass->n_places, 0) : r;
    if (r < 0) {
        return r;
    }
    ghost.before = pass->places[at];
    pass->places[at] = (uint32_t)pass->n_ghosts + 1;
    return AG_ARRAY_ADD(pass->ghosts, pass->n_ghosts, ghost);
}

static void visit_ghost(void *context, const struct ag_ghost *ghost, bool is_taken_back) {
    struct block_pass *pass = context;
    if (!is_taken_back) {
        pass->error =
            pass->error < 0 ? pass->error : add_ghost(pass, (struct ghost){.ghost = *ghost});
        return;
    }
    const uint32_t at = ag_index_map_find(&pass->newest, ghost->address);
    if (at != AG_INDEX_NONE && pass->places[at] > 0) {
        struct ghost *last = &pass->ghosts[pass->places[at] - 1];
        last->is_taken_back = true;
        pass->places[at] = last->before;
    }
}

static int by_time(const void *a, const void *b) {
    const struct ag_ghost *left = &((const struct ghost *)a)->ghost,
                          *right = &((const struct ghost *)b)->ghost;
    if (left->time_ns != right->time_ns) {
        return left->time_ns < right->time_ns ? -1 : 1;
    }
    return (left->address > right->address) - (left->address < right->address);
}

static void note_ghosts(struct block_pass *pass) {
    const struct ag_pass_options *options = &pass->profile->pass;
    if (pass->n_ghosts > 0) {
        qsort(pass->ghosts, pass->n_ghosts, sizeof(*pass->ghosts), by_time);
    }
    for (size_t i = 0; i < pass->n_ghosts; i++) {
        const struct ag_ghost *ghost = &pass->ghosts[i].ghost;
        const enum ag_block_state state = ghost->is_inherited ? AG_BLOCK_INHERITED : AG_BLOCK_GHOST;
        if (!pass->ghosts[i].is_taken_back && ghost->time_ns >= options->from_ns &&
            (pass->states & state)) {
            /* If the program reported the heap itself, the upper bits of the address (the space)
             * identify the heap. Otherwise the heap of the block is unknown. */
            const uint32_t space = AG_EVENT_SPACE(ghost->address);
            const struct ag_model_heap *heap =
                space != 0 ? ag_definitions_heap_of_via(&pass->profile->definitions, space) : NULL;
            const struct ag_block_row row = {.state = state,
                                             .address = AG_EVENT_PLACE(ghost->address),
                                             .allocated_ns = UINT64_MAX,
                                             .freed_ns = since_start(pass, ghost->time_ns),
                                             .via = UINT32_MAX,
                                             .allocated_by = UINT32_MAX,
                                             .freed_by = ghost->stream,
                                             .free_stack = ghost->free_stack,
                                             .free_profile = pass->profile,
                                             .stands_for = 1,
                                             .domain = heap ? heap->domain : "",
                                             .allocator = heap ? heap->allocator : ""};
            pass->visit(pass->context, &row);
        }
    }
}

/* A ghost has no stack of its allocation and no allocating thread, so filters of stacks or threads
 * exclude it. If a time window (--from, --to) does not count the blocks that were allocated before
 * it, the frees of those blocks look like ghosts, so no ghosts are reported. */
static bool can_have_ghosts(const struct ag_profile *profile) {
    return !profile->has_focus && !profile->has_ignore && !profile->options.runtime &&
           profile->options.thread < 0 &&
           (profile->options.from_ns == 0 || profile->options.counts_older);
}

int ag_profile_blocks(struct ag_profile *profile, unsigned states, ag_block_row_visit *visit,
                      void *context) {
    if (profile->n_parts > 0) {
        return ag_profile_blocks_of_parts(profile, states, visit, context);
    }
    struct block_pass pass = {
        .profile = profile, .states = states, .visit = visit, .context = context};
    const bool has_ghosts = (states & AG_BLOCK_UNSEEN) && can_have_ghosts(profile);
    struct ag_pass_options options = profile->pass;
    options.visit_block = visit_block;
    options.visit_ghost = has_ghosts ? visit_ghost : NULL;
    options.visit_context = &pass;
    struct ag_index_map kept = {0};
    bool is_needed = false;
    int r = ag_profile_kept_stacks(profile, &kept, &is_needed);
    options.kept = is_needed ? &kept : NULL;
    r = r < 0 ? r : ag_profile_visit(profile, &options);
    r = r < 0 ? r : pass.error;
    if (r == 0 && has_ghosts) {
        note_ghosts(&pass);
    }
    ag_index_map_done(&kept);
    ag_index_map_done(&pass.newest);
    free(pass.ghosts);
    free(pass.places);
    return r;
}
