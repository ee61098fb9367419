/* live_report.h: the child processes of the screen: one takes a trace of the recording so far, the
 * other executes `allogram report` on the last such trace. */
#ifndef AG_LIVE_REPORT_H
#define AG_LIVE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "live/live_screen.h"

enum { AG_LIVE_ARGUMENTS_MOST = 16 };
/* The report to make. */
struct ag_live_question {
    const char *arguments[AG_LIVE_ARGUMENTS_MOST]; /* options of `report`, ending with NULL */
    unsigned columns;
};

enum ag_live_outcome {
    AG_LIVE_DONE,     /* the trace was taken, or the text is the report */
    AG_LIVE_REFUSED,  /* the text is the error message of `report` */
    AG_LIVE_NO_TRACE, /* there is no trace of the recording so far */
};

struct ag_live_child {
    pid_t pid; /* 0: no child runs */
    int fd;    /* reads what the child prints */
    uint64_t begun_ns;
    /* of the last child: the time from its start to its end, and its CPU time */
    uint64_t took_ns, cpu_ns;
    /* What the child has printed; no terminator. If there was no memory, or the output is very
     * long, the end is missing. */
    char *text;
    size_t used, size;
};

/* Starts a child that executes `report`; if QUESTION is NULL, a child that takes a trace. Returns 0
 * or a negative errno. */
int ag_live_child_start(struct ag_live_child *child, const struct ag_live_show *show,
                        const struct ag_live_question *question);
/* Reads what the child has printed. Returns true if the child has ended; then *ret_outcome,
 * child->took_ns and child->cpu_ns are set. */
bool ag_live_child_read(struct ag_live_child *child, enum ag_live_outcome *ret_outcome);
/* Ends the child, if it runs. */
void ag_live_child_kill(struct ag_live_child *child);

#endif
