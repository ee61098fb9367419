/* stopped_threads.c: stops one thread or all threads of a process (the target), for `attach`.
 *
 * 1. A thread that is asked to stop does so when it has a CPU, but not while it is in an
 * uninterruptible wait in the kernel (for a disk, or for a child of vfork that has neither exited
 * nor executed a program). A tracer cannot withdraw the request as long as it runs. So a thread
 * that does not stop in time is remembered as late: when it finally stops, it has to be resumed. A
 * new request would be refused, because we trace the thread already.
 *
 * 2. The wait for a single thread may be long. The wait for all threads must be short, because the
 * threads that have stopped already wait with us. When a thread is late, all others are resumed,
 * and only the late thread is waited for.
 *
 * 3. A thread that is not stopped yet may start another thread. So the list of threads is read
 * again until it shows no thread that is not stopped.
 *
 * 4. A child of clone with CLONE_VM executes the code of the target, and may be inside the agent
 * (the library that `attach` loads), although it is a process of its own. So the threads of
 * processes that share the target's memory are stopped, too.
 *
 * 5. If thousands of threads want to run, each gets a CPU once in a second. A thread that has to do
 * something for us, such as to leave the agent, needs only microseconds, but would wait as long for
 * its turn. So the other threads stay stopped meanwhile, and one thread at a time runs, briefly
 * (ag_stopped_threads_give_turn). */
#include "stopped_threads.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/error_message.h"
#include "remote/memory_sharers.h"

enum {
    ONE_PATIENCE_NS = 500 * 1000 * 1000,
    /* How long to wait for the stops of all threads. ALL_PATIENCE_NS is enough for the time slices
     * (some ms each) of 20 threads that want to run; each thread of the process adds
     * PATIENCE_PER_THREAD_NS. A thread among so many waits that long for its time slice even if no
     * thread is traced. */
    ALL_PATIENCE_NS = 100 * 1000 * 1000,
    PATIENCE_PER_THREAD_NS = 2 * 1000 * 1000,
    ALL_PATIENCE_MOST_NS = 500 * 1000 * 1000,
    GOOD_MOMENT_NAP_NS = 1000 * 1000,
    TRANSFER_PATIENCE_NS = 100 * 1000 * 1000,
    TRANSFERS_PATIENCE_NS = 300 * 1000 * 1000, /* for all threads together */
    LATE_LAST_NS = 1000 * 1000 * 1000, /* the last wait for late threads in uninterruptible waits */
    SLICE_NS = 50 * 1000 * 1000,
    /* how long await_good_moment may wait while a thread executes a function for us */
    BUSY_PATIENCE_NS = 20 * 1000 * 1000,
    REAP_NAP_NS = 5 * 1000 * 1000,
    /* with more running threads per CPU than this, a thread waits some 20 ms for the CPU */
    CROWD = 8,
};
static const uint64_t late_patience_ns = UINT64_C(5000000000),
                      last_patience_ns = UINT64_C(60000000000), /* for other late threads */
    reap_patience_ns = UINT64_C(5000000000);

/* TRANSFERS: the thread waits in a system call that returns only when all of its bytes, messages or
 * events are transferred. A stop would make the call return early, with the number of those
 * transferred so far. RUNS: the thread runs, possibly inside of such a call. SLEEPS: the thread is
 * in a call that waits interruptibly, so it stops at once. MAPS: the thread is in a call that
 * changes the memory map, and waits at most for other threads of the process that do the same, so
 * it stops soon. WAITS: any other state, or unknown. */
enum activity { RUNS, SLEEPS, MAPS, WAITS, TRANSFERS };

static enum activity waiting_activity_of(int call) {
    static const short sleeps[] = {SYS_futex,           SYS_poll,       SYS_ppoll,
                                   SYS_nanosleep,       SYS_epoll_wait, SYS_epoll_pwait,
                                   SYS_clock_nanosleep, SYS_pause,      SYS_rt_sigtimedwait,
                                   SYS_select,          SYS_pselect6};
    for (size_t i = 0; i < AG_ARRAY_SIZE(sleeps); i++) {
        if (sleeps[i] == call) {
            return SLEEPS;
        }
    }
    return ag_call_changes_map(call) ? MAPS : WAITS;
}

