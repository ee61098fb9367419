/* call_marks.h: determines from the stack whether a call is made inside another call.
 *
 * A function that calls the host (the recorded program) puts a mark into its own frame and links
 * the mark into a list of its thread, whose head is one word. Code that runs later passes its stack
 * pointer to ag_call_is_inside to learn whether it was called from inside the innermost marked
 * call. The answer is yes if two conditions hold. First, the frame of that code has a lower address
 * than the mark, on the same stack. Second, no signal handler began after the marked call: the
 * kernel's frame for a handler would lie between that frame and the mark.
 *
 * A signal handler may interrupt these functions at any instruction. The handler finds the list
 * with or without the mark of the interrupted function; either is correct, because the list changes
 * by a single store. When the handler returns, it has restored the list. So the interrupted
 * function can rely on the values that it has read.
 *
 * A marked call may never return: it is left by longjmp or by an exception, or its thread is
 * cancelled. Then the mark stays in the list until a lookup comes from an outer frame, or finds
 * that the mark was overwritten. One error remains. A later frame may surround the stale mark and
 * leave the memory of the mark unchanged. Then this frame is taken for the marked call, until a
 * lookup from an outer frame removes the mark. */
#ifndef AG_CALL_MARKS_H
#define AG_CALL_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ag_call_mark {
    struct ag_call_mark *outer;
    uintptr_t check; /* the value of ag_call_mark_check while the mark is in the list */
};
/* The head of a list: a thread-local variable. */
typedef struct ag_call_mark *volatile ag_call_marks;

AG_FAST uintptr_t ag_call_mark_check(const struct ag_call_mark *mark) {
    return (uintptr_t)mark ^ (uintptr_t)0x9e3779b97f4a7c15;
}

/* Adds MARK to the list. MARK is a variable of the calling function, which then calls the host, and
 * after that ag_call_forget. */
AG_FAST void ag_call_note(ag_call_marks *marks, struct ag_call_mark *mark) {
    mark->outer = *marks;
    mark->check = ag_call_mark_check(mark);
    atomic_signal_fence(memory_order_seq_cst);
    *marks = mark;
    atomic_signal_fence(memory_order_seq_cst);
}

/* Removes MARK from the list, and also inner marks whose calls never returned. */
AG_FAST void ag_call_forget(ag_call_marks *marks, struct ag_call_mark *mark) {
    atomic_signal_fence(memory_order_seq_cst);
    *marks = mark->outer;
    atomic_signal_fence(memory_order_seq_cst);
    mark->check = 0;
}

/* Whether a call with this stack pointer is inside the innermost marked call. Can be called from
 * any thread and signal handler. */
bool ag_call_is_in_marked(ag_call_marks *marks, uintptr_t sp) AG_HIDDEN;
AG_FAST bool ag_call_is_inside(ag_call_marks *marks, uintptr_t sp) {
    return AG_UNLIKELY(*marks != NULL) && ag_call_is_in_marked(marks, sp);
}

#endif
