/* executions.c: in the preloaded agent (allogram's library), hooks the functions by which a program
 * executes another program. It counts the executed programs in the slot of the process, the entry
 * in the file that the process shares with the writer (the process that writes the traces). The
 * recorder of each executed program claims a slot of its own, so the writer notices programs in
 * which no recorder started (writer/strangers.c).
 *
 * The call is counted before it is made, because a successful exec does not return. If the call
 * fails, the count is taken back. A child of vfork counts for its parent, in whose memory it runs.
 * Calls inside of the C library, such as that of execve in system, do not pass through the hooks. A
 * program that cannot load the agent is executed without it (executed_environment.c), except by
 * system and popen. A library that the user preloads may replace one of these functions by a
 * function that calls another of them; a call inside of a counted call is not counted
 * (record/call_marks.h). */
#include <alloca.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/raw_syscall.h"
#include "executed_environment.h"
#include "next.h"
#include "record/call_marks.h"
#include "record/recorder.h"

AG_EXPORT int execve(const char *path, char *const arguments[], char *const environment[]);
AG_EXPORT int execv(const char *path, char *const arguments[]);
AG_EXPORT int execvp(const char *file, char *const arguments[]);
AG_EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[]);
AG_EXPORT int execl(const char *path, const char *argument, ...);
AG_EXPORT int execlp(const char *file, const char *argument, ...);
AG_EXPORT int execle(const char *path, const char *argument, ...);
AG_EXPORT int fexecve(int fd, char *const arguments[], char *const environment[]);
AG_EXPORT int execveat(int folder_fd, const char *path, char *const arguments[],
                       char *const environment[], int flags);
AG_EXPORT int posix_spawn(pid_t *ret_pid, const char *path,
                          const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const arguments[],
                          char *const environment[]);
AG_EXPORT int posix_spawnp(pid_t *ret_pid, const char *file,
                           const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const arguments[],
                           char *const environment[]);
AG_EXPORT int system(const char *command);
AG_EXPORT FILE *popen(const char *command, const char *mode);

/* This thread's calls that execute a program. */
static __thread ag_call_marks executions __attribute__((tls_model("initial-exec")));

struct execution { /* a call that executes a program; in the frame of its hook */
    struct ag_call_mark mark;
    /* The parent and the child of vfork share the list of marks, and a successful call in the child
     * leaves its mark in the list. The thread id distinguishes the two, so later calls of the
     * parent are not taken for calls inside of that call. */
    uint32_t thread_id;
    bool is_counted;
};

/* Whether this call is made inside of another call that executes a program and was counted. */
static bool is_inside_another(const struct execution *execution) {
    if (!ag_call_is_inside(&executions, (uintptr_t)execution)) {
        return false;
    }
    const struct execution *outer = (const struct execution *)(const void *)executions;
    return outer->thread_id == execution->thread_id;
}

static void execution_begins(struct execution *execution) {
    ag_libc_start();
    execution->thread_id = (uint32_t)ag_syscall1(SYS_gettid, 0);
    execution->is_counted = !is_inside_another(execution);
    if (execution->is_counted) {
        ag_recorder_executes();
    }
    ag_call_note(&executions, &execution->mark);
}

static void execution_ends(struct execution *execution, bool has_succeeded) {
    ag_call_forget(&executions, &execution->mark);
    if (execution->is_counted && !has_succeeded) {
        ag_recorder_has_not_executed();
    }
}

/* For the result of a function that returns only if it failed. */
static int execution_failed(struct execution *execution, int result) {
    execution_ends(execution, /* has_succeeded= */ false);
    return result;
}

/* Passes the environment of the program, or a changed copy. */
static int call_execv(const char *path, char *const arguments[]) {
    AG_EXECUTED_ENVIRONMENT(executed, __environ);
    return executed == __environ ? ag_next.execv(path, arguments)
                                 : ag_next.execve(path, arguments, executed);
}

static int call_execvp(const char *file, char *const arguments[]) {
    AG_EXECUTED_ENVIRONMENT(executed, __environ);
    return executed == __environ ? ag_next.execvp(file, arguments)
                                 : ag_next.execvpe(file, arguments, executed);
}

int execve(const char *path, char *const arguments[], char *const environment[]) {
    struct execution execution;
    execution_begins(&execution);
    AG_EXECUTED_ENVIRONMENT(executed, environment);
    return execution_failed(&execution, ag_next.execve(path, arguments, executed));
}

int execv(const char *path, char *const arguments[]) {
    struct execution execution;
    execution_begins(&execution);
    return execution_failed(&execution, call_execv(path, arguments));
}

int execvp(const char *file, char *const arguments[]) {
    struct execution execution;
    execution_begins(&execution);
    return execution_failed(&execution, call_execvp(file, arguments));
}

int execvpe(const char *file, char *const arguments[], char *const environment[]) {
    struct execution execution;
    execution_begins(&execution);
    AG_EXECUTED_ENVIRONMENT(executed, environment);
    return execution_failed(&execution, ag_next.execvpe(file, arguments, executed));
}

