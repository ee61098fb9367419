/* live_check.c: checks whether a terminal can show the screen. This file is separate because term.h
 * defines macros with names such as `columns`. */
#include <curses.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <term.h>

#include "live/live_screen.h"

int ag_live_check(int terminal_fd, char ret_message[512]) {
    const char *name = getenv("TERM");
    int error = 0;
    const bool is_known =
        name && *name && setupterm(name, terminal_fd, &error) == OK && cursor_address != NULL;
    if (!is_known) {
        (void)snprintf(
            ret_message, 512,
            "cannot show the screen: the terminal type TERM=%.100s is unknown or cannot move its cursor; set TERM to the terminal's name, "
            "such as xterm-256color",
            name ? name : "");
        return -ENOTSUP;
    }
    return 0;
}