static enum activity activity_of(pid_t pid, pid_t tid) {
    static const struct {
        short call;
        short flags; /* index of the argument with MSG_WAITALL, without which the call returns
                      * early; -1: the call always waits for all */
    } calls[] = {{SYS_write, -1},   {SYS_writev, -1},   {SYS_pwritev, -1},  {SYS_pwritev2, -1},
                 {SYS_sendto, -1},  {SYS_sendmsg, -1},  {SYS_sendmmsg, -1}, {SYS_sendfile, -1},
                 {SYS_splice, -1},  {SYS_vmsplice, -1}, {SYS_tee, -1},      {SYS_recvmmsg, -1},
                 {SYS_recvfrom, 3}, {SYS_recvmsg, 2}};
    char text[256] = "";
    int call = -1;
    unsigned long arguments[4] = {0};
    if (ag_remote_process_file(pid, tid, "syscall", text, sizeof text) <= 0 ||
        sscanf(text, "%d %lx %lx %lx %lx", &call, &arguments[0], &arguments[1], &arguments[2],
               &arguments[3]) != 5) {
        return text[0] == 'r' ? RUNS : WAITS; /* "running", or the file cannot be read */
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(calls); i++) {
        if (calls[i].call == call) {
            const int flags = calls[i].flags;
            return flags < 0 || (arguments[flags] & MSG_WAITALL) != 0 ? TRANSFERS : WAITS;
        }
    }
    /* io_getevents(context, least, ...) may have got some of its events already; io_uring_enter(fd,
     * submitted, least, flags, ...) waits for events after it has submitted requests */
    const bool waits_for_more =
        call == SYS_io_uring_enter
            ? arguments[1] != 0 && arguments[2] != 0 && (arguments[3] & IORING_ENTER_GETEVENTS) != 0
            : (call == SYS_io_getevents || call == SYS_io_pgetevents) && arguments[1] > 1;
    return waits_for_more ? TRANSFERS : waiting_activity_of(call);
}

/* Whether the thread, whose activity is ACTIVITY, is spared (ag_stopped_threads_spares). A thread
 * that was spared and now runs is spared further, because it may still be inside of the call. */
static bool is_spared(struct ag_stopped_threads *threads, pid_t tid, enum activity activity) {
    const uint64_t now_ns = ag_monotonic_ns();
    for (size_t i = 0; i < threads->n_spared; i++) {
        if (threads->spared[i].tid == tid && activity != RUNS && activity != TRANSFERS) {
            threads->spared[i] = threads->spared[--threads->n_spared];
            return false;
        }
        if (threads->spared[i].tid == tid) {
            return now_ns - threads->spared[i].since_ns < TRANSFER_PATIENCE_NS;
        }
    }
    if (activity != TRANSFERS || threads->n_spared == AG_SPARED_THREADS_MOST) {
        return false;
    }
    threads->spared[threads->n_spared].tid = tid;
    threads->spared[threads->n_spared++].since_ns = now_ns;
    return true;
}

bool ag_stopped_threads_spares(struct ag_stopped_threads *threads, pid_t tid) {
    return is_spared(threads, tid, activity_of(threads->process->pid, tid));
}

/* The time limit of a step, for all threads that it waits for. */
struct patience {
    uint64_t until_ns; /* in CLOCK_MONOTONIC */
    /* the limit that replaces until_ns, if it is earlier, when the end of the attach is due; 0: the
     * end is not due */
    uint64_t due_ns;
};

static struct patience patience_of(uint64_t ns) {
    return (struct patience){.until_ns = ag_monotonic_ns() + ns};
}

/* Waits for a thread like ag_traced_thread_finish_stop. After the end of the attach became due
 * (attach_end.h), a step waits at most SLICE_NS longer, for all of its threads together. */
