/* page.h: what a text report is written on: a stream with a width, and colour where a terminal
 * wants it.
 *
 * All text goes through ag_page_text and its kin: names out of a trace are cleaned on the way
 * (page.c says how), so that a hostile one can neither move the cursor nor pass for another. */
#ifndef AG_PAGE_H
#define AG_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/compiler.h"

enum ag_style { /* never the only carrier of a meaning */
                AG_STYLE_PLAIN,
                AG_STYLE_DIM,     /* context */
                AG_STYLE_BRIGHT,  /* the answer */
                AG_STYLE_WARNING, /* what must not be overlooked */
};
enum { AG_PAGE_LEAST_COLUMNS = 40, AG_PAGE_MOST_COLUMNS = 400, AG_PAGE_USUAL_COLUMNS = 100 };

struct ag_page {
    FILE *out;
    unsigned columns; /* AG_PAGE_LEAST_COLUMNS <= columns <= AG_PAGE_MOST_COLUMNS */
    bool has_colour;
    size_t taken; /* columns of the line at hand; begins with 0, kept by the functions below */
};
/* A line feed ends the line when it is the last character; elsewhere it came out of a name, and is
 * cleaned with it. */
void ag_page_text(struct ag_page *page, enum ag_style style, const char *text);
void ag_page_print(struct ag_page *page, enum ag_style style, const char *format, ...)
    AG_PRINTF(3, 4);
/* Words that go on in the next line, at INDENT, where the page ends. A word that is wider than the
 * page is not broken. The line is not ended. */
void ag_page_wrap(struct ag_page *page, enum ag_style style, size_t indent, const char *text);
/* A line of such words, ended here; the next lines are two columns further in than it begins. */
void ag_page_prose(struct ag_page *page, enum ag_style style, const char *format, ...)
    AG_PRINTF(3, 4);
void ag_page_end_line(struct ag_page *page);
void ag_page_spaces(struct ag_page *page, size_t count);

/* TEXT as it fits in COLUMNS: cleaned, and shortened in the middle with an ellipsis. Returns the
 * columns it takes. */
enum { AG_FITTED_BYTES = 4 * AG_PAGE_MOST_COLUMNS + 8 };
struct ag_fitted {
    char text[AG_FITTED_BYTES];
};
size_t ag_page_fit(struct ag_fitted *fitted, const char *text, size_t columns);
size_t ag_page_columns_of(const char *text); /* that the whole of it takes */

#endif
