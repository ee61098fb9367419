/* call_marks.c: determines whether a call is made inside a marked call, see call_marks.h. */
#include "call_marks.h"

#include <signal.h>
#include <ucontext.h>

#include "base/pages.h"
#include "base/raw_syscall.h"
#include "unwind/readable_range.h"

enum {
    INSIDE_BYTES_MOST = 64 << 10,    /* most stack that a marked call uses: an estimate */
    SAME_STACK_BYTES_MOST = 1 << 20, /* largest distance of two calls on one stack: an estimate */
    /* limit of the marks that one lookup removes: a longer list may be a cycle of overwritten
     * marks */
    PRUNED_AT_ONCE_MOST = 16,
    USER_CODE_SEGMENT = 0x33, /* selector of 64-bit user code */
};

/* Whether every page after the page of FIRST, up to HIGH, can be read. If so, the two addresses are
 * assumed to lie on one stack. */
static bool is_one_stack(uintptr_t first, uintptr_t high) {
    for (uintptr_t page = ag_page_of(first) + AG_PAGE_BYTES; page < high; page += AG_PAGE_BYTES) {
        if (!ag_readable_word(page)) {
            return false;
        }
    }
    return true;
}

/* Whether the thread runs on an alternate signal stack that does not contain ADDRESS. True as well
 * if the system call is refused. */
static bool is_on_another_signal_stack(uintptr_t address) {
    stack_t current = {0};
    return ag_syscall2(SYS_sigaltstack, 0, (long)&current) != 0 || /* a sandbox refused it */
           ((current.ss_flags & SS_ONSTACK) &&
            address - (uintptr_t)current.ss_sp >= current.ss_size);
}

/* The position of a call, given by its stack pointer, relative to the marked call. */
enum distance {
    FAR, /* unknown: the call is on another stack, or too far away on the same stack */
    /* the call was made from an outer frame: the marked call has ended without ag_call_forget */
    OUTSIDE,
    INSIDE, /* the call was made from an inner frame; the memory between the two can be read */
};

static enum distance distance_of(const struct ag_call_mark *mark, uintptr_t sp) {
    const uintptr_t address = (uintptr_t)mark;
    if (sp < address) {
        return address - sp < INSIDE_BYTES_MOST && is_one_stack(sp, (uintptr_t)(mark + 1)) ? INSIDE
                                                                                           : FAR;
    }
    return sp - address < SAME_STACK_BYTES_MOST && ag_readable_word(ag_page_of(address)) &&
                   is_one_stack(address, sp) && !is_on_another_signal_stack(address)
               ? OUTSIDE
               : FAR;
}

/* Whether the stack between LOW and HIGH holds a signal frame (arch/x86/include/asm/sigframe.h: the
 * return address of the handler, then a ucontext) whose handler interrupted code that used that
 * part of the stack. */
static bool has_signal_frame(uintptr_t low, uintptr_t high) {
    enum { WORDS = (offsetof(ucontext_t, uc_mcontext.fpregs) / sizeof(uintptr_t)) + 2 };
    const uintptr_t *end = (const uintptr_t *)high - WORDS;
    for (const uintptr_t *word = (const uintptr_t *)low; word < end; word++) {
        const ucontext_t *context = (const ucontext_t *)(word + 1);
        const uintptr_t interrupted = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
        const uintptr_t state = (uintptr_t)context->uc_mcontext.fpregs;
        if (interrupted > (uintptr_t)word && interrupted <= high && context->uc_link == NULL &&
            (context->uc_mcontext.gregs[REG_CSGSFS] & 0xffff) == USER_CODE_SEGMENT &&
            (state == 0 || (state > (uintptr_t)word && state < interrupted))) {
            return true;
        }
    }
    return false;
}

AG_COLD bool ag_call_is_in_marked(ag_call_marks *marks, uintptr_t sp) {
    struct ag_call_mark *mark = *marks;
    for (int i = 0; mark; i++) {
        const enum distance distance = distance_of(mark, sp);
        const bool is_whole = distance != FAR && mark->check == ag_call_mark_check(mark);
        if (distance == FAR || (distance == INSIDE && is_whole)) {
            return distance == INSIDE && !has_signal_frame(sp, (uintptr_t)mark);
        }
        mark = is_whole && i < PRUNED_AT_ONCE_MOST ? mark->outer : NULL;
        *marks = mark;
    }
    return false;
}
