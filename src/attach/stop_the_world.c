/* stop_the_world.c: changes a process for `attach` while all of its threads are stopped: writes
 * code, and switches adapters on and off. An adapter is the code for one runtime (virtual machine)
 * in the agent, the loaded shared library that records allocations. attaching.c defines the order
 * of the steps.
 *
 * 1. Code. No thread may be in the bytes that change, or return into them. When the jumps are
 * removed, no thread can enter the agent any more, and the agent is unloaded when none is inside.
 *
 * 2. Leaving. The threads that are in such code leave it one after another, while all others stay
 * stopped: each runs alone for microseconds at a time (ag_stopped_threads_give_turn). If such a
 * thread waits for a lock, the holder of the lock gets turns. So the time to leave does not depend
 * on how many threads of the program want to run. If they have not left after LEAVE_NS, all threads
 * are resumed, and stopped again after a pause of random length.
 *
 * 3. Calls. A thread that calls a function for us waits for a CPU like any other thread, and for
 * locks whose holders wait for a CPU. So if more threads of the program want to run than the CPUs
 * can serve soon, all others stay stopped until the function returns; if they run when the call
 * begins, they are stopped when the call has taken SLOW_CALL_NS. If the function waits for a lock,
 * the holder of the lock gets turns. If the function has not returned after HELP_NS, all threads
 * are resumed, and stopped again after the same time.
 *
 * 4. Runtimes. The adapters list the code in which a thread may hold locks of the runtime or change
 * its data (the quiet ranges of hook/attachment.h). The runtime is called only while all threads
 * are stopped and none is in that code. The threads leave that code as they leave the agent; a
 * garbage collector that stops its threads by signals makes progress meanwhile, because the
 * collector and these threads get turns. When the adapters are switched off, all threads stay
 * stopped until the agent is unloaded: a garbage collector may scan the data of every loaded
 * object, so the agent must not be unloaded during a collection. The unloading takes locks of the
 * libc and of the loader, so no stopped thread may hold one of them. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "attach_state.h"
#include "base/clock.h"
#include "base/error_message.h"
#include "remote/remote_memory.h"

enum {
    STOP_TRIES = 200,
    RANGES_MOST = AG_ATTACHMENT_SITES + 1 + AG_ATTACHMENT_PAGES + AG_ZONES_MOST,
    TURN_NS = 20 * 1000,             /* the way out of the agent takes a microsecond or two */
    LEAVE_ONE_NS = 20 * 1000 * 1000, /* how long a thread may take to leave */
    LEAVE_NS = 150 * 1000 * 1000,    /* how long all threads together may take to leave */
    STUCK_NS = 20 * 1000 * 1000,     /* a try ends if no thread has moved for this time */
    STUCK_NAP_NS = 1000 * 1000,
    /* the pause after such a try, so that the program runs most of the time */
    STUCK_PAUSE_NS = 80 * 1000 * 1000,
    /* the innermost part of a stack that is searched for the address of a lock */
    HOLDER_STACK_BYTES = 1024,
    /* how long a call may take before all other threads are stopped for it */
    SLOW_CALL_NS = 30 * 1000 * 1000,
    CALL_NAP_NS = 10 * 1000 * 1000,
    HELP_NS = 250 * 1000 * 1000, /* how long all other threads are stopped for calls, at a time */
    /* how long a call waits for a lock before the holder of the lock gets a turn */
    ALONE_NS = 1000 * 1000,
};
/* how long to try to switch the adapters, and how long to wait until they have finished */
static const uint64_t patience_ns = UINT64_C(10000000000), leave_patience_ns = UINT64_C(1000000000);
/* how long to wait for the next thread to leave the agent */
static const uint64_t inside_patience_ns = UINT64_C(5000000000);

/* ---- stopping, and code ---- */

void ag_attach_release_all(struct ag_attach *attach, struct ag_attach_times *times) {
    const uint64_t stopped_ns = ag_stopped_threads_release(&attach->threads);
    times->others_ns = stopped_ns > times->others_ns ? stopped_ns : times->others_ns;
}

