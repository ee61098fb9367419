/* observe_live.h: --live of `observe`: shows reports on the observation so far (live/live_screen.h)
 * while it continues.
 *
 *     ag_observe_live_open(&live, message)    // before the observation: checks the terminal
 *     ag_observe_live_start(&live, name)
 *     ag_observe_live_tick(&live, observation) // again and again, while the observation runs
 *     ag_observe_live_stop(&live)
 *
 * The screen requests traces of the observation so far from the process that observes
 * (writer/snapshot.h). The kernel drops samples that are not read in time, so two things are done
 * beside the observation. A thread looks up the names of functions, which may take seconds
 * (ag_observation_find_names). Then a child writes the trace. It inherits the names and the open
 * files, so each file is opened once, and not for each trace. */
#ifndef AG_OBSERVE_LIVE_H
#define AG_OBSERVE_LIVE_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/live.h"

struct ag_observation;

struct ag_observe_live {
    struct ag_live live;
    struct ag_snapshot_requests *requests; /* shared with the screen */
    pid_t taker;                           /* the child that writes a trace; 0: none */
    int stop_fd;                           /* signalfd for SIGTSTP; -1: none */
};
#define AG_OBSERVE_LIVE_NONE                \
    (struct ag_observe_live) {              \
        .live = AG_LIVE_NONE, .stop_fd = -1 \
    }

/* Returns 0, or a negative errno with one line in ret_message. Blocks SIGTSTP. */
int ag_observe_live_open(struct ag_observe_live *observe, char ret_message[512]);
/* Shows the screen. NAME: the name that reports give the trace. Returns 0 or a negative errno. */
int ag_observe_live_start(struct ag_observe_live *observe, const char *name);
/* Writes the traces that the screen requests, and stops this process if the user has pressed
 * Ctrl-Z. Returns false if the screen was closed. */
bool ag_observe_live_tick(struct ag_observe_live *observe, struct ag_observation *observation);
/* Ends the screen and restores the terminal. Does nothing if the screen was not opened. */
void ag_observe_live_stop(struct ag_observe_live *observe);
/* Removes the files of the screen. Allocates nothing and takes no lock, for the guard of
 * end_guard.h. */
void ag_observe_live_abandon(void *observe);

#endif
