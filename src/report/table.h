/* table.h: rows under heads, aligned, as wide as the page allows.
 *
 * Cells are given row by row, left to right; they are kept until the table is written, since the
 * widest decides. A column that may shrink gives way when the page is too narrow: its cells lose
 * their middle. After these the heads of the others do, down to their cells. At last columns that
 * may be missing are left out, cells and all. */
#ifndef AG_TABLE_H
#define AG_TABLE_H

#include <stddef.h>

#include "report/page.h"

struct ag_column {
    const char *head;
    enum { AG_ALIGN_RIGHT, AG_ALIGN_LEFT } align;
    enum ag_style style;
    unsigned least_columns; /* may shrink to this; 0: never shrinks */
    unsigned spare;         /* may be left out, the highest first; 0: never */
};
struct ag_table;
struct ag_table *ag_table_new(const struct ag_column *columns,
                              size_t n_columns); /* NULL: no memory */
struct ag_table *ag_table_free(struct ag_table *table);
void ag_table_cell(struct ag_table *table, const char *text);
/* The rows from here on (the sums, as a rule) stand under a line. Once for a table. */
void ag_table_rule(struct ag_table *table);
int ag_table_write(const struct ag_table *table,
                   struct ag_page *page); /* 0 or -ENOMEM of any step before */

#endif