int ag_attach_stop_all(struct ag_attach *attach, char message[512]) {
    return ag_observed_images_refresh(&attach->images) < 0
               ? ag_remote_process_ended_error(&attach->process, message)
               : ag_stopped_threads_all(&attach->threads, message);
}

/* The ranges leave out the first replaced byte of each function: a thread that is about to execute
 * this byte has executed none of the replaced bytes. */
size_t ag_attach_site_ranges(const struct ag_attach *attach,
                             struct ag_code_range ret_ranges[AG_ATTACHMENT_SITES]) {
    const struct ag_attachment *attachment = &attach->attachment;
    for (uint32_t i = 0; i < attachment->n_sites; i++) {
        const uint64_t place = attachment->sites[i].place;
        ret_ranges[i] = (struct ag_code_range){place + 1, place + AG_ATTACHMENT_CODE_BYTES};
    }
    return attachment->n_sites;
}

/* Writes code by ptrace, which ignores the protection of the pages and leaves it unchanged. */
static int write_code(const struct ag_attach *attach, uint64_t place, const uint8_t *bytes) {
    enum { WORD = sizeof(long) };
    const pid_t tid = attach->threads.items[0].tid;
    for (uint64_t at = place & ~(uint64_t)(WORD - 1); at < place + AG_ATTACHMENT_CODE_BYTES;
         at += WORD) {
        uint8_t word[WORD];
        int r = ag_remote_memory_read(attach->process.pid, at, word, sizeof word);
        if (r < 0) {
            return r;
        }
        for (int i = 0; i < WORD; i++) {
            /* wraps to a huge number if the byte lies before the place */
            const uint64_t offset = at + (uint64_t)i - place;
            if (offset < AG_ATTACHMENT_CODE_BYTES) {
                word[i] = bytes[offset];
            }
        }
        long value;
        memcpy(&value, word, sizeof value);
        if (ptrace(PTRACE_POKETEXT, tid, (void *)(uintptr_t)at, (void *)value) < 0) {
            return -errno;
        }
    }
    return 0;
}

int ag_attach_write_sites(const struct ag_attach *attach, bool is_on, char message[512]) {
    const struct ag_attachment *attachment = &attach->attachment;
    int result = 0;
    for (size_t i = 0; is_on && i < attach->threads.n; i++) {
        if (ag_traced_thread_intercepts(&attach->threads.items[i])) {
            return ag_error_message(
                message, -ENOTSUP,
                "%d (%s): thread %d intercepts its own system calls (syscall user dispatch) and "
                "would see those of allogram; use allogram observe",
                attach->process.pid, attach->process.name, attach->threads.items[i].tid);
        }
    }
    for (uint32_t i = 0; i < attachment->n_sites; i++) {
        const struct ag_attachment_site *site = &attachment->sites[i];
        uint8_t now[AG_ATTACHMENT_CODE_BYTES];
        int r = ag_remote_memory_read(attach->process.pid, site->place, now, sizeof now);
        if (r == 0 && !is_on && memcmp(now, site->before, sizeof now) == 0) {
            continue; /* an earlier detach, which failed at another site, has restored it */
        }
        if (r == 0 && memcmp(now, is_on ? site->before : site->after, sizeof now) != 0) {
            r = -EBUSY;
        }
        r = r < 0 ? r : write_code(attach, site->place, is_on ? site->after : site->before);
        if (r < 0) {
            result = ag_error_message(
                message, r, "%d (%s): cannot change its code at 0x%llx: %s", attach->process.pid,
                attach->process.name, (unsigned long long)site->place,
                r != -EBUSY ? strerror(-r)
                : is_on     ? "it was changed meanwhile"
                        : "the program or another one has changed it, so calls may be missing, and "
                          "the agent stays there; the next attach removes it if the code is as "
                          "before");
        }
    }
    return result;
}

/* Finds the code of the agent and of its detours (the hooks' jumps). Returns the number of
 * ranges. */
