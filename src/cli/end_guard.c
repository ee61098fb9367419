/* end_guard.c: ends a command that examines another process (`attach`, `observe`, `control`) within
 * a second after a signal; end_guard.h gives the reason. A thread waits for the signals with a
 * signalfd. The thread only polls the signalfd and reads nothing from it, because a signal can be
 * read only once, and the command may read the signals from another signalfd. If the command reads
 * a signal before the thread has seen it, the command reports the signal through an eventfd. */
#include "cli/end_guard.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "cli/urgency.h"
#include "remote/remote_process.h"

enum {
    /* less than a second, because the kernel needs some ms to end the process */
    MOST_NS = 950 * 1000 * 1000,
    LOOK_MS = 10,
    /* time without progress after which a command that holds the guard counts as blocked */
    BLOCKED_NS = 900 * 1000 * 1000,
    /* when the command no longer holds the guard, it has at least this time to end by itself */
    AFTER_HOLD_NS = 100 * 1000 * 1000,
    LAST_RESORT_NS = 100 * 1000 * 1000,
    FORCED = -1, /* value of n_holds: the forced end has begun */
};
static const uint64_t longest_hold_ns = UINT64_C(10000000000);
static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};

static struct end_guard {
    const char *name;
    void (*last_resort)(void *context, bool is_held);
    void *context;
    pid_t tid;                 /* the thread that called ag_end_guard_begin */
    int fd;                    /* a signalfd */
    int reported_fd;           /* an eventfd: readable if the command has read a signal */
    _Atomic uint64_t asked_ns; /* time of the first signal; relaxed: no other data depends on it */
    _Atomic int signal_number; /* number of the first signal; 0: not known yet */
    _Atomic int is_over;       /* ag_end_guard_end was called */
    _Atomic int n_holds;       /* depth of nested holds; FORCED: no hold is possible any more */
    _Atomic int is_cleaned;    /* last_resort has returned */
    _Atomic uint64_t progress; /* number of calls of ag_end_guard_alive */
} guard = {.fd = -1, .reported_fd = -1};

static void *clean(void *unused) {
    (void)unused;
    guard.last_resort(guard.context,
                      atomic_load_explicit(&guard.n_holds, memory_order_relaxed) > 0);
    atomic_store_explicit(&guard.is_cleaned, 1, memory_order_relaxed);
    return NULL;
}

/* Executes last_resort in another thread, because last_resort may block in the kernel, and waits
 * for it for LAST_RESORT_NS. */
static void clean_up_briefly(void) {
    pthread_t thread;
    const uint64_t begin_ns = ag_monotonic_ns();
    if (guard.last_resort == NULL) {
        return;
    }
    if (pthread_create(&thread, NULL, clean, NULL) != 0) {
        (void)clean(NULL);
    }
    while (!atomic_load_explicit(&guard.is_cleaned, memory_order_relaxed) &&
           ag_monotonic_ns() - begin_ns < LAST_RESORT_NS) {
        (void)poll(NULL, 0, 1);
    }
}

static void end_all(void) {
    char line[160];
    clean_up_briefly();
    const int n =
        snprintf(line, sizeof line,
                 "allogram: %s: ended by a signal while it waited for the process or one of "
                 "its files\n",
                 guard.name);
    (void)!write(STDERR_FILENO, line, n > 0 ? (size_t)n : 0);
    const int number = atomic_load_explicit(&guard.signal_number, memory_order_relaxed);
    _exit(128 + (number != 0 ? number : SIGINT));
}

static void note_time(uint64_t now_ns) {
    uint64_t none = 0;
    (void)atomic_compare_exchange_strong_explicit(&guard.asked_ns, &none, now_ns,
                                                  memory_order_relaxed, memory_order_relaxed);
}

static void note_number(int signal_number) {
    int none = 0;
    (void)atomic_compare_exchange_strong_explicit(&guard.signal_number, &none, signal_number,
                                                  memory_order_relaxed, memory_order_relaxed);
}

/* Finds out which signal was sent. A signal is pending until the command reads it from a
 * signalfd. */
static void note_pending(void) {
    sigset_t pending;
    (void)sigpending(&pending); /* fails only for an invalid address */
    for (size_t i = 0; i < AG_ARRAY_SIZE(end_signals); i++) {
        if (sigismember(&pending, end_signals[i]) == 1) {
            note_number(end_signals[i]);
        }
    }
}

/* Whether the thread of the command waits in the kernel. Returns false if the thread runs, waits
 * for a CPU, or is stopped by a signal or a debugger; true if its state is not known. */
static bool waits_in_kernel(void) {
    char text[512];
    (void)ag_remote_process_file(getpid(), guard.tid, "stat", text, sizeof text);
    const char *state = strrchr(text, ')'); /* text is "" on failure */
    return state == NULL || strncmp(state, ") S", 3) == 0 || strncmp(state, ") D", 3) == 0;
}

struct look { /* the clock, and the CPU time of the command's thread, at one moment */
    uint64_t at_ns, cpu_ns;
};