static int finish_stop(const struct ag_stopped_threads *threads, struct ag_traced_thread *thread,
                       struct patience *patience) {
    for (;;) {
        const uint64_t now_ns = ag_monotonic_ns();
        if (patience->due_ns == 0 && ag_attach_end_is_due(threads->end)) {
            patience->due_ns = now_ns + SLICE_NS;
        }
        const uint64_t most_ns = patience->due_ns != 0 && patience->due_ns < patience->until_ns
                                     ? patience->due_ns
                                     : patience->until_ns;
        const bool is_last = now_ns + SLICE_NS >= most_ns;
        const int r = ag_traced_thread_finish_stop(thread, is_last ? most_ns : now_ns + SLICE_NS);
        if (r != -ETIMEDOUT || is_last) {
            return r;
        }
    }
}

/* ---- late threads ---- */

static bool take_late(struct ag_stopped_threads *threads, pid_t tid,
                      struct ag_traced_thread *ret_thread) {
    for (size_t i = 0; i < threads->n_late; i++) {
        if (threads->late[i].tid == tid) {
            *ret_thread = threads->late[i];
            threads->late[i] = threads->late[--threads->n_late];
            return true;
        }
    }
    return false;
}

/* Adds the thread to the late threads. The list has room for as many threads as are ever stopped;
 * it is full only if threads of several processes are late. Then the thread, once it stops, is
 * resumed when this process ends. */
static void remember_late(struct ag_stopped_threads *threads,
                          const struct ag_traced_thread *thread) {
    if (threads->n_late < AG_THREADS_MOST) {
        threads->late[threads->n_late++] = *thread;
    }
}

/* Waits for a late thread for the last time: this process may end next. When it ends, the kernel
 * withdraws its request to stop the thread. But a thread that the kernel has already taken out of a
 * system call for the stop would then see EINTR. Such a thread stops as soon as it gets a CPU, so
 * this function waits for it. A thread in an uninterruptible wait would not see EINTR: the wait for
 * it is shorter, and ends early when the end of the attach is due. */
static int finish_late_stop(const struct ag_stopped_threads *threads,
                            struct ag_traced_thread *thread, struct patience *patience,
                            uint64_t last_ns) {
    int r = finish_stop(threads, thread, patience);
    while (r == -ETIMEDOUT && ag_monotonic_ns() < last_ns &&
           ag_remote_process_thread_state(thread->pid, thread->tid, NULL) != 'D') {
        r = ag_traced_thread_finish_stop(thread, ag_monotonic_ns() + SLICE_NS);
    }
    return r;
}

void ag_stopped_threads_settle(struct ag_stopped_threads *threads, bool is_last) {
    struct patience patience = patience_of(is_last ? LATE_LAST_NS : 0);
    const uint64_t last_ns = is_last ? ag_monotonic_ns() + last_patience_ns : 0;
    const size_t n = threads->n_late;
    threads->n_late = 0;
    for (size_t i = 0; i < n; i++) {
        struct ag_traced_thread thread = threads->late[i];
        const int r = finish_late_stop(threads, &thread, &patience, last_ns);
        if (r == -ETIMEDOUT) {
            remember_late(threads, &thread);
        } else {
            (void)ag_traced_thread_release(&thread); /* does nothing if the thread is gone */
        }
    }
}

void ag_stopped_threads_reap(const struct ag_stopped_threads *threads) {
    static pid_t tids[AG_THREADS_MOST];
    const pid_t pid = threads->process->pid;
    const uint64_t end_ns = ag_monotonic_ns() + reap_patience_ns;
    bool is_over = false;
    while (!is_over && ag_thread_has_ended(pid, pid) && ag_monotonic_ns() < end_ns) {
        size_t n = ag_remote_process_threads(threads->process, tids, AG_THREADS_MOST);
        n = n < AG_THREADS_MOST ? n : AG_THREADS_MOST;
        is_over = true;
        for (size_t i = 0; i < n; i++) {
            if (tids[i] != pid) {
                is_over = false;
                if (ag_thread_has_ended(pid, tids[i])) {
                    (void)waitpid(tids[i], NULL, __WALL | WNOHANG); /* fails if it is not traced */
                }
            }
        }
        is_over &= waitpid(pid, NULL, __WALL | WNOHANG) != 0;
        if (!is_over) {
            ag_attach_sleep_until_woken(REAP_NAP_NS);
        }
    }
}

