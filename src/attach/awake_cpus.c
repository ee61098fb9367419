/* awake_cpus.c: see awake_cpus.h. Nobody waits for the threads to end: where a CPU is busy they do
 * so when they come to run, which may be late. So what they look at is a number that changes with
 * each beginning and end, and they have a limit of their own. */
#include "awake_cpus.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "traced_thread.h"

enum {
    CPUS_MOST = 4, /* that are kept awake: the kernel prefers the one a thread ran on last */
    LOOKS = 64,    /* at the number, for each at the clock */
};
static const uint64_t longest_ns = UINT64_C(500000000);

static _Atomic uint32_t turn; /* odd: from a beginning to its end */

struct awake { /* what a thread is told, in the bits of a pointer */
    uint32_t turn;
    uint16_t cpu;
};
_Static_assert(sizeof(void *) == 8, "a turn and a CPU fit a pointer");

static void *keep_awake(void *argument) {
    const uintptr_t bits = (uintptr_t)argument;
    const struct awake told = {.turn = (uint32_t)(bits >> 16), .cpu = (uint16_t)bits};
    const struct sched_param parameter = {.sched_priority = 0};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(told.cpu, &one);
    if (sched_setscheduler(0, SCHED_IDLE, &parameter) < 0 ||
        sched_setaffinity(0, sizeof one, &one) < 0) {
        return NULL;
    }
    const uint64_t end_ns = ag_attach_now_ns() + longest_ns;
    while (ag_attach_now_ns() < end_ns) {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&turn, memory_order_relaxed) != told.turn) {
                return NULL;
            }
            __builtin_ia32_pause();
        }
    }
    return NULL;
}

/* Field 39 of /proc/PID/stat; the name in it may hold anything up to its last parenthesis. -1: not
 * to be told. */
static int last_cpu_of(pid_t pid) {
    enum { FIELDS_BEHIND_THE_NAME = 36 };
    char path[64], text[1024] = "";
    int cpu = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        const char *at = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
        at = at != NULL ? strchr(at, ' ') : NULL;
        for (int i = 0; i < FIELDS_BEHIND_THE_NAME && at != NULL; i++) {
            at = strchr(at + 1, ' ');
        }
        if (at == NULL || sscanf(at, "%d", &cpu) != 1) {
            cpu = -1;
        }
        (void)fclose(file); /* nothing was written */
    }
    return cpu;
}

static void start_on(int cpu, cpu_set_t *left, const pthread_attr_t *attributes) {
    pthread_t unused;
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, left)) {
        return; /* not ours to use, or it has one */
    }
    CPU_CLR(cpu, left);
    const uintptr_t bits =
        (uintptr_t)atomic_load_explicit(&turn, memory_order_relaxed) << 16 | (uintptr_t)cpu;
    (void)pthread_create(&unused, attributes, keep_awake,
                         (void *)bits); /* without it that CPU sleeps */
}

void ag_awake_cpus_begin(pid_t pid) {
    cpu_set_t left;
    pthread_attr_t attributes;
    atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
    if (sched_getaffinity(0, sizeof left, &left) < 0 || pthread_attr_init(&attributes) != 0) {
        return;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED); /* cannot fail */
    const int n_cpus = CPU_COUNT(&left);
    start_on(sched_getcpu(), &left, &attributes);
    start_on(last_cpu_of(pid), &left, &attributes);
    for (int cpu = 0; cpu < CPU_SETSIZE && n_cpus - CPU_COUNT(&left) < CPUS_MOST; cpu++) {
        if (CPU_COUNT(&left) == 0) {
            break;
        }
        start_on(cpu, &left, &attributes);
    }
    (void)pthread_attr_destroy(&attributes);
}

void ag_awake_cpus_end(void) {
    atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
}
