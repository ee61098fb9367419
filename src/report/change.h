/* change.h: the change of a quantity from one trace to another, as `allogram diff` shows it. A bare
 * sign does not show which trace is subtracted from which, so each change also has a word ("grew"). */
#ifndef AG_CHANGE_H
#define AG_CHANGE_H

#include <stdint.h>
#include <stdio.h>

#include "report/quantity.h"
#include "report/table.h"

struct ag_change { /* the values of one quantity in the two traces */
    uint64_t before, after;
};
static inline uint64_t ag_change_size(struct ag_change change) {
    return change.after > change.before ? change.after - change.before
                                        : change.before - change.after;
}
static inline const char *ag_change_sign(struct ag_change change) {
    return change.after > change.before ? "+" : change.after < change.before ? "-" : "";
}
static inline const char *ag_change_word(struct ag_change change) {
    return change.after > change.before ? "grew" : change.after < change.before ? "shrank" : "same";
}
/* Adds a cell such as "+412.3". */
static inline void ag_change_cell(struct ag_table *table, struct ag_change change,
                                  struct ag_unit unit) {
    struct ag_quantity number;
    char text[64];
    snprintf(text, sizeof text, "%s%s", ag_change_sign(change),
             ag_quantity_in(&number, ag_change_size(change), unit));
    ag_table_cell(table, text);
}
/* Writes " (+12 %)", or nothing if the value before is 0. */
static inline void ag_change_write_share(struct ag_page *page, struct ag_change change) {
    if (change.before > 0) {
        const double percent = (double)ag_change_size(change) / (double)change.before * 100;
        ag_page_print(page, AG_STYLE_PLAIN, " (%s%.*f %%)", ag_change_sign(change),
                      percent < 10 ? 1 : 0, percent);
    }
}
/* Writes TABLE and a line with the number of rows that it leaves out. Frees TABLE. 0 or -ENOMEM. */
static inline int ag_change_write_table(struct ag_table *table, struct ag_page *page,
                                        size_t n_hidden) {
    const int r = ag_table_write(table, page);
    if (r == 0 && n_hidden > 0) {
        struct ag_quantity count;
        ag_page_print(page, AG_STYLE_DIM,
                      "  %s more row%s, which changed less; --limit=0 shows all\n",
                      ag_quantity_count(&count, n_hidden), n_hidden == 1 ? "" : "s");
    }
    ag_table_free(table);
    return r;
}

#endif
