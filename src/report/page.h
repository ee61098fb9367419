/* page.h: the output of a text report: a stream with a width in columns, and colors if the options
 * of the report say so (has_colour).
 *
 * All text is written with ag_page_text and the functions below it. These functions replace control
 * characters in names that come from a trace (see page.c), so that a crafted name can neither move
 * the cursor nor imitate other output. */
#ifndef AG_PAGE_H
#define AG_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/compiler.h"

enum ag_style { /* the text must be clear without styles */
                AG_STYLE_PLAIN,
                AG_STYLE_DIM,     /* less important */
                AG_STYLE_BRIGHT,  /* the main numbers and names */
                AG_STYLE_WARNING, /* problems, such as lost events */
};
enum { AG_PAGE_LEAST_COLUMNS = 40, AG_PAGE_MOST_COLUMNS = 400, AG_PAGE_USUAL_COLUMNS = 100 };

struct ag_page {
    FILE *out;
    unsigned columns; /* AG_PAGE_LEAST_COLUMNS <= columns <= AG_PAGE_MOST_COLUMNS */
    bool has_colour;
    bool has_no_limit_option; /* the command has no --limit, so no text mentions it */
    size_t taken; /* columns written on the current line; maintained by the functions below,
                   * initially 0 */
};
/* A line feed as the last character ends the line. A line feed elsewhere comes from a name, and is
 * replaced like other control characters. */
void ag_page_text(struct ag_page *page, enum ag_style style, const char *text);
void ag_page_print(struct ag_page *page, enum ag_style style, const char *format, ...)
    AG_PRINTF(3, 4);
/* Writes words. A word that does not fit on the line begins a new line at column INDENT. A word
 * that is wider than the page is not broken. The last line is not ended. */
void ag_page_wrap(struct ag_page *page, enum ag_style style, size_t indent, const char *text);
/* Formats and writes words like ag_page_wrap, and ends the last line. Further lines are indented by
 * two columns more than the first. */
void ag_page_prose(struct ag_page *page, enum ag_style style, const char *format, ...)
    AG_PRINTF(3, 4);
void ag_page_end_line(struct ag_page *page);
void ag_page_spaces(struct ag_page *page, size_t count);

/* Shortens TEXT to COLUMNS with an ellipsis in its middle, and replaces control characters. Returns
 * the columns that the result takes. */
enum { AG_FITTED_BYTES = 4 * AG_PAGE_MOST_COLUMNS + 8 };
struct ag_fitted {
    char text[AG_FITTED_BYTES];
};
size_t ag_page_fit(struct ag_fitted *fitted, const char *text, size_t columns);
size_t ag_page_columns_of(const char *text); /* returns the columns of the whole text */

#endif
