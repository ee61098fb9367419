/* launch.h: starts the program of `run` in the same environment as without allogram. */
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
    const char *adapters; /* adapters that may act; NULL: all */
    bool has_calls;       /* adapters count calls */
    /* filled by ag_launch_prepare while the program waits */
    pid_t pid;
    int go_fd;     /* write a byte: the program may run; closed without one: the child exits */
    int status_fd; /* readable: the errno of a failed exec; end of file: the program runs */
    struct rlimit limits[AG_LIFTED_LIMITS]; /* previous values, restored in the program */
    struct sigaction file_size_signal;
};

/* Opens /dev/null as those of the descriptors 0, 1 and 2 that are closed, so that no later file
 * gets their numbers. In the program they are closed again (O_CLOEXEC). */
void ag_launch_guard_standard(void);
/* Raises the limits on file sizes, address space and data for this process, as far as permitted, so
 * that the live segment, the memory shared with the program, can be large and mapped. The program
 * gets the previous limits and signal disposition. */
void ag_launch_lift_limits(struct ag_launch *launch);
/* Forks a child that waits. 0 or negative errno. */
int ag_launch_prepare(struct ag_launch *launch);
/* Lets the child execute the program. Returns 0 if it runs; otherwise the errno (positive) of its
 * exec, and the child has ended. */
int ag_launch_go(struct ag_launch *launch);
/* Ends the child before it executes. */
void ag_launch_abandon(struct ag_launch *launch);

#endif
