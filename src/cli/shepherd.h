/* shepherd.h: what `run` does while its program runs: it passes signals on, keeps a writer
 * alive, and waits. */
#ifndef AG_SHEPHERD_H
#define AG_SHEPHERD_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/recording_times.h"
#include "writer/writer.h"

struct ag_shepherd {
    struct ag_session *session;
    pid_t child, writer; /* writer 0: none */
    int report_fd;       /* of the writer; -1: closed */
    int signal_fd;
    int wait_status;
    const struct ag_dump_when *dumps; /* a signal that asks for one is not passed on */
    size_t n_dumps;
    struct ag_recording_times *times; /* NULL: it records all the time */
    bool child_ended, gave_up;
    unsigned n_restarts;
    size_t report_bytes; /* received so far */
    struct ag_writer_report report;
};

/* Of the monotonic clock. */
uint64_t ag_shepherd_now_ms(void);

/* Forks a writer. 0 or negative errno. */
int ag_shepherd_start_writer(struct ag_shepherd *shepherd);
/* Has it ended? One that was killed is followed by another, which finds everything in the segment.
 */
void ag_shepherd_look_at_writer(struct ag_shepherd *shepherd);
/* From here on signals reach us as data. Call after the child was forked. */
int ag_shepherd_take_signals(struct ag_shepherd *shepherd);
/* Lets go of everything that belongs to the program: its streams, descriptors that we inherited as
 * it did. */
void ag_shepherd_step_back(const struct ag_shepherd *shepherd);
/* Until the child has ended and its trace is sealed. true: the report is whole. */
bool ag_shepherd_watch(struct ag_shepherd *shepherd);

#endif
