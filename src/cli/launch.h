/* launch.h: starts the program of `run` so that it finds everything as if it had been started
 * alone. */
#ifndef AG_LAUNCH_H
#define AG_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { AG_LIFTED_LIMITS = 3 };

struct ag_launch {
    /* set by the caller */
    const char *path; /* of the program */
    char *const *arguments;
    const char *agent, *session_path;
    const char *adapters; /* which may act; NULL: all */
    bool has_calls;       /* they count calls */
    /* ours while the program waits */
    pid_t pid;
    int go_fd;     /* a byte into it: the program may run; closed without one: it must not */
    int status_fd; /* readable: the errno of a failed exec; end of file: it runs */
    struct rlimit limits[AG_LIFTED_LIMITS]; /* as they were, and are for the program */
    struct sigaction file_size_signal;
};

/* Keeps 0, 1 and 2 from becoming descriptors of ours where they are closed; in the program they are
 * closed still. */
void ag_launch_guard_standard(void);
/* Raises the limits on file sizes, address space and data for ourselves, as far as we may, so that
 * the live segment may be as large as it likes, and mapped. The program gets the limits and the
 * signal's disposition back as they were. */
void ag_launch_lift_limits(struct ag_launch *launch);
/* Forks a child that waits. 0 or negative errno. */
int ag_launch_prepare(struct ag_launch *launch);
/* Lets it go. 0: it runs; positive: the errno of its exec, and the child is gone. */
int ag_launch_go(struct ag_launch *launch);
/* Ends it before it was anything. */
void ag_launch_abandon(struct ag_launch *launch);

#endif
