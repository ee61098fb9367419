/* julia_calls.h: the doors of Julia's collector, with the adapter in front of each. */
#ifndef AG_JULIA_CALLS_H
#define AG_JULIA_CALLS_H

#include <stdint.h>

struct ag_julia_thread;

/* 0, or a negative errno with ret_reason and ret_name, and nothing changed. */
int ag_julia_calls_follow(const char **ret_reason, const char **ret_name);
/* Takes them back. */
void ag_julia_calls_leave(void);
/* Calls that Julia counts, of all threads, without the adapter's own; and those. */
void ag_julia_calls_sum(uint64_t *ret_calls, uint64_t *ret_own_calls);

#endif