/* ---- one thread ---- */

int ag_stopped_threads_one(struct ag_stopped_threads *threads, pid_t tid,
                           struct ag_traced_thread *ret_thread) {
    struct ag_traced_thread thread;
    struct patience patience = patience_of(0); /* a thread that was late before is only polled */
    int r = 0;
    if (!take_late(threads, tid, &thread)) {
        r = ag_traced_thread_begin_stop(threads->process->pid, tid, &thread);
        patience = patience_of(ONE_PATIENCE_NS);
    }
    if (r < 0) {
        return r == -EPERM && ag_thread_has_ended(threads->process->pid, tid) ? -ESRCH : r;
    }
    r = finish_stop(threads, &thread, &patience);
    if (r == -ETIMEDOUT) {
        remember_late(threads, &thread);
    } else if (r == 0) {
        *ret_thread = thread;
    }
    return r;
}

/* ---- all threads ---- */

/* Whether the thread is one of the first N items. The items are in the order in which the kernel
 * listed the threads. So the search begins at *AT, after the item that the last search found, and
 * nearly always finds the thread there. */
static bool thread_is_stopped(const struct ag_stopped_threads *threads, size_t n, pid_t tid,
                              size_t *at) {
    for (size_t i = 0; i < n; i++) {
        const size_t place = (*at + i) % n;
        if (threads->items[place].tid == tid) {
            *at = place + 1;
            return true;
        }
    }
    return false;
}

uint64_t ag_stopped_threads_release(struct ag_stopped_threads *threads) {
    uint64_t longest_ns = 0;
    for (size_t i = 0; i < threads->n; i++) {
        const uint64_t stopped_ns = ag_traced_thread_release(&threads->items[i]);
        longest_ns = stopped_ns > longest_ns ? stopped_ns : longest_ns;
        if (threads->items[i].is_killed) {
            remember_late(threads, &threads->items[i]);
        }
    }
    threads->n = 0;
    return longest_ns;
}

bool ag_stopped_threads_are_crowded(const struct ag_stopped_threads *threads) {
    static pid_t tids[AG_THREADS_MOST];
    const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t most = (size_t)CROWD * (n_cpus > 0 ? (size_t)n_cpus : 1);
    size_t n_running = 0;
    for (size_t i = 0; i < threads->n && n_running <= most; i++) {
        n_running += ag_traced_thread_call(&threads->items[i]) < 0;
    }
    size_t n =
        threads->n > 0 ? 0 : ag_remote_process_threads(threads->process, tids, AG_THREADS_MOST);
    n = n < AG_THREADS_MOST ? n : AG_THREADS_MOST;
    for (size_t i = 0; i < n && n_running <= most; i++) {
        n_running += activity_of(threads->process->pid, tids[i]) == RUNS;
    }
    return n_running > most;
}

struct ag_traced_thread ag_stopped_threads_take(struct ag_stopped_threads *threads, size_t i) {
    const struct ag_traced_thread thread = threads->items[i];
    threads->items[i] = threads->items[--threads->n];
    return thread;
}

int ag_stopped_threads_give_turn(struct ag_stopped_threads *threads, size_t i, uint64_t turn_ns) {
    const int r = ag_traced_thread_give_turn(&threads->items[i], turn_ns);
    if (r < 0) {
        const struct ag_traced_thread thread = ag_stopped_threads_take(threads, i);
        if (r == -ETIMEDOUT) {
            remember_late(threads, &thread);
        }
    }
    return r;
}

