/* traced_thread.c: stops and resumes a thread of another process, for `attach`, so that the program
 * does not notice. PTRACE_SEIZE and PTRACE_INTERRUPT send no signal, and a system call that the
 * stop has interrupted is repeated.
 *
 * The kernel takes a thread out of a blocking call to stop it. Most calls are then restarted
 * transparently, with the rest of their timeout (-ERESTARTSYS and similar codes, which only a
 * tracer sees). Some calls end with EINTR instead, since a signal always ends them (signal(7)):
 * epoll_wait, semop, sigtimedwait, io_uring_enter, sockets with a timeout. No signal came, so the
 * program must not see EINTR: the thread is set back to the instruction that makes the call. A call
 * that returns EINTR has had no effect; a connection that connect has begun goes on, and the
 * repeated connect waits for it. If a signal that the program does not ignore is pending, too, the
 * program would have seen EINTR anyway, and the result is left as it is.
 *
 * The timeout of a call that is repeated begins again. */
#include "traced_thread.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "remote/remote_memory.h"
#include "remote/remote_process.h"

enum {
    NAP_NS = 10 * 1000 * 1000, /* poll interval, in case another thread consumed SIGCHLD */
    TURN_PATIENCE_NS = 10 * 1000 * 1000,
};

/* Whether the wait status is the event that PTRACE_INTERRUPT makes. */
static bool is_our_stop(int status) {
    return WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP;
}

/* A stop of a thread that we trace raises SIGCHLD, which is blocked. */
void ag_attach_sleep_until_woken(uint64_t most_ns) {
    sigset_t child_ended;
    const struct timespec most = {.tv_nsec = (long)most_ns};
    (void)sigemptyset(&child_ended);
    (void)sigaddset(&child_ended, SIGCHLD);
    (void)sigtimedwait(&child_ended, NULL, &most); /* returns also when the time is over */
}

bool ag_thread_has_ended(pid_t pid, pid_t tid) {
    const char state = ag_remote_process_thread_state(pid, tid, NULL);
    return state == 'Z' || state == 'X';
}

bool ag_traced_thread_ended_first(const struct ag_traced_thread *thread) {
    return thread->tid == thread->pid && ag_thread_has_ended(thread->pid, thread->tid);
}

/* Waits for the requested stop. Signals that arrive for the thread before that are passed on. */
static int wait_for_stop(struct ag_traced_thread *thread, uint64_t until_ns) {
    const pid_t tid = thread->tid;
    for (;;) {
        int status = 0;
        const pid_t r = waitpid(tid, &status, __WALL | WNOHANG);
        if (r < 0 && errno != EINTR) {
            return -ESRCH;
        }
        if (r == tid) {
            if (!WIFSTOPPED(status)) {
                return -ESRCH;
            }
            if (is_our_stop(status)) {
                thread->is_held = WSTOPSIG(status) != SIGTRAP;
                return 0;
            }
            /* on failure the thread is gone, which the next waitpid shows */
            (void)ptrace(PTRACE_CONT, tid, NULL, (long)WSTOPSIG(status));
            continue;
        }
        const uint64_t now_ns = ag_monotonic_ns();
        if (now_ns >= until_ns) {
            return -ETIMEDOUT;
        }
        if (ag_traced_thread_ended_first(thread)) {
            return -ESRCH;
        }
        ag_attach_sleep_until_woken(until_ns - now_ns < NAP_NS ? until_ns - now_ns : NAP_NS);
    }
}

static _Atomic int was_any;

bool ag_traced_thread_was_any(void) {
    return atomic_load(&was_any) != 0;
}

int ag_traced_thread_begin_stop(pid_t pid, pid_t tid, struct ag_traced_thread *ret_thread) {
    struct ag_traced_thread thread = {.pid = pid, .tid = tid};
    atomic_store(&was_any, 1);
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0) {
        return errno == ESRCH ? -ESRCH : -EPERM;
    }
    thread.stopped_ns = ag_monotonic_ns();
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
        return -ESRCH;
    }
    *ret_thread = thread;
    return 0;
}

int ag_traced_thread_finish_stop(struct ag_traced_thread *thread, uint64_t until_ns) {
    int r = wait_for_stop(thread, until_ns);
    if (r == 0 && ptrace(PTRACE_GETREGS, thread->tid, NULL, &thread->registers) < 0) {
        r = -ESRCH;
    }
    thread->is_stopped = r == 0;
    if (r == 0 && thread->is_late) { /* the thread ran until the end of this wait */
        thread->stopped_ns = ag_monotonic_ns();
    }
    thread->is_late |= r == -ETIMEDOUT;
    return r;
}

/* ---- system calls that return EINTR ---- */

/* Whether the call may wait, may return EINTR after a stop without a signal, and has had no effect
 * then. */
static bool may_be_repeated(long call) {
    static const long calls[] = {
        SYS_epoll_wait, SYS_epoll_pwait,  SYS_epoll_pwait2,  SYS_rt_sigtimedwait, SYS_semop,
        SYS_semtimedop, SYS_io_getevents, SYS_io_pgetevents, SYS_recvfrom,        SYS_recvmsg,
        SYS_sendto,     SYS_sendmsg,      SYS_accept,        SYS_accept4,         SYS_read,
        SYS_write,      SYS_futex,        SYS_poll,          SYS_ppoll,           SYS_msgrcv,
        SYS_msgsnd,     SYS_readv,        SYS_writev,        SYS_recvmmsg,        SYS_sendmmsg,
        SYS_connect,    SYS_sendfile,     SYS_splice,        SYS_io_uring_enter};
    for (size_t i = 0; i < AG_ARRAY_SIZE(calls); i++) {
        if (calls[i] == call) {
            return true;
        }
    }
    return false;
}

