/* hammer.c: a program that allocates as fast as it can in several threads, while allogram attaches
 * to it and detaches. The program counts the blocks and bytes that the function counted_round
 * allocates.
 *
 *     usage: hammer [N | quiet]
 *
 * N: the number of threads that allocate, the hammers; default 4, at most 100. quiet: only the
 * first thread runs. It allocates only on command; `burst` must not be used.
 *
 * The program prints "ready" when all threads run. Each line of its input is a command, which the
 * program answers by one line:
 *
 *     burst N    each of the hammers calls counted_round N times. Answer: "burst BLOCKS
 *                BYTES", what the threads together allocated in these calls
 *     check      answer: "check OK", or the last error: a block whose contents changed, a system
 *                call that returned EINTR although no handler ran, a changed errno or vector
 *                register
 *     fill N     allocates N blocks of 512 KiB, and keeps them. Answer: "fill"
 *     drop       frees the blocks of `fill`. Answer: "drop"
 *     hold N     the first thread allocates N blocks of 1000 bytes, which are never freed. Answer:
 *                "hold"
 *     threads N  N threads, one after the other, allocate and free a hundred blocks each. Answer:
 *                "threads"
 *
 * Other threads wait in system calls. If a tracer stops these threads, the system calls must not
 * return early. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { HAMMERS_MOST = 100, KEPT = 64, FILL_MOST = 4096, FILL_BYTES = 512 << 10, WAITERS = 6 };

static int n_hammers = 4;
static _Atomic long wanted[HAMMERS_MOST], blocks, bytes;
static _Atomic int n_busy, has_begun;
static _Atomic(const char *) trouble;
static char *filled[FILL_MOST];
static size_t n_filled;

static void complain(const char *what) {
    atomic_store(&trouble, what);
}

struct hammer {
    unsigned random;
    int number;
    size_t at;
    struct {
        unsigned char *block;
        size_t bytes;
    } kept[KEPT];
};

static unsigned next(struct hammer *hammer) {
    hammer->random = hammer->random * 1664525 + 1013904223;
    return hammer->random >> 8;
}

static void keep(struct hammer *hammer, unsigned char *block, size_t n) {
    const size_t at = hammer->at++ % KEPT;
    unsigned char *old = hammer->kept[at].block;
    if (old != NULL && (old[0] != (unsigned char)hammer->number ||
                        old[hammer->kept[at].bytes - 1] != (unsigned char)hammer->number)) {
        complain("a block was overwritten");
    }
    free(old);
    block[0] = block[n - 1] = (unsigned char)hammer->number;
    hammer->kept[at].block = block;
    hammer->kept[at].bytes = n;
}

static __attribute__((noinline)) void any_round(struct hammer *hammer) {
    const size_t n = 1 + next(hammer) % 2000;
    void *aligned = NULL;
    switch (next(hammer) % 8) {
    case 0:
        keep(hammer, calloc(1, n), n);
        break;
    case 1:
        keep(hammer, realloc(malloc(n), n + 100), n + 100);
        break;
    case 2:
        if (posix_memalign(&aligned, 64, n) == 0) {
            keep(hammer, aligned, n);
        }
        break;
    case 3:
        keep(hammer, realloc(NULL, n), n);
        break;
    case 4:
        keep(hammer, malloc(n + 200000), n + 200000); /* so large that malloc maps the block
                                                       * separately */
        break;
    default:
        keep(hammer, malloc(n), n);
    }
}

/* Eight blocks, 64 + 64 + 100 + 200 + 256 + 128 + 300000 + 600000 bytes. */
enum { COUNTED_BLOCKS = 8, COUNTED_BYTES = 64 + 64 + 100 + 200 + 256 + 128 + 300000 + 600000 };
static __attribute__((noinline)) void counted_round(void) {
    void *aligned = NULL;
    char *one = malloc(64);
    char *two = calloc(4, 16);
    char *three = realloc(NULL, 100);
    three = realloc(three, 200);
    if (posix_memalign(&aligned, 128, 256) != 0) {
        complain("posix_memalign failed");
    }
    char *four = aligned_alloc(64, 128);
    char *five = malloc(300000);
    five = realloc(five, 600000);
    one[0] = two[0] = three[0] = four[0] = five[0] = 1;
    free(one);
    free(two);
    free(three);
    free(aligned);
    free(four);
    free(five);
}

static void *hammer_on(void *argument) {
    while (!atomic_load(&has_begun)) { /* otherwise main gets no CPU to start the other threads */
        usleep(1000);
    }
    struct hammer hammer = {.random = 1 + (unsigned)(uintptr_t)argument,
                            .number = (int)(uintptr_t)argument};
    const int number = hammer.number;
    for (;;) {
        for (int i = 0; i < 50; i++) {
            errno = 4711;
            double before = 1.0 + hammer.random, product = before;
            for (int k = 0; k < 40; k++) { /* code outside of the libc */
                product = product * 1.0000001 + 1e-9;
            }
            if (product < before) {
                complain("a vector register changed");
            }
            any_round(&hammer);
            /* glibc sets ENOMEM although malloc succeeds, if the arena of the thread is full and
             * another arena has room (2.36: sysmalloc, arena_get_retry) */
            if (errno != 4711 && errno != ENOMEM) {
                complain("errno changed");
            }
        }
        for (long n = atomic_exchange(&wanted[number], 0); n > 0; n--) {
            counted_round();
            atomic_fetch_add(&blocks, COUNTED_BLOCKS);
            atomic_fetch_add(&bytes, COUNTED_BYTES);
            if (n == 1) {
                atomic_fetch_sub(&n_busy, 1);
            }
        }
    }
    return NULL;
}

