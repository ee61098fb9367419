/* julia_calls.h: hooks the functions by which Julia's collector allocates. */
#ifndef AG_JULIA_CALLS_H
#define AG_JULIA_CALLS_H

#include <stdint.h>

struct ag_julia_thread;

/* Installs the hooks. If a function cannot be hooked, changes nothing, stores the function's name
 * and the reason, and returns a negative errno. */
int ag_julia_calls_follow(const char **ret_reason, const char **ret_name);
/* Removes the hooks. */
void ag_julia_calls_leave(void);
/* Sums over all threads the calls of those hooked functions whose calls Julia counts.
 * *ret_own_calls: the calls that the adapter itself made; *ret_calls: all others. */
void ag_julia_calls_sum(uint64_t *ret_calls, uint64_t *ret_own_calls);

#endif
