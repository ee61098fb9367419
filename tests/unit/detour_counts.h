/* detour_counts.h: what detour_preload.so saw of the program's own allocator. */
#ifndef AG_DETOUR_COUNTS_H
#define AG_DETOUR_COUNTS_H

struct detour_counts {
    unsigned long n_malloc, n_free, n_calloc, n_realloc, n_aligned;
};

/* Found by name: a program that is not position-independent would bind a weak reference to nothing.
 */
extern __attribute__((visibility("default"))) struct detour_counts detour_counts;

#endif
