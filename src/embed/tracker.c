/* tracker.c: calls the program's own callbacks for sampled blocks.
 *
 * 1. Callbacks. allogram holds no lock while a callback runs. So a callback may allocate and free
 * (its own allocations are not sampled), wait for other threads whose callbacks run meanwhile, stop
 * this tracker and start another, end its thread, and leave by longjmp or a C++ exception.
 *
 * 2. Blocks. A sampled block is in the table (tracked_blocks.h) before its alloc callback is
 * called, so that a thread that frees it meanwhile finds it:
 *
 *     RUNNING ---- returns a value ----> KEPT ---- free: on_free(value), once
 *        |                                 `------ discard: no callback
 *        |---- returns NULL -------------> forgotten
 *        |---- freed meanwhile, returns -> on_free(value), right after on_alloc
 *        `---- leaves without returning -> forgotten: there is no value
 *
 * 3. Leaving. If a callback is left by a jump, allogram is not notified. So each thread records the
 * callbacks that it runs, with a number that is also stored in the stack frame of the caller. If at
 * the thread's next event that frame is below the stack pointer, or does not contain the number,
 * the callback was left, and its block is forgotten. If the thread ended inside of a callback, the
 * block stays RUNNING until it is freed; the freeing thread sees that the callback's thread has
 * ended, and forgets the block.
 *
 * 4. Sampling. Each thread has a skip, the bytes up to its next sample (base/skip.h). allogram.h
 * counts down ag_host_left, which holds a part of the skip. So a thread notices a new tracker after
 * it has allocated at most AG_TRACKER_GRANT_BYTES (at once if every block is wanted).
 *
 * 5. Signals. The table's lock is held with all signals blocked.
 *
 * 6. Delivery. Some frees are found where no code of the program may run, for example while a
 * garbage collector holds its own lock. The freed block gives up its address at once (the next
 * block may get the address). The block waits in a queue, with its value, until a thread that may
 * run callbacks calls on_free for it. Completions (allogram_complete) that were reported inside of
 * a callback wait in the queue, too. */
#include "tracker.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/raw_syscall.h"
#include "base/skip.h"
#include "format/segment.h"
#include "host_events.h"
#include "host_heaps.h"
#include "host_lock.h"
#include "host_rate.h"
#include "tracked_blocks.h"
#include "unwind/readable_range.h"

enum {
    TRACKERS_MOST = 64,
    NESTED_MOST = 16, /* nested callbacks: frees within callbacks of frees */
    DEFAULT_INTERVAL_BYTES = 512 * 1024,
    SAME_STACK_BYTES = 1 << 20,
};

struct tracker {
    struct allogram_tracker_options options;
    bool is_used;      /* the tracker samples, or has blocks in the table */
    uint64_t n_blocks; /* the tracker's blocks in the table */
};
static struct {
    struct ag_host_lock lock;
    struct ag_tracked_blocks blocks; /* under the lock */
    struct tracker list[TRACKERS_MOST + 1];
    _Atomic uint32_t sampling; /* number of the tracker that samples, 0: none */
    _Atomic uint32_t version;  /* changes whenever `sampling` changes */
    _Atomic uint64_t n_threads;
    uint32_t first_queued, last_queued; /* places, under the lock; 0: none */
    _Atomic uint32_t n_queued;
} trackers;

struct running {     /* a callback of this thread */
    uint64_t number; /* never used twice; stored at *mark while the callback runs */
    /* address of the word with the number, in the frame that called the callback */
    uintptr_t mark;
    uint32_t place; /* place of the block, if this is its alloc callback; 0: another callback */
};
static __thread struct {
    struct ag_skip skip;
    uint64_t granted; /* the part of the skip put into ag_host_left */
    uint32_t version; /* trackers.version when the skip was drawn */
    uint32_t n_running;
    uint64_t last_number;
    struct running running[NESTED_MOST];
} own;

/* ---- the lock ---- */

