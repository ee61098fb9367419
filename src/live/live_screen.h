/* live_screen.h: the screen of --live: shows the views of `allogram report` while the recording
 * continues. The screen is a shared library (AG_LIVE_LIBRARY) that exports two functions,
 * ag_live_check and ag_live_show. The command loads it with dlopen. */
#ifndef AG_LIVE_SCREEN_H
#define AG_LIVE_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define AG_LIVE_LIBRARY "liballogram-live.so"

/* Bytes that the command and the process of the screen send each other through a socket. If the
 * socket is closed, the screen ends. */
enum ag_live_message {
    AG_LIVE_LEAVE = 'l',  /* to the screen: give the terminal back until AG_LIVE_RETURN */
    AG_LIVE_RETURN = 'r', /* to the screen: show the screen again */
    AG_LIVE_LEFT = 'd',   /* from the screen: the terminal was given back */
};

struct ag_live_show {
    /* An existing private folder for the traces of the recording so far. The screen reads such a
     * trace as the file NAME in FOLDER, because reports print the name. PART: another name in the
     * same folder, for a trace that is being written. */
    const char *folder, *name, *part;
    int terminal_fd; /* for keys and output */
    int control_fd;  /* the socket */
    /* Descriptor for reading what the program has written while the screen is shown. -1: the
     * program's output goes elsewhere. */
    int output_fd;
    bool observes; /* the traces are those of `observe`, which ends when the screen is closed */
    /* Writes a trace of the recording so far to PATH. Called in a child process. Returns false if
     * there is no such trace, because the program has not begun to record, or has ended. */
    bool (*take)(void *context, const char *path);
    /* Returns the CPU time that the last trace took the process that wrote it; 0: unknown. */
    uint64_t (*take_cost_ns)(void *context);
    void *context;
};

/* Checks whether the terminal can show the screen. Returns 0, or a negative errno with the reason
 * in ret_message. */
typedef int ag_live_check_function(int terminal_fd, char ret_message[512]);
/* Shows the screen until the socket is closed, the terminal is closed, or the user presses q.
 * Restores the terminal before it returns. Needs a process of its own. */
typedef void ag_live_show_function(const struct ag_live_show *show);

AG_EXPORT ag_live_check_function ag_live_check;
AG_EXPORT ag_live_show_function ag_live_show;

#endif