static size_t agent_ranges(const struct ag_attach *attach,
                           struct ag_code_range ret_ranges[1 + AG_ATTACHMENT_PAGES]) {
    const struct ag_attachment *attachment = &attach->attachment;
    ret_ranges[0] = attach->agent;
    for (uint32_t i = 0; i < attachment->n_pages; i++) {
        ret_ranges[1 + i] =
            (struct ag_code_range){attachment->pages[i].low, attachment->pages[i].high};
    }
    return 1 + attachment->n_pages;
}

/* ---- leaving ---- */

/* Code that threads have to leave. */
struct places {
    const struct ag_code_range *ranges; /* no thread may be in them, or return into them */
    size_t n_ranges;
    const struct ag_code_range *runtimes; /* no thread may be busy in them (ag_thread_is_busy_in) */
    size_t n_runtimes;
};

static bool is_inside(struct ag_attach *attach, const struct ag_traced_thread *thread,
                      const struct places *places) {
    return ag_thread_is_in_ranges(&attach->ground, thread, places->ranges, places->n_ranges) ||
           (places->n_runtimes > 0 &&
            ag_thread_is_busy_in(&attach->ground, thread, places->runtimes, places->n_runtimes));
}

/* Moves the threads that are inside to the front of the list, and returns how many they are. Called
 * while all threads are stopped. */
static size_t put_insiders_first(struct ag_attach *attach, const struct places *places) {
    struct ag_stopped_threads *threads = &attach->threads;
    size_t n_inside = 0;
    for (size_t i = 0; i < threads->n; i++) {
        if (is_inside(attach, &threads->items[i], places)) {
            const struct ag_traced_thread insider = threads->items[i];
            threads->items[i] = threads->items[n_inside];
            threads->items[n_inside++] = insider;
        }
    }
    return n_inside;
}

/* Whether the registers of the stopped thread, or the innermost STACK_BYTES of its stack, contain
 * the address. STACK_BYTES 0: only the registers. */
static bool thread_knows(const struct ag_traced_thread *thread, uint64_t address,
                         size_t stack_bytes) {
    enum { REGISTERS = sizeof thread->registers / sizeof(uint64_t) };
    uint64_t words[(REGISTERS > HOLDER_STACK_BYTES / 8 ? REGISTERS : HOLDER_STACK_BYTES / 8)];
    ssize_t n = sizeof thread->registers;
    if (stack_bytes == 0) {
        memcpy(words, &thread->registers, sizeof thread->registers);
    } else {
        n = ag_remote_memory_read_some(thread->pid, thread->registers.rsp, words, stack_bytes);
    }
    for (ssize_t i = 0; i < n / 8; i++) {
        if (words[i] == address) {
            return true;
        }
    }
    return false;
}

static bool lock_is_free(const struct ag_attach *attach, uint64_t lock) {
    uint32_t word = 0;
    return ag_remote_memory_read(attach->process.pid, lock, &word, sizeof word) < 0 || word == 0;
}

/* Gives turns to the stopped threads that may hold the lock, a futex, until the lock is free. A
 * futex does not contain the id of its holder. But a thread that holds a lock has the address of
 * the lock in a register or on its stack, to release the lock. (The lock of an arena of malloc is
 * the arena's first member, so the address of the arena is also that of the lock.) */
static void free_lock(struct ag_attach *attach, uint64_t lock) {
    enum { TURNS_MOST = 8 };
    struct ag_stopped_threads *threads = &attach->threads;
    for (size_t stack_bytes = 0; stack_bytes <= HOLDER_STACK_BYTES;
         stack_bytes += HOLDER_STACK_BYTES) {
        for (size_t i = 0; i < threads->n; i++) {
            struct ag_traced_thread *thread = &threads->items[i];
            if (thread->is_held || !ag_traced_thread_may_hold_lock(thread) ||
                !thread_knows(thread, lock, stack_bytes)) {
                continue;
            }
            for (int n = 0; n < TURNS_MOST && !lock_is_free(attach, lock); n++) {
                if (ag_stopped_threads_give_turn(threads, i, TURN_NS) < 0) {
                    break;
                }
            }
            if (lock_is_free(attach, lock)) {
                return;
            }
        }
    }
}