/* Waits for the threads that were late at the last try. Called before other threads are stopped. */
static int await_late(struct ag_stopped_threads *threads, char message[512]) {
    struct patience patience = patience_of(late_patience_ns);
    const size_t n = threads->n_late;
    int result = 0;
    threads->n_late = 0;
    for (size_t i = 0; i < n; i++) {
        struct ag_traced_thread thread = threads->late[i];
        const int r = finish_stop(threads, &thread, &patience);
        if (r == 0) {
            threads->items[threads->n++] = thread;
        } else if (r == -ETIMEDOUT) {
            remember_late(threads, &thread);
            result = ag_error_message(
                message, ag_attach_end_is_due(threads->end) ? -EINTR : -EBUSY,
                "%d (%s): cannot stop thread %d: it waits in the kernel; try again",
                threads->process->pid, threads->process->name, thread.tid);
        }
    }
    return result;
}

/* Whether the thread may be stopped now: it is not spared, not in an uninterruptible wait, and not
 * running. /proc does not show whether a running thread is inside of a call that transfers data, so
 * a running thread is ready only at the third check. N_LOOKS: number of checks so far, with this
 * one; PASSED_NS: the time since the first check. */
static bool thread_is_ready(struct ag_stopped_threads *threads, pid_t tid, int n_looks,
                            uint64_t passed_ns) {
    enum { LOOKS = 3 };
    const pid_t pid = threads->process->pid;
    const enum activity activity =
        passed_ns < TRANSFERS_PATIENCE_NS ? activity_of(pid, tid) : WAITS;
    return !is_spared(threads, tid, activity) && (activity != RUNS || n_looks >= LOOKS) &&
           (activity != WAITS || passed_ns > late_patience_ns ||
            ag_remote_process_thread_state(pid, tid, NULL) != 'D');
}

/* Waits a while until all threads may be stopped: a thread in an uninterruptible wait does not
 * stop, and stopping the other threads would be useless.
 *
 * To check thousands of threads takes a tenth of a second. So only the threads that were not ready
 * are checked again. When these are ready, the check of all threads is repeated if more time has
 * passed since then than the check itself took. */
static void await_good_moment(struct ag_stopped_threads *threads) {
    static pid_t tids[AG_THREADS_MOST];
    const uint64_t begin_ns = ag_monotonic_ns();
    const struct timespec nap = {.tv_nsec = GOOD_MOMENT_NAP_NS};
    uint64_t look_ns = 0, looked_ns = 0; /* duration and end of the last check of all threads */
    size_t n_left = 0;                   /* threads that were not ready at the last check */
    threads->n_spared = 0;
    for (int n_looks = 1; n_left > 0 || ag_monotonic_ns() - looked_ns > look_ns; n_looks++) {
        const uint64_t now_ns = ag_monotonic_ns();
        const bool looks_at_all = n_left == 0;
        size_t n = n_left;
        if (looks_at_all) {
            n = ag_remote_process_threads(threads->process, tids, AG_THREADS_MOST);
            n = n < AG_THREADS_MOST ? n : AG_THREADS_MOST;
        }
        n_left = 0;
        for (size_t i = 0; i < n; i++) {
            if (ag_attach_end_is_due(threads->end) ||
                (threads->busy_tid != 0 && ag_monotonic_ns() - begin_ns > BUSY_PATIENCE_NS)) {
                return;
            }
            if (!thread_is_ready(threads, tids[i], n_looks, ag_monotonic_ns() - begin_ns)) {
                tids[n_left++] = tids[i];
            }
        }
        if (looks_at_all) {
            looked_ns = ag_monotonic_ns();
            look_ns = looked_ns - now_ns;
        }
        if (n_left > 0) {
            (void)nanosleep(&nap, NULL);
        }
    }
}

static int interrupted(const struct ag_stopped_threads *threads, char message[512]) {
    return ag_error_message(
        message, -EINTR, "%d (%s): interrupted by a signal before all of its threads were stopped",
        threads->process->pid, threads->process->name);
}

