/* acts_waits.c: an act (a step of torture programs, see nodes.h) with system calls that wait. The
 * act complains if a wait ends for another reason than the expected event, for instance with EINTR.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "nodes.h"
#include "processes.h"
#include "sites.h"

static void nap(long us) {
    const struct timespec period = {.tv_nsec = us * 1000};
    if (nanosleep(&period, NULL) != 0) {
        complain("nanosleep was interrupted");
    }
}

static void *write_late(void *argument) {
    nap(300);
    if (write(*(int *)argument, "x", 1) != 1) {
        complain("write failed");
    }
    return NULL;
}

static void *post_late(void *argument) {
    nap(300);
    sem_post(argument);
    return NULL;
}

/* Starts a child that ends while its parent waits. The parent ignores SIGCHLD, so this signal must
 * not end the wait, not even if a tracer has attached to the parent. Returns the pid, or -1 if no
 * child can be created. */
static pid_t child_that_ends_soon(void) {
    const pid_t child = fork();
    if (child == 0) {
        nap(150);
        _exit(0);
    }
    return child;
}

static int wait_for_pipe(void *(*wake)(void *), int kind) {
    int fds[2], n = 0;
    pthread_t thread;
    char text[2];
    if (pipe(fds) != 0 || pthread_create(&thread, NULL, wake, &fds[1]) != 0) {
        return -1;
    }
    if (kind == 0) {
        n = (int)read(fds[0], text, 1);
    } else if (kind == 1) {
        struct pollfd wanted = {.fd = fds[0], .events = POLLIN};
        n = poll(&wanted, 1, 5000);
    } else {
        struct epoll_event event = {.events = EPOLLIN}, got;
        const int epoll = epoll_create1(EPOLL_CLOEXEC);
        epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event);
        n = epoll_wait(epoll, &got, 1, 5000);
        close(epoll);
    }
    pthread_join(thread, NULL);
    close(fds[0]);
    close(fds[1]);
    return n;
}

/* waits(seed, n): n random waits: for a pipe, a time, a semaphore or a condition variable. */
uint64_t act_waits(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    uint64_t result = 0;
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        const int kind = (int)dice_below(&dice, 6);
        block_free(block_make(4, 77));
        if (kind < 3) {
            const pid_t child = dice_below(&dice, 2) ? child_that_ends_soon() : -1;
            const int n = wait_for_pipe(write_late, kind);
            if (n != 1) {
                complain("a wait for a pipe ended for another reason");
            }
            if (child > 0) {
                (void)process_wait(child);
            }
        } else if (kind == 3) {
            nap(200);
        } else if (kind == 4) {
            sem_t semaphore;
            pthread_t thread;
            sem_init(&semaphore, 0, 0);
            if (pthread_create(&thread, NULL, post_late, &semaphore) == 0) {
                if (sem_wait(&semaphore) != 0) {
                    complain("sem_wait was interrupted");
                }
                pthread_join(thread, NULL);
            }
            sem_destroy(&semaphore);
        } else {
            struct timespec until;
            pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
            pthread_cond_t never = PTHREAD_COND_INITIALIZER;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 200000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_mutex_lock(&lock);
            while (pthread_cond_timedwait(&never, &lock, &until) != ETIMEDOUT) {
            }
            pthread_mutex_unlock(&lock);
        }
        result = mix(result, (uint64_t)kind);
    }
    return result;
}