int fexecve(int fd, char *const arguments[], char *const environment[]) {
    struct execution execution;
    execution_begins(&execution);
    AG_EXECUTED_ENVIRONMENT(executed, environment);
    return execution_failed(&execution, ag_next.fexecve(fd, arguments, executed));
}

/* glibc before 2.34 does not have this function; a program may still find it here. */
int execveat(int folder_fd, const char *path, char *const arguments[], char *const environment[],
             int flags) {
    struct execution execution;
    execution_begins(&execution);
    AG_EXECUTED_ENVIRONMENT(executed, environment);
    if (ag_next.execveat) {
        return execution_failed(&execution,
                                ag_next.execveat(folder_fd, path, arguments, executed, flags));
    }
    const long r =
        ag_syscall6(SYS_execveat, folder_fd, (long)path, (long)arguments, (long)executed, flags, 0);
    errno = (int)-r;
    return execution_failed(&execution, -1);
}

static size_t count_arguments(const char *first, va_list *rest) {
    size_t n = 0;
    for (const char *argument = first; argument; argument = va_arg(*rest, const char *)) {
        n++;
    }
    return n;
}

/* Fills arguments[0, n] with the n arguments and NULL. */
static void take_arguments(char **arguments, size_t n, const char *first, va_list *rest) {
    arguments[0] = (char *)(uintptr_t)first;
    for (size_t i = 1; i <= n; i++) {
        arguments[i] = va_arg(*rest, char *);
    }
}

/* The variadic functions call those with an array, as the C library does. The array is on the
 * stack, because these functions are called in children of fork and vfork and in signal handlers,
 * where malloc is not allowed. This is a macro, because memory of alloca is valid only until the
 * function that calls alloca returns. */
#define AG_ARGUMENTS_ON_STACK(arguments, first, rest)                  \
    va_list rest;                                                      \
    va_start(rest, first);                                             \
    const size_t n_arguments = count_arguments(first, &rest);          \
    va_end(rest);                                                      \
    char **arguments = alloca((n_arguments + 1) * sizeof(*arguments)); \
    va_start(rest, first);                                             \
    take_arguments(arguments, n_arguments, first, &rest)

int execl(const char *path, const char *argument, ...) {
    AG_ARGUMENTS_ON_STACK(arguments, argument, rest);
    va_end(rest);
    struct execution execution;
    execution_begins(&execution);
    return execution_failed(&execution, call_execv(path, arguments));
}

int execlp(const char *file, const char *argument, ...) {
    AG_ARGUMENTS_ON_STACK(arguments, argument, rest);
    va_end(rest);
    struct execution execution;
    execution_begins(&execution);
    return execution_failed(&execution, call_execvp(file, arguments));
}

int execle(const char *path, const char *argument, ...) {
    AG_ARGUMENTS_ON_STACK(arguments, argument, rest);
    char *const *environment = va_arg(rest, char *const *);
    va_end(rest);
    struct execution execution;
    execution_begins(&execution);
    AG_EXECUTED_ENVIRONMENT(executed, environment);
    return execution_failed(&execution, ag_next.execve(path, arguments, executed));
}

int posix_spawn(pid_t *ret_pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[],
                char *const environment[]) {
    struct execution execution;
    execution_begins(&execution);
    AG_EXECUTED_ENVIRONMENT(executed, environment);
    const int r = ag_next.posix_spawn(ret_pid, path, actions, attributes, arguments, executed);
    execution_ends(&execution, /* has_succeeded= */ r == 0);
    return r;
}

int posix_spawnp(pid_t *ret_pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[],
                 char *const environment[]) {
    struct execution execution;
    execution_begins(&execution);
    AG_EXECUTED_ENVIRONMENT(executed, environment);
    const int r = ag_next.posix_spawnp(ret_pid, file, actions, attributes, arguments, executed);
    execution_ends(&execution, /* has_succeeded= */ r == 0);
    return r;
}

/* Whether the shell was executed. If the shell could not be executed, system returns -1, or in
 * older glibc the status of a shell that did not find the command, and errno is set. If another
 * thread waited for the shell, or SIGCHLD is ignored, system returns -1 with ECHILD although the
 * shell was executed. An interrupted waitpid inside of system sets EINTR. */
static bool has_run_shell(int status, int error) {
    enum { NOT_FOUND = 127 << 8 };
    return (status != -1 && status != NOT_FOUND) || error == 0 || error == ECHILD || error == EINTR;
}

int system(const char *command) {
    if (!command) {
        ag_libc_start();
        return ag_next.system(NULL);
    }
    const int host_errno = errno;
    struct execution execution;
    execution_begins(&execution);
    errno = 0;
    const int status = ag_next.system(command);
    execution_ends(&execution, has_run_shell(status, errno));
    errno = errno != 0 ? errno : host_errno;
    return status;
}

FILE *popen(const char *command, const char *mode) {
    struct execution execution;
    execution_begins(&execution);
    FILE *file = ag_next.popen(command, mode);
    execution_ends(&execution, /* has_succeeded= */ file != NULL);
    return file;
}
