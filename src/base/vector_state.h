/* vector_state.h: calls that leave the vector and floating-point registers as they were.
 *
 * A function that a detour leads to may have callers that keep values in any register that the
 * function itself does not change (hook/kept_call.h). So what a hook runs is
 * compiled for general registers alone; where it has to leave that code, it goes by one of these.
 * Both return to a caller that finds all of that state unchanged, whatever FUNCTION does. Safe in
 * any thread and signal handler. */
#ifndef AG_VECTOR_STATE_H
#define AG_VECTOR_STATE_H

typedef void ag_kept_call_fn(void *context);

/* For code that is compiled for SSE alone, without AVX: the lower halves of 16 registers are saved,
 * 272 bytes of stack. FUNCTION runs with the default rounding and no floating-point exception
 * enabled, whatever the program has set (feenableexcept, fesetround). About 10 ns. */
void ag_call_keeping_sse(ag_kept_call_fn *function, void *context);

/* For any code, the C library's for example. Everything that XSAVE knows up to AVX-512, about 3 KiB
 * of stack. About 50 ns. */
void ag_call_keeping_vectors(ag_kept_call_fn *function, void *context);

#endif
