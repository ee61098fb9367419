/* julia_collections.c: records Julia's collections and finds the objects that die in them, by the
 * callbacks of julia_gcext.h, which Julia offers to C libraries that have objects of their own.
 *
 * Deaths. Between marking and sweeping Julia calls the sweep functions of foreign objects: at that
 * time the mark bits say which objects live, and nothing is freed yet. So the adapter makes a
 * foreign type and one object of this type, which is in the adapter's own memory and is never
 * marked. The root scanner, a callback that runs in every pass of a collection (a full collection
 * may have two passes), schedules that object's sweep function and keeps the type alive.
 *
 * Old objects are checked only if the previous pass was a full sweep, because only a full sweep
 * clears their marks. A sweep was full if jl_gc_num's count of full sweeps grew.
 *
 * While Julia has stopped all threads, the adapter reads only counters and names of types from
 * Julia. */
#include "julia_collections.h"

#include "base/raw_syscall.h"
#include "embed/host_events.h"
#include "julia_code.h"
#include "julia_objects.h"
#include "julia_types.h"
#include "record/recorder.h"

#include <time.h>

bool ag_julia_collections_are_followed;

static uintptr_t sentinel[4] __attribute__((aligned(32))); /* the foreign object; word 1 is its
                                                            * header */
static void *sentinel_type;

/* The current collection; there is at most one at a time. */
static struct {
    uint64_t begun_raw, begun_ns, before_bytes, needed_bytes;
    int n_full, n_passes; /* full sweeps before this collection; passes of it */
    uint64_t gc_ns;       /* Julia's total time of collections before this one */
    uint32_t stack;
    bool is_begun;
} now;
static int n_full_at_last_pass = -1;
static bool forgets; /* the next collection forgets all blocks */
static uint64_t live_at_end, total_at_end;

static uint64_t monotonic_ns(void) {
    struct timespec time = {0};
    (void)ag_syscall2(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t total_bytes(const struct ag_julia_gc_num *num) {
    return num->total_allocd + (uint64_t)num->allocd + (uint64_t)num->deferred_alloc;
}

/* ---- callbacks ---- */

static void begins(int collection) {
    const struct ag_julia_gc_num num = ag_julia.jl_gc_num();
    (void)collection;
    now.is_begun = ag_julia_is_recorded();
    struct ag_julia_thread *thread = atomic_load_explicit(&ag_julia_threads, memory_order_acquire);
    for (; thread; thread = thread->next) {
        if (thread->is_restoring) {
            ag_julia_restored(thread);
        } else {
            /* The data of an array is allocated before the array itself, whose allocation may have
             * caused this collection. So the data stays pending until the array is known. */
            ag_julia_settle(thread, /* with_data= */ false);
        }
        thread->last_object = 0;
    }
    if (forgets) {
        ag_julia_objects_forget();
        forgets = false;
    }
    if (!now.is_begun) {
        return;
    }
    const struct ag_julia_thread *self = ag_julia_own;
    const uintptr_t *frame = __builtin_frame_address(0);
    const bool has_cause = self && self->caller_sp;
    now.n_full = num.full_sweep;
    now.n_passes = 0;
    now.gc_ns = num.total_time;
    now.before_bytes = live_at_end + total_bytes(&num) - total_at_end;
    now.needed_bytes = has_cause ? self->asked_bytes : 0;
    now.stack = has_cause ? ag_record_stack(self->caller_sp, self->caller_rbp)
                          : ag_record_stack(frame + 1, frame[0]);
    now.begun_ns = monotonic_ns();
    now.begun_raw = ag_host_elapsed_raw();
}

static void scan_roots(int collection) {
    void *ptls = ag_julia.get_ptls();
    (void)collection;
    (void)ag_julia.jl_gc_mark_queue_obj(ptls, sentinel_type);
    sentinel[1] = (uintptr_t)sentinel_type;
    ag_julia.jl_gc_schedule_foreign_sweepfunc(ptls, &sentinel[2]);
}

static uintptr_t mark_sentinel(void *ptls, void *object) {
    (void)ptls;
    (void)object;
    return 0;
}

static void sweep_sentinel(void *object) {
    const struct ag_julia_gc_num num = ag_julia.jl_gc_num();
    (void)object;
    ag_julia_objects_sweep(/* is_full= */ num.full_sweep != n_full_at_last_pass);
    ag_julia_types_sweep();
    n_full_at_last_pass = num.full_sweep;
    now.n_passes++;
}

/* Converts a duration of Julia's clock to the session's clock. */
static uint64_t raw_of(uint64_t ns) {
    const uint64_t passed_ns = monotonic_ns() - now.begun_ns;
    const uint64_t passed_raw = ag_host_elapsed_raw() - now.begun_raw;
    return passed_ns > 0 && ns < passed_ns
               ? (uint64_t)((double)passed_raw * (double)ns / (double)passed_ns)
               : passed_raw;
}

static void ends(int collection) {
    enum { FULL = 1 }; /* JL_GC_FULL */
    const struct ag_julia_gc_num num = ag_julia.jl_gc_num();
    live_at_end = (uint64_t)ag_julia.jl_gc_live_bytes();
    total_at_end = total_bytes(&num);
    if (now.is_begun && now.n_passes > 0) { /* no pass: collections are disabled */
        const struct ag_host_collection reported = {.start_raw = now.begun_raw,
                                                    .end_raw = now.begun_raw +
                                                               raw_of(num.total_time - now.gc_ns),
                                                    .needed_bytes = now.needed_bytes,
                                                    .heap_before_bytes = now.before_bytes,
                                                    .heap_after_bytes = live_at_end,
                                                    .stack = now.stack};
        const bool is_full = collection == FULL || num.full_sweep != now.n_full;
        ag_host_report_collection(ag_julia_heaps[AG_JULIA_POOL], &reported,
                                  is_full ? "full" : "incremental");
        ag_julia_code_name_new();
    }
    now.is_begun = false;
}

void ag_julia_collections_forget_next(void) {
    forgets = true;
}

bool ag_julia_collections_have_forgotten(void) {
    return !forgets;
}

/* ---- start ---- */

void ag_julia_collections_follow(struct ag_julia_thread *thread) {
    if (thread->is_own || !ag_julia.jl_is_initialized() || !*ag_julia.jl_main_module) {
        return;
    }
    static _Atomic bool is_begun;
    if (atomic_exchange_explicit(&is_begun, true, memory_order_relaxed)) {
        return; /* another thread installs the callbacks */
    }
    ag_julia_settle(thread, /* with_data= */ false);
    thread->is_own = true;
    const int was_enabled = ag_julia.jl_gc_enable(0);
    sentinel_type = ag_julia.jl_new_foreign_type(
        ag_julia.jl_symbol("AllogramSentinel"), *ag_julia.jl_main_module, *ag_julia.jl_any_type,
        (void *)mark_sentinel, (void *)sweep_sentinel, 0, 0);
    const struct ag_julia_gc_num num = ag_julia.jl_gc_num();
    live_at_end = (uint64_t)ag_julia.jl_gc_live_bytes();
    /* Before Julia's first collection, all bytes that it has allocated are still in use. */
    total_at_end = num.pause > 0 ? total_bytes(&num) : 0;
    ag_julia.jl_gc_set_cb_pre_gc(begins, 1);
    ag_julia.jl_gc_set_cb_post_gc(ends, 1);
    ag_julia.jl_gc_set_cb_root_scanner(scan_roots, 1);
    (void)ag_julia.jl_gc_enable(was_enabled);
    thread->is_own = false;
    ag_julia_collections_are_followed = true;
}
