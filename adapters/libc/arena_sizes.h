/* arena_sizes.h: the memory that glibc's malloc holds for its blocks. */
#ifndef AG_LIBC_ARENA_SIZES_H
#define AG_LIBC_ARENA_SIZES_H

/* Finds out whether the malloc that the agent (allogram's library in the program) calls is glibc's,
 * and whether there is a function mallinfo2. Called when the agent starts. */
void ag_libc_arenas_find(void);
/* Records how much memory malloc holds. Called by the thread that called exit, while exit runs
 * destructors. Takes malloc's locks. */
void ag_libc_arenas_report(void);

#endif
