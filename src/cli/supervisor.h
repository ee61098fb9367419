/* supervisor.h: what `run` does while its program runs: passes signals on, replaces the writer (the
 * process that makes the traces) if it is killed, and waits. `attach` uses some of these
 * functions. */
#ifndef AG_SUPERVISOR_H
#define AG_SUPERVISOR_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/live.h"
#include "cli/recording_times.h"
#include "writer/snapshot.h"
#include "writer/writer.h"

struct ag_supervisor {
    struct ag_session *session;
    pid_t child, writer; /* writer 0: no writer runs */
    int report_fd;       /* pipe from the writer; -1: closed */
    int signal_fd;
    int wait_status; /* of the child, in the encoding of wait(2); valid if child_ended */
    /* the dumps to make; a signal that requests a dump is not passed on to the program */
    const struct ag_dump_when *dumps;
    size_t n_dumps;
    struct ag_recording_times *times; /* NULL: everything is recorded */
    struct ag_live *live;             /* the screen of --live; NULL: none */
    /* gave_up: after the child had ended, a signal ended the wait for the writer */
    bool child_ended, gave_up;
    unsigned n_restarts; /* how often a killed writer was replaced */
    size_t report_bytes; /* number of bytes of `report` that were received */
    struct ag_writer_report report;
};

/* Returns the time of the monotonic clock in ms. */
uint64_t ag_supervisor_now_ms(void);

/* Forks a writer. Returns 0 or a negative errno. */
int ag_supervisor_start_writer(struct ag_supervisor *supervisor);
/* Checks whether the writer has ended. If it was killed, starts another writer, which finds the
 * state of the recording in the live segment, the memory that is shared with the program. */
void ag_supervisor_look_at_writer(struct ag_supervisor *supervisor);
/* Reads a part of the writer's report. Returns false if the report is complete, or if the writer
 * has ended. */
bool ag_supervisor_read_report(struct ag_supervisor *supervisor);
/* Blocks the signals that the command handles, and opens signal_fd, from which these signals are
 * read. AG_SIGNALS_FOR_CHILD: also those that are only passed on to the child. Call this function
 * after the child was forked, so that the child does not inherit the blocked signals. Returns 0 or
 * a negative errno. */
enum ag_taken_signals { AG_SIGNALS_OF_COMMAND, AG_SIGNALS_FOR_CHILD };
int ag_supervisor_take_signals(struct ag_supervisor *supervisor, enum ag_taken_signals which);
/* Stops this process by the signal NUMBER, which the calling thread blocks. With --live, the screen
 * leaves the terminal meanwhile. Returns when the process has been continued. */
void ag_supervisor_stop(const struct ag_supervisor *supervisor, int number);
/* Closes what this process shares with the program: standard input and output, the other inherited
 * descriptors, and standard error if IS_QUIET is true, because nothing will be printed. */
void ag_supervisor_step_back(const struct ag_supervisor *supervisor, bool is_quiet);
/* Waits until the child has ended and its trace is sealed, and until the writer has ended if no
 * other process of the session is left. After the child's end, a signal (gave_up), a timeout or a
 * failure of the writer ends the wait. Returns whether the report of the writer is complete. */
bool ag_supervisor_watch(struct ag_supervisor *supervisor);

#endif
