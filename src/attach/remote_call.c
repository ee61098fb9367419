/* remote_call.c: makes a stopped thread of the target (the process that is attached to) call a
 * function, for the steps of an attach: loading, starting, switching and unloading the agent, which
 * is a shared library.
 *
 * The function returns to a byte 0xcc (int3) that occurs in the libc's code: that trap stops the
 * thread with the result in rax, and no code of the target is written. During the call all signals
 * are blocked except those that a crash raises. A handler of the program must not run in the middle
 * of the called function, and the return from a handler would overwrite what the kernel has stored
 * about an interrupted system call (restart_block). As the tracer, this process sees a crash first,
 * and the program never sees it. If another process sends a signal that is not blocked, the signal
 * is held back and sent again at the end. A job-control stop takes effect in the other threads at
 * once; the kernel lets it take effect in this thread when the thread is resumed.
 *
 * If the thread's stack is a coroutine's, or short, mmap is called first. That call needs some 200
 * bytes of the thread's stack; all other calls use the memory that mmap returned as their stack.
 *
 * A call that does not return is aborted: the thread is stopped and its registers are restored.
 * This happens when the thread has waited for ten seconds, most likely for a lock that is never
 * released, or a minute after the call began. A thread that waits for a disk or another device
 * (uninterruptibly) is not aborted, unless all other threads are stopped meanwhile. Locks that an
 * aborted function holds stay held; the loader's lock may be one of them. The risk is small,
 * because a function that returns at all needs only some milliseconds. Without the abort, the
 * thread might never continue. The user's request for the end aborts no call.
 *
 * The trap must not raise a signal that the program ignores: the kernel would reset the signal's
 * disposition (force_sig). In a process that ignores SIGTRAP, the function gets the return address
 * 0 instead, and the call ends with SIGSEGV. */
#include "remote_call.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "remote/remote_memory.h"
#include "remote/remote_process.h"

enum {
    RED_ZONE_BYTES = 128,
    ALIGNMENT = 64,
    DIRECTION_FLAG = 0x400,
    TRAP_FLAG = 0x100,
    KERNEL_SIGSET_BYTES = 8,
    STACK_BYTES = 256 << 10, /* dlopen and the start of a recording take some 12 KiB */
    NAP_NS = 10 * 1000 * 1000,
    /* how long to wait for the stop of a thread whose call is aborted, if all others are stopped */
    STOP_PATIENCE_NS = 100 * 1000 * 1000,
    SYSTEM_CALL_BYTES = 2,
    RESTART_WITH_BLOCK = 516, /* the kernel's ERESTART_RESTARTBLOCK, which only a tracer sees */
};
/* how long a thread may wait in the kernel, and how long a call may take */
static const uint64_t wait_patience_ns = UINT64_C(10000000000),
                      call_patience_ns = UINT64_C(60000000000);

static uint64_t signal_bit(int number) {
    return UINT64_C(1) << (number - 1);
}

int ag_attach_write_memory(pid_t pid, uint64_t address, const void *bytes, size_t n_bytes) {
    const struct iovec here = {(void *)(uintptr_t)bytes, n_bytes};
    const struct iovec there = {(void *)(uintptr_t)address, n_bytes};
    const ssize_t n = process_vm_writev(pid, &here, 1, &there, 1, 0);
    return n == (ssize_t)n_bytes ? 0 : n < 0 ? -errno : -EFAULT;
}

static int save_xstate(struct ag_remote_call *call) {
    struct iovec piece = {call->xstate, sizeof call->xstate};
    if (ptrace(PTRACE_GETREGSET, call->thread->tid, (void *)NT_X86_XSTATE, &piece) < 0) {
        return -errno;
    }
    call->n_xstate = piece.iov_len;
    return 0;
}

static int save_errno(struct ag_remote_call *call, uint64_t errno_function) {
    int r = ag_remote_call_make(call, errno_function, NULL, 0, &call->errno_place);
    if (r == 0) {
        r = ag_remote_memory_read(call->thread->pid, call->errno_place, &call->errno_value,
                                  sizeof call->errno_value);
    }
    if (r < 0) {
        call->errno_place = 0;
    }
    return r;
}

/* Maps a stack for the calls. Even a coroutine's stack has room for a call of mmap, as it has for a
 * signal handler. */
static int map_stack(struct ag_remote_call *call, const struct ag_remote_libc *libc) {
    const uint64_t arguments[] = {
        0, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0};
    uint64_t mapped = 0;
    const int r = ag_remote_call_make(call, libc->mmap, arguments, 6, &mapped);
    if (r < 0 || mapped == (uint64_t)(uintptr_t)MAP_FAILED) {
        return r < 0 ? r : -ENOMEM;
    }
    call->own_stack = call->stack;
    call->mapped_stack = mapped;
    call->munmap = libc->munmap;
    call->stack = mapped + STACK_BYTES;
    return 0;
}

