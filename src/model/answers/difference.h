/* difference.h: compares two profiles site by site, to show what grew and what shrank. Sites
 * (functions, lines, types ...) are matched by name, because addresses differ from run to run. */
#ifndef AG_DIFFERENCE_H
#define AG_DIFFERENCE_H

#include "model/profile.h"

struct ag_difference_row {
    struct ag_frame frame;    /* NULL members: the site has no function, file or image; frame.label
                               * is NULL in all rows */
    const char *label;        /* if sites are heaps, types or labels: the name of the site; NULL:
                               * unknown type, or no label */
    bool is_before, is_after; /* whether the site occurs in the first profile, and in the second */
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