static bool has_moved(const struct ag_traced_thread *thread,
                      const struct user_regs_struct *before) {
    return thread->registers.rip != before->rip || thread->registers.rsp != before->rsp ||
           thread->registers.orig_rax != before->orig_rax;
}

enum leaving {
    LEFT,    /* the thread is outside, or gone */
    MOVED,   /* it is still inside, but has executed code */
    WAITS,   /* it waits inside for something */
    UNKNOWN, /* it did not stop again, so it is not known where it is */
};

/* Lets items[I] run until it is outside of the places, for at most LEAVE_ONE_NS. */
static enum leaving leave_in_turns(struct ag_attach *attach, size_t i,
                                   const struct places *places) {
    enum { FUTILE_TURNS = 3 };
    struct ag_stopped_threads *threads = &attach->threads;
    const pid_t tid = threads->items[i].tid;
    const uint64_t begin_ns = ag_monotonic_ns();
    enum leaving result = WAITS;
    uint64_t turn_ns = TURN_NS;
    int n_futile = 0;
    while (!threads->items[i].is_held && n_futile < FUTILE_TURNS &&
           ag_monotonic_ns() - begin_ns < LEAVE_ONE_NS) {
        const struct ag_traced_thread *thread = &threads->items[i];
        const struct user_regs_struct before = thread->registers;
        const int r = ag_stopped_threads_give_turn(threads, i, turn_ns);
        if (r < 0) {
            return r == -ETIMEDOUT ? UNKNOWN : LEFT;
        }
        if (!is_inside(attach, thread, places)) {
            return LEFT;
        }
        const bool waits = ag_traced_thread_call(thread) >= 0 && !has_moved(thread, &before);
        result = waits ? result : MOVED;
        n_futile = waits ? n_futile + 1 : 0;
        if (ag_traced_thread_call(thread) == SYS_futex) {
            free_lock(attach, thread->registers.rdi);
        } else {
            turn_ns *= 2;
        }
        if (i >= threads->n || threads->items[i].tid != tid) {
            break; /* a thread has ended, and the order of the list has changed */
        }
    }
    return result;
}

/* Gives a turn to each thread for which other threads may wait: a thread with a pending signal, or
 * a thread in a futex call, which may have been woken. For example, a garbage collector stops the
 * threads of its program by signals and waits for their handlers. Returns whether one of these
 * threads has executed code. */
static bool wake_waiting(struct ag_attach *attach) {
    struct ag_stopped_threads *threads = &attach->threads;
    bool have_moved = false;
    for (size_t i = threads->n; i-- > 0;) {
        struct ag_traced_thread *thread = &threads->items[i];
        const struct user_regs_struct before = thread->registers;
        if (!thread->is_held &&
            (ag_traced_thread_call(thread) == SYS_futex || ag_traced_thread_has_signal(thread))) {
            const int r = ag_stopped_threads_give_turn(threads, i, TURN_NS);
            have_moved |= r < 0 || has_moved(thread, &before);
        }
    }
    return have_moved;
}

/* Lets all threads leave the places. Called while all threads are stopped. Returns true if all are
 * outside; false: some may be inside. */
static bool leave_all(struct ag_attach *attach, const struct places *places) {
    struct ag_stopped_threads *threads = &attach->threads;
    const uint64_t begin_ns = ag_monotonic_ns();
    const struct timespec nap = {.tv_nsec = STUCK_NAP_NS};
    uint64_t moved_ns = begin_ns;
    for (;;) {
        const size_t n_late = threads->n_late;
        size_t n_inside = put_insiders_first(attach, places);
        bool have_moved = false;
        attach->insider = n_inside > 0 ? threads->items[0].tid : 0;
        attach->n_inside = n_inside;
        for (size_t i = n_inside; i-- > 0;) {
            if (ag_monotonic_ns() - begin_ns > LEAVE_NS) {
                return false;
            }
            /* the list is shorter if a thread has ended */
            if (i < threads->n) {
                const enum leaving result = leave_in_turns(attach, i, places);
                if (result == UNKNOWN) {
                    return false;
                }
                have_moved |= result != WAITS;
            }
        }
        if (n_inside == 0) {
            return threads->n_late == n_late;
        }
        if (have_moved || wake_waiting(attach)) {
            moved_ns = ag_monotonic_ns();
        } else { /* the threads may wait for the writer, another process */
            (void)nanosleep(&nap, NULL);
        }
        attach->is_stuck = ag_monotonic_ns() - moved_ns > STUCK_NS;
        if (threads->n_late != n_late || attach->is_stuck) {
            return false;
        }
    }
}

