/* detour_counts.h: how often detour_preload.so was called in place of the program's own allocator.
 */
#ifndef AG_DETOUR_COUNTS_H
#define AG_DETOUR_COUNTS_H

struct detour_counts {
    unsigned long n_malloc, n_free, n_calloc, n_realloc, n_aligned;
};

/* own_allocator.c finds this object with dlsym: in a program that is not position-independent, a
 * weak reference would be bound to NULL. */
extern __attribute__((visibility("default"))) struct detour_counts detour_counts;

#endif
