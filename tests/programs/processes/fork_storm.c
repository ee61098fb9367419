/* fork_storm.c: families of processes that fork short-lived children, faster than allogram
 * reuses its table entries of ended processes (see tests/stress/fork_storm.py). Every child
 * allocates 3 x 24 bytes in short_life and ends; every second one is forked by a raw system call,
 * which allogram does not see.
 *
 * Arguments: number of families, number of children of each family. With one argument, the number
 * of children, the process itself is a family. */
#include <limits.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../say.h"

enum { AT_ONCE = 6 };

__attribute__((noinline, noclone)) static void short_life(void) {
    void *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = malloc(24);
        OPAQUE(blocks[i]);
    }
    free(blocks[0]);
}

static int be_family(int n_children) {
    int n_running = 0;
    for (int i = 0; i < n_children; i++) {
        const long child = i % 2 ? syscall(SYS_fork) : fork();
        if (child == 0) {
            usleep((useconds_t)(i * 7919 % 5000)); /* so that some begin while others end */
            short_life();
            _exit(0);
        }
        if (child < 0) {
            return 1;
        }
        if (++n_running == AT_ONCE) {
            wait(NULL);
            n_running--;
        }
    }
    while (wait(NULL) > 0) {
    }
    return 0;
}

int main(int n_arguments, char **arguments) {
    char exe[PATH_MAX];
    if (n_arguments == 2) {
        return be_family(atoi(arguments[1]));
    }
    const ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[length < 0 ? 0 : length] = 0;
    for (int i = 0; i < atoi(arguments[1]); i++) {
        if (vfork() == 0) {
            execl(exe, exe, arguments[2], (char *)NULL);
            _exit(1);
        }
    }
    int status, failures = 0;
    while (wait(&status) > 0) {
        failures += status != 0;
    }
    return failures;
}