/* ---- waits that a stop must not end early ---- */

static int pipes[WAITERS][2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void *wait_on(void *argument) {
    const int number = (int)(uintptr_t)argument, fd = pipes[number][0];
    char letter;
    for (;;) {
        long r = 0;
        errno = 0;
        if (number == 0) {
            r = read(fd, &letter, 1);
        } else if (number == 1) {
            struct pollfd one = {.fd = fd, .events = POLLIN};
            r = poll(&one, 1, 50);
        } else if (number == 2) {
            struct timespec begin, end, nap = {.tv_nsec = 30000000};
            clock_gettime(CLOCK_MONOTONIC, &begin);
            r = nanosleep(&nap, NULL);
            clock_gettime(CLOCK_MONOTONIC, &end);
            const double slept =
                (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
            if (slept < 0.03) {
                complain("nanosleep returned too early");
            }
        } else if (number == 3) {
            struct epoll_event event = {.events = EPOLLIN};
            const int set = epoll_create1(0);
            (void)epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
            r = epoll_wait(set, &event, 1, 40);
            const int error = errno;
            close(set);
            errno = error;
        } else if (number == 4) {
            fd_set set;
            struct timeval time = {.tv_usec = 35000};
            FD_ZERO(&set);
            FD_SET(fd, &set);
            r = select(fd + 1, &set, NULL, NULL, &time);
        } else {
            pthread_mutex_lock(&mutex);
            r = pthread_cond_wait(&never, &mutex);
            pthread_mutex_unlock(&mutex);
        }
        if (r < 0 && errno == EINTR) {
            static const char *const calls[] = {
                "read failed with EINTR",      "poll failed with EINTR",
                "nanosleep failed with EINTR", "epoll_wait failed with EINTR",
                "select failed with EINTR",    "pthread_cond_wait failed with EINTR"};
            complain(calls[number]);
        } else if (r > 0) {
            complain("a wait returned without an event");
        }
    }
    return NULL;
}

static void burst(long n) {
    atomic_store(&blocks, 0);
    atomic_store(&bytes, 0);
    atomic_store(&n_busy, n_hammers);
    for (int i = 0; i < n_hammers; i++) {
        atomic_store(&wanted[i], n);
    }
    while (atomic_load(&n_busy) > 0) {
        usleep(200);
    }
    printf("burst %ld %ld\n", atomic_load(&blocks), atomic_load(&bytes));
}

static void *come_and_go(void *unused) {
    char *some[100];
    (void)unused;
    for (int i = 0; i < 100; i++) {
        some[i] = malloc(24 + 8 * (size_t)i);
    }
    for (int i = 0; i < 100; i++) {
        free(some[i]);
    }
    return NULL;
}

static void start_threads(long n) {
    pthread_t thread;
    for (; n > 0; n--) {
        if (pthread_create(&thread, NULL, come_and_go, NULL) != 0 ||
            pthread_join(thread, NULL) != 0) {
            complain("a thread could not be made");
        }
    }
}

int main(int argc, char **argv) {
    char line[64];
    pthread_t thread;
    const int is_quiet = argc > 1 && strcmp(argv[1], "quiet") == 0;
    if (argc > 1 && !is_quiet) {
        n_hammers = atoi(argv[1]);
        if (n_hammers < 1 || n_hammers > HAMMERS_MOST) {
            return 1;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < (is_quiet ? 0 : WAITERS); i++) {
        if (pipe(pipes[i]) < 0 || pthread_create(&thread, NULL, wait_on, (void *)(uintptr_t)i)) {
            return 1;
        }
    }
    for (int i = 0; i < (is_quiet ? 0 : n_hammers); i++) {
        if (pthread_create(&thread, NULL, hammer_on, (void *)(uintptr_t)i)) {
            return 1;
        }
    }
    puts("ready");
    atomic_store(&has_begun, 1);
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "burst ", 6) == 0) {
            burst(atol(line + 6));
        } else if (strncmp(line, "check", 5) == 0) {
            const char *what = atomic_load(&trouble);
            printf("check %s\n", what ? what : "OK");
        } else if (strncmp(line, "fill ", 5) == 0) {
            for (long n = atol(line + 5); n > 0 && n_filled < FILL_MOST; n--) {
                filled[n_filled++] = malloc(FILL_BYTES);
            }
            puts("fill");
        } else if (strncmp(line, "hold ", 5) == 0) {
            static void *held;
            for (long n = atol(line + 5); n > 0; n--) {
                void **block = malloc(1000);
                *block = held;
                held = block;
            }
            puts("hold");
        } else if (strncmp(line, "threads ", 8) == 0) {
            start_threads(atol(line + 8));
            puts("threads");
        } else if (strncmp(line, "drop", 4) == 0) {
            while (n_filled > 0) {
                free(filled[--n_filled]);
            }
            puts("drop");
        }
    }
    return 0;
}
