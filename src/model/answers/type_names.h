/* type_names.h: derives the type of a block from the names of the allocating functions.
 *
 *     struct ag_type_reading reading = {0};
 *     for each frame, innermost first: if (!ag_type_read(&reading, function)) { break; }
 *     if (ag_type_name(&reading, text, sizeof(text))) { ... }
 *
 * Pure text: no trace, no memory of its own. */
#ifndef AG_TYPE_NAMES_H
#define AG_TYPE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct ag_type_text { /* a part of a function's name */
    const char *text;
    size_t len;
};
struct ag_type_reading { /* zero-initialise; points into the names it read */
    const char *form;    /* how the type is written: see type_names.c; NULL: not known */
    struct ag_type_text first, second; /* its arguments */
    unsigned rank;                     /* how close to the user the answer is */
    unsigned n_frames;
};

/* Reads one frame. False: it is no part of the allocating library, or the answer is complete; stop.
 * FUNCTION has to live as long as the reading. */
bool ag_type_read(struct ag_type_reading *reading, const char *function);
/* Is FUNCTION one of the allocating library into which no code of users can have been inlined? */
bool ag_type_runs_no_other_code(const char *function);
/* Writes the type, shortened as people write it. False: no frame shows it. */
bool ag_type_name(const struct ag_type_reading *reading, char *ret_text, size_t capacity);

#endif
