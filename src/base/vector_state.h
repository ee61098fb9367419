/* vector_state.h: calls that leave the vector and floating-point registers unchanged.
 *
 * A function that a detour leads to may have callers that keep values in any register that the
 * function itself does not change (hook/kept_call.h). So the code that a hook runs is compiled for
 * general registers only; where it has to call other code, it uses one of these functions. Both
 * restore all of that state before they return, whatever FUNCTION does. Safe in any thread and
 * signal handler. */
#ifndef AG_VECTOR_STATE_H
#define AG_VECTOR_STATE_H

typedef void ag_kept_call_fn(void *context);

/* For code that is compiled for SSE only, without AVX: the lower halves of 16 registers are saved,
 * 272 bytes of stack. FUNCTION runs with the default rounding and with all floating-point
 * exceptions masked, whatever the program has set (feenableexcept, fesetround). About 10 ns. */
void ag_call_keeping_sse(ag_kept_call_fn *function, void *context);

/* For any code, such as the C library's. Saves everything that XSAVE covers up to AVX-512, about 3
 * KiB of stack. About 50 ns. */
void ag_call_keeping_vectors(ag_kept_call_fn *function, void *context);

#endif
