/* terminal.c: determines how wide standard output is, and whether it can show colors, for the
 * commands that print tables. */
#include "cli/terminal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/options.h"

enum { USUAL_COLUMNS = 100 };

unsigned ag_terminal_columns(void) {
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    const char *columns = getenv("COLUMNS");
    uint64_t count;
    if (columns != NULL && ag_parse_count(columns, &count) && count > 0 && count < 100000) {
        return (unsigned)count;
    }
    return USUAL_COLUMNS;
}

bool ag_colour_parse(const char *name, enum ag_colour *ret_colour) {
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_colour = (enum ag_colour)i;
            return true;
        }
    }
    return false;
}

bool ag_terminal_has_colour(enum ag_colour colour) {
    if (colour != AG_COLOUR_AUTO) {
        return colour == AG_COLOUR_ALWAYS;
    }
    /* https://no-color.org: no colors if the variable is set and not empty */
    const char *no_colour = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && (no_colour == NULL || no_colour[0] == '\0') &&
           (terminal == NULL || strcmp(terminal, "dumb") != 0);
}

struct ag_page ag_terminal_page(FILE *out) {
    const unsigned columns = ag_terminal_columns();
    return (struct ag_page){
        .out = out,
        .columns = columns < AG_PAGE_LEAST_COLUMNS  ? AG_PAGE_LEAST_COLUMNS
                   : columns > AG_PAGE_MOST_COLUMNS ? AG_PAGE_MOST_COLUMNS
                                                    : columns,
        .has_colour = ag_terminal_has_colour(AG_COLOUR_AUTO),
    };
}