/* Lets the program run before the next try. */
static void pause_before_try(struct ag_attach *attach) {
    const struct timespec pause = {.tv_nsec = STUCK_PAUSE_NS};
    if (attach->is_stuck) {
        (void)nanosleep(&pause, NULL); /* a signal only shortens it */
    } else {
        ag_attach_pause(attach);
    }
    attach->is_stuck = false;
}

static int at_beginning_error(const struct ag_attach *attach, char message[512]) {
    return ag_error_message(
        message, -EAGAIN,
        "%d (%s): cannot stop it safely: at each attempt a thread was in the first "
        "instructions of an allocation function; try again",
        attach->process.pid, attach->process.name);
}

int ag_attach_stop_all_outside(struct ag_attach *attach, const struct ag_code_range *ranges,
                               size_t n_ranges, struct ag_attach_times *times, char message[512]) {
    const struct places places = {.ranges = ranges, .n_ranges = n_ranges};
    for (int i = 0; i < STOP_TRIES; i++) {
        const int r = ag_attach_stop_all(attach, message);
        if (r == 0 && leave_all(attach, &places)) {
            return 0;
        }
        ag_attach_release_all(attach, times);
        if (r < 0 && r != -EAGAIN) {
            return r;
        }
        if (ag_attach_end_is_due(&attach->end)) {
            return ag_attach_interrupted(attach, message);
        }
        pause_before_try(attach);
    }
    return at_beginning_error(attach, message);
}

/* Removes the hooks if they are written, and lets all threads leave the agent. Called while all
 * threads are stopped. Returns 0 if none is inside; -EAGAIN: some are; or another negative
 * errno. */
static int leave_once(struct ag_attach *attach, char message[512]) {
    struct ag_code_range ranges[AG_ATTACHMENT_SITES + 1 + AG_ATTACHMENT_PAGES];
    const size_t n_sites = attach->is_on ? ag_attach_site_ranges(attach, ranges) : 0;
    const struct ag_code_range *agent = ranges + n_sites;
    const size_t n_agent = agent_ranges(attach, ranges + n_sites);
    if (attach->is_on) {
        const struct places sites = {.ranges = ranges, .n_ranges = n_sites};
        if (!leave_all(attach, &sites)) {
            return -EAGAIN;
        }
        const int r = ag_attach_write_sites(attach, /* is_on= */ false, message);
        attach->is_on = false;
        if (r < 0) {
            return r;
        }
    }
    const struct places places = {.ranges = agent, .n_ranges = n_agent};
    return leave_all(attach, &places) ? 0 : -EAGAIN;
}

int ag_attach_leave(struct ag_attach *attach, struct ag_attach_times *times,
                    char ret_message[512]) {
    uint64_t begin_ns = ag_monotonic_ns();
    size_t least_inside = SIZE_MAX;
    for (int n_tries = 1;; n_tries++) {
        int r = ag_attach_stop_all(attach, ret_message);
        r = r < 0 ? r : leave_once(attach, ret_message);
        if (r == 0) {
            return 0;
        }
        ag_attach_release_all(attach, times);
        if (r != -EAGAIN) {
            return r;
        }
        if (ag_attach_end_is_due(&attach->end)) {
            return ag_attach_interrupted(attach, ret_message);
        }
        if (attach->is_on && n_tries == STOP_TRIES) {
            return at_beginning_error(attach, ret_message);
        }
        if (attach->is_on || attach->n_inside < least_inside) {
            begin_ns = ag_monotonic_ns();
            least_inside = attach->is_on ? SIZE_MAX : attach->n_inside;
        }
        if (ag_monotonic_ns() - begin_ns > inside_patience_ns) {
            return ag_error_message(
                ret_message, -EBUSY,
                "%d (%s): thread %d is still inside the agent; the hooks are removed, but the "
                "agent stays loaded",
                attach->process.pid, attach->process.name, attach->insider);
        }
        pause_before_try(attach);
    }
}