static bool trackers_lock(uint64_t *ret_signals) {
    return ag_host_lock_take_blocking(&trackers.lock, ret_signals);
}

static void trackers_unlock(const uint64_t *signals) {
    ag_host_lock_give_unblock(&trackers.lock, signals);
}

/* ---- blocks, under the lock ---- */

static void update_mode_locked(void) {
    const uint32_t sampling = atomic_load_explicit(&trackers.sampling, memory_order_relaxed);
    const bool every = sampling != 0 && trackers.list[sampling].options.interval_bytes == 1;
    const uint32_t wanted = (sampling != 0 || trackers.blocks.count > 0 ? ALLOGRAM_FREES_ : 0) |
                            (sampling == 0 ? 0
                             : every       ? ALLOGRAM_EACH_
                                           : ALLOGRAM_SAMPLES_);
    ag_host_mode(wanted, (ALLOGRAM_FREES_ | ALLOGRAM_EACH_ | ALLOGRAM_SAMPLES_) & ~wanted);
    ag_host_rate_follow(/* has_tracker= */ sampling != 0);
}

void ag_tracker_follow_session(void) {
    uint64_t signals;
    if (trackers_lock(&signals)) {
        update_mode_locked();
        trackers_unlock(&signals);
    }
}

static void remove_locked(uint32_t place) {
    const uint32_t number = ag_tracked_at(&trackers.blocks, place)->tracker;
    ag_tracked_remove(&trackers.blocks, place);
    struct tracker *tracker = &trackers.list[number];
    tracker->n_blocks--;
    if (tracker->n_blocks == 0 &&
        atomic_load_explicit(&trackers.sampling, memory_order_relaxed) != number) {
        tracker->is_used = false;
    }
    if (trackers.blocks.count == 0) {
        update_mode_locked();
    }
}

struct call { /* the callback to call when the lock is released */
    void (*callback)(void *context, void *value); /* NULL: none */
    void *context, *value;
};

static struct call free_call(uint32_t number, void *value) {
    const struct allogram_tracker_options *options = &trackers.list[number].options;
    return (struct call){options->on_free, options->context, value};
}

static struct call complete_call(uint32_t number, void *value) {
    const struct allogram_tracker_options *options = &trackers.list[number].options;
    return (struct call){options->on_complete, options->context, value};
}

static void queue_locked(uint32_t place) {
    struct ag_tracked *entry = ag_tracked_at(&trackers.blocks, place);
    if (entry->is_queued) {
        return;
    }
    entry->is_queued = true;
    entry->owner = 0;
    if (trackers.last_queued != 0) {
        ag_tracked_at(&trackers.blocks, trackers.last_queued)->owner = place;
    } else {
        trackers.first_queued = place;
    }
    trackers.last_queued = place;
    atomic_fetch_add_explicit(&trackers.n_queued, 1, memory_order_relaxed);
}

/* Returns 0 if the queue is empty. */
static uint32_t unqueue_locked(void) {
    const uint32_t place = trackers.first_queued;
    if (place != 0) {
        struct ag_tracked *entry = ag_tracked_at(&trackers.blocks, place);
        trackers.first_queued = entry->owner;
        trackers.last_queued = entry->owner != 0 ? trackers.last_queued : 0;
        entry->is_queued = false;
        atomic_fetch_sub_explicit(&trackers.n_queued, 1, memory_order_relaxed);
    }
    return place;
}

/* A block with a value was freed; its callback is queued, and its address becomes free. */
static void die_later_locked(uint32_t place) {
    enum { NO_SPACE = 0xffff }; /* no heap has this number */
    ag_tracked_rename(&trackers.blocks, place, UINT64_C(1) * NO_SPACE << 48 | place);
    ag_tracked_at(&trackers.blocks, place)->state = AG_TRACKED_DEAD;
    queue_locked(place);
}

/* The block at KEY was freed: removes it and returns the callback to call. A block whose alloc
 * callback runs is only marked. A block in the queue stays there, but gives up its address. */
