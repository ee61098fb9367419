/* live.h: --live of `run`, `attach` and `observe`: what the command does for the screen
 * (live/live_screen.h), which is a separate process. The command restores the terminal if the
 * screen is killed, and the screen restores the terminal if the command is killed.
 *
 *     ag_live_open(&live, command, message)  // before the program starts: checks the terminal
 *     ag_live_start(&live, requests, trace)
 *     ag_live_step(&live)                    // when live.control_fd is readable, and when the time
 *                                            // that the last call returned is over
 *     ag_live_leave(&live); raise(SIGSTOP); ag_live_return(&live);
 *     ag_live_stop(&live)
 *
 * All functions but ag_live_open do nothing if live->terminal_fd is -1. */
#ifndef AG_LIVE_H
#define AG_LIVE_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct ag_snapshot_requests;

enum ag_live_command { AG_LIVE_RUN, AG_LIVE_ATTACH, AG_LIVE_OBSERVE };

enum { AG_LIVE_DESCRIPTORS = 3, AG_LIVE_PATH_BYTES = 256 };
struct ag_live {
    int terminal_fd; /* -1: there is no screen */
    int control_fd;  /* socket to the screen; -1: the screen is not shown */
    /* A file without a name gets what the program writes to the terminal. program_fd is for the
     * program, output_fd reads what was not yet written to the terminal; -1: there is no such
     * file. */
    int program_fd, output_fd;
    pid_t screen; /* pid of the screen's process; 0: none */
    enum ag_live_command command;
    bool is_quiet;                 /* no message when the user closes the screen */
    struct termios before;         /* the settings of the terminal without the screen */
    char folder[64];               /* for the traces that the screen reads */
    char name[AG_LIVE_PATH_BYTES]; /* file name of these traces */
};
#define AG_LIVE_NONE                                                           \
    (struct ag_live) {                                                         \
        .terminal_fd = -1, .control_fd = -1, .program_fd = -1, .output_fd = -1 \
    }

/* Finds the terminal, and checks whether it can show the screen. For AG_LIVE_RUN, makes the file
 * for the output of the program. Returns 0, or a negative errno with one line in ret_message. */
int ag_live_open(struct ag_live *live, enum ag_live_command command, char ret_message[512]);
/* Shows the screen. TRACE: the path of the trace. Returns 0 or a negative errno. */
int ag_live_start(struct ag_live *live, struct ag_snapshot_requests *requests, const char *trace);
/* Checks whether the screen has ended. After its end, writes the program's output to the terminal.
 * Returns after how many ms the next call is due; -1: not before control_fd is readable. */
int ag_live_step(struct ag_live *live);
/* Gives the terminal back before the command stops, and shows the screen again when the command has
 * been continued and is in the foreground. */
void ag_live_leave(struct ag_live *live);
void ag_live_return(struct ag_live *live);
/* Ends the screen, restores the terminal, and writes the rest of the program's output to it. */
void ag_live_stop(struct ag_live *live);
/* Removes the files of the screen. Allocates nothing and takes no lock. */
void ag_live_remove_files(const struct ag_live *live);
/* Stores the descriptors of LIVE that the command must not close. Returns their number. */
size_t ag_live_descriptors(const struct ag_live *live, int ret_fds[AG_LIVE_DESCRIPTORS]);

#endif
