/* runtime_counters.c: reads the OCaml runtime's own counters of allocated and used words from its
 * memory. The adapter compares them with what it recorded, and records the sizes of the heaps.
 *
 * 1. The place of the counters. They are fields of the domain's state (a domain is the unit of
 * parallelism of OCaml 5), a struct of eight-byte fields in the order of
 * runtime/caml/domain_state.tbl (tags 4.11.2, 4.12.1, 4.13.1, 4.14.2 and the branch 5.3). OCaml 4
 * has one state, at Caml_state. OCaml 5 has one state per domain, at the thread-local variable
 * caml_state, and its counters are integers. A row of the table below is used only if, at every
 * reading, its fields give the number that caml_gc_minor_words_unboxed returns. Before the first
 * minor collection, the rows of 4.11 and 4.12 give the same number. In 4.12 the field mark_stack
 * was inserted, and with it the function caml_shrink_mark_stack, so a row is also compared with the
 * presence of that function. If more than one row fits when the recording begins, no row is used.
 *
 * 2. Domains. When a domain reports its first event, its state is entered in a table, and read at
 * the end. A domain that ends adds its words to the runtime's sums by caml_orphan_alloc_stats,
 * except for those that it allocated since its last slice of a major collection. So a hook of that
 * function reads the domain's counters.
 *
 * 3. Heap. OCaml 5 samples the words of its pools whenever all domains are stopped.
 * caml_compute_gc_stats sums these samples (struct gc_stats of runtime/caml/gc_stats.h: four words
 * of allocations, eight of the heap). */
#include "runtime_counters.h"

#include "collector_hooks.h"
#include "hook/next_symbol.h"

struct layout { /* offsets into the domain's state; 0, except in young_pointer: no such field */
    enum ag_ocaml_generation generation;
    uint16_t young_pointer, young_end, minor_words, promoted_words, major_words;
    uint16_t since_slice_words; /* major words that major_words does not include yet */
    uint16_t heap_words;
    uint16_t current_stack; /* OCaml 5: of the running fiber */
    bool has_mark_stack;    /* OCaml 4: the state has the field mark_stack */
};
static const struct layout layouts[] = {
    {AG_OCAML_4, 8, 56, 296, 304, 312, 0, 336, 0, true},   /* 4.13, 4.14 */
    {AG_OCAML_4, 0, 56, 296, 304, 312, 0, 336, 0, true},   /* 4.12 */
    {AG_OCAML_4, 0, 56, 288, 296, 304, 0, 328, 0, false},  /* 4.11 */
    {AG_OCAML_5, 8, 24, 384, 392, 400, 128, 0, 40, false}, /* 5.3 */
};

struct gc_stats {
    uint64_t minor_words, promoted_words, major_words, forced_major_collections;
    uint64_t pool_words, pool_max_words, pool_live_words, pool_live_blocks, pool_free_words,
        large_words, large_max_words, large_blocks;
    uint64_t more[52]; /* room for a release that has more fields */
};

static const struct layout *chosen;
static double (*minor_words)(void);              /* caml_gc_minor_words_unboxed */
static const uint64_t *major_since_slice;        /* OCaml 4: caml_allocated_words */
static const uint64_t *free_words;               /* OCaml 4: caml_fl_cur_wsz */
static bool has_mark_stack;                      /* OCaml 4: there is caml_shrink_mark_stack */
static void (*compute_stats)(struct gc_stats *); /* OCaml 5 */

enum { DOMAINS_MOST = 128 }; /* at one time; if there are more, nothing is counted */
static _Atomic uintptr_t domains[DOMAINS_MOST]; /* OCaml 5: their states; 0: free */
static _Atomic bool are_too_many;
static _Atomic uint64_t ended_words; /* words of domains that have ended */

/* ---- one domain ---- */

static uint64_t word_at(const unsigned char *state, uint16_t offset) {
    return *(const uint64_t *)(state + offset);
}

static uint64_t count_at(const struct layout *layout, const unsigned char *state, uint16_t offset) {
    return layout->generation == AG_OCAML_4 ? (uint64_t) * (const double *)(state + offset)
                                            : word_at(state, offset);
}

static uint64_t minor_used_words(const struct layout *layout, const unsigned char *state) {
    return (word_at(state, layout->young_end) - word_at(state, layout->young_pointer)) / 8;
}

static bool fits(const struct layout *layout, const unsigned char *state) {
    return layout->generation == ag_ocaml.generation &&
           (double)(int64_t)(count_at(layout, state, layout->minor_words) +
                             minor_used_words(layout, state)) == minor_words();
}

static uint64_t allocated_words(const unsigned char *state) {
    const uint64_t since_slice =
        chosen->since_slice_words ? word_at(state, chosen->since_slice_words) : *major_since_slice;
    return count_at(chosen, state, chosen->minor_words) + minor_used_words(chosen, state) +
           count_at(chosen, state, chosen->major_words) + since_slice -
           count_at(chosen, state, chosen->promoted_words);
}

