/* gate_place.c: finds the source line that a result of `report --fail-if` names.
 *
 * For a quantity of the trace it is a line of the stack that has most of the quantity; for a growth
 * it is the line that grew most. The innermost frame of a stack is often in a library (strdup, or a
 * header that calls operator new), which the reader of the result cannot change. So the line is
 * that of the first frame whose file does not belong to the system, or, if there is none, of the
 * first frame with any file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/difference.h"
#include "report/gate.h"

/* Whether a file belongs to the compiler or the C library: its path is absolute below /usr, or
 * relative to the folder in which the library was built. */
static bool is_of_system(const char *file) {
    return strncmp(file, "/usr/", 5) == 0 || strncmp(file, "./", 2) == 0 ||
           strncmp(file, "../", 3) == 0;
}

static int set_place(struct ag_gate_place *place, const char *function, const char *file,
                     uint32_t line) {
    place->function = function != NULL ? strdup(function) : NULL;
    place->file = file != NULL ? strdup(file) : NULL;
    place->line = line;
    const bool is_whole =
        (function == NULL || place->function != NULL) && (file == NULL || place->file != NULL);
    return is_whole ? 0 : -ENOMEM;
}

/* The first frame in the program's own code, else the first with a file, else the first; NULL if
 * there are no frames. */
static const struct ag_frame *own_frame(struct ag_profile *profile, const uint32_t *frames,
                                        size_t n_frames) {
    const struct ag_frame *best = n_frames > 0 ? ag_profile_frame(profile, frames[0]) : NULL;
    for (size_t i = 0; i < n_frames; i++) {
        const struct ag_frame *frame = ag_profile_frame(profile, frames[i]);
        if (frame->file == NULL) {
            continue;
        }
        if (!is_of_system(frame->file)) {
            return frame;
        }
        best = best->file == NULL ? frame : best;
    }
    return best;
}

/* The index of the term's site in the stack; N_FRAMES if it is not there. A term without a site
 * begins at frame 0. If "own" is asked for, only frame 0 is compared. */
static size_t find_site(const struct ag_gate_term *term, struct ag_profile *profile,
                        const uint32_t *frames, size_t n_frames) {
    const size_t n_looked_at = term->site != NULL && !term->is_total && n_frames > 0 ? 1 : n_frames;
    for (size_t i = 0; i < n_looked_at; i++) {
        if (term->site == NULL ||
            ag_gate_is_named(ag_profile_frame(profile, frames[i])->function, term->site)) {
            return i;
        }
    }
    return n_frames;
}

static int place_in_stacks(const struct ag_gate_term *term, struct ag_profile *profile,
                           struct ag_gate_place *place) {
    const struct ag_stack_row *rows;
    const size_t n_rows = ag_profile_stacks(profile, &rows);
    const struct ag_frame *best = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < n_rows; i++) {
        const uint64_t value = ag_metric_of(&rows[i].metrics, term->metric);
        if (value <= most) {
            continue;
        }
        const uint32_t *frames;
        const size_t n_frames = ag_profile_stack_frames(profile, rows[i].stack, &frames);
        const size_t from = find_site(term, profile, frames, n_frames);
        if (from < n_frames) {
            most = value;
            best = own_frame(profile, frames + from, n_frames - from);
        }
    }
    return best != NULL ? set_place(place, best->function, best->file, best->line) : 0;
}

static int place_of_growth(const struct ag_gate_term *term, struct ag_profile *profile,
                           struct ag_profile *base, struct ag_gate_place *place) {
    struct ag_difference *difference;
    int r = ag_difference_new(base, profile, AG_BY_LINE, &difference);
    if (r < 0) {
        return r;
    }
    const struct ag_difference_row *best = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < difference->n_rows; i++) {
        const struct ag_difference_row *row = &difference->rows[i];
        const uint64_t before = ag_metric_of(&row->before, term->metric);
        const uint64_t after = ag_metric_of(&row->after, term->metric);
        if (after > before && after - before > most &&
            (term->site == NULL || ag_gate_is_named(row->frame.function, term->site))) {
            most = after - before;
            best = row;
        }
    }
    r = best != NULL ? set_place(place, best->frame.function, best->frame.file, best->frame.line)
                     : 0;
    (void)ag_difference_free(difference);
    return r;
}

int ag_gate_find_place(const struct ag_gate_term *term, struct ag_profile *profile,
                       struct ag_profile *base, struct ag_gate_place *ret_place) {
    int r = term->of == AG_GATE_OF_GROWTH && !term->is_total
                ? place_of_growth(term, profile, base, ret_place)
                : 0;
    /* If the line that grew most belongs to the system, the stacks of this trace decide. */
    if (r == 0 && (ret_place->file == NULL || is_of_system(ret_place->file))) {
        free(ret_place->function);
        free(ret_place->file);
        *ret_place = (struct ag_gate_place){.function = NULL};
        r = place_in_stacks(term, profile, ret_place);
    }
    return r;
}
