/* end_guard.c: ends a command that examines another process (`attach`, `observe`, `control`) within
 * a second after a signal. If the command has stopped threads of the other process, only the
 * command's foreground process is ended; end_guard.h gives the reason. A thread waits for the
 * signals with a signalfd. The thread only polls the signalfd and reads nothing from it, because a
 * signal can be read only once, and the command may read the signals from another signalfd. If the
 * command reads a signal before the thread has seen it, the command reports the signal through an
 * eventfd. */
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

#include "attach/traced_thread.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "cli/background.h"
#include "cli/foreground.h"
#include "cli/urgency.h"

enum {
    /* less than a second, because the kernel needs some ms to end the process */
    MOST_NS = 950 * 1000 * 1000,
    LAST_RESORT_NS = 100 * 1000 * 1000,
};
static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};

static struct end_guard {
    const char *name;
    void (*last_resort)(void *context);
    void *context;
    int fd;                    /* a signalfd */
    int reported_fd;           /* an eventfd: readable if the command has read a signal */
    _Atomic uint64_t asked_ns; /* time of the first signal; relaxed: no other data depends on it */
    _Atomic int signal_number; /* number of the first signal; 0: not known yet */
    _Atomic int is_over;       /* ag_end_guard_end was called */
    _Atomic int is_cleaned;    /* last_resort has returned */
} guard = {.fd = -1, .reported_fd = -1};

static void *clean(void *unused) {
    (void)unused;
    guard.last_resort(guard.context);
    atomic_store_explicit(&guard.is_cleaned, 1, memory_order_relaxed);
    return NULL;
}

/* Executes last_resort in another thread, because last_resort may block in the kernel, and waits at
 * most LAST_RESORT_NS until it has returned. */
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
    char line[200];
    clean_up_briefly();
    const int n =
        snprintf(line, sizeof line,
                 "allogram: %s: ended by a signal before the work was complete: the examined "
                 "process, or one of its files, did not answer in time\n",
                 guard.name);
    (void)!write(STDERR_FILENO, line, n > 0 ? (size_t)n : 0);
    const int number = atomic_load_explicit(&guard.signal_number, memory_order_relaxed);
    const int status = 128 + (number != 0 ? number : SIGINT);
    /* a process that has stopped no thread can do no harm by its end */
    if (!ag_traced_thread_was_any() || !ag_foreground_leave(status)) {
        _exit(status);
    }
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

static void *keep_guard(void *unused) {
    struct pollfd asked[] = {{.fd = guard.fd, .events = POLLIN},
                             {.fd = guard.reported_fd, .events = POLLIN},
                             {.fd = ag_foreground_fd(), .events = 0}};
    (void)unused;
    /* this thread has to wake up on time; and the command's process ends only when this thread,
     * too, has got a CPU */
    ag_urgency_begin();
    while (asked[0].revents == 0 && asked[1].revents == 0) {
        if (poll(asked, AG_ARRAY_SIZE(asked), -1) > 0 && asked[2].revents != 0) {
            if (ag_foreground_was_killed()) {
                (void)kill(getpid(), SIGTERM);
            }
            asked[2].fd = -1;
        }
    }
    const uint64_t begin_ns = ag_monotonic_ns();
    note_pending();
    note_time(begin_ns);
    for (uint64_t now_ns; (now_ns = ag_monotonic_ns()) < begin_ns + MOST_NS;) {
        (void)poll(NULL, 0, (int)((begin_ns + MOST_NS - now_ns) / 1000000 + 1));
    }
    if (!atomic_load_explicit(&guard.is_over, memory_order_relaxed)) {
        end_all();
    }
    return NULL;
}

int ag_end_guard_begin(const char *name, void (*last_resort)(void *context), void *context) {
    sigset_t set;
    pthread_t thread;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < AG_ARRAY_SIZE(end_signals); i++) {
        (void)sigaddset(&set, end_signals[i]);
    }
    if (ag_background_ignores_hangup()) {
        (void)sigdelset(&set, SIGHUP);
    }
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
        return -errno;
    }
    guard.name = name;
    guard.last_resort = last_resort;
    guard.context = context;
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

void ag_end_guard_end(void) {
    atomic_store_explicit(&guard.is_over, 1, memory_order_relaxed);
}
