/* foreign_allocator.h: an allocator in a library of its own, whose functions call each other by
 * their public names. */
#ifndef AG_LIBC_FOREIGN_ALLOCATOR_H
#define AG_LIBC_FOREIGN_ALLOCATOR_H

/* Looks for such a library behind the agent, and redirects the library's own calls and ag_next past
 * the agent. Called once, when ag_next is known and before the program has a second thread. */
void ag_foreign_allocator_lead(void);

/* Makes the functions behind the agent mark the thread as inside an allocator, if they do not yet
 * (see ag_is_inside_allocator): the library has functions that are hooked by detours. Same
 * conditions as above. */
void ag_foreign_allocator_guard(void);

#endif
