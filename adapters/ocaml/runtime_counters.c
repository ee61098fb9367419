/* runtime_counters.c: see runtime_counters.h.
 *
 * The words stand in the domain's state, a struct of eight-byte fields whose order is that of
 * runtime/caml/domain_state.tbl (read in the tags 4.11.2, 4.12.1, 4.13.1, 4.14.2). A row counts
 * only where it gives, at every reading, what caml_gc_minor_words_unboxed computes from the same
 * fields; the rows of 4.11 and 4.12 differ in nothing that this shows before the first minor
 * collection, so where both fit the answer is that it is not known yet. */
#include "runtime_counters.h"

#include "collector_hooks.h"

struct layout { /* offsets into the domain's state */
    uint16_t young_pointer, young_end, minor_words, promoted_words, major_words, heap_words;
};
static const struct layout layouts[] = {
    {8, 56, 296, 304, 312, 336}, /* 4.13, 4.14 */
    {0, 56, 296, 304, 312, 336}, /* 4.12 */
    {0, 56, 288, 296, 304, 328}, /* 4.11 */
};

static const struct layout *chosen;
static const unsigned char *const *state_pointer; /* Caml_state */
static double (*minor_words)(void);               /* caml_gc_minor_words_unboxed */
static const uint64_t *major_since_slice;         /* caml_allocated_words */
static const uint64_t *free_words;                /* caml_fl_cur_wsz */

static uint64_t word_at(uint16_t offset) {
    return *(const uint64_t *)(*state_pointer + offset);
}

static double number_at(uint16_t offset) {
    return *(const double *)(*state_pointer + offset);
}

static uint64_t minor_used_words(const struct layout *layout) {
    return (word_at(layout->young_end) - word_at(layout->young_pointer)) / 8;
}

static bool fits(const struct layout *layout) {
    const double counted =
        number_at(layout->minor_words) + (double)(int64_t)minor_used_words(layout);
    return counted >= 0 && counted == minor_words();
}

bool ag_ocaml_counters_calibrate(void) {
    const struct layout *found = NULL;
    if (ag_ocaml.generation != AG_OCAML_4) {
        return false;
    }
    state_pointer = ag_ocaml_find_data("Caml_state");
    minor_words = (double (*)(void))(uintptr_t)ag_ocaml_find("caml_gc_minor_words_unboxed");
    major_since_slice = ag_ocaml_find_data("caml_allocated_words");
    free_words = ag_ocaml_find_data("caml_fl_cur_wsz");
    if (!state_pointer || !*state_pointer || !minor_words || !major_since_slice || !free_words) {
        return false;
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(layouts); i++) {
        if (fits(&layouts[i])) {
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
    if (!chosen || !fits(chosen)) {
        return false;
    }
    const double major = number_at(chosen->major_words) + (double)*major_since_slice;
    const double allocated = minor_words() + major - number_at(chosen->promoted_words);
    *ret_counters = (struct ag_ocaml_counters){
        .allocated_words = allocated > 0 ? (uint64_t)allocated : 0,
        .minor_used_words = minor_used_words(chosen),
        .heap_words = word_at(chosen->heap_words),
        .free_words = *free_words,
    };
    return true;
}
