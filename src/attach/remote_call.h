/* remote_call.h: makes a stopped thread of another process (the target) call a function, and
 * restores the thread. */
#ifndef AG_REMOTE_CALL_H
#define AG_REMOTE_CALL_H

#include "attach_end.h"
#include "traced_thread.h"

enum { AG_REMOTE_CALL_ARGUMENTS = 6, AG_REMOTE_CALL_TEXT_BYTES = 4096 };
enum { AG_XSTATE_BYTES_MOST = 64 << 10 };

struct ag_remote_call {
    struct ag_traced_thread *thread; /* NULL: no call has begun, or it has ended */
    /* address of a byte 0xcc in code of the target, to which calls return; 0: calls return to the
     * address 0 and end with SIGSEGV, because the target ignores SIGTRAP */
    uint64_t trap;
    uint64_t stack; /* the memory below this address is free, for texts and the calls' frames */
    uint64_t mask;  /* the signal mask before the call */
    /* a bit for each signal that was held back during a call, to be sent again at the end */
    uint64_t sent;
    /* addresses in the target: the mapped stack (0: none is mapped), the value of `stack` before
     * the mapping, and the function munmap */
    uint64_t mapped_stack, own_stack, munmap;
    const struct ag_attach_end *end;
    /* Waits a little, for at most 10 ms, or does something so that the function returns (stops the
     * other threads, or resumes them), which may take longer. Called again and again while a
     * function has not returned. PASSED_NS: the time since the function was called. NULL: the call
     * only waits. Set this member before ag_remote_call_begin. */
    void (*help)(void *context, uint64_t passed_ns);
    /* Resumes the threads that help has stopped. Called before a call is aborted, because its
     * thread may wait for one of them. */
    void (*end_help)(void *context);
    void *context;
    /* a call was aborted; after that, the only further call is the one that unmaps the stack */
    bool is_abandoned;
    uint64_t errno_place; /* address of the thread's errno; 0: unknown, so errno is not restored */
    int32_t errno_value;
    size_t n_xstate;
    uint8_t xstate[AG_XSTATE_BYTES_MOST];
};

/* Writes to the target's memory. Returns 0, or a negative errno: not all bytes could be written. */
int ag_attach_write_memory(pid_t pid, uint64_t address, const void *bytes, size_t n_bytes);

/* Functions of the target's libc, by their addresses. */
struct ag_remote_libc {
    uint64_t errno_location, mmap, munmap;
};
/* Saves all that a call could change: registers, vector state, signal mask, errno. The thread must
 * be at a safe point (safe_point.h). needs_stack: the thread's own stack has no room or is a
 * coroutine's, so a stack is mapped for the calls. Returns 0; or a negative errno: the thread
 * is unchanged, and call.thread is NULL. */
int ag_remote_call_begin(struct ag_remote_call *call, struct ag_traced_thread *thread,
                         const struct ag_remote_libc *libc, uint64_t trap, bool needs_stack,
                         const struct ag_attach_end *end);
/* Calls FUNCTION, whose result is *ret_result. Returns 0 or a negative errno. -EFAULT: the function
 * crashed, and the thread is stopped at the crash; -ESRCH: the process has ended; -ETIMEDOUT: the
 * function did not return in time, and the thread was stopped inside of it (is_abandoned); -EINTR:
 * the function was not called, because the user had asked for the end. */
int ag_remote_call_make(struct ag_remote_call *call, uint64_t function, const uint64_t *arguments,
                        size_t n_arguments, uint64_t *ret_result);
/* Like ag_remote_call_make, but makes the call even if the user has asked for the end. It is for
 * calls that undo or complete what earlier calls have done. */
int ag_remote_call_undo(struct ag_remote_call *call, uint64_t function, const uint64_t *arguments,
                        size_t n_arguments, uint64_t *ret_result);
/* Reserves free memory below call->stack, at an aligned address, until ag_remote_call_end. Returns
 * 0, or -ENAMETOOLONG: more than AG_REMOTE_CALL_TEXT_BYTES. */
int ag_remote_call_reserve(struct ag_remote_call *call, size_t n_bytes, uint64_t *ret_address);
/* Copies a text into memory that it reserves. Returns 0 or a negative errno. */
int ag_remote_call_text(struct ag_remote_call *call, const char *text, uint64_t *ret_address);
/* Restores the thread. */
void ag_remote_call_end(struct ag_remote_call *call);

#endif