static void unmap_stack(struct ag_remote_call *call) {
    const uint64_t arguments[] = {call->mapped_stack, STACK_BYTES};
    uint64_t unused = 0;
    if (call->mapped_stack != 0) {
        call->stack = call->own_stack;
        /* on failure the mapping stays */
        (void)ag_remote_call_undo(call, call->munmap, arguments, 2, &unused);
        call->mapped_stack = 0;
    }
}

/* Saves the signal mask of the thread, and blocks all signals but those that the thread causes
 * itself. Returns 0, or a negative errno: the mask is unchanged. */
static int block_signals(struct ag_remote_call *call) {
    const pid_t tid = call->thread->tid;
    uint64_t mask = ~(signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) |
                      signal_bit(SIGFPE) | signal_bit(SIGTRAP));
    const bool is_done =
        ptrace(PTRACE_GETSIGMASK, tid, (void *)KERNEL_SIGSET_BYTES, &call->mask) == 0 &&
        ptrace(PTRACE_SETSIGMASK, tid, (void *)KERNEL_SIGSET_BYTES, &mask) == 0;
    return is_done ? 0 : -errno;
}

int ag_remote_call_begin(struct ag_remote_call *call, struct ag_traced_thread *thread,
                         const struct ag_remote_libc *libc, uint64_t trap, bool needs_stack,
                         const struct ag_attach_end *end) {
    call->thread = thread;
    call->end = end;
    call->is_abandoned = false;
    call->trap = trap;
    call->mapped_stack = 0;
    call->sent = 0;
    call->errno_place = 0;
    call->stack = (thread->registers.rsp - RED_ZONE_BYTES) & ~(uint64_t)(ALIGNMENT - 1);
    int r = save_xstate(call);
    r = r < 0 ? r : block_signals(call);
    if (r < 0) {
        call->thread = NULL;
        return r;
    }
    r = save_errno(call, libc->errno_location);
    r = r == 0 && needs_stack ? map_stack(call, libc) : r;
    if (r < 0) {
        ag_remote_call_end(call);
    }
    return r;
}

/* Whether the signal that stopped the thread was sent by a process, not caused by the thread. */
static bool was_sent(pid_t tid) {
    siginfo_t info = {0};
    return ptrace(PTRACE_GETSIGINFO, tid, NULL, &info) == 0 && info.si_code <= 0;
}

/* Whether the call has to be aborted. READY_NS: when the thread was last seen on a CPU, waiting for
 * one, or in an uninterruptible wait. */
static bool hangs(const struct ag_remote_call *call, uint64_t begin_ns, uint64_t *ready_ns) {
    const uint64_t now_ns = ag_monotonic_ns();
    const char state = ag_remote_process_thread_state(call->thread->pid, call->thread->tid, NULL);
    const bool waits_for_device = state == 'D' && call->help != NULL;
    if (state == 'R' || waits_for_device) {
        *ready_ns = now_ns;
    }
    return !waits_for_device &&
           (now_ns - *ready_ns > wait_patience_ns || now_ns - begin_ns > call_patience_ns);
}

/* Waits until the thread stops at the return address of the call. */
static int wait_for_return(struct ag_remote_call *call, struct user_regs_struct *registers) {
    const pid_t tid = call->thread->tid;
    const int ends_with = call->trap != 0 ? SIGTRAP : SIGSEGV;
    const uint64_t begin_ns = ag_monotonic_ns();
    uint64_t ready_ns = begin_ns, aborted_ns = 0; /* aborted_ns 0: the call is not aborted */
    for (;;) {
        int status = 0;
        const pid_t r = waitpid(tid, &status, __WALL | WNOHANG);
        if (r < 0 && errno != EINTR) {
            return -ESRCH;
        }
        if (r != tid) {
            if (ag_traced_thread_ended_first(call->thread)) {
                return -ESRCH;
            }
            if (aborted_ns != 0 && call->help == NULL &&
                ag_monotonic_ns() - aborted_ns > STOP_PATIENCE_NS) {
                call->is_abandoned = true;
                return -ETIMEDOUT; /* the thread does not stop, so it cannot be restored */
            }
            if (aborted_ns == 0 && hangs(call, begin_ns, &ready_ns)) {
                aborted_ns = ag_monotonic_ns();
                if (call->help != NULL) {
                    call->end_help(call->context);
                }
                /* on failure the thread is gone, which the next waitpid shows */
                (void)ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
            }
            if (call->help != NULL && aborted_ns == 0) {
                call->help(call->context, ag_monotonic_ns() - begin_ns);
            } else {
                ag_attach_sleep_until_woken(NAP_NS);
            }
            continue;
        }
        if (!WIFSTOPPED(status)) {
            return -ESRCH;
        }
        const bool is_event = status >> 16 != 0;
        if (is_event && aborted_ns != 0) {
            call->is_abandoned = true;
            return -ETIMEDOUT;
        }
        const int number = WSTOPSIG(status);
        long passed_on = 0;
        if (!is_event && ptrace(PTRACE_GETREGS, tid, NULL, registers) == 0) {
            const uint64_t end = call->trap != 0 ? call->trap + 1 : 0;
            if (number == SIGSTOP) {
                passed_on = number;
            } else if (was_sent(tid)) {
                call->sent |= signal_bit(number);
            } else if (number == ends_with && registers->rip == end) {
                return 0;
            } else if (number != SIGTRAP) {
                return -EFAULT;
            }
        }
        if (ptrace(PTRACE_CONT, tid, NULL, passed_on) < 0) {
            return -ESRCH;
        }
    }
}

