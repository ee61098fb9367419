/* julia_profile.h: recordings of one expression, which a Julia program begins and ends itself.
 * Allogram.jl calls these functions by name, through ccall.
 *
 *     prepare    called until it returns 0; after each call that returns 1, GC.gc()
 *     begin
 *     ...        the expression
 *     GC.gc()    so that deaths are recorded
 *     end
 *     trace      returns the path of the trace
 *
 * Two shared objects define these functions: the agent of `allogram run`, which records from the
 * start of the process, and pauses from the end of each expression to the beginning of the next one
 * (julia_profile_joined.c); and liballogram-julia, which Allogram.jl loads into a Julia that was
 * started without allogram (julia_profile_own.c). All functions are called by one thread of Julia
 * at a time, outside of collections. They return errors as negative errnos, with one line in
 * ret_message, which has AG_JULIA_MESSAGE_BYTES. */
#ifndef AG_JULIA_PROFILE_H
#define AG_JULIA_PROFILE_H

#include <stdint.h>

#include "base/compiler.h"

enum { AG_JULIA_MESSAGE_BYTES = 512 };

/* Returns 1: the caller has to collect and call again; 0: ready to begin; negative: nothing can be
 * recorded. */
AG_EXPORT int allogram_julia_prepare(char *ret_message);
/* output: the name of the trace, as in run --output; NULL: the default. Under `allogram run` there
 * is one trace, and output is not used. */
AG_EXPORT int allogram_julia_begin(const char *output, char *ret_message);
AG_EXPORT int allogram_julia_end(char *ret_message);
/* The path of the trace of the current recording, or of the one that ended last; "": unknown. Valid
 * until the next call. */
AG_EXPORT const char *allogram_julia_trace(void);
/* The times, in ns since the start of the trace, between which the latest expression was recorded.
 * Zeros: the trace has only this expression. */
AG_EXPORT void allogram_julia_times(uint64_t ret_ns[2]);

#endif
