/* guile_runtime.h: the structs of Guile 3.0 that the adapter (allogram's code for Guile) reads.
 *
 * Guile has a stack of its own per thread, the VM stack. It grows down in words of 8 bytes. A frame
 * has three words from the address FP upward, and its locals below FP (offsets in words):
 *
 *     FP + 2   distance to the caller's FP, in words
 *     FP + 1   return address: where the caller continues, an address in its bytecode
 *     FP + 0   return address in compiled code (JIT); not used here
 *     FP - 1   local 0; at first the procedure that was called
 *
 * The current frame and the bytecode address that it executes are in the struct scm_vm of the
 * thread. Guile stores that address before each call that may allocate, also in compiled code.
 * The numbers below are those of libguile/vm.h, frames.h and threads.h of Guile 3.0.8. */
#ifndef AG_GUILE_RUNTIME_H
#define AG_GUILE_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum { /* offsets in struct scm_thread */
       AG_GUILE_IP = 8,
       AG_GUILE_FP = 24,
       AG_GUILE_STACK_WORDS = 48,
       AG_GUILE_STACK_BOTTOM = 56,
       AG_GUILE_STACK_TOP = 96,
       AG_GUILE_HANDLE = 408, /* the thread's object, whose second word is the struct's address */
};
enum { /* in words of a frame */
       AG_GUILE_FRAME_RETURN = 1,
       AG_GUILE_FRAME_LINK = 2,
       AG_GUILE_FRAME_WORDS = 3,
};
enum { /* the first word of a procedure's object; the second is the address of its bytecode */
       AG_GUILE_TYPE_MASK = 0x7f,
       AG_GUILE_PROCEDURE = 0x45,
       AG_GUILE_IS_PRIMITIVE = 0x200, /* a function of C */
};

/* The Guile of this process. There is at most one. */
struct ag_guile {
    uintptr_t low, high;           /* the addresses of libguile */
    uintptr_t call_low, call_high; /* the code of scm_call_n, which runs the VM for C code */
    uintptr_t thread_distance;     /* from a thread-local variable of the adapter to Guile's pointer
                                    * to the thread; the same in all threads */
    const int *is_initialized; /* libguile's variable scm_initialized_p, which is 0 until Guile has
                                    * made its built-in procedures and data; NULL: unknown */
    const char *disagreement;  /* what differs from the expected layout; NULL: nothing so far */
};
extern struct ag_guile ag_guile AG_HIDDEN;

AG_FAST uintptr_t ag_guile_word(uintptr_t address) {
    return *(const uintptr_t *)address; // NOLINT(performance-no-int-to-ptr): Guile's memory
}

#endif
