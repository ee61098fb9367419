/* interruption.c: a signal handler that removes the unfinished output file and erases the line of
 * progress, for the commands that read traces.
 *
 * Any thread of the command may run the handler, at any point of the command's code. So the handler
 * makes only system calls, and what it reads is published by one atomic store: the path is complete
 * before `has_path` is set. After the handler, the signal arrives a second time with its default
 * action, which ends the process. */
#include "cli/interruption.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/compiler.h"

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static struct { /* what the handler has to do */
    char path[4352];
    _Atomic bool has_path; /* release: pairs with acquire in handle */
    _Atomic bool has_line;
} unfinished;

static void handle(int number) {
    if (atomic_load_explicit(&unfinished.has_path, memory_order_acquire)) {
        (void)unlink(unfinished.path); /* the process ends in any case */
    }
    if (atomic_load_explicit(&unfinished.has_line, memory_order_relaxed)) {
        const ssize_t n = write(STDERR_FILENO, AG_ERASE_LINE, sizeof AG_ERASE_LINE - 1);
        (void)n; /* the process ends in any case */
    }
    /* SA_RESETHAND has restored the default action; the signal is delivered when this returns */
    (void)raise(number);
}

static void install(void) {
    static bool is_installed;
    const struct sigaction ours = {.sa_handler = handle, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < AG_ARRAY_SIZE(signals) && !is_installed; i++) {
        struct sigaction before;
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
            (void)sigaction(signals[i], &ours, NULL); /* cannot fail for these signals */
        }
    }
    is_installed = true;
}

void ag_interruption_hold(sigset_t *ret_before) {
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < AG_ARRAY_SIZE(signals); i++) {
        sigaddset(&held, signals[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &held, ret_before); /* cannot fail for a valid set */
}

void ag_interruption_release(const sigset_t *before) {
    (void)pthread_sigmask(SIG_SETMASK, before, NULL); /* cannot fail for a valid set */
}

void ag_interruption_removes(const char *path) {
    atomic_store_explicit(&unfinished.has_path, false, memory_order_release);
    if (path != NULL) {
        install();
        (void)snprintf(unfinished.path, sizeof unfinished.path, "%s", path);
        atomic_store_explicit(&unfinished.has_path, true, memory_order_release);
    }
}

void ag_interruption_erases_line(bool erases) {
    install();
    atomic_store_explicit(&unfinished.has_line, erases, memory_order_relaxed);
}
