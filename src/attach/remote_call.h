/* remote_call.h: a stopped thread of another process calls a function, and is as it was. */
#ifndef AG_REMOTE_CALL_H
#define AG_REMOTE_CALL_H

#include "attach_end.h"
#include "traced_thread.h"

enum { AG_REMOTE_CALL_ARGUMENTS = 6, AG_REMOTE_CALL_TEXT_BYTES = 4096 };
enum { AG_XSTATE_BYTES_MOST = 64 << 10 };

struct ag_remote_call {
    struct ag_traced_thread *thread;
    uint64_t trap;  /* address of a byte 0xcc in code of the target: where calls return to */
    uint64_t stack; /* below it is free: room for a text, then the calls' frames */
    uint64_t mask;  /* of signals, as it was */
    uint64_t sent;  /* signals that somebody sent meanwhile and that no mask holds up */
    uint64_t mapped_stack, own_stack, munmap; /* mapped_stack 0: there is none */
    const struct ag_attach_end *end;
    bool is_abandoned; /* one was cut short: no other is made but the one that unmaps the stack */
    uint64_t errno_place;
    int32_t errno_value;
    size_t n_xstate;
    uint8_t xstate[AG_XSTATE_BYTES_MOST];
};

/* Functions of the target's libc, by their addresses. */
struct ag_remote_libc {
    uint64_t errno_location, mmap, munmap;
};
/* Saves all that a call could change: registers, vector state, signal mask, errno. The thread is at
 * a safe point. needs_stack: its own has no room, or is no thread's; calls get one that is mapped
 * for them. 0 or negative errno; then it is as it was. */
int ag_remote_call_begin(struct ag_remote_call *call, struct ag_traced_thread *thread,
                         const struct ag_remote_libc *libc, uint64_t trap, bool needs_stack,
                         const struct ag_attach_end *end);
/* Calls FUNCTION, whose result is *ret_result. -EFAULT: it crashed, and is stopped where it did;
 * -ESRCH: the process ended; -EINTR: the end was asked for, and -ETIMEDOUT: ten seconds passed,
 * before it returned: the thread was stopped inside of it. */
int ag_remote_call_make(struct ag_remote_call *call, uint64_t function, const uint64_t *arguments,
                        size_t n_arguments, uint64_t *ret_result);
/* Puts a text below the thread's stack, where it stays until the end. 0 or negative errno. */
int ag_remote_call_text(struct ag_remote_call *call, const char *text, uint64_t *ret_address);
/* Puts everything back. */
void ag_remote_call_end(struct ag_remote_call *call);

#endif
