/* foreign_allocator.h: prevents that a block is recorded twice if malloc comes from a library other
 * than the libc, whose functions call each other by their public names. */
#ifndef AG_LIBC_FOREIGN_ALLOCATOR_H
#define AG_LIBC_FOREIGN_ALLOCATOR_H

/* The agent is allogram's library in the program; ag_next (next.h) has the functions that it calls.
 * ag_foreign_allocator_lead looks for an allocator's library among the objects that the loader
 * searches after the agent. It redirects the library's own calls of malloc and its relatives, and
 * the pointers in ag_next, so that calls inside of the allocator are not recorded. Called once,
 * when ag_next is filled and before the program has a second thread.
 *
 * Returns the address of malloc in the first of these libraries whose own code calls its malloc
 * without a symbol lookup, as after linking with -Bsymbolic. These calls cannot be redirected;
 * ag_static_allocator_hook hooks them. NULL: there is no such library. */
const void *ag_foreign_allocator_lead(void);

/* Makes the functions in ag_next mark the thread as inside of an allocator (see
 * ag_is_inside_allocator in static_allocator.h), if they do not do so yet. Needed if the library
 * has functions that are hooked by detours (jumps at the start of a function). Called when ag_next
 * is filled and before the program has a second thread. */
void ag_foreign_allocator_guard(void);

#endif
