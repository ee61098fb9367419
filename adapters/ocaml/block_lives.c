/* block_lives.c: records the promotions and deaths of OCaml's blocks.
 *
 * 1. Numbers. OCaml moves its blocks, so each one is recorded under a number that no other block
 * ever has. Blocks of the minor heap get consecutive numbers between two minor collections, so the
 * log of these blocks contains only where they lie and their heap: four bytes for each.
 *
 * 2. Young blocks. A minor collection empties the minor heap: the header of a block that was
 * promoted is 0, and its first field is the new address; all other blocks are dead. After each
 * minor collection the log is read once and becomes empty. A block has at least two words with its
 * header, so a log with an entry for every two words of the heap is never full.
 *
 * 3. Old blocks. A list of chunks has the address and the number of each block in the major heap
 * that was recorded. When the heap has been marked, the unmarked blocks are dead. When a compaction
 * moves blocks, the addresses in the list are changed.
 *
 * The memory is the adapter's own: nothing lies on the program's heap, and the collector sees none
 * of it. */
#include "block_lives.h"

#include "base/own_memory.h"
#include "record/event_fast.h"

enum { WORD = 8, CHUNK_ENTRIES = 65535, NUMBERS_AT_ONCE = 1 << 20 };

struct old_entry {
    ag_ocaml_value block;
    uint64_t number_and_heap; /* number << HEAP_BITS | heap */
};
struct ag_ocaml_old_chunk { /* 1 MiB; all chunks before lives->last_old are full */
    struct ag_ocaml_old_chunk *next;
    uint64_t n_entries;
    struct old_entry entries[CHUNK_ENTRIES];
};

static uint64_t take_numbers(uint64_t n) {
    static _Atomic uint64_t taken = 1;
    return atomic_fetch_add_explicit(&taken, n, memory_order_relaxed);
}

/* ---- young blocks ---- */

static void reserve_numbers(struct ag_ocaml_lives *lives) {
    if (lives->n_numbers_left < lives->young_capacity) {
        const uint32_t n =
            lives->young_capacity < NUMBERS_AT_ONCE ? NUMBERS_AT_ONCE : lives->young_capacity;
        lives->first_number = take_numbers(n);
        lives->n_numbers_left = n;
    }
}

void ag_ocaml_lives_place_young(struct ag_ocaml_lives *lives, uintptr_t start, uintptr_t end) {
    const uint32_t capacity = (uint32_t)((end - start) / (2 * WORD));
    lives->young_end = end;
    if (lives->n_young == 0 && capacity > lives->young_capacity) {
        ag_own_memory_give(lives->young);
        lives->young = ag_own_memory_take(capacity * sizeof(*lives->young));
        lives->young_capacity = lives->young ? capacity : 0;
        reserve_numbers(lives);
    }
}

uint64_t ag_ocaml_lives_add_young_slow(void) {
    ag_record_lost(AG_LOST_NO_MEMORY, 1);
    return take_numbers(1);
}

AG_FAST void report_death(uint64_t number, enum ag_ocaml_heap heap) {
    const uintptr_t address = number * AG_OCAML_ADDRESS_STEP;
    const uint32_t via = ag_ocaml_heaps[heap];
    if (allogram_mode_ & ALLOGRAM_TELLS_ &&
        AG_UNLIKELY(!ag_record_free_frameless(AG_WORD_FREE, address, via))) {
        ag_record_reported_free(address, via);
    }
}

/* The young pointer only falls between two collections, except after a stack overflow in OCaml
 * 4.13: that release restores the pointer of the last call of C code, and so takes back the blocks
 * that were allocated since that call. The runtime does not count these blocks either. ENTRY: the
 * entry of a block that is allocated now; the blocks at its address and at lower addresses are
 * taken back. */
void ag_ocaml_lives_take_back(struct ag_ocaml_lives *lives, uint32_t entry) {
    while (lives->n_young > 0 && lives->young[lives->n_young - 1] >= entry) {
        const uint32_t last = lives->young[--lives->n_young];
        const uintptr_t distance = (uintptr_t)(last >> AG_OCAML_HEAP_BITS) * WORD;
        const uint64_t words = *(const uint64_t *)(lives->young_end - distance) >> 10;
        lives->words -= words + 1;
        report_death(lives->first_number + lives->n_young, last & ((1 << AG_OCAML_HEAP_BITS) - 1));
    }
}

/* ---- old blocks ---- */

