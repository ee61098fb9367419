/* cousins.c: two parents, each with a child that has pid 1 in a PID namespace of its own and
 * allocates 50 blocks before a pause and 50 after it. The second child begins while the first child
 * pauses, and ends at once. After that, a search for a process with pid 1 finds only the first
 * child. The program does this 15 times, and prints the number of these children (two each time).
 * Needs the right to unshare. */
#include <sched.h>
#include <sys/wait.h>
#include <time.h>

#include "../say.h"

enum { ROUNDS = 15, FAMILIES = 2, BLOCKS = 50 };

static void make_blocks(void) {
    for (int i = 0; i < BLOCKS; i++) {
        void *block = malloc(123);
        OPAQUE(block);
        free(block);
    }
}

static void pause_ms(long n) {
    nanosleep(&(struct timespec){.tv_nsec = n * 1000000}, NULL);
}

static int wait_for(pid_t child) {
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 1;
}

int main(void) {
    int failed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t parents[FAMILIES];
        for (int i = 0; i < FAMILIES; i++) {
            parents[i] = fork();
            if (parents[i] == 0) {
                if (unshare(CLONE_NEWPID) != 0) {
                    _exit(77);
                }
                const pid_t child = fork();
                if (child == 0) {
                    pause_ms(i == 0 ? 0 : 5);
                    make_blocks();
                    pause_ms(i == 0 ? 60 : 0);
                    make_blocks();
                    _exit(0);
                }
                _exit(wait_for(child));
            }
        }
        for (int i = 0; i < FAMILIES; i++) {
            failed |= wait_for(parents[i]);
        }
    }
    say("%d\n", ROUNDS * FAMILIES);
    return failed;
}
