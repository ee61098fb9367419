/* difference.h: compares two profiles site by site: what grew, what shrank. Sites are the same if
 * their names are: addresses differ from one run to another. */
#ifndef AG_DIFFERENCE_H
#define AG_DIFFERENCE_H

#include "model/profile.h"

struct ag_difference_row {
    const char *function, *file, *image; /* NULL where the key has none */
    const char *runtime;                 /* of the function; "c" where the key has none */
    const char *label;                   /* by heap and type; NULL for an unknown type */
    uint32_t line;
    bool is_before, is_after;        /* it exists there */
    struct ag_metrics before, after; /* own */
};
struct ag_difference {
    bool is_sampled; /* one of the two, so changes are estimates */
    const struct ag_difference_row *rows;
    size_t n_rows;
    struct ag_metrics before, after; /* of all */
};

/* BY: function, line, image, heap or type; else -EINVAL. The profiles may be closed afterwards. */
int ag_difference_new(struct ag_profile *before, struct ag_profile *after, enum ag_site_key by,
                      struct ag_difference **ret_difference);
struct ag_difference *ag_difference_free(struct ag_difference *difference);

#endif
