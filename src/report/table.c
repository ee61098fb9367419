/* table.c: lays out the tables of text reports: columns with heads, fitted to the page. See
 * table.h. */
#include "report/table.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "table/byte_list.h"

enum { MAX_COLUMNS = 16, INDENT_COLUMNS = 2, GAP_COLUMNS = 2 };
#define LEFT_OUT SIZE_MAX /* the width of a column that is left out */

struct ag_table {
    size_t n_columns;
    struct ag_column columns[MAX_COLUMNS];
    size_t widths[MAX_COLUMNS]; /* width of each column: that of its widest cell or of its head,
                                 * whichever is wider */
    size_t cell_widths[MAX_COLUMNS];
    size_t n_cells;
    size_t rule_before;        /* index of the first cell below the rule; 0: no rule */
    struct ag_byte_list texts; /* all cells, one after the other, each terminated */
};

struct ag_table *ag_table_new(const struct ag_column *columns, size_t n_columns) {
    struct ag_table *table = calloc(1, sizeof *table);
    if (table == NULL) {
        return NULL;
    }
    table->n_columns = n_columns < MAX_COLUMNS ? n_columns : MAX_COLUMNS;
    for (size_t i = 0; i < table->n_columns; i++) {
        table->columns[i] = columns[i];
        table->widths[i] = ag_page_columns_of(columns[i].head);
    }
    return table;
}

struct ag_table *ag_table_free(struct ag_table *table) {
    if (table != NULL) {
        ag_byte_list_done(&table->texts);
        free(table);
    }
    return NULL;
}

void ag_table_cell(struct ag_table *table, const char *text) {
    if (table == NULL) {
        return;
    }
    ag_byte_list_add(&table->texts, text, strlen(text) + 1);
    if (table->texts.is_short) {
        return;
    }
    size_t *width = &table->widths[table->n_cells % table->n_columns];
    size_t columns = ag_page_columns_of(text);
    *width = columns > *width ? columns : *width;
    size_t *cell_width = &table->cell_widths[table->n_cells % table->n_columns];
    *cell_width = columns > *cell_width ? columns : *cell_width;
    table->n_cells++;
}

void ag_table_rule(struct ag_table *table) {
    if (table != NULL) {
        table->rule_before = table->n_cells;
    }
}

/* The columns that the whole table takes on the page. */
static size_t sum_of(const struct ag_table *table, const size_t *widths) {
    size_t sum = INDENT_COLUMNS - GAP_COLUMNS;
    for (size_t i = 0; i < table->n_columns; i++) {
        sum += widths[i] != LEFT_OUT ? widths[i] + GAP_COLUMNS : 0;
    }
    return sum;
}

/* Writes a rule that is as wide as the rows. */
static void write_rule(const struct ag_table *table, struct ag_page *page, const size_t *widths) {
    const size_t columns = sum_of(table, widths);
    ag_page_spaces(page, INDENT_COLUMNS);
    for (size_t i = INDENT_COLUMNS; i < columns; i++) {
        ag_page_text(page, AG_STYLE_DIM, "─");
    }
    ag_page_end_line(page);
}

/* The least width of a column. Numbers are never cut. With CUTS_HEADS, heads of numbers are cut in
 * their middle, so that the unit at the end remains: "alloc…MiB". */
static size_t least_width(const struct ag_table *table, size_t column, bool cuts_heads) {
    enum { LEAST_OF_HEAD = 9 };
    const size_t least = table->columns[column].least_columns;
    const size_t cells = table->cell_widths[column];
    return least != 0              ? least
           : !cuts_heads           ? AG_PAGE_MOST_COLUMNS
           : cells > LEAST_OF_HEAD ? cells
                                   : LEAST_OF_HEAD;
}

/* The widest column among those that may shrink; n_columns: none may. */
static size_t find_widest(const struct ag_table *table, const size_t *widths, bool cuts_heads) {
    size_t widest = table->n_columns;
    for (size_t i = 0; i < table->n_columns; i++) {
        const bool can_shrink =
            widths[i] != LEFT_OUT && widths[i] > least_width(table, i, cuts_heads);
        if (can_shrink && (widest == table->n_columns || widths[i] > widths[widest])) {
            widest = i;
        }
    }
    return widest;
}

/* Narrows columns until the rows fit or no column may shrink further: first columns of names, then
 * columns of numbers with long heads. */
static void shrink(const struct ag_table *table, size_t page_columns, size_t *widths) {
    for (size_t i = 0; i < table->n_columns; i++) {
        const size_t most = AG_PAGE_MOST_COLUMNS;
        widths[i] = widths[i] == LEFT_OUT     ? LEFT_OUT
                    : table->widths[i] < most ? table->widths[i]
                                              : most;
    }
    size_t sum = sum_of(table, widths);
    for (bool cuts_heads = false; sum > page_columns;) {
        const size_t widest = find_widest(table, widths, cuts_heads);
        if (widest < table->n_columns) {
            widths[widest]--;
            sum--;
        } else if (!cuts_heads) {
            cuts_heads = true;
        } else {
            return;
        }
    }
}

/* Sets the widths. After each column that is left out, the others are fitted again from their full
 * widths, because they may use the room of that column. */
static void fit(const struct ag_table *table, size_t page_columns, size_t *widths) {
    memset(widths, 0, table->n_columns * sizeof *widths);
    shrink(table, page_columns, widths);
    while (sum_of(table, widths) > page_columns) {
        size_t spare = table->n_columns;
        for (size_t i = 0; i < table->n_columns; i++) {
            const unsigned most = spare < table->n_columns ? table->columns[spare].spare : 0;
            spare = widths[i] != LEFT_OUT && table->columns[i].spare > most ? i : spare;
        }
        if (spare == table->n_columns) {
            return;
        }
        widths[spare] = LEFT_OUT;
        shrink(table, page_columns, widths);
    }
}

/* *spaces counts the blanks that are written before the next text, so that no line ends in
 * blanks. */
static void write_cell(const struct ag_table *table, struct ag_page *page, const size_t *widths,
                       size_t column, enum ag_style style, const char *text, size_t *spaces) {
    struct ag_fitted fitted;
    if (widths[column] == LEFT_OUT) {
        return;
    }
    size_t padding = widths[column] - ag_page_fit(&fitted, text, widths[column]);
    bool is_right = table->columns[column].align == AG_ALIGN_RIGHT;
    *spaces += (column == 0 ? INDENT_COLUMNS : GAP_COLUMNS) + (is_right ? padding : 0);
    if (fitted.text[0] != '\0') {
        ag_page_spaces(page, *spaces);
        ag_page_text(page, style, fitted.text);
        *spaces = 0;
    }
    *spaces += is_right ? 0 : padding;
}

int ag_table_write(const struct ag_table *table, struct ag_page *page) {
    if (table == NULL || table->texts.is_short) {
        return -ENOMEM;
    }
    size_t widths[MAX_COLUMNS];
    fit(table, page->columns, widths);
    size_t spaces = 0;
    for (size_t i = 0; i < table->n_columns; i++) {
        write_cell(table, page, widths, i, AG_STYLE_DIM, table->columns[i].head, &spaces);
    }
    ag_page_end_line(page);
    const char *text = (const char *)table->texts.bytes;
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t column = i % table->n_columns;
        if (i > 0 && i == table->rule_before) {
            write_rule(table, page, widths);
        }
        spaces = column == 0 ? 0 : spaces;
        write_cell(table, page, widths, column, table->columns[column].style, text, &spaces);
        if (column + 1 == table->n_columns) {
            ag_page_end_line(page);
        }
        text += strlen(text) + 1;
    }
    return 0;
}
