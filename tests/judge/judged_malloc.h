/* judged_malloc.h: a malloc that captures the stack of each call with allogram's unwinder and
 * compares it with the stack that libunwind finds (judge.h). */
#ifndef JUDGED_MALLOC_H
#define JUDGED_MALLOC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of captures. lost: the stack could not be stored; not_judged: libunwind is not loaded,
 * did not find the first frame, or was running when malloc was called. */
struct judged_counts {
    unsigned long captures, incomplete, cut;
    unsigned long differ_from_plain, differ_from_judge, lost, not_judged;
    unsigned long in_a_throw; /* stacks at the end of a C++ throw that differed or were incomplete;
                               * no unwinder can unwind there */
};
extern struct judged_counts judged_counts;

/* Captures the caller's stack and compares it, as malloc does, but does not allocate. May be called
 * in a signal handler that has interrupted any instruction. */
void judged_capture(void);

/* Calls dlclose, and then, as allogram's library does, drops the unwinder's cached data of the
 * unloaded shared object. */
void judged_dlclose(void *handle);

#ifdef __cplusplus
}
#endif

#endif