/* Returns a new entry, to be filled in; NULL: there is no memory. */
static struct old_entry *add_entry(struct ag_ocaml_lives *lives) {
    struct ag_ocaml_old_chunk *chunk = lives->last_old;
    if (!chunk || chunk->n_entries == CHUNK_ENTRIES) {
        struct ag_ocaml_old_chunk *next =
            chunk && chunk->next ? chunk->next : ag_own_memory_take(sizeof(*next));
        if (!next) {
            ag_record_lost(AG_LOST_NO_MEMORY, 1);
            return NULL;
        }
        *(chunk ? &chunk->next : &lives->first_old) = next;
        lives->last_old = chunk = next;
    }
    return &chunk->entries[chunk->n_entries++];
}

uint64_t ag_ocaml_lives_add_old(struct ag_ocaml_lives *lives, enum ag_ocaml_heap heap,
                                uintptr_t header) {
    struct old_entry *entry = add_entry(lives);
    const uint64_t number = take_numbers(1);
    if (entry) {
        *entry = (struct old_entry){(ag_ocaml_value)(header + WORD),
                                    number << AG_OCAML_HEAP_BITS | heap};
    }
    return number;
}

void ag_ocaml_lives_minor_ends(struct ag_ocaml_lives *lives, uintptr_t young_pointer) {
    if (young_pointer != 0) {
        const uint64_t used_words = (lives->young_end - young_pointer) / WORD;
        ag_ocaml_lives_take_back(lives, (uint32_t)(used_words + 1) << AG_OCAML_HEAP_BITS);
    }
    for (uint32_t i = 0; i < lives->n_young; i++) {
        const uint32_t entry = lives->young[i];
        const enum ag_ocaml_heap heap = entry & ((1 << AG_OCAML_HEAP_BITS) - 1);
        const uint64_t number = lives->first_number + i;
        const uint64_t *header =
            (const uint64_t *)(lives->young_end - (uintptr_t)(entry >> AG_OCAML_HEAP_BITS) * WORD);
        if (*header != 0) {
            report_death(number, heap);
            continue;
        }
        if (allogram_mode_ & ALLOGRAM_TELLS_) {
            ag_record_reported_promote(number * AG_OCAML_ADDRESS_STEP, ag_ocaml_heaps[heap]);
        }
        struct old_entry *old = add_entry(lives);
        if (old) {
            *old =
                (struct old_entry){(ag_ocaml_value)header[1], number << AG_OCAML_HEAP_BITS | heap};
        }
    }
    lives->first_number += lives->n_young;
    lives->n_numbers_left -= lives->n_young;
    lives->n_young = 0;
    reserve_numbers(lives);
}

void ag_ocaml_lives_major_ends(struct ag_ocaml_lives *lives, uint64_t dead_bits) {
    enum { COLOR_BITS = 3 << 8 };
    struct ag_ocaml_old_chunk *to = lives->first_old;
    uint64_t n_kept = 0; /* in the chunk TO */
    for (struct ag_ocaml_old_chunk *chunk = lives->first_old; chunk; chunk = chunk->next) {
        for (uint64_t i = 0; i < chunk->n_entries; i++) {
            const struct old_entry entry = chunk->entries[i];
            if ((((const uint64_t *)entry.block)[-1] & COLOR_BITS) == dead_bits) {
                report_death(entry.number_and_heap >> AG_OCAML_HEAP_BITS,
                             entry.number_and_heap & ((1 << AG_OCAML_HEAP_BITS) - 1));
                continue;
            }
            if (n_kept == CHUNK_ENTRIES) {
                to->n_entries = n_kept;
                to = to->next;
                n_kept = 0;
            }
            to->entries[n_kept++] = entry;
        }
        if (chunk == lives->last_old) {
            break;
        }
    }
    if (to) {
        to->n_entries = n_kept;
        lives->last_old = to;
        for (struct ag_ocaml_old_chunk *chunk = to->next; chunk; chunk = chunk->next) {
            chunk->n_entries = 0;
        }
    }
}

void ag_ocaml_lives_visit_old(struct ag_ocaml_lives *lives,
                              void (*visit)(void *context, ag_ocaml_value *place), void *context) {
    for (struct ag_ocaml_old_chunk *chunk = lives->first_old; chunk; chunk = chunk->next) {
        for (uint64_t i = 0; i < chunk->n_entries; i++) {
            visit(context, &chunk->entries[i].block);
        }
    }
}

void ag_ocaml_lives_forget(struct ag_ocaml_lives *lives) {
    for (struct ag_ocaml_old_chunk *chunk = lives->first_old; chunk; chunk = chunk->next) {
        chunk->n_entries = 0;
    }
    lives->last_old = lives->first_old;
    lives->first_number += lives->n_young;
    lives->n_numbers_left -= lives->n_young;
    lives->n_young = 0;
}