/* ---- calls ---- */

/* Returns a stopped thread that is at a safe point (safe_point.h) and may make calls, or NULL. */
static struct ag_traced_thread *find_caller(struct ag_attach *attach) {
    for (size_t i = 0; i < attach->threads.n; i++) {
        struct ag_traced_thread *thread = &attach->threads.items[i];
        if (thread->pid == attach->process.pid &&
            ag_safe_point_obstacle(&attach->ground, thread) == NULL) {
            return thread;
        }
    }
    return NULL;
}

bool ag_attach_take_caller(struct ag_attach *attach, struct ag_traced_thread *ret_thread) {
    struct ag_stopped_threads *threads = &attach->threads;
    const struct ag_traced_thread *caller =
        ag_stopped_threads_are_crowded(threads) ? find_caller(attach) : NULL;
    if (caller == NULL) {
        return false;
    }
    *ret_thread = ag_stopped_threads_take(threads, (size_t)(caller - threads->items));
    attach->help = (struct ag_attach_help){.since_ns = ag_monotonic_ns()};
    return true;
}

void ag_attach_interrupt_help(void *context) {
    struct ag_attach *attach = context;
    if (attach->help.since_ns != 0) {
        ag_attach_release_all(attach, &attach->help.times);
        attach->help.since_ns = 0;
    }
}

void ag_attach_end_help(struct ag_attach *attach, struct ag_attach_times *times) {
    ag_attach_interrupt_help(attach);
    times->others_ns = times->others_ns > attach->help.times.others_ns
                           ? times->others_ns
                           : attach->help.times.others_ns;
    attach->help = (struct ag_attach_help){0};
}

/* Stops all threads but the one that executes a function for us. This may be necessary after the
 * user has asked for the end, because the function has to return. */
static void begin_help(struct ag_attach *attach) {
    char unused[512];
    const bool was_leaving = attach->end.is_leaving;
    attach->end.is_leaving = true;
    attach->threads.busy_tid = attach->call.thread->tid;
    if (ag_attach_stop_all(attach, unused) == 0) {
        attach->help.since_ns = ag_monotonic_ns();
    } else {
        ag_attach_release_all(attach, &attach->help.times);
    }
    attach->threads.busy_tid = 0;
    attach->end.is_leaving = was_leaving;
}

/* Returns the address of the futex that the thread waits for; 0: it does not wait for one. */
static uint64_t futex_of(const struct ag_traced_thread *thread) {
    char text[256];
    unsigned long address = 0;
    int call = -1;
    (void)ag_remote_process_file(thread->pid, thread->tid, "syscall", text, sizeof text);
    return sscanf(text, "%d %lx", &call, &address) == 2 && call == SYS_futex ? address : 0;
}

void ag_attach_help_call(void *context, uint64_t passed_ns) {
    struct ag_attach *attach = context;
    if (attach->help.since_ns == 0) {
        const uint64_t now_ns = ag_monotonic_ns();
        if (passed_ns >= SLOW_CALL_NS && now_ns >= attach->help.again_ns) {
            if (ag_stopped_threads_are_crowded(&attach->threads)) {
                begin_help(attach);
            }
            attach->help.again_ns = ag_monotonic_ns() + SLOW_CALL_NS;
        } else {
            ag_attach_sleep_until_woken(CALL_NAP_NS);
        }
    } else if (ag_monotonic_ns() - attach->help.since_ns >= HELP_NS) {
        ag_attach_interrupt_help(attach);
        attach->help.again_ns = ag_monotonic_ns() + HELP_NS;
    } else {
        const uint64_t futex = passed_ns >= ALONE_NS ? futex_of(attach->call.thread) : 0;
        if (futex != 0) {
            free_lock(attach, futex);
        }
        ag_attach_sleep_until_woken(ALONE_NS);
    }
}

