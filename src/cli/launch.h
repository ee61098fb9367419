/* launch.h: starts the program of `run` with the same descriptors, limits and signal dispositions
 * that it would have without allogram. */
#ifndef AG_LAUNCH_H
#define AG_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { AG_LIFTED_LIMITS = 4 };

struct ag_launch {
    /* set by the caller */
    const char *path; /* path of the program to execute */
    char *const *arguments;
    /* paths of the agent (the library that records inside the program) and of the live segment's
     * file */
    const char *agent, *session_path;
    const char *adapters; /* value of --adapters: the runtimes to record, such as lua; NULL: all */
    bool has_calls;       /* the agent counts function calls (Lua) */
    /* values of --trace and --process: functions and processes of Erlang nodes that are counted;
     * "": all */
    const char *functions, *processes;
    /* replaces standard output and standard error if they are terminals; standard input that is a
     * terminal is then replaced by /dev/null. -1: nothing is replaced. */
    int output_fd;
    /* set by ag_launch_prepare: the child, and two descriptors */
    pid_t pid;
    /* after a byte is written, the child executes the program; if the descriptor is closed without
     * a byte, the child exits */
    int go_fd;
    int status_fd; /* gives the errno of a failed exec, or end of file if the program runs */
    /* set by ag_launch_lift_limits: the previous limits and the previous disposition of SIGXFSZ,
     * which the child restores before it executes the program */
    struct rlimit limits[AG_LIFTED_LIMITS];
    struct sigaction file_size_signal;
};

/* Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed, so that no other file gets
 * the number of a standard descriptor. The program gets these descriptors closed (O_CLOEXEC). */
void ag_launch_guard_standard(void);
/* Raises limits of this process as far as permitted. The limits for file size, address space and
 * data are raised because the live segment (the memory shared with the program) may be large. The
 * limit for open files is raised because the writer opens four files for each recorded process.
 * Also ignores SIGXFSZ. The program gets the previous limits and the previous disposition of
 * SIGXFSZ. */
void ag_launch_lift_limits(struct ag_launch *launch);
/* Forks a child that waits for ag_launch_go. Returns 0 or a negative errno. */
int ag_launch_prepare(struct ag_launch *launch);
/* Lets the child execute the program. Returns 0 if the program runs; otherwise the positive errno
 * of exec, after the child has ended. */
int ag_launch_go(struct ag_launch *launch);
/* Ends the child without executing the program. */
void ag_launch_abandon(struct ag_launch *launch);

#endif
