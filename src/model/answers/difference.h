/* difference.h: compares two profiles site by site: what grew and what shrank. Sites (functions,
 * lines, types ...) are matched by name, because addresses differ from run to run. */
#ifndef AG_DIFFERENCE_H
#define AG_DIFFERENCE_H

#include "model/profile.h"

struct ag_difference_row {
    struct ag_frame frame;    /* sites of some keys have no function, file or image; no row has
                            * frame.label */
    const char *label;        /* by heap, type and label: its name; NULL for an unknown type */
    bool is_before, is_after; /* whether the site occurs in that profile */
    struct ag_metrics before, after; /* the site's own metrics, without those of its callees */
};
struct ag_difference {
    bool is_sampled; /* one of the profiles is sampled, so changes are estimates */
    const struct ag_difference_row *rows;
    size_t n_rows;
    struct ag_metrics before, after; /* sums of all rows */
};

/* Compares sites by function, line, image, heap, type or label; -EINVAL for other keys. The
 * profiles may be closed afterwards. */
int ag_difference_new(struct ag_profile *before, struct ag_profile *after, enum ag_site_key by,
                      struct ag_difference **ret_difference);
struct ag_difference *ag_difference_free(struct ag_difference *difference);

#endif