/* ---- runtimes ---- */

/* Stops all threads, and lets them leave the ranges and the runtimes. Returns 0 if all have left,
 * and a thread that may make calls was found (ret_caller); -EAGAIN: try again; or another negative
 * errno. */
static int stop_quietly(struct ag_attach *attach, const struct ag_code_range *ranges,
                        size_t n_ranges, struct ag_traced_thread **ret_caller, char message[512]) {
    const struct ag_attachment *attachment = &attach->attachment;
    struct ag_code_range quiet[AG_ATTACHMENT_RANGES];
    for (uint32_t i = 0; i < attachment->n_quiet; i++) {
        quiet[i] = (struct ag_code_range){attachment->quiet[i].low, attachment->quiet[i].high};
    }
    const struct places places = {ranges, n_ranges, quiet, attachment->n_quiet};
    const int r = ag_attach_stop_all(attach, message);
    if (r < 0) {
        return r;
    }
    *ret_caller = leave_all(attach, &places) ? find_caller(attach) : NULL;
    return *ret_caller != NULL ? 0 : -EAGAIN;
}

/* Switches the adapters of runtimes on or off. Called between ag_attach_begin_call and
 * ag_remote_call_end. */
static int call_switch(struct ag_attach *attach, bool is_on) {
    const uint64_t arguments[] = {is_on};
    uint64_t result = 0;
    const int r = ag_remote_call_make(&attach->call, attach->bias + attach->switch_function,
                                      arguments, 1, &result);
    return r < 0 ? r : (int32_t)result;
}

static int never_quiet(const struct ag_attach *attach, char message[512]) {
    if (attach->insider != 0) {
        return ag_error_message(
            message, -EAGAIN,
            "%d (%s): cannot switch the hooks of its runtime: at each try a thread was inside the "
            "runtime or the allocator, most recently thread %d; try again",
            attach->process.pid, attach->process.name, attach->insider);
    }
    return ag_error_message(
        message, -EAGAIN,
        "%d (%s): cannot switch the hooks of its runtime: at each try no thread "
        "could call the runtime safely; try again",
        attach->process.pid, attach->process.name);
}

static int switch_on(struct ag_attach *attach, struct ag_traced_thread *caller, char message[512]) {
    char unused[512];
    int r = ag_attach_write_sites(attach, /* is_on= */ true, message);
    if (r == 0) {
        r = ag_attach_begin_call(attach, caller, /* helps= */ false);
        if (r == 0) {
            r = call_switch(attach, /* is_on= */ true);
            ag_remote_call_end(&attach->call);
        }
        r = r < 0 ? ag_error_message(message, r,
                                     "%d (%s): cannot call the adapter of its runtime: %s",
                                     attach->process.pid, attach->process.name, strerror(-r))
                  : 0;
    }
    if (r < 0) {
        /* removes only the jumps that were written */
        (void)ag_attach_write_sites(attach, /* is_on= */ false, unused);
    }
    attach->is_on = attach->was_on = r == 0;
    return r;
}

int ag_attach_runtimes_on(struct ag_attach *attach, struct ag_attach_times *times,
                          char ret_message[512]) {
    struct ag_code_range ranges[RANGES_MOST];
    const size_t n = ag_attach_site_ranges(attach, ranges);
    const uint64_t begin_ns = ag_monotonic_ns();
    while (ag_monotonic_ns() - begin_ns < patience_ns) {
        struct ag_traced_thread *caller = NULL;
        int r = stop_quietly(attach, ranges, n, &caller, ret_message);
        r = r < 0 ? r : switch_on(attach, caller, ret_message);
        ag_attach_release_all(attach, times);
        if (r != -EAGAIN) {
            return r;
        }
        if (ag_attach_end_is_due(&attach->end)) {
            return ag_attach_interrupted(attach, ret_message);
        }
        pause_before_try(attach);
    }
    return never_quiet(attach, ret_message);
}