uintptr_t ag_ocaml_counters_current_stack(void) {
    const unsigned char *state = chosen && chosen->current_stack ? ag_ocaml_own_state() : NULL;
    return state ? (uintptr_t)word_at(state, chosen->current_stack) : 0;
}

/* ---- all domains ---- */

static bool is_seen(uintptr_t state, size_t first) {
    for (size_t i = 0; i < DOMAINS_MOST; i++) {
        const size_t at = (first + i) % DOMAINS_MOST;
        if (atomic_load_explicit(&domains[at], memory_order_relaxed) == state) {
            return true;
        }
    }
    return false;
}

/* Only threads of a domain enter the domain's state in the table, and the threads of a domain run
 * one at a time. */
void ag_ocaml_counters_see_domain(void) {
    const uintptr_t state = (uintptr_t)ag_ocaml_own_state();
    const size_t first = state / 4096 % DOMAINS_MOST; /* states are pages apart */
    if (ag_ocaml.generation == AG_OCAML_4 || state == 0 || is_seen(state, first)) {
        return;
    }
    for (size_t i = 0; i < DOMAINS_MOST; i++) {
        uintptr_t there = 0;
        if (atomic_compare_exchange_strong_explicit(&domains[(first + i) % DOMAINS_MOST], &there,
                                                    state, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            return;
        }
    }
    atomic_store_explicit(&are_too_many, true, memory_order_relaxed);
}

static void (*orphan_stats)(const unsigned char *state);

/* Called by the thread whose domain ends, which allocates no more. */
static void hooked_orphan_stats(const unsigned char *state) {
    for (size_t i = 0; chosen && i < DOMAINS_MOST; i++) {
        if (atomic_load_explicit(&domains[i], memory_order_relaxed) == (uintptr_t)state) {
            atomic_fetch_add_explicit(&ended_words, allocated_words(state), memory_order_relaxed);
            atomic_store_explicit(&domains[i], 0, memory_order_relaxed);
        }
    }
    orphan_stats(state);
}

static uint64_t words_of_all(void) {
    uint64_t sum = atomic_load_explicit(&ended_words, memory_order_relaxed);
    for (size_t i = 0; i < DOMAINS_MOST; i++) {
        const uintptr_t state = atomic_load_explicit(&domains[i], memory_order_relaxed);
        sum += state ? allocated_words((const unsigned char *)state) : 0;
    }
    return sum;
}

/* ---- for the adapter ---- */

void ag_ocaml_counters_prepare(void) {
    struct ag_symbol_place place;
    minor_words = (double (*)(void))(uintptr_t)ag_ocaml_find("caml_gc_minor_words_unboxed");
    if (ag_ocaml.generation == AG_OCAML_4) {
        ag_ocaml.state = ag_ocaml_find_data("Caml_state");
        major_since_slice = ag_ocaml_find_data("caml_allocated_words");
        free_words = ag_ocaml_find_data("caml_fl_cur_wsz");
        has_mark_stack = ag_ocaml_find("caml_shrink_mark_stack") != NULL;
    } else if (ag_symbol_find("caml_state", AG_SYMBOL_FIRST_TLS, NULL, &place) &&
               ag_ocaml_detour("caml_orphan_alloc_stats", ag_kept_call_void,
                               (void *)hooked_orphan_stats, (void **)&orphan_stats)) {
        ag_ocaml.state_offset = (intptr_t)place.address - (intptr_t)__builtin_thread_pointer();
        compute_stats = (void (*)(struct gc_stats *))ag_ocaml_find("caml_compute_gc_stats");
    }
}

bool ag_ocaml_counters_calibrate(void) {
    const struct layout *found = NULL;
    const unsigned char *state = ag_ocaml_own_state();
    if (!state || !minor_words ||
        (ag_ocaml.generation == AG_OCAML_4 && (!major_since_slice || !free_words))) {
        return false;
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(layouts); i++) {
        if (layouts[i].has_mark_stack == has_mark_stack && fits(&layouts[i], state)) {
            if (found) {
                return false;
            }
            found = &layouts[i];
        }
    }
    chosen = found;
    return chosen != NULL;
}

bool ag_ocaml_counters_read(struct ag_ocaml_counters *ret_counters) {
    const unsigned char *state = ag_ocaml_own_state();
    if (!chosen || !state || !fits(chosen, state)) {
        return false;
    }
    struct ag_ocaml_counters counters = {.minor_used_words = minor_used_words(chosen, state),
                                         .promoted_words =
                                             count_at(chosen, state, chosen->promoted_words)};
    if (chosen->generation == AG_OCAML_4) {
        counters.allocated_words = allocated_words(state);
        counters.heap_words = word_at(state, chosen->heap_words);
        counters.free_words = *free_words;
    } else {
        struct gc_stats stats = {0};
        ag_ocaml_counters_see_domain();
        counters.allocated_words = words_of_all();
        if (compute_stats) {
            compute_stats(&stats);
            counters.heap_words = stats.pool_words + stats.large_words;
            counters.free_words = stats.pool_words - stats.pool_live_words;
            counters.large_words = stats.large_words;
        }
    }
    *ret_counters = counters;
    return !atomic_load_explicit(&are_too_many, memory_order_relaxed);
}
