/* block_lives.h: records the promotion and the death of each recorded block of an OCaml heap. For
 * this purpose it keeps the address of each live block. Used for native programs in exact mode. */
#ifndef AG_OCAML_BLOCK_LIVES_H
#define AG_OCAML_BLOCK_LIVES_H

#include "ocaml_heaps.h"

struct ag_ocaml_old_chunk;
/* The blocks of one domain (the unit of parallelism of OCaml 5; OCaml 4 has one domain). Used by
 * the thread that runs the domain's code, and by the thread that runs the domain's part of a
 * collection. */
struct ag_ocaml_lives {
    uint32_t *young; /* an entry for each block in the minor heap, in the order of allocation:
                             * (the header's distance from the heap's end, in words) << HEAP_BITS
                             * | heap */
    uint32_t n_young, young_capacity;
    uint32_t n_numbers_left; /* reserved numbers from first_number on: at least young_capacity */
    uint64_t first_number;   /* number of the block of young[0]; young[i] has first_number + i */
    uintptr_t young_end;     /* the end of the minor heap */
    struct ag_ocaml_old_chunk *first_old, *last_old; /* blocks in the major heap */
    uint64_t words; /* words, with headers, of the blocks that the hooks saw in this domain */
};

/* Sets the place of the minor heap, in which blocks are allocated downward from END. Called when
 * the minor heap is empty, and whenever its place may have changed. */
void ag_ocaml_lives_place_young(struct ag_ocaml_lives *lives, uintptr_t start, uintptr_t end);
/* Adds a block of the major heap and returns its number. header: the address of its header. If
 * there is no memory for the entry, the block's death will be missing, and counts as lost. */
uint64_t ag_ocaml_lives_add_old(struct ag_ocaml_lives *lives, enum ag_ocaml_heap heap,
                                uintptr_t header);
uint64_t ag_ocaml_lives_add_young_slow(void);
/* Removes the young blocks whose header is at the address of ENTRY or lower: the runtime has raised
 * its young pointer again, so these allocations are undone. */
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
 * the address of the header of the block that was allocated last, before the collection; 0:
 * unknown. */
void ag_ocaml_lives_minor_ends(struct ag_ocaml_lives *lives, uintptr_t young_pointer);
/* The major heap was marked: a block whose header has these bits of color is dead. */
void ag_ocaml_lives_major_ends(struct ag_ocaml_lives *lives, uint64_t dead_bits);
/* Calls VISIT for each block in the major heap. VISIT may change the address at PLACE. */
void ag_ocaml_lives_visit_old(struct ag_ocaml_lives *lives,
                              void (*visit)(void *context, ag_ocaml_value *place), void *context);
/* Forgets all blocks. */
void ag_ocaml_lives_forget(struct ag_ocaml_lives *lives);

#endif
