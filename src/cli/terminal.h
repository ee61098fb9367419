/* terminal.h: whether standard output is a terminal with colors, and how wide it is. */
#ifndef AG_TERMINAL_H
#define AG_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#include "report/page.h"

/* Returns the width of the terminal in columns; if standard output is not a terminal, $COLUMNS; if
 * $COLUMNS is not set, 100. */
unsigned ag_terminal_columns(void);

enum ag_colour { AG_COLOUR_AUTO, AG_COLOUR_ALWAYS, AG_COLOUR_NEVER };
bool ag_colour_parse(const char *name, enum ag_colour *ret_colour);
bool ag_terminal_has_colour(
    /* AG_COLOUR_AUTO: only if standard output is a terminal, $TERM is not "dumb", and $NO_COLOR is
     * unset or empty */
    enum ag_colour colour);

/* Returns a page that is printed to OUT with the width and the colors of standard output. */
struct ag_page ag_terminal_page(FILE *out);

#endif
