/* table.h: the tables of text reports: aligned columns with heads, fitted to the width of the page.
 *
 * Callers add cells row by row, from left to right. The table keeps them until it is written,
 * because the widest cell decides the width of a column. If the page is too narrow, columns whose
 * member least_columns is not 0 shrink first: their cells lose their middle. Then the heads of the
 * other columns are shortened, but not below the width of their cells, and not below 9 columns.
 * Finally, columns whose member spare is not 0 are left out. */
#ifndef AG_TABLE_H
#define AG_TABLE_H

#include <stddef.h>

#include "report/page.h"

struct ag_column {
    const char *head;
    enum { AG_ALIGN_RIGHT, AG_ALIGN_LEFT } align;
    enum ag_style style;
    unsigned least_columns; /* the column may shrink to this width; 0: its cells are never cut */
    unsigned spare;         /* the column may be left out, the highest value first; 0: never */
};
struct ag_table;
/* NULL: no memory. The other functions accept NULL, so that only the result of ag_table_write has
 * to be checked. */
struct ag_table *ag_table_new(const struct ag_column *columns, size_t n_columns);
struct ag_table *ag_table_free(struct ag_table *table);
void ag_table_cell(struct ag_table *table, const char *text);
/* Writes a rule (a horizontal line) above the rows that follow, which are usually sums. Call it at
 * most once for each table. */
void ag_table_rule(struct ag_table *table);
int ag_table_write(const struct ag_table *table,
                   struct ag_page *page); /* 0; -ENOMEM if this or an earlier call had no memory */

#endif
