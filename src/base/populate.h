/* populate.h: allocates the pages of a shared mapping before they are used.
 *
 * If a program writes to a hole of a mapped file and the disk or tmpfs is full, the kernel raises
 * SIGBUS, which would kill the profiled program. So every page is first requested by a system call,
 * which can fail without a signal. */
#ifndef AG_POPULATE_H
#define AG_POPULATE_H

#include <stdbool.h>
#include <stddef.h>

/* Allocates the pages of [address, address + bytes) and keeps their contents; false: there is no
 * memory (or no mapping). The function has the type ag_populate_fn of stack_tree.h. It is
 * async-signal-safe, does not change errno, and may be called by any thread. It works on every
 * kernel since 2.6.22. */
bool ag_populate(void *address, size_t bytes);

/* The variant that ag_populate uses if futexes are refused: one call of madvise. Declared only for
 * the tests. */
bool ag_populate_at_once(void *address, size_t bytes);

#endif
