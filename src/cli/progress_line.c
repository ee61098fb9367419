/* progress_line.c: draws the line of progress. The threads that read the trace draw the line after
 * they have read a chunk, so no separate thread is needed.
 *
 * The threads share one struct. Its counters are atomic. A thread that wants to draw takes `lock`
 * if it is free; otherwise it does not draw, because another thread draws at this moment. The end
 * of the last active pass erases the line, so it is never on the screen while the command prints
 * its results. */
#include "cli/progress_line.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/interruption.h"
#include "cli/message.h"
#include "report/quantity.h"

#define SECOND_NS UINT64_C(1000000000)
enum { DRAW_EVERY_NS = 100000000, USUAL_COLUMNS = 80 };

static struct {
    pthread_mutex_t lock; /* for the members up to is_drawn; also held while the line is written */
    const char *command;
    uint64_t pass_ns;  /* when the first active pass began */
    unsigned n_passes; /* number of active passes */
    bool is_drawn;
    _Atomic uint64_t all_bytes, read_bytes; /* of the active passes; relaxed: only for display */
    /* earliest time of the next drawing; 0: ag_progress_line was not called. relaxed, as above */
    _Atomic uint64_t next_ns;
} line = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t load(const _Atomic uint64_t *number) {
    return atomic_load_explicit(number, memory_order_relaxed);
}

static void store(_Atomic uint64_t *number, uint64_t value) {
    atomic_store_explicit(number, value, memory_order_relaxed);
}

/* ---- the terminal ---- */

static void write_terminal(const char *text, size_t n_bytes) {
    const ssize_t n = write(STDERR_FILENO, text, n_bytes);
    (void)n; /* if the write fails, only the line is missing */
}

static void erase_locked(void) {
    if (line.is_drawn) {
        write_terminal(AG_ERASE_LINE, sizeof AG_ERASE_LINE - 1);
        line.is_drawn = false;
        ag_interruption_erases_line(false);
    }
}

/* A line that is longer than the terminal is wide would be wrapped, and could not be erased. */
static size_t most_columns(void) {
    struct winsize size = {0};
    const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return (is_known ? size.ws_col : USUAL_COLUMNS) - 1u;
}

/* A command that the shell runs in the background must not write over what the user types. */
static bool is_in_foreground(void) {
    const pid_t group = tcgetpgrp(STDERR_FILENO);
    return group < 0 || group == getpgrp();
}

static void draw_locked(uint64_t now_ns) {
    const uint64_t all = load(&line.all_bytes);
    const uint64_t read = load(&line.read_bytes) < all ? load(&line.read_bytes) : all;
    const double seconds = (double)(now_ns - line.pass_ns + 1) / (double)SECOND_NS;
    const double rate = (double)read / seconds;
    struct ag_quantity share, whole, speed, left;
    char text[256] = AG_ERASE_LINE;
    const size_t start = strlen(text);
    int length =
        snprintf(text + start, sizeof text - start, "allogram: %s: %s of %s read, %s/s",
                 line.command, ag_quantity_share(&share, read, all), ag_quantity_bytes(&whole, all),
                 ag_quantity_bytes(&speed, (uint64_t)rate));
    if (read > 0) {
        const double left_ns = (double)(all - read) / rate * (double)SECOND_NS;
        length += snprintf(text + start + length, sizeof text - start - (size_t)length, ", %s left",
                           ag_quantity_time(&left, (uint64_t)left_ns));
    }
    const size_t columns = most_columns();
    ag_interruption_erases_line(true);
    line.is_drawn = true;
    write_terminal(text, start + ((size_t)length < columns ? (size_t)length : columns));
}

/* ---- notices of the trace file ---- */

static void draw_if_due(void) {
    const uint64_t now_ns = ag_monotonic_ns();
    if (now_ns < load(&line.next_ns) || pthread_mutex_trylock(&line.lock) != 0) {
        return;
    }
    if (now_ns >= load(&line.next_ns) && line.n_passes > 0 && load(&line.all_bytes) > 0) {
        store(&line.next_ns, now_ns + DRAW_EVERY_NS);
        if (is_in_foreground()) {
            draw_locked(now_ns);
        }
    }
    (void)pthread_mutex_unlock(&line.lock);
}

static void begin_pass(uint64_t bytes) {
    (void)pthread_mutex_lock(&line.lock);
    if (line.n_passes++ == 0) {
        line.pass_ns = ag_monotonic_ns();
        store(&line.all_bytes, 0);
        store(&line.read_bytes, 0);
    }
    store(&line.all_bytes, load(&line.all_bytes) + bytes);
    (void)pthread_mutex_unlock(&line.lock);
}

static void end_pass(void) {
    (void)pthread_mutex_lock(&line.lock);
    if (--line.n_passes == 0) {
        erase_locked();
    }
    (void)pthread_mutex_unlock(&line.lock);
}

static void notice(void *context, enum ag_progress_notice notice, uint64_t bytes) {
    (void)context; /* there is one line, because there is one terminal */
    switch (notice) {
    case AG_PROGRESS_BEGIN:
        begin_pass(bytes);
        break;
    case AG_PROGRESS_ADVANCE:
        (void)atomic_fetch_add_explicit(&line.read_bytes, bytes, memory_order_relaxed);
        draw_if_due();
        break;
    case AG_PROGRESS_END:
        end_pass();
        break;
    }
}

/* ---- for the commands ---- */

static void erase(void) {
    (void)pthread_mutex_lock(&line.lock);
    erase_locked();
    (void)pthread_mutex_unlock(&line.lock);
}

const struct ag_progress *ag_progress_line(const char *command, bool is_quiet, bool prints_early) {
    static const struct ag_progress progress = {.notice = notice};
    if (is_quiet || !isatty(STDERR_FILENO) || (prints_early && isatty(STDOUT_FILENO))) {
        return NULL;
    }
    if (load(&line.next_ns) == 0) {
        line.command = command;
        ag_message_call_before(erase);
        store(&line.next_ns, ag_monotonic_ns() + SECOND_NS);
    }
    return &progress;
}
