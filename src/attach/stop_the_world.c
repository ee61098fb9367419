/* stop_the_world.c: changes a process for `attach` while all of its threads are stopped: writes
 * code, and switches adapters on and off. An adapter is the code for one runtime (virtual machine)
 * in the agent, the loaded shared library that records allocations. attaching.c defines the order
 * of the steps.
 *
 * 1. Code. No thread may be in the bytes that change, or return into them. If a thread is in them
 * or would return into them, all threads are resumed, and stopped again after a pause of random
 * length.
 *
 * 2. Runtimes. The adapters list the code in which a thread may hold locks of the runtime or change
 * its data (the quiet ranges of hook/attachment.h). The runtime is called only while all threads
 * are stopped and none is in that code. When the adapters are switched off, all threads stay
 * stopped until the agent is unloaded: a garbage collector may scan the data of every loaded
 * object, so the agent must not be unloaded during a collection. The unloading takes locks of the
 * libc and of the loader, so no stopped thread may hold one of them. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>

#include "attach_state.h"
#include "base/clock.h"
#include "base/error_message.h"
#include "remote/remote_memory.h"

enum {
    STOP_TRIES = 200,
    RANGES_MOST = AG_ATTACHMENT_SITES + 1 + AG_ATTACHMENT_PAGES + AG_ZONES_MOST,
};
static const uint64_t patience_ns = UINT64_C(10000000000), leave_patience_ns = UINT64_C(1000000000);

/* ---- stopping, and code ---- */

void ag_attach_release_all(struct ag_attach *attach, struct ag_attach_times *times) {
    const uint64_t stopped_ns = ag_stopped_threads_release(&attach->threads);
    times->others_ns = stopped_ns > times->others_ns ? stopped_ns : times->others_ns;
    ag_attach_end_hold(&attach->end, -1);
}

int ag_attach_stop_all(struct ag_attach *attach, char message[512]) {
    ag_attach_end_hold(&attach->end, 1);
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

/* Whether the function IS_IN returns true for a thread. IS_IN is ag_thread_is_in_ranges or
 * ag_thread_is_busy_in. */
static bool any_thread(struct ag_attach *attach,
                       bool (*is_in)(struct ag_safe_ground *ground,
                                     const struct ag_traced_thread *thread,
                                     const struct ag_code_range *ranges, size_t n_ranges),
                       const struct ag_code_range *ranges, size_t n_ranges) {
    for (size_t i = 0; i < attach->threads.n; i++) {
        if (is_in(&attach->ground, &attach->threads.items[i], ranges, n_ranges)) {
            return true;
        }
    }
    return false;
}

/* Writes code by ptrace, which ignores the protection of the pages and leaves it unchanged. */
static int write_code(const struct ag_attach *attach, uint64_t place, const uint8_t *bytes) {
    enum { WORD = sizeof(long) };
    const pid_t tid = attach->threads.items[0].tid;
    for (uint64_t at = place & ~(uint64_t)(WORD - 1); at < place + AG_ATTACHMENT_CODE_BYTES;
         at += WORD) {
        uint8_t word[WORD];
        ag_attach_end_alive(&attach->end);
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
        if (r == 0 && memcmp(now, is_on ? site->before : site->after, sizeof now) != 0) {
            r = -EBUSY;
        }
        r = r < 0 ? r : write_code(attach, site->place, is_on ? site->after : site->before);
        if (r < 0) {
            result = ag_error_message(
                message, r, "%d (%s): cannot change its code at 0x%llx: %s", attach->process.pid,
                attach->process.name, (unsigned long long)site->place,
                r == -EBUSY ? "another program has changed it" : strerror(-r));
        }
    }
    return result;
}

int ag_attach_stop_all_outside(struct ag_attach *attach, const struct ag_code_range *ranges,
                               size_t n_ranges, struct ag_attach_times *times, char message[512]) {
    for (int i = 0; i < STOP_TRIES; i++) {
        const int r = ag_attach_stop_all(attach, message);
        if (r == 0 && !any_thread(attach, ag_thread_is_in_ranges, ranges, n_ranges)) {
            return 0;
        }
        ag_attach_release_all(attach, times);
        if (r < 0 && r != -EAGAIN) {
            return r;
        }
        if (ag_attach_end_is_due(&attach->end)) {
            return ag_attach_interrupted(attach, message);
        }
        ag_attach_pause(attach);
    }
    return ag_error_message(message, -EAGAIN,
                            "%d (%s): at each try a thread was at the beginning of an allocation "
                            "function; try again",
                            attach->process.pid, attach->process.name);
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

bool ag_attach_any_thread_is_inside(struct ag_attach *attach) {
    struct ag_code_range ranges[1 + AG_ATTACHMENT_PAGES];
    return any_thread(attach, ag_thread_is_in_ranges, ranges, agent_ranges(attach, ranges));
}

/* ---- runtimes ---- */

static bool any_thread_is_in_a_runtime(struct ag_attach *attach) {
    const struct ag_attachment *attachment = &attach->attachment;
    struct ag_code_range ranges[AG_ATTACHMENT_RANGES];
    for (uint32_t i = 0; i < attachment->n_quiet; i++) {
        ranges[i] = (struct ag_code_range){attachment->quiet[i].low, attachment->quiet[i].high};
    }
    return any_thread(attach, ag_thread_is_busy_in, ranges, attachment->n_quiet);
}

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

/* Stops all threads. Returns 0 if no thread is in the ranges or in a runtime, and a thread that may
 * make calls was found (ret_caller); -EAGAIN: try again; or another negative errno. */
static int stop_quietly(struct ag_attach *attach, const struct ag_code_range *ranges,
                        size_t n_ranges, struct ag_traced_thread **ret_caller, char message[512]) {
    const int r = ag_attach_stop_all(attach, message);
    if (r < 0) {
        return r;
    }
    const bool is_quiet = !any_thread(attach, ag_thread_is_in_ranges, ranges, n_ranges) &&
                          !any_thread_is_in_a_runtime(attach);
    *ret_caller = is_quiet ? find_caller(attach) : NULL;
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
    return ag_error_message(
        message, -EAGAIN,
        "%d (%s): at each try a thread was inside the runtime or the allocator; try again",
        attach->process.pid, attach->process.name);
}

static int switch_on(struct ag_attach *attach, struct ag_traced_thread *caller, char message[512]) {
    char unused[512];
    int r = ag_attach_write_sites(attach, /* is_on= */ true, message);
    if (r == 0) {
        r = ag_attach_begin_call(attach, caller);
        if (r == 0) {
            r = call_switch(attach, /* is_on= */ true);
            ag_remote_call_end(&attach->call);
        }
        r = r < 0 ? ag_error_message(message, r, "%d (%s): cannot call its runtime: %s",
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
        ag_attach_pause(attach);
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
    int r = ag_attach_begin_call(attach, caller);
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
        ag_attach_pause(attach);
    }
    return never_quiet(attach, ret_message);
}
