/* call_marks.h: whether a call is made from inside another one, as the stack says it.
 *
 * A function that calls something of the host notes the call: a mark in its own frame, in a list of
 * its thread whose head is one word. What comes later with a stack pointer asks whether it is
 * inside of the innermost noted call. It is when its frame lies farther in on the same stack, and
 * no signal handler began in between: the frame that the kernel makes for a handler would be there.
 *
 * A handler may come between any two instructions of these functions. It finds the list with the
 * interrupted call or without it, which are both right, and leaves it as it was, since noting and
 * forgetting are one store each. Nothing is repeated or undone because of a handler.
 *
 * A noted call may never return: it is left by longjmp, by an exception, or its thread is
 * cancelled. Then the mark stays in the list until a question comes from a frame farther out, or
 * finds that the mark was overwritten. Only a frame that leaves the memory of the mark as it was,
 * and lies around it, is taken for the call that has gone, until a call from farther out. */
#ifndef AG_CALL_MARKS_H
#define AG_CALL_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct ag_call_mark {
    struct ag_call_mark *outer;
    uintptr_t check; /* ag_call_mark_check of its address as long as it is noted */
};
/* The head of a list: a variable of a thread. */
typedef struct ag_call_mark *volatile ag_call_marks;

AG_FAST uintptr_t ag_call_mark_check(const struct ag_call_mark *mark) {
    return (uintptr_t)mark ^ (uintptr_t)0x9e3779b97f4a7c15;
}

/* mark: in the frame of the caller, who calls the host and then ag_call_forget. */
AG_FAST void ag_call_note(ag_call_marks *marks, struct ag_call_mark *mark) {
    mark->outer = *marks;
    mark->check = ag_call_mark_check(mark);
    atomic_signal_fence(memory_order_seq_cst);
    *marks = mark;
    atomic_signal_fence(memory_order_seq_cst);
}

/* Calls that were noted inside of it and never returned are forgotten as well. */
AG_FAST void ag_call_forget(ag_call_marks *marks, struct ag_call_mark *mark) {
    atomic_signal_fence(memory_order_seq_cst);
    *marks = mark->outer;
    atomic_signal_fence(memory_order_seq_cst);
    mark->check = 0;
}

/* Whether a call with this stack pointer is inside the innermost noted one. From any thread and
 * handler. */
bool ag_call_is_in_marked(ag_call_marks *marks, uintptr_t sp) AG_HIDDEN;
AG_FAST bool ag_call_is_inside(ag_call_marks *marks, uintptr_t sp) {
    return AG_UNLIKELY(*marks != NULL) && ag_call_is_in_marked(marks, sp);
}

#endif
