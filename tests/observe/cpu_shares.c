/* cpu_shares.c: a program that measures how it spends its CPU time.
 *
 *     cpu_shares [late] [SECONDS]
 *
 * The function three_parts works three times as long as one_part. The program calls the two
 * functions in turn. The calls have varying lengths, so that a sampler with a fixed period has no
 * bias. The program measures the CPU time of each function by the thread's CPU clock. It prints
 * both times as JSON at the end: after SECONDS of wall-clock time, or at SIGTERM. With `late`, a
 * further thread, named "late", starts when a line arrives on standard input; its function run_late
 * only calls late_part.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t ended;
static volatile double sink;
static double spent_ns[2];

static void end(int signal) {
    (void)signal;
    ended = 1;
}

static double now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

__attribute__((noinline)) void three_parts(int rounds) {
    for (int i = 0; i < 3 * rounds; i++) {
        sink = sink * 0.999 + 1;
    }
}

__attribute__((noinline)) void one_part(int rounds) {
    for (int i = 0; i < rounds; i++) {
        sink = sink * 0.998 + 1;
    }
}

__attribute__((noinline)) void late_part(int rounds) {
    double value = 1;
    for (int i = 0; i < rounds; i++) {
        value = value * 0.997 + 1;
        __asm__ volatile("" : "+x"(value));
    }
}

static void *run_late(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "late");
    while (!ended) {
        late_part(100000);
    }
    return NULL;
}

static void *wait_for_line(void *unused) {
    (void)unused;
    pthread_t late;
    if (getchar() != EOF && pthread_create(&late, NULL, run_late, NULL) == 0) {
        pthread_join(late, NULL);
    }
    return NULL;
}

int main(int argc, char **argv) {
    const int has_late = argc > 1 && strcmp(argv[1], "late") == 0;
    const double seconds = argc > 1 + has_late ? atof(argv[1 + has_late]) : 1e9;
    uint32_t random = 1;
    pthread_t waiter;
    signal(SIGTERM, end);
    if (has_late) {
        pthread_create(&waiter, NULL, wait_for_line, NULL);
    }
    puts("ready");
    fflush(stdout);
    const double until_ns = now_ns(CLOCK_MONOTONIC) + seconds * 1e9;
    while (!ended && now_ns(CLOCK_MONOTONIC) < until_ns) {
        random = random * 1664525 + 1013904223;
        const int rounds = 20000 + (int)(random >> 16) % 40000;
        const double start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        three_parts(rounds);
        const double middle = now_ns(CLOCK_THREAD_CPUTIME_ID);
        one_part(rounds);
        spent_ns[0] += middle - start;
        spent_ns[1] += now_ns(CLOCK_THREAD_CPUTIME_ID) - middle;
    }
    printf("{\"three_parts\": %.0f, \"one_part\": %.0f}\n", spent_ns[0], spent_ns[1]);
    return 0;
}
