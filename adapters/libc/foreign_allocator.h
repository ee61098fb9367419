/* foreign_allocator.h: an allocator in a library other than the libc, whose functions call each
 * other by their public names. */
#ifndef AG_LIBC_FOREIGN_ALLOCATOR_H
#define AG_LIBC_FOREIGN_ALLOCATOR_H

/* Looks for such a library among the objects that the loader searches after the agent. Redirects
 * the library's own calls of malloc and its relatives, and the pointers in ag_next (the functions
 * that the agent calls, next.h), so that calls inside of the allocator are not recorded. (The agent
 * is allogram's library in the program.) Called once, when ag_next is known and before the program
 * has a second thread. */
void ag_foreign_allocator_lead(void);

/* Makes the functions in ag_next mark the thread as inside of an allocator (see
 * ag_is_inside_allocator in static_allocator.h), if they do not do so yet. Needed if the library
 * has functions that are hooked by detours (jumps at the start of a function). Like
 * ag_foreign_allocator_lead, it must be called when ag_next is known and before the program has a
 * second thread. */
void ag_foreign_allocator_guard(void);

#endif