static struct call take_locked(uint64_t key) {
    struct call call = {.callback = NULL};
    const uint32_t place = ag_tracked_find(&trackers.blocks, key);
    if (place == 0) {
        return call;
    }
    struct ag_tracked *entry = ag_tracked_at(&trackers.blocks, place);
    if (entry->state == AG_TRACKED_RUNNING && !ag_host_thread_has_ended(entry->owner)) {
        entry->is_freed = true; /* end_sample reads is_freed when the callback returns */
        return call;
    }
    if (entry->is_queued) {
        die_later_locked(place);
        return call;
    }
    if (entry->state == AG_TRACKED_KEPT) {
        call = free_call(entry->tracker, entry->value);
    }
    remove_locked(place);
    return call;
}

/* ---- running callbacks ---- */

static bool is_running(const struct running *running, uintptr_t sp) {
    uint64_t found = 0;
    if (running->mark <= sp && sp - running->mark < SAME_STACK_BYTES) {
        return false; /* the frame with the mark has returned */
    }
    return ag_readable_copy(&found, running->mark, sizeof(found)) && found == running->number;
}

/* Forgets the callbacks that were left without returning. Returns whether a callback of this thread
 * still runs. */
static bool is_inside(uintptr_t sp) {
    while (own.n_running > 0 && !is_running(&own.running[own.n_running - 1], sp)) {
        const uint32_t place = own.running[--own.n_running].place;
        uint64_t signals;
        if (place != 0 && trackers_lock(&signals)) {
            remove_locked(place);
            trackers_unlock(&signals);
        }
    }
    return own.n_running > 0;
}

/* Called before a callback; callback_leave is called after it. false: too many are nested. */
static bool callback_enter(uint64_t *mark, uint32_t place) {
    if (own.n_running == NESTED_MOST) {
        return false;
    }
    /* a number that does not occur in memory by chance */
    *mark = ++own.last_number ^ UINT64_C(0xa110c8a3d5e7f911);
    own.running[own.n_running] =
        (struct running){.number = *mark, .mark = (uintptr_t)mark, .place = place};
    /* the entry must be complete when n_running changes, because a signal handler may run at any
     * moment and read the entry */
    atomic_signal_fence(memory_order_seq_cst);
    own.n_running++;
    return true;
}

static void callback_leave(volatile uint64_t *mark) {
    own.n_running--;
    *mark = 0;
}

/* Calls the callback. If too many callbacks are nested, does not record that this callback runs. */
static void make_call(const struct call *call) {
    uint64_t mark = 0;
    if (call->callback) {
        const bool is_noted = callback_enter(&mark, 0);
        call->callback(call->context, call->value);
        if (is_noted) {
            callback_leave(&mark);
        }
    }
}

/* ---- samples ---- */

/* Inserts the block into the table. 0: the tracker has stopped, or there is no memory. */
static uint32_t begin_sample(uint64_t key, uint32_t number, struct call *ret_earlier) {
    uint64_t signals;
    uint32_t place = 0;
    if (!trackers_lock(&signals)) {
        return 0;
    }
    /* an earlier block at this address, whose free was not reported */
    *ret_earlier = take_locked(key);
    if (atomic_load_explicit(&trackers.sampling, memory_order_relaxed) == number) {
        place = ag_tracked_insert(&trackers.blocks, key);
    }
    if (place != 0) {
        struct ag_tracked *entry = ag_tracked_at(&trackers.blocks, place);
        entry->state = AG_TRACKED_RUNNING;
        entry->tracker = number;
        entry->owner = (uint32_t)ag_syscall1(SYS_gettid, 0);
        trackers.list[number].n_blocks++;
    }
    trackers_unlock(&signals);
    return place;
}

