/* standing_runtimes.c: switches the hooks of an agent with adapters of runtimes on and off.
 *
 * A runtime is called while it is stopped: no thread is in the code that the adapters named, so no
 * thread holds a lock of the runtime or is in the middle of what the call changes. Switching off is
 * done in one stop: a garbage collector may scan the data of every loaded object, so the agent must
 * not be unloaded during a collection, and the other threads have to be stopped until it is
 * unloaded. For that no thread may hold a lock of the libc or of the loader either. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>

#include "attach_state.h"
#include "base/error_message.h"
#include "remote/remote_memory.h"

enum { RANGES_MOST = AG_ATTACHMENT_SITES + 1 + AG_ATTACHMENT_PAGES + AG_ZONES_MOST };
static const uint64_t patience_ns = UINT64_C(10000000000), leave_patience_ns = UINT64_C(1000000000);

static bool any_thread_is_in_a_runtime(struct ag_attach *attach) {
    const struct ag_attachment *attachment = &attach->attachment;
    struct ag_code_range ranges[AG_ATTACHMENT_RANGES];
    for (uint32_t i = 0; i < attachment->n_quiet; i++) {
        ranges[i] = (struct ag_code_range){attachment->quiet[i].low, attachment->quiet[i].high};
    }
    for (size_t i = 0; i < attach->threads.n; i++) {
        if (ag_thread_is_busy_in(&attach->ground, &attach->threads.items[i], ranges,
                                 attachment->n_quiet)) {
            return true;
        }
    }
    return false;
}

/* A stopped thread that may make calls, or NULL. */
static struct ag_traced_thread *find_caller(struct ag_attach *attach) {
    for (size_t i = 0; i < attach->threads.n; i++) {
        if (ag_safe_point_obstacle(&attach->ground, &attach->threads.items[i]) == NULL) {
            return &attach->threads.items[i];
        }
    }
    return NULL;
}

/* Stops all threads. 0: no thread is in the ranges or in a runtime, and one may make calls;
 * -EAGAIN: not this time. */
static int stop_quietly(struct ag_attach *attach, const struct ag_code_range *ranges,
                        size_t n_ranges, struct ag_traced_thread **ret_caller, char message[512]) {
    const int r = ag_attach_stop_all(attach, message);
    if (r < 0) {
        return r;
    }
    const bool is_quiet = !ag_attach_any_thread_in_ranges(attach, ranges, n_ranges) &&
                          !any_thread_is_in_a_runtime(attach);
    *ret_caller = is_quiet ? find_caller(attach) : NULL;
    return *ret_caller != NULL ? 0 : -EAGAIN;
}

/* Called when a remote call has begun. */
static int call_stand(struct ag_attach *attach, bool is_on) {
    const uint64_t arguments[] = {is_on};
    uint64_t result = 0;
    const int r = ag_remote_call_make(&attach->call, attach->bias + attach->stand_function,
                                      arguments, 1, &result);
    return r < 0 ? r : (int32_t)result;
}

static int never_quiet(const struct ag_attach *attach, char message[512]) {
    return ag_error_message(
        message, -EAGAIN,
        "%d (%s): at each try a thread was inside the runtime or the allocator; try again",
        attach->process.pid, attach->process.name);
}

/* ---- on ---- */

static int switch_on(struct ag_attach *attach, struct ag_traced_thread *caller, char message[512]) {
    char unused[512];
    int r = ag_attach_write_sites(attach, /* is_on= */ true, message);
    if (r == 0) {
        r = ag_attach_begin_call(attach, caller);
        if (r == 0) {
            r = call_stand(attach, /* is_on= */ true);
            ag_remote_call_end(&attach->call);
        }
        r = r < 0 ? ag_error_message(message, r, "%d (%s): cannot call its runtime: %s",
                                     attach->process.pid, attach->process.name, strerror(-r))
                  : 0;
    }
    if (r < 0) {
        /* those that were written */
        (void)ag_attach_write_sites(attach, /* is_on= */ false, unused);
    }
    attach->is_on = r == 0;
    return r;
}

