/* awake_cpus.c: see awake_cpus.h. Threads that yield to all others may run late. So at the end they
 * may run on any CPU, and with normal priority if that is permitted; and they are not waited for
 * before the next begin. They poll a number that changes with each begin and end, and they have a
 * time limit of their own. */
#include "awake_cpus.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "remote/remote_process.h"
#include "traced_thread.h"

enum {
    CPUS_MOST = 4, /* that are kept awake: the kernel prefers the CPU that a thread last ran on */
    LOOKS = 64,    /* reads of the number per read of the clock */
};
static const uint64_t longest_ns = UINT64_C(500000000);

static _Atomic uint32_t turn; /* changes with each begin and each end */

static struct awake {
    pthread_t thread; /* to be joined */
    uint32_t turn;
    int cpu;
} awake[CPUS_MOST];
static int n_awake;

static const struct sched_param no_priority = {.sched_priority = 0};

static void *keep_awake(void *argument) {
    const struct awake *awake_thread = argument;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(awake_thread->cpu, &one);
    if (atomic_load_explicit(&turn, memory_order_relaxed) != awake_thread->turn ||
        sched_setscheduler(0, SCHED_IDLE, &no_priority) < 0 ||
        sched_setaffinity(0, sizeof one, &one) < 0) {
        return NULL;
    }
    const uint64_t end_ns = ag_attach_now_ns() + longest_ns;
    while (ag_attach_now_ns() < end_ns) {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&turn, memory_order_relaxed) != awake_thread->turn) {
                return NULL;
            }
            __builtin_ia32_pause();
        }
    }
    return NULL;
}

/* Field 39 of /proc/PID/stat; the name in it may contain anything up to its last parenthesis. -1:
 * unknown. */
static int last_cpu_of(pid_t pid) {
    enum { FIELDS_BEHIND_THE_NAME = 36 };
    char text[1024];
    int cpu = -1;
    (void)ag_remote_process_file(pid, 0, "stat", text, sizeof text); /* "" on failure */
    const char *at = strrchr(text, ')');
    at = at != NULL ? strchr(at, ' ') : NULL;
    for (int i = 0; i < FIELDS_BEHIND_THE_NAME && at != NULL; i++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL && sscanf(at, "%d", &cpu) == 1 ? cpu : -1;
}

/* The fourth field of /proc/loadavg (proc(5)) is the number of threads that run or wait for a CPU,
 * on the whole machine. We are one, our writer is another, and our parent may be a third: so not
 * all CPUs need be busy before each has two. */
bool ag_awake_cpus_are_wanted(void) {
    int n_running = 0;
    cpu_set_t ours;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file == NULL) {
        return false;
    }
    const int n = fscanf(file, "%*s %*s %*s %d/", &n_running);
    (void)fclose(file); /* nothing was written */
    return n == 1 && sched_getaffinity(0, sizeof ours, &ours) == 0 &&
           n_running <= 2 * CPU_COUNT(&ours);
}

static void start_on(int cpu, cpu_set_t *left) {
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, left) || n_awake == CPUS_MOST) {
        return; /* not permitted for us, or already kept awake */
    }
    CPU_CLR(cpu, left);
    struct awake *next = &awake[n_awake];
    next->turn = atomic_load_explicit(&turn, memory_order_relaxed);
    next->cpu = cpu;
    if (pthread_create(&next->thread, NULL, keep_awake, next) == 0) {
        n_awake++; /* if this fails that CPU sleeps */
    }
}

void ag_awake_cpus_wait(void) {
    while (n_awake > 0) {
        (void)pthread_join(awake[--n_awake].thread, NULL); /* cannot fail */
    }
}

int ag_awake_cpus_begin(pid_t pid) {
    cpu_set_t left;
    atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
    ag_awake_cpus_wait();
    if (sched_getaffinity(0, sizeof left, &left) < 0) {
        return 0;
    }
    start_on(sched_getcpu(), &left);
    start_on(last_cpu_of(pid), &left);
    for (int cpu = 0; cpu < CPU_SETSIZE && n_awake < CPUS_MOST; cpu++) {
        start_on(cpu, &left);
    }
    return n_awake;
}

void ag_awake_cpus_end(void) {
    cpu_set_t ours;
    const bool is_known = sched_getaffinity(0, sizeof ours, &ours) == 0;
    atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
    for (int i = 0; i < n_awake; i++) { /* for a thread that has ended neither is needed */
        (void)pthread_setschedparam(awake[i].thread, SCHED_OTHER, &no_priority);
        if (is_known) {
            (void)pthread_setaffinity_np(awake[i].thread, sizeof ours, &ours);
        }
    }
}