/* Called when the callback has returned VALUE. */
static struct call end_sample(uint32_t place, void *value) {
    struct call call = {.callback = NULL};
    uint64_t signals;
    if (!trackers_lock(&signals)) {
        return call;
    }
    struct ag_tracked *entry = ag_tracked_at(&trackers.blocks, place);
    if (value && !entry->is_freed && !entry->is_discarded) {
        entry->value = value;
        entry->state = AG_TRACKED_KEPT;
    } else {
        if (value && !entry->is_discarded) {
            call = free_call(entry->tracker, value);
        }
        remove_locked(place);
    }
    trackers_unlock(&signals);
    return call;
}

static void tracker_sample(uint32_t number, const struct allogram_sample *block) {
    struct call earlier = {.callback = NULL};
    uint64_t mark = 0;
    const uint32_t place =
        begin_sample(ag_host_place(block->heap, block->address), number, &earlier);
    if (place == 0) {
        make_call(&earlier);
        return;
    }
    const struct allogram_tracker_options options = trackers.list[number].options;
    void *value = NULL;
    /* cannot fail: no callback runs, since nested blocks are not sampled */
    (void)callback_enter(&mark, place);
    if (earlier.callback) {
        earlier.callback(earlier.context, earlier.value);
    }
    const bool samples = atomic_load_explicit(&trackers.sampling, memory_order_relaxed) == number;
    if (options.on_alloc && samples) {
        value = options.on_alloc(options.context, block);
    }
    callback_leave(&mark);
    const struct call call = end_sample(place, value);
    make_call(&call);
}

/* Puts a part of the skip into ag_host_left, which allogram.h counts down. */
static void sampler_grant(void) {
    const uint64_t left = own.skip.left_bytes;
    own.granted = left < AG_TRACKER_GRANT_BYTES ? left : AG_TRACKER_GRANT_BYTES;
    ag_host_left = own.granted;
}

static void begin_skips(uint32_t version, const struct allogram_tracker_options *options) {
    const uint64_t interval = options->interval_bytes == 1 ? 0 : options->interval_bytes;
    const uint64_t stream = atomic_fetch_add_explicit(&trackers.n_threads, 1, memory_order_relaxed);
    ag_skip_begin(&own.skip, options->seed, stream, interval);
    own.version = version;
    own.granted = ag_host_left = 0;
}

uint32_t ag_tracker_version(void) {
    return atomic_load_explicit(&trackers.version, memory_order_relaxed);
}

void ag_tracker_alloc(allogram_heap heap, uint64_t address, size_t bytes, allogram_type type) {
    const uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
    /* acquire: pairs with the release in start_locked; the options are complete */
    const uint32_t version = atomic_load_explicit(&trackers.version, memory_order_acquire);
    const uint32_t number = atomic_load_explicit(&trackers.sampling, memory_order_relaxed);
    if (number == 0 || is_inside(sp)) {
        return;
    }
    if (own.version != version) {
        begin_skips(version, &trackers.list[number].options);
    }
    own.skip.left_bytes -= own.granted - ag_host_left;
    const uint64_t n_samples = ag_skip_points(&own.skip, bytes);
    sampler_grant();
    if (n_samples > 0) {
        const struct allogram_sample block = {
            .heap = heap, .type = type, .address = address, .bytes = bytes, .n_samples = n_samples};
        tracker_sample(number, &block);
    }
}

void ag_tracker_free(allogram_heap heap, uint64_t address) {
    const uint64_t key = ag_host_place(heap, address);
    uint64_t signals;
    (void)is_inside((uintptr_t)__builtin_frame_address(0));
    if (ag_tracked_may_have(&trackers.blocks, key) && trackers_lock(&signals)) {
        const struct call call = take_locked(key);
        trackers_unlock(&signals);
        make_call(&call);
    }
}

static void report_kept(allogram_heap heap, uint64_t address, bool is_promotion) {
    const uint64_t key = ag_host_place(heap, address);
    struct call call = {.callback = NULL};
    uint64_t signals;
    (void)is_inside((uintptr_t)__builtin_frame_address(0));
    if (!ag_tracked_may_have(&trackers.blocks, key) || !trackers_lock(&signals)) {
        return;
    }
    const uint32_t place = ag_tracked_find(&trackers.blocks, key);
    const struct ag_tracked *entry = place ? ag_tracked_at(&trackers.blocks, place) : NULL;
    if (entry && entry->state == AG_TRACKED_KEPT) {
        const struct allogram_tracker_options *options = &trackers.list[entry->tracker].options;
        call = (struct call){.callback = is_promotion ? options->on_promote : options->on_complete,
                             .context = options->context,
                             .value = entry->value};
    }
    trackers_unlock(&signals);
    make_call(&call);
}

