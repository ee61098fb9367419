/* fork_in_handler.c [fork|_Fork|raw] N [allocate]: a timer interrupts a loop of malloc and free N
 * times, at any instruction; the handler forks, and both processes return from it into the
 * interrupted code. (Handlers may call the malloc of signal_safe_malloc.c.) A child runs 2000
 * rounds of the loop and ends with status 7; with "allocate", the child first allocates a block in
 * the handler. In the end the parent prints the number of its rounds, and how many children did not
 * end with status 7. tests/conformance/forked_hooks.py runs this program. */
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../say.h"

enum { CHILD_ROUNDS = 2000, CHILD_STATUS = 7 };
extern pid_t _Fork(void) __attribute__((weak)); /* since glibc 2.34 */

static volatile sig_atomic_t n_signals, is_child;
static const char *how = "fork";
static int allocates, n_bad;

static pid_t fork_somehow(void) {
    if (strcmp(how, "raw") == 0) {
        return (pid_t)syscall(SYS_fork);
    }
    return strcmp(how, "_Fork") == 0 && _Fork ? _Fork() : fork();
}

static void on_alarm(int signal) {
    (void)signal;
    n_signals++;
    const pid_t child = fork_somehow();
    if (child == 0) {
        is_child = 1;
        if (allocates) {
            void *block = malloc(99);
            OPAQUE(block);
        }
        return;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    n_bad += !WIFEXITED(status) || WEXITSTATUS(status) != CHILD_STATUS;
}

/* Sets the timer to fire once, in 60 to 120 us: a periodic timer would leave a slow machine no time
 * between two forks. */
static void arm(void) {
    static unsigned long random = 1;
    random = random * 6364136223846793005ul + 1442695040888963407ul;
    const struct itimerval once = {{0, 0}, {0, 60 + (long)(random >> 40) % 60}};
    setitimer(ITIMER_REAL, &once, NULL);
}

int main(int n_arguments, char **arguments) {
    const int n = n_arguments > 2 ? atoi(arguments[2]) : 1;
    how = n_arguments > 1 ? arguments[1] : how;
    allocates = n_arguments > 3;
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    unsigned long rounds = 0, child_rounds = 0;
    /* Both conditions below read n_signals before is_child. If a signal comes between the two reads
     * and forks a child, this child finds is_child set: it continues the loop, and arms no
     * timer. */
    for (int armed = -1; n_signals < n || is_child; rounds++) {
        if (armed != n_signals && !is_child) {
            armed = n_signals;
            arm();
        }
        void *block = malloc(16);
        OPAQUE(block);
        free(block);
        if (is_child && ++child_rounds == CHILD_ROUNDS) {
            _exit(CHILD_STATUS);
        }
    }
    say("rounds %lu bad %d\n", rounds, n_bad);
    return 0;
}