int ag_remote_call_undo(struct ag_remote_call *call, uint64_t function, const uint64_t *arguments,
                        size_t n_arguments, uint64_t *ret_result) {
    struct user_regs_struct registers = call->thread->registers;
    unsigned long long *const places[AG_REMOTE_CALL_ARGUMENTS] = {&registers.rdi, &registers.rsi,
                                                                  &registers.rdx, &registers.rcx,
                                                                  &registers.r8,  &registers.r9};
    for (size_t i = 0; i < n_arguments; i++) {
        *places[i] = arguments[i];
    }
    registers.rip = function;
    registers.rax = 0;
    registers.rbp = 0;
    /* prevents the kernel from restarting a system call here */
    registers.orig_rax = (unsigned long long)-1;
    registers.eflags &= ~(unsigned long long)(DIRECTION_FLAG | TRAP_FLAG);
    /* as after a call instruction: the return address is below an aligned address */
    registers.rsp = call->stack - sizeof(uint64_t);
    int r =
        ag_attach_write_memory(call->thread->pid, registers.rsp, &call->trap, sizeof call->trap);
    if (r < 0) {
        return r;
    }
    if (ptrace(PTRACE_SETREGS, call->thread->tid, NULL, &registers) < 0 ||
        ptrace(PTRACE_CONT, call->thread->tid, NULL, NULL) < 0) {
        return -ESRCH;
    }
    r = wait_for_return(call, &registers);
    if (r == 0) {
        *ret_result = registers.rax;
    }
    return r;
}

int ag_remote_call_make(struct ag_remote_call *call, uint64_t function, const uint64_t *arguments,
                        size_t n_arguments, uint64_t *ret_result) {
    return ag_attach_end_is_due(call->end)
               ? -EINTR
               : ag_remote_call_undo(call, function, arguments, n_arguments, ret_result);
}

int ag_remote_call_reserve(struct ag_remote_call *call, size_t n_bytes, uint64_t *ret_address) {
    if (n_bytes > AG_REMOTE_CALL_TEXT_BYTES) {
        return -ENAMETOOLONG;
    }
    *ret_address = call->stack = (call->stack - n_bytes) & ~(uint64_t)(ALIGNMENT - 1);
    return 0;
}

int ag_remote_call_text(struct ag_remote_call *call, const char *text, uint64_t *ret_address) {
    const size_t n_bytes = strlen(text) + 1;
    uint64_t address = 0;
    int r = ag_remote_call_reserve(call, n_bytes, &address);
    r = r < 0 ? r : ag_attach_write_memory(call->thread->pid, address, text, n_bytes);
    if (r == 0) {
        *ret_address = address;
    }
    return r;
}

/* The kernel stores the remaining time of an interrupted wait in one place per thread, which an
 * aborted call may have overwritten. So if the thread's own system call is such a wait, that system
 * call begins anew. */
static void repeat_own_call(struct user_regs_struct *registers) {
    if ((long)registers->orig_rax >= 0 && (long)registers->rax == -RESTART_WITH_BLOCK) {
        registers->rip -= SYSTEM_CALL_BYTES;
        registers->rax = registers->orig_rax;
        registers->orig_rax = (unsigned long long)-1;
    }
}

void ag_remote_call_end(struct ag_remote_call *call) {
    const pid_t tid = call->thread->tid;
    struct iovec piece = {call->xstate, call->n_xstate};
    if (call->is_abandoned) {
        repeat_own_call(&call->thread->registers);
    }
    unmap_stack(call);
    /* if one of the following calls fails, the thread is gone */
    if (call->errno_place != 0) {
        (void)ag_attach_write_memory(call->thread->pid, call->errno_place, &call->errno_value,
                                     sizeof call->errno_value);
    }
    (void)ptrace(PTRACE_SETREGSET, tid, (void *)NT_X86_XSTATE, &piece);
    (void)ptrace(PTRACE_SETREGS, tid, NULL, &call->thread->registers);
    (void)ptrace(PTRACE_SETSIGMASK, tid, (void *)KERNEL_SIGSET_BYTES, &call->mask);
    for (int number = 1; number <= SIGRTMAX; number++) {
        if ((call->sent & signal_bit(number)) != 0) {
            (void)syscall(SYS_tgkill, call->thread->pid, tid, number);
        }
    }
    call->thread = NULL;
}