void ag_tracker_promote(allogram_heap heap, uint64_t address) {
    report_kept(heap, address, /* is_promotion= */ true);
}

void ag_tracker_move(allogram_heap heap, uint64_t address, uint64_t new_address) {
    const uint64_t key = ag_host_place(heap, address), new_key = ag_host_place(heap, new_address);
    struct call call = {.callback = NULL};
    uint64_t signals;
    (void)is_inside((uintptr_t)__builtin_frame_address(0));
    if (key == new_key || !ag_tracked_may_have(&trackers.blocks, key) || !trackers_lock(&signals)) {
        return;
    }
    uint32_t place = ag_tracked_find(&trackers.blocks, key);
    if (place) {
        /* another block lived at the new address, and its free was not reported */
        call = take_locked(new_key);
        place = ag_tracked_find(&trackers.blocks, key);
    }
    if (place) {
        ag_tracked_rename(&trackers.blocks, place, new_key);
    }
    trackers_unlock(&signals);
    make_call(&call);
}

/* ---- delivery ---- */

void ag_tracker_free_later(allogram_heap heap, uint64_t address) {
    const uint64_t key = ag_host_place(heap, address);
    uint64_t signals;
    if (!ag_tracked_may_have(&trackers.blocks, key) || !trackers_lock(&signals)) {
        return;
    }
    const uint32_t place = ag_tracked_find(&trackers.blocks, key);
    if (place != 0 && ag_tracked_at(&trackers.blocks, place)->state == AG_TRACKED_KEPT) {
        die_later_locked(place);
    } else if (place != 0) {
        (void)take_locked(key); /* the block's alloc callback runs, or its thread has ended */
    }
    trackers_unlock(&signals);
}

bool ag_tracker_is_inside(void) {
    return is_inside((uintptr_t)__builtin_frame_address(0));
}

void ag_tracker_complete(allogram_heap heap, uint64_t address) {
    const uint64_t key = ag_host_place(heap, address);
    uint64_t signals;
    if (!is_inside((uintptr_t)__builtin_frame_address(0))) {
        allogram_tell_complete_(heap, address);
        return;
    }
    if (!ag_tracked_may_have(&trackers.blocks, key) || !trackers_lock(&signals)) {
        return;
    }
    const uint32_t place = ag_tracked_find(&trackers.blocks, key);
    if (place != 0 && ag_tracked_at(&trackers.blocks, place)->state == AG_TRACKED_KEPT) {
        ag_tracked_at(&trackers.blocks, place)->is_complete = true;
        queue_locked(place);
    }
    trackers_unlock(&signals);
}

/* Takes the next callback from the queue. Returns false if the queue is empty. Takes one callback
 * at a time, because a callback may be left by a jump. */
static bool take_queued(struct call *ret_call) {
    uint64_t signals;
    if (!trackers_lock(&signals)) {
        return false;
    }
    const uint32_t place = unqueue_locked();
    if (place != 0) {
        struct ag_tracked *entry = ag_tracked_at(&trackers.blocks, place);
        const bool is_wanted = !entry->is_discarded, was_complete = entry->is_complete;
        entry->is_complete = false;
        if (is_wanted && was_complete) {
            *ret_call = complete_call(entry->tracker, entry->value);
        }
        if (is_wanted && was_complete && entry->state == AG_TRACKED_DEAD) {
            queue_locked(place);
        } else if (!is_wanted || entry->state == AG_TRACKED_DEAD) {
            *ret_call = is_wanted ? free_call(entry->tracker, entry->value)
                                  : (struct call){NULL, NULL, NULL};
            remove_locked(place);
        }
    }
    trackers_unlock(&signals);
    return place != 0;
}

