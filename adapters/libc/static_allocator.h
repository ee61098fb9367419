/* static_allocator.h: hooks the allocation functions that the agent (allogram's library in the
 * program) cannot interpose: those of programs that contain their allocator, and functions that
 * only certain allocators have. */
#ifndef AG_STATIC_ALLOCATOR_H
#define AG_STATIC_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "record/recorder.h"

struct ag_static_answer {
    /* The number of functions of the malloc family that were hooked, in the program and in the
     * library of malloc_address. Negative if one of them cannot be hooked; then none is hooked. */
    int n_program;
    int n_others;   /* functions that only certain allocators have, in the program and
                     * in libraries */
    char note[256]; /* a line for the trace: what was hooked, or what was not and why; or "" */
};

/* Looks for allocation functions that the program defines itself and puts detours (jumps at the
 * start of a function) into them. malloc_address: the address of a library's malloc that is hooked
 * like the program's; or NULL. Called once. In a program that is starting, the call must come
 * before the program's second thread. In a running program, this function only prepares the
 * detours; they are written into the code later (hook/detour.h). */
void ag_static_allocator_hook(const void *malloc_address, struct ag_static_answer *ret_answer);

/* Hooks the functions that only certain allocators have, in all objects. Called after
 * ag_static_allocator_hook and after the detours of malloc and its relatives: the number of detours
 * is limited (AG_DETOURS_PREPARED_MOST), and the detours of malloc and its relatives are more
 * important. */
void ag_static_allocator_hook_others(struct ag_static_answer *answer);

/* Calls CALL once, in the thread that first enters a detour of this file from outside of an
 * allocator. If the compiler has inlined the hooked functions into all their callers, no thread
 * enters a detour, and CALL is not called. */
typedef void ag_static_first_call(void);
void ag_static_allocator_on_first_call(ag_static_first_call *call);

/* Marks of this thread's calls that the agent passed on to a library's allocator
 * (foreign_allocator.c). */
extern __thread ag_call_marks ag_foreign_calls __attribute__((tls_model("initial-exec"))) AG_HIDDEN;

/* Whether a call with this stack pointer is made from inside of a recorded call of an allocator's
 * function. Such inner calls are not recorded. Callable from any thread and signal handler. */
AG_FAST bool ag_is_inside_allocator(uintptr_t sp) {
    return ag_record_is_suspended_call(sp) || ag_call_is_inside(&ag_foreign_calls, sp);
}

#endif
