/* judged_malloc.h: a malloc that captures the stack of each call and has it judged. */
#ifndef JUDGED_MALLOC_H
#define JUDGED_MALLOC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct judged_counts {
    unsigned long captures, incomplete, cut;
    unsigned long differ_from_plain, differ_from_judge, lost, not_judged;
    unsigned long in_a_throw; /* differed, or were incomplete, where no unwinder can unwind */
};
extern struct judged_counts judged_counts;

/* Captures and judges the caller's stack without allocating: for signal handlers at any
 * instruction. */
void judged_capture(void);

/* dlclose, and what the agent does after it: forget what is gone. */
void judged_dlclose(void *handle);

#ifdef __cplusplus
}
#endif

#endif