/* Waits until the threads items[FIRST] and later have stopped; threads that have ended are
 * dropped. */
static int wait_for_stops(struct ag_stopped_threads *threads, size_t first) {
    const size_t n = threads->n;
    const uint64_t most_ns = ALL_PATIENCE_NS + n * PATIENCE_PER_THREAD_NS;
    struct patience patience =
        patience_of(most_ns < ALL_PATIENCE_MOST_NS ? most_ns : ALL_PATIENCE_MOST_NS);
    int result = 0;
    threads->n = first;
    for (size_t i = first; i < n; i++) {
        struct ag_traced_thread thread = threads->items[i];
        const int r = finish_stop(threads, &thread, &patience);
        if (r == 0) {
            threads->items[threads->n++] = thread;
        } else if (r == -ETIMEDOUT) {
            remember_late(threads, &thread);
            result = -EAGAIN;
        }
    }
    return result;
}

/* Stops those threads of one process that are not stopped yet. Returns 1 if there were some, 0 if
 * there were none, or a negative errno. */
static int stop_threads_of(struct ag_stopped_threads *threads,
                           const struct ag_remote_process *process, char message[512]) {
    static pid_t tids[AG_THREADS_MOST];
    const size_t first = threads->n;
    const size_t n = ag_remote_process_threads(process, tids, AG_THREADS_MOST);
    size_t at = 0;
    int refused = 0;
    if (n > AG_THREADS_MOST) {
        return ag_error_message(
            message, -E2BIG,
            "%d (%s): has more than %d threads, the most that attach can stop; start it under allogram run",
            process->pid, process->name, AG_THREADS_MOST);
    }
    for (size_t i = 0; i < n && refused == 0 && threads->n < AG_THREADS_MOST; i++) {
        if (tids[i] == threads->busy_tid || thread_is_stopped(threads, first, tids[i], &at)) {
            continue;
        }
        if (ag_attach_end_is_due(threads->end)) {
            refused = interrupted(threads, message);
            break;
        }
        const int r =
            ag_traced_thread_begin_stop(process->pid, tids[i], &threads->items[threads->n]);
        threads->n += r == 0;
        if (r != 0 && r != -ESRCH && !ag_thread_has_ended(process->pid, tids[i])) {
            refused = ag_error_message(
                message, r,
                "%d (%s): cannot trace thread %d: another process traces it, or "
                "kernel.yama.ptrace_scope or a container forbids it; see allogram doctor",
                process->pid, process->name, tids[i]);
        }
    }
    const bool were_some = threads->n > first;
    const int r = wait_for_stops(threads, first);
    return refused < 0 ? refused : r < 0 ? r : were_some;
}

/* Stops those threads of the target that are not stopped yet. When all are stopped, and so cannot
 * start further processes, also stops the threads of the processes that share the target's memory
 * (section 4). Returns what stop_threads_of returns. */
static int stop_more(struct ag_stopped_threads *threads, char message[512]) {
    pid_t sharers[AG_MEMORY_SHARERS_MOST];
    int r = stop_threads_of(threads, threads->process, message);
    const size_t n = r == 0 ? ag_memory_sharers(threads->process->pid, sharers) : 0;
    for (size_t i = 0; i < n && r >= 0; i++) {
        struct ag_remote_process sharer = *threads->process;
        sharer.pid = sharers[i];
        const int more = stop_threads_of(threads, &sharer, message);
        r = more != 0 ? more : r;
    }
    return r;
}

int ag_stopped_threads_all(struct ag_stopped_threads *threads, char ret_message[512]) {
    await_good_moment(threads);
    int r = await_late(threads, ret_message);
    r = r < 0 ? r : 1;
    while (r == 1) {
        r = ag_attach_end_is_due(threads->end) ? interrupted(threads, ret_message)
                                               : stop_more(threads, ret_message);
    }
    if (r == 0 && threads->n == 0) {
        r = ag_remote_process_ended_error(threads->process, ret_message);
    }
    return r;
}
