/* type_names.h: derives the type of a block from the names of the allocating functions.
 *
 *     struct ag_type_reading reading = {0};
 *     for each frame, innermost first: if (!ag_type_read(&reading, function)) { break; }
 *     if (ag_type_name(&reading, text, sizeof(text))) { ... }
 *
 * The functions of this file use only the names that they get: they read no trace and allocate no
 * memory. */
#ifndef AG_TYPE_NAMES_H
#define AG_TYPE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct ag_type_text { /* a part of a function's name */
    const char *text;
    size_t len;
};
struct ag_type_reading { /* zero-initialize; `first` and `second` point into the names that were
                          * read */
    /* pattern of the type's name, see type_names.c, section 4; NULL: type not known */
    const char *form;
    struct ag_type_text first, second; /* the arguments 1 and 2 of the form */
    /* rank of the type proposed so far; a proposal with a higher rank replaces it */
    unsigned rank;
    unsigned n_frames;
};

/* Reads one frame. Returns false if no more frames should be read: FUNCTION is not part of the
 * standard library, or the result is complete. FUNCTION must stay valid as long as READING is
 * used. */
bool ag_type_read(struct ag_type_reading *reading, const char *function);
/* Whether FUNCTION belongs to the standard library and no code of users can have been inlined into
 * it. */
bool ag_type_runs_no_other_code(const char *function);
/* Writes the type as programmers write it, without default template arguments. Returns false if no
 * frame that was read shows the type. */
bool ag_type_name(const struct ag_type_reading *reading, char *ret_text, size_t capacity);

#endif
