/* terminal.h: whether standard output is a terminal with colours, and how wide it is. */
#ifndef AG_TERMINAL_H
#define AG_TERMINAL_H

#include <stdbool.h>

unsigned ag_terminal_columns(void); /* of the terminal, otherwise $COLUMNS, otherwise 100 */

enum ag_colour { AG_COLOUR_AUTO, AG_COLOUR_ALWAYS, AG_COLOUR_NEVER };
bool ag_colour_parse(const char *name, enum ag_colour *ret_colour);
bool ag_terminal_has_colour(
    enum ag_colour colour); /* auto: colours on a terminal that is not dumb, without $NO_COLOR */

#endif
