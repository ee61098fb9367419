/* hidden.c: a process whose /proc files other processes of its user may not read (PR_SET_DUMPABLE
 * 0), as in the sandbox of a browser.
 *
 *     hidden BLOCKS [fork|nest|sandbox]
 *
 * Allocates and frees BLOCKS blocks of 40 bytes, in parts over half a second, so that allogram's
 * writer process examines this process while it runs. fork: a forked child does the same at the
 * same time. nest: a child of a raw system call, with pid 1 in a PID namespace of its own, does the
 * same. sandbox: two children do the same in user and PID namespaces that this process creates
 * without exec. The user who started this process may not examine such a child; each child has pid
 * 1 in its namespace. Each process prints a line at its end. */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORTIONS = 50, PAUSE_US = 10 * 1000, BLOCK_BYTES = 40 };

static void allocate(long n_blocks) {
    for (long i = 0; i < n_blocks; i++) {
        if (i % (n_blocks / PORTIONS + 1) == 0) {
            (void)usleep(PAUSE_US);
        }
        void *volatile block = malloc(BLOCK_BYTES);
        free(block);
    }
}

static void say(const char *text) {
    (void)!write(STDOUT_FILENO, text, strlen(text));
}

/* A child in namespaces of its own; it never returns. */
static pid_t make_sandboxed(long n_blocks) {
    const pid_t child =
        (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        allocate(n_blocks);
        say("child\n");
        _exit(0);
    }
    return child;
}

static bool ended_well(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv) {
    const long n_blocks = argc > 1 ? atol(argv[1]) : 1000;
    const char *kind = argc > 2 ? argv[2] : "";
    pid_t children[2] = {-1, -1};
    (void)prctl(PR_SET_DUMPABLE, 0);
    if (strcmp(kind, "sandbox") == 0) {
        children[0] = make_sandboxed(n_blocks);
        children[1] = make_sandboxed(n_blocks);
    } else if (strcmp(kind, "nest") == 0) {
        children[0] = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    } else if (strcmp(kind, "fork") == 0) {
        children[0] = fork();
    }
    allocate(n_blocks);
    if (children[0] == 0) {
        say("child\n");
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        if (children[i] > 0 && !ended_well(children[i])) {
            say("child failed\n");
        }
    }
    say("parent\n");
    return 0;
}