static uint64_t place_in_attachment(const struct ag_attach *attach, size_t offset) {
    return attach->bias + attach->variable + offset;
}

/* Asks the adapters of runtimes to finish. Some adapters can finish only at a safe point of their
 * runtime, so this function waits for them, for at most leave_patience_ns. */
static void ask_to_leave(struct ag_attach *attach) {
    const uint32_t yes = 1;
    uint32_t n_left = 0;
    const uint64_t place = place_in_attachment(attach, offsetof(struct ag_attachment, is_leaving));
    const uint64_t begin_ns = ag_monotonic_ns();
    /* on failure the process is gone, which the next read shows */
    (void)ag_attach_write_memory(attach->process.pid, place, &yes, sizeof yes);
    while (
        n_left < attach->attachment.n_leaving && ag_monotonic_ns() - begin_ns < leave_patience_ns &&
        !ag_attach_end_is_due(&attach->end) &&
        ag_remote_memory_read(attach->process.pid,
                              place_in_attachment(attach, offsetof(struct ag_attachment, n_left)),
                              &n_left, sizeof n_left) == 0) {
        ag_attach_pause(attach);
    }
}

/* Ends the adapters' work and unloads the agent. Called while all threads are stopped and none is
 * in the code that ranges_out finds. */
static int runtimes_leave(struct ag_attach *attach, struct ag_traced_thread *caller,
                          char message[512]) {
    uint64_t unused = 0;
    int r = ag_attach_begin_call(attach, caller, /* helps= */ false);
    if (r < 0) {
        return r == -EINTR ? ag_attach_interrupted(attach, message) : r;
    }
    r = call_switch(attach, /* is_on= */ false);
    if (r == 0 && attach->is_on) {
        r = ag_attach_write_sites(attach, /* is_on= */ false, message);
        attach->is_on = false;
    }
    if (r == 0) {
        r = ag_remote_call_undo(&attach->call, attach->bias + attach->end_function, NULL, 0,
                                &unused);
    }
    if (r == 0) {
        ag_attach_unload(attach);
    }
    ag_remote_call_end(&attach->call);
    return r == -EINTR ? ag_attach_interrupted(attach, message) : r;
}

/* Finds the code in which no thread may be when the agent is unloaded. */
static size_t ranges_out(const struct ag_attach *attach, struct ag_code_range ranges[RANGES_MOST]) {
    size_t n = ag_attach_site_ranges(attach, ranges);
    n += agent_ranges(attach, ranges + n);
    for (size_t i = 0; i < attach->ground.n_zones; i++) {
        ranges[n++] =
            (struct ag_code_range){attach->ground.zones[i].low, attach->ground.zones[i].high};
    }
    return n;
}

int ag_attach_runtimes_off(struct ag_attach *attach, struct ag_attach_times *times,
                           char ret_message[512]) {
    static struct ag_code_range ranges[RANGES_MOST];
    const size_t n = ranges_out(attach, ranges);
    ask_to_leave(attach);
    const uint64_t begin_ns = ag_monotonic_ns();
    while (ag_monotonic_ns() - begin_ns < patience_ns) {
        struct ag_traced_thread *caller = NULL;
        int r = stop_quietly(attach, ranges, n, &caller, ret_message);
        const uint64_t stopped_since_ns = caller != NULL ? caller->stopped_ns : 0;
        r = r < 0 ? r : runtimes_leave(attach, caller, ret_message);
        ag_attach_release_all(attach, times);
        if (r != -EAGAIN && r != -EBUSY) {
            times->one_ns = stopped_since_ns != 0 ? ag_monotonic_ns() - stopped_since_ns : 0;
            return r;
        }
        if (ag_attach_end_is_due(&attach->end)) {
            return ag_attach_interrupted(attach, ret_message);
        }
        pause_before_try(attach);
    }
    return never_quiet(attach, ret_message);
}
