/* daemon.c: detaches as daemons do (fork, setsid, fork, descriptors closed, chdir to /), outlives
 * its parent by half a second, and allocates until its end. `allogram run` returns when the command
 * ends, before the daemon does; the daemon's trace must still be complete.
 *
 * @exit             9
 * @process          command
 * @allocated_blocks 10
 * @process          session leader
 * @allocated_blocks 20
 * @process          daemon
 * @allocated_blocks 50000
 * @allocated_bytes  50000 * 33
 * @freed_blocks     49999
 * @peak_bytes       66
 */
#include <sys/wait.h>
#include <time.h>

#include "../say.h"

static void make(int n, size_t size) {
    for (int i = 0; i < n; i++) {
        void *block = malloc(size);
        OPAQUE(block);
    }
}

static void be_daemon(void) {
    void *before = NULL;
    for (int fd = 0; fd < 64; fd++) {
        close(fd);
    }
    if (chdir("/") != 0) {
        _exit(1);
    }
    for (int i = 0; i < 50000; i++) {
        void *block = malloc(33);
        OPAQUE(block);
        free(before);
        before = block;
        if (i % 5000 == 0) {
            nanosleep(&(struct timespec){0, 50 * 1000 * 1000}, NULL);
        }
    }
    _exit(0);
}

int main(void) {
    make(10, 1);
    pid_t leader = fork();
    if (leader == 0) {
        setsid();
        make(20, 1);
        if (fork() == 0) {
            be_daemon();
        }
        _exit(0);
    }
    waitpid(leader, NULL, 0);
    say("detached\n");
    return 9;
}
