/* attached_meanwhile.c: for SECONDS seconds, makes calls that a tracer (ptrace) must not disturb.
 * Meanwhile the test attaches to this process repeatedly.
 *
 *     attached_meanwhile waits SECONDS     epoll_wait while a child ends; SIGCHLD has no handler:
 *                                          the wait must not end with EINTR
 *     attached_meanwhile clones SECONDS    children of clone with CLONE_VM allocate in the memory
 *                                          of this process: each must exit with MEANT_STATUS
 *
 * Prints the number of rounds and how many of them were disturbed. The exit status is 1 if a round
 * was disturbed. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 128 << 10, MEANT_STATUS = 33, ALLOCATIONS = 10000 };

static int ends[2];

static void nap(long us) {
    struct timespec left = {.tv_nsec = us * 1000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static void *write_late(void *unused) {
    nap(3000);
    return write(ends[1], "x", 1) == 1 ? unused : NULL;
}

static int wait_while_a_child_ends(int epoll, unsigned *seed) {
    pthread_t writer;
    struct epoll_event event;
    char byte;
    if (pthread_create(&writer, NULL, write_late, NULL) != 0) {
        return 0;
    }
    const int us = rand_r(seed) % 3000;
    const pid_t child = fork();
    if (child == 0) {
        nap(us);
        _exit(0);
    }
    const int n = epoll_wait(epoll, &event, 1, 5000);
    pthread_join(writer, NULL);
    const int is_read = read(ends[0], &byte, 1) == 1;
    waitpid(child, NULL, 0);
    return n == 1 && is_read;
}

static int allocate_in_the_parent(void *unused) {
    (void)unused;
    for (int i = 0; i < ALLOCATIONS; i++) {
        free(malloc(64));
    }
    syscall(SYS_exit, MEANT_STATUS);
    return 0;
}

static int clone_in_this_memory(char *stack) {
    int status = 0;
    const pid_t child =
        clone(allocate_in_the_parent, stack + STACK_BYTES, CLONE_VM | SIGCHLD, NULL);
    return child > 0 && waitpid(child, &status, __WALL) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == MEANT_STATUS;
}

int main(int argc, char **argv) {
    if (argc != 3 || pipe(ends) != 0) {
        return 2;
    }
    char *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    const int clones = strcmp(argv[1], "clones") == 0;
    const time_t until = time(NULL) + atoi(argv[2]);
    long n = 0, n_disturbed = 0;
    for (unsigned seed = 1; time(NULL) < until; n++) {
        n_disturbed +=
            !(clones ? clone_in_this_memory(stack) : wait_while_a_child_ends(epoll, &seed));
        nap(clones ? 100 : 0);
    }
    printf("%ld rounds, %ld disturbed\n", n, n_disturbed);
    return n_disturbed != 0;
}
