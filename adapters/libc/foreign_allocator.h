/* foreign_allocator.h: an allocator in a library of its own, whose functions call each other by
 * their public names. */
#ifndef AG_LIBC_FOREIGN_ALLOCATOR_H
#define AG_LIBC_FOREIGN_ALLOCATOR_H

/* Looks for such a library behind us, and leads its own calls and ag_next past us. Once, when
 * ag_next is known and before the program has a second thread. */
void ag_foreign_allocator_lead(void);

/* Lets what stands behind us mark the thread as inside of an allocator (ag_inside_allocator), if it
 * does not yet: its library has entries that are hooked by detours. When and where as above. */
void ag_foreign_allocator_guard(void);

#endif
