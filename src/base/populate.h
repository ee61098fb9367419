/* populate.h: making pages of a shared mapping touchable before anybody touches them.
 *
 * A hole in a file on a full disk or tmpfs answers a touch with SIGBUS, which would kill the
 * program that is profiled. So every page is first asked for by a system call, which can say no. */
#ifndef AG_POPULATE_H
#define AG_POPULATE_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the pages of [address, address + bytes) touchable, keeping what they hold; false: there is
 * no memory (or no mapping). An ag_populate_fn. Async-signal-safe, keeps errno, any thread, any
 * kernel since 2.6.22. */
bool ag_populate(void *address, size_t bytes);

/* The way it goes where there are no futexes; here for the tests. */
bool ag_populate_at_once(void *address, size_t bytes);

#endif