/* Returns how much of the time since the last look the thread has waited for a CPU. */
static uint64_t waited_for_cpu_ns(struct look *last, uint64_t now_ns) {
    char text[128];
    unsigned long long cpu_ns = 0;
    (void)ag_remote_process_file(getpid(), guard.tid, "schedstat", text, sizeof text);
    if (sscanf(text, "%llu", &cpu_ns) != 1) {
        return 0; /* a kernel without scheduling statistics */
    }
    const uint64_t passed_ns = now_ns - last->at_ns, used_ns = cpu_ns - last->cpu_ns;
    *last = (struct look){now_ns, cpu_ns};
    return waits_in_kernel() || used_ns > passed_ns ? 0 : passed_ns - used_ns;
}

/* Prevents that the command holds the guard again. Returns false, and changes nothing, if the
 * command holds the guard now. */
static bool forbid_holds(void) {
    int none = 0;
    return atomic_compare_exchange_strong(&guard.n_holds, &none, FORCED);
}

/* Waits until the command has to be ended by force. The time for which the command waits for a CPU
 * does not count, because a forced end may leave the examined process changed. */
static void wait_until_due(uint64_t begin_ns) {
    uint64_t now_ns = begin_ns, until_ns = begin_ns + MOST_NS, moved_ns = begin_ns;
    struct look last = {0};
    (void)waited_for_cpu_ns(&last, begin_ns);
    uint64_t seen = atomic_load_explicit(&guard.progress, memory_order_relaxed);
    while (now_ns < until_ns || !forbid_holds()) {
        (void)poll(NULL, 0, LOOK_MS);
        now_ns = ag_monotonic_ns();
        const uint64_t later_ns = until_ns + waited_for_cpu_ns(&last, now_ns);
        until_ns = later_ns < begin_ns + longest_hold_ns ? later_ns : begin_ns + longest_hold_ns;
        const uint64_t progress = atomic_load_explicit(&guard.progress, memory_order_relaxed);
        if (progress != seen || !waits_in_kernel()) {
            seen = progress;
            moved_ns = now_ns;
        }
        if (atomic_load_explicit(&guard.n_holds, memory_order_relaxed) == 0) {
            continue;
        }
        const uint64_t passed_ns = now_ns - begin_ns;
        if (passed_ns >= longest_hold_ns ||
            (passed_ns >= MOST_NS && now_ns - moved_ns >= BLOCKED_NS)) {
            return;
        }
        until_ns = until_ns > now_ns + AFTER_HOLD_NS ? until_ns : now_ns + AFTER_HOLD_NS;
    }
}

static void *keep_guard(void *unused) {
    struct pollfd asked[] = {{.fd = guard.fd, .events = POLLIN},
                             {.fd = guard.reported_fd, .events = POLLIN}};
    (void)unused;
    /* this thread has to wake up on time; and the command's process ends only when this thread,
     * too, has got a CPU */
    ag_urgency_begin();
    while (poll(asked, AG_ARRAY_SIZE(asked), -1) < 0 && errno == EINTR) {
    }
    const uint64_t begin_ns = ag_monotonic_ns();
    note_pending();
    note_time(begin_ns);
    wait_until_due(begin_ns);
    if (!atomic_load_explicit(&guard.is_over, memory_order_relaxed)) {
        end_all();
    }
    return NULL;
}

int ag_end_guard_begin(const char *name, void (*last_resort)(void *context, bool is_held),
                       void *context) {
    sigset_t set;
    pthread_t thread;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < AG_ARRAY_SIZE(end_signals); i++) {
        (void)sigaddset(&set, end_signals[i]);
    }
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
        return -errno;
    }
    guard.name = name;
    guard.last_resort = last_resort;
    guard.context = context;
    guard.tid = gettid();
    guard.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    guard.reported_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guard.fd < 0 || guard.reported_fd < 0) {
        return -errno;
    }
    const int error = pthread_create(&thread, NULL, keep_guard, NULL);
    if (error == 0) {
        (void)pthread_detach(thread); /* cannot fail: the thread is joinable */
    }
    return -error;
}

uint64_t ag_end_guard_asked_ns(void *unused) {
    (void)unused;
    return atomic_load_explicit(&guard.asked_ns, memory_order_relaxed);
}

void ag_end_guard_note(int signal_number) {
    const uint64_t one = 1;
    note_number(signal_number);
    note_time(ag_monotonic_ns());
    /* fails only if the thread has been woken before */
    (void)!write(guard.reported_fd, &one, sizeof one);
}

void ag_end_guard_hold(int by) {
    if (by < 0) {
        atomic_fetch_add(&guard.n_holds, by);
        return;
    }
    int n = atomic_load(&guard.n_holds);
    while (n == FORCED || !atomic_compare_exchange_weak(&guard.n_holds, &n, n + by)) {
        if (n == FORCED) {
            (void)pause(); /* the guard thread ends this process now */
            n = atomic_load(&guard.n_holds);
        }
    }
    ag_end_guard_alive();
}

void ag_end_guard_alive(void) {
    (void)atomic_fetch_add_explicit(&guard.progress, 1, memory_order_relaxed);
}

void ag_end_guard_end(void) {
    atomic_store_explicit(&guard.is_over, 1, memory_order_relaxed);
}
