/* julia_profile.h: recordings of one expression, which a Julia program begins and ends itself: what
 * Allogram.jl calls, by these names, through ccall.
 *
 *     prepare    again and again, with a GC.gc() after each, until it is ready
 *     begin
 *     ...        the expression
 *     GC.gc()    so that what is dead is told
 *     end
 *     trace      where it is
 *
 * Two objects have them: the agent, whose process is recorded already and pauses outside of the
 * expression (julia_profile_joined.c); and liballogram-julia, which Allogram.jl loads into a Julia
 * that runs alone (julia_profile_own.c). All: called by one thread of Julia's at a time, outside of
 * collections; errors are negative errnos with one line in ret_message, of AG_JULIA_MESSAGE_BYTES.
 */
#ifndef AG_JULIA_PROFILE_H
#define AG_JULIA_PROFILE_H

#include "base/compiler.h"

enum { AG_JULIA_MESSAGE_BYTES = 512 };

/* 1: collect, and ask again; 0: ready, begin; negative: nothing can be recorded. */
AG_EXPORT int allogram_julia_prepare(char *ret_message);
/* output: the name of the trace, as run --output has it; NULL: the default. Under `allogram run`
 * there is one trace, and it has its name. */
AG_EXPORT int allogram_julia_begin(const char *output, char *ret_message);
AG_EXPORT int allogram_julia_end(char *ret_message);
/* Of the recording that was ended last, or that runs; "": nobody knows. Stays until the next. */
AG_EXPORT const char *allogram_julia_trace(void);

#endif