#define SIGNAL_BIT(signal) (UINT64_C(1) << ((signal)-1))
/* The signals that do nothing unless the program has a handler for them (signal(7)). */
#define IGNORED_BY_DEFAULT \
    (SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGURG) | SIGNAL_BIT(SIGWINCH) | SIGNAL_BIT(SIGCONT))

/* The kernel keeps an ignored signal pending only because the thread is traced; without a tracer,
 * the kernel discards such a signal when it is sent. */
bool ag_traced_thread_has_signal(const struct ag_traced_thread *thread) {
    char text[4096];
    (void)ag_remote_process_file(thread->pid, thread->tid, "status", text, sizeof text);
    uint64_t own = 0, shared = 0, blocked = 0, ignored = 0, caught = 0;
    const char *at = strstr(text, "\nSigPnd:");
    if (at == NULL || sscanf(at,
                             "\nSigPnd: %" SCNx64 "\nShdPnd: %" SCNx64 "\nSigBlk: %" SCNx64
                             "\nSigIgn: %" SCNx64 "\nSigCgt: %" SCNx64,
                             &own, &shared, &blocked, &ignored, &caught) != 5) {
        return true;
    }
    return ((own | shared) & ~blocked & ~ignored & (caught | ~IGNORED_BY_DEFAULT)) != 0;
}

long ag_traced_thread_call(const struct ag_traced_thread *thread) {
    return (long)thread->registers.orig_rax;
}

bool ag_call_changes_map(long call) {
    return call == SYS_mmap || call == SYS_munmap || call == SYS_mprotect || call == SYS_brk ||
           call == SYS_mremap || call == SYS_madvise;
}

bool ag_traced_thread_may_hold_lock(const struct ag_traced_thread *thread) {
    const long call = ag_traced_thread_call(thread);
    return call < 0 || ag_call_changes_map(call);
}

bool ag_traced_thread_intercepts(const struct ag_traced_thread *thread) {
    enum { DISPATCH_CONFIGURATION = 0x4211 };
    struct {
        uint64_t mode, selector, offset, n_bytes;
    } configuration = {0};
    return ptrace((enum __ptrace_request)DISPATCH_CONFIGURATION, thread->tid,
                  (void *)sizeof configuration, &configuration) == 0 &&
           configuration.mode != 0;
}

static void repeat_interrupted_call(const struct ag_traced_thread *thread) {
    enum { CALL_BYTES = 2 };
    static const uint8_t call_instruction[CALL_BYTES] = {0x0f, 0x05};
    uint8_t code[CALL_BYTES];
    struct user_regs_struct registers = thread->registers;
    const long call = ag_traced_thread_call(thread);
    if (call < 0 || (long)registers.rax != -EINTR || !may_be_repeated(call) ||
        ag_traced_thread_has_signal(thread) ||
        ag_remote_memory_read(thread->pid, registers.rip - CALL_BYTES, code, sizeof code) < 0 ||
        memcmp(code, call_instruction, sizeof code) != 0) {
        return;
    }
    registers.rip -= CALL_BYTES;
    registers.rax = registers.orig_rax;
    /* on failure the thread is gone and does not see EINTR */
    (void)ptrace(PTRACE_SETREGS, thread->tid, NULL, &registers);
}

uint64_t ag_traced_thread_release(struct ag_traced_thread *thread) {
    if (!thread->is_stopped) {
        return 0;
    }
    repeat_interrupted_call(thread);
    thread->is_killed = ptrace(PTRACE_DETACH, thread->tid, NULL, NULL) < 0;
    const uint64_t stopped_ns = ag_monotonic_ns() - thread->stopped_ns;
    thread->is_stopped = false;
    return stopped_ns;
}

/* Returns how often the thread has got a CPU; 0: not known. */
static unsigned long n_times_on_cpu(const struct ag_traced_thread *thread) {
    char text[128];
    unsigned long n = 0;
    (void)ag_remote_process_file(thread->pid, thread->tid, "schedstat", text, sizeof text);
    return sscanf(text, "%*u %*u %lu", &n) == 1 ? n : 0;
}

int ag_traced_thread_give_turn(struct ag_traced_thread *thread, uint64_t turn_ns) {
    const struct timespec turn = {.tv_nsec = (long)turn_ns};
    const unsigned long n_before = n_times_on_cpu(thread);
    const uint64_t begin_ns = ag_monotonic_ns();
    repeat_interrupted_call(thread);
    thread->is_stopped = false;
    /* if the thread is gone, these calls fail, and so does the wait for the stop */
    (void)ptrace(PTRACE_CONT, thread->tid, NULL, NULL);
    do {
        (void)nanosleep(&turn, NULL);
    } while (n_before != 0 && n_times_on_cpu(thread) == n_before &&
             ag_monotonic_ns() - begin_ns < TURN_PATIENCE_NS);
    (void)ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL);
    return ag_traced_thread_finish_stop(thread, ag_monotonic_ns() + TURN_PATIENCE_NS);
}
