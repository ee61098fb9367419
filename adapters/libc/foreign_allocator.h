/* foreign_allocator.h: an allocator in a library of its own, whose functions call each other by
 * their public names. */
#ifndef AG_LIBC_FOREIGN_ALLOCATOR_H
#define AG_LIBC_FOREIGN_ALLOCATOR_H

/* Looks for such a library behind us, and leads its own calls and ag_next past us. Once, when
 * ag_next is known and before the program has a second thread. */
void ag_foreign_allocator_lead(void);

#endif
