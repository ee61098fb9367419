/* supervisor.h: `run` while its program runs: passes signals on, replaces a killed writer, and
 * waits. `attach` uses parts of it. */
#ifndef AG_SUPERVISOR_H
#define AG_SUPERVISOR_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/recording_times.h"
#include "writer/snapshot.h"
#include "writer/writer.h"

struct ag_supervisor {
    struct ag_session *session;
    pid_t child, writer; /* writer 0: none */
    int report_fd;       /* pipe from the writer; -1: closed */
    int signal_fd;
    int wait_status;
    const struct ag_dump_when *dumps; /* signals that request a dump are not passed on */
    size_t n_dumps;
    struct ag_recording_times *times; /* NULL: it records all the time */
    bool child_ended, gave_up;
    unsigned n_restarts;
    size_t report_bytes; /* received so far */
    struct ag_writer_report report;
};

/* Time of the monotonic clock. */
uint64_t ag_supervisor_now_ms(void);

/* Forks a writer. 0 or negative errno. */
int ag_supervisor_start_writer(struct ag_supervisor *supervisor);
/* Checks whether the writer has ended. Replaces a killed one by another, which finds everything in
 * the segment. */
void ag_supervisor_look_at_writer(struct ag_supervisor *supervisor);
/* Reads what the writer reports. Returns false if it has reported everything, or has ended. */
bool ag_supervisor_read_report(struct ag_supervisor *supervisor);
/* Blocks the signals that `run` handles and opens signal_fd, from which they are read. Call it
 * after the child was forked. Returns 0 or a negative errno. */
int ag_supervisor_take_signals(struct ag_supervisor *supervisor);
/* Closes what this process shares with the program: standard input and output, and the other
 * inherited descriptors. */
void ag_supervisor_step_back(const struct ag_supervisor *supervisor);
/* Waits until the child has ended and its trace is sealed. true: the report is complete. */
bool ag_supervisor_watch(struct ag_supervisor *supervisor);

#endif
