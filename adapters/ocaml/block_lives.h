/* block_lives.h: follows each recorded block of an OCaml heap from its allocation to its death,
 * where it lies: records promotions and deaths. For native programs that are recorded exactly. */
#ifndef AG_OCAML_BLOCK_LIVES_H
#define AG_OCAML_BLOCK_LIVES_H

#include "ocaml_heaps.h"

struct ag_ocaml_old_chunk;
/* The blocks of one domain; OCaml 4 has one. Used by the thread that runs the domain's code, and by
 * the one that runs its part of a collection. */
struct ag_ocaml_lives {
    uint32_t *young; /* of the blocks in the minor heap, in the order of allocation:
                             * distance of the header from the heap's end in words << HEAP_BITS |
                             * heap */
    uint32_t n_young, young_capacity;
    uint32_t n_numbers_left; /* >= young_capacity - n_young, if there is memory for young */
    uint64_t first_number;   /* of young[0]; the others follow it */
    uintptr_t young_end;     /* the end of the minor heap */
    struct ag_ocaml_old_chunk *first_old, *last_old; /* blocks in the major heap */
    uint64_t words;                                  /* of all recorded blocks, with headers */
};

/* Called when the minor heap is empty, and whenever it may have changed its place: blocks are
 * allocated downward from END. */
void ag_ocaml_lives_place_young(struct ag_ocaml_lives *lives, uintptr_t start, uintptr_t end);
/* Returns the number of a new block. header: its address. If there is no memory, the block's death
 * will be missing, and counts as lost. */
uint64_t ag_ocaml_lives_add_old(struct ag_ocaml_lives *lives, enum ag_ocaml_heap heap,
                                uintptr_t header);
uint64_t ag_ocaml_lives_add_young_slow(void);
void ag_ocaml_lives_take_back(struct ag_ocaml_lives *lives, uint32_t entry);
AG_FAST uint64_t ag_ocaml_lives_add_young(struct ag_ocaml_lives *lives, enum ag_ocaml_heap heap,
                                          uintptr_t header) {
    if (AG_UNLIKELY(lives->n_young == lives->young_capacity)) {
        return ag_ocaml_lives_add_young_slow();
    }
    const uint32_t entry = (uint32_t)((lives->young_end - header) / 8) << AG_OCAML_HEAP_BITS | heap;
    if (AG_UNLIKELY(heap == AG_OCAML_MINOR && lives->n_young > 0 &&
                    lives->young[lives->n_young - 1] >= entry)) {
        ag_ocaml_lives_take_back(lives, entry);
    }
    lives->young[lives->n_young] = entry;
    return lives->first_number + lives->n_young++;
}

/* The minor heap was collected: its blocks have moved to the major heap or are dead. young_pointer:
 * before the collection; 0: not known. */
void ag_ocaml_lives_minor_ends(struct ag_ocaml_lives *lives, uintptr_t young_pointer);
/* The major heap was marked: a block whose header has these bits of color is dead. */
void ag_ocaml_lives_major_ends(struct ag_ocaml_lives *lives, uint64_t dead_bits);
/* Calls VISIT with the place of the address of each old block, which it may change. */
void ag_ocaml_lives_visit_old(struct ag_ocaml_lives *lives,
                              void (*visit)(void *context, ag_ocaml_value *place), void *context);
/* Forgets all blocks. */
void ag_ocaml_lives_forget(struct ag_ocaml_lives *lives);

#endif