void ag_tracker_deliver(void) {
    const uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
    while (atomic_load_explicit(&trackers.n_queued, memory_order_relaxed) != 0 && !is_inside(sp)) {
        struct call call = {.callback = NULL};
        if (!take_queued(&call)) {
            return;
        }
        make_call(&call);
    }
}

void allogram_tell_complete_(allogram_heap heap, uint64_t address) {
    if (ag_host_heap(heap)) {
        report_kept(heap, address, /* is_promotion= */ false);
    }
}

/* ---- start, stop, discard ---- */

static int start_locked(const struct allogram_tracker_options *options) {
    if (atomic_load_explicit(&trackers.sampling, memory_order_relaxed) != 0) {
        return -EALREADY;
    }
    for (int number = 1; number <= TRACKERS_MOST; number++) {
        struct tracker *tracker = &trackers.list[number];
        if (tracker->is_used) {
            continue;
        }
        tracker->options = *options;
        tracker->is_used = true;
        if (options->interval_bytes == 0) {
            tracker->options.interval_bytes = DEFAULT_INTERVAL_BYTES;
        }
        if (options->seed == 0) {
            (void)ag_syscall3(SYS_getrandom, (long)&tracker->options.seed, sizeof(options->seed),
                              0); /* if it fails the seed is 0 */
        }
        atomic_store_explicit(&trackers.sampling, (uint32_t)number, memory_order_relaxed);
        /* release: pairs with the acquire in ag_tracker_alloc */
        atomic_fetch_add_explicit(&trackers.version, 1, memory_order_release);
        update_mode_locked();
        return number;
    }
    return -EAGAIN;
}

int allogram_start_tracker(const struct allogram_tracker_options *options) {
    uint64_t signals;
    if (!options || options->size < sizeof(*options)) {
        return -EINVAL;
    }
    if (!trackers_lock(&signals)) {
        return -EDEADLK;
    }
    const int r = start_locked(options);
    trackers_unlock(&signals);
    return r;
}

int allogram_stop_tracker(void) {
    uint64_t signals;
    if (!trackers_lock(&signals)) {
        return -EDEADLK;
    }
    const uint32_t number = atomic_load_explicit(&trackers.sampling, memory_order_relaxed);
    if (number != 0) {
        atomic_store_explicit(&trackers.sampling, 0, memory_order_relaxed);
        trackers.list[number].is_used = trackers.list[number].n_blocks > 0;
        atomic_fetch_add_explicit(&trackers.version, 1, memory_order_release);
        update_mode_locked();
    }
    trackers_unlock(&signals);
    return number != 0 ? 0 : -ENOENT;
}

static void discard_locked(uint32_t number) {
    for (uint32_t place = 1; place <= trackers.blocks.n_places; place++) {
        struct ag_tracked *entry = ag_tracked_at(&trackers.blocks, place);
        if (entry->tracker != number || entry->state == 0) {
            continue;
        }
        const bool is_running =
            entry->state == AG_TRACKED_RUNNING && !ag_host_thread_has_ended(entry->owner);
        if (is_running || entry->is_queued) {
            entry->is_discarded = true;
        } else {
            remove_locked(place);
        }
    }
}

int allogram_discard_tracker(int tracker) {
    uint64_t signals;
    int r = 0;
    if (tracker < 1 || tracker > TRACKERS_MOST) {
        return -ENOENT;
    }
    if (!trackers_lock(&signals)) {
        return -EDEADLK;
    }
    if (!trackers.list[tracker].is_used) {
        r = -ENOENT;
    } else if (atomic_load_explicit(&trackers.sampling, memory_order_relaxed) ==
               (uint32_t)tracker) {
        r = -EBUSY;
    } else {
        discard_locked((uint32_t)tracker);
    }
    trackers_unlock(&signals);
    return r;
}
