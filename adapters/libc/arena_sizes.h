/* arena_sizes.h: what glibc's malloc holds for its blocks. */
#ifndef AG_LIBC_ARENA_SIZES_H
#define AG_LIBC_ARENA_SIZES_H

/* Looks whether the malloc behind ours is glibc's and can be asked. At the start. */
void ag_libc_arenas_find(void);
/* exit runs destructors, in the calling thread: tells what malloc holds. Takes malloc's locks. */
void ag_libc_arenas_report(void);

#endif
