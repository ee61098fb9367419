/* populate.h: makes pages of a shared mapping touchable before they are used.
 *
 * Touching a hole in a file on a full disk or tmpfs raises SIGBUS, which would kill the profiled
 * program. So every page is first requested by a system call, which can fail without a signal. */
#ifndef AG_POPULATE_H
#define AG_POPULATE_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the pages of [address, address + bytes) touchable, keeping their contents; false: there is
 * no memory (or no mapping). An ag_populate_fn. Async-signal-safe, keeps errno, any thread, any
 * kernel since 2.6.22. */
bool ag_populate(void *address, size_t bytes);

/* The fallback without futexes; declared for the tests. */
bool ag_populate_at_once(void *address, size_t bytes);

#endif
