/* vector_state.h: calls a function and restores the vector and floating-point registers.
 *
 * If a detour (a jump at the start of a function) replaces a function of the program, the callers
 * of this function may keep values in any register that the original function does not change
 * (hook/kept_call.h). So the code that the detour runs is compiled for general registers only.
 * Where it has to call other code, it uses one of the functions below. Before they return, they
 * restore all registers that FUNCTION may change. Safe in any thread and signal handler. */
#ifndef AG_VECTOR_STATE_H
#define AG_VECTOR_STATE_H

typedef void ag_kept_call_fn(void *context);

/* For a FUNCTION that is compiled for SSE only, without AVX: saves the lower halves of 16 registers
 * in 272 bytes of stack. FUNCTION runs with the default rounding and with all floating-point
 * exceptions masked, whatever the program has set (feenableexcept, fesetround). About 10 ns. */
void ag_call_keeping_sse(ag_kept_call_fn *function, void *context);

/* For any FUNCTION, such as one of the C library. Saves all XSAVE state up to AVX-512 in about 3
 * KiB of stack. About 50 ns. */
void ag_call_keeping_vectors(ag_kept_call_fn *function, void *context);

#endif