int ag_attach_runtimes_on(struct ag_attach *attach, struct ag_attach_times *times,
                          char ret_message[512]) {
    struct ag_code_range ranges[RANGES_MOST];
    const size_t n = ag_attach_site_ranges(attach, ranges);
    const uint64_t begin_ns = ag_attach_now_ns();
    while (ag_attach_now_ns() - begin_ns < patience_ns) {
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

/* ---- off ---- */

static uint64_t place_in_attachment(const struct ag_attach *attach, size_t offset) {
    return attach->bias + attach->variable + offset;
}

/* Runtimes that end their work at a safe point of their own get some time for it. */
static void ask_to_leave(struct ag_attach *attach) {
    uint32_t yes = 1, n_left = 0;
    const uint64_t place = place_in_attachment(attach, offsetof(struct ag_attachment, is_leaving));
    const struct iovec here = {&yes, sizeof yes}, there = {(void *)(uintptr_t)place, sizeof yes};
    const uint64_t begin_ns = ag_attach_now_ns();
    /* failure: the process is gone, seen below */
    (void)process_vm_writev(attach->process.pid, &here, 1, &there, 1, 0);
    while (
        n_left < attach->attachment.n_leaving &&
        ag_attach_now_ns() - begin_ns < leave_patience_ns && !ag_attach_end_is_due(&attach->end) &&
        ag_remote_memory_read(attach->process.pid,
                              place_in_attachment(attach, offsetof(struct ag_attachment, n_left)),
                              &n_left, sizeof n_left) == 0) {
        ag_attach_pause(attach);
    }
}

/* All threads are stopped, and no thread is in the way. */
static int runtimes_leave(struct ag_attach *attach, struct ag_traced_thread *caller,
                          char message[512]) {
    uint64_t unused = 0;
    int r = ag_attach_begin_call(attach, caller);
    if (r < 0) {
        return r;
    }
    r = call_stand(attach, /* is_on= */ false);
    if (r == 0 && attach->is_on) {
        r = ag_attach_write_sites(attach, /* is_on= */ false, message);
        attach->is_on = false;
    }
    if (r == 0) {
        r = ag_remote_call_make(&attach->call, attach->bias + attach->end_function, NULL, 0,
                                &unused);
    }
    if (r == 0) {
        ag_attach_unload(attach);
    }
    ag_remote_call_end(&attach->call);
    return r;
}

static size_t ranges_out(const struct ag_attach *attach, struct ag_code_range ranges[RANGES_MOST]) {
    const struct ag_attachment *attachment = &attach->attachment;
    size_t n = ag_attach_site_ranges(attach, ranges);
    ranges[n++] = attach->agent;
    for (uint32_t i = 0; i < attachment->n_pages; i++) {
        ranges[n++] = (struct ag_code_range){attachment->pages[i].low, attachment->pages[i].high};
    }
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
    const uint64_t begin_ns = ag_attach_now_ns();
    while (ag_attach_now_ns() - begin_ns < patience_ns) {
        struct ag_traced_thread *caller = NULL;
        int r = stop_quietly(attach, ranges, n, &caller, ret_message);
        const uint64_t stood_since_ns = caller != NULL ? caller->stopped_ns : 0;
        r = r < 0 ? r : runtimes_leave(attach, caller, ret_message);
        ag_attach_release_all(attach, times);
        if (r != -EAGAIN && r != -EBUSY) {
            times->one_ns = stood_since_ns != 0 ? ag_attach_now_ns() - stood_since_ns : 0;
            return r;
        }
        if (ag_attach_end_is_due(&attach->end)) {
            return ag_attach_interrupted(attach, ret_message);
        }
        ag_attach_pause(attach);
    }
    return never_quiet(attach, ret_message);
}
