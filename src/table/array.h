/* array.h: growing arrays. An array is a pointer to its items and a count, both 0 at first. Call
 * free(items) when the array is no longer needed.
 *
 *     struct row *rows = NULL;
 *     size_t n_rows = 0;
 *     int r = AG_ARRAY_ADD(rows, n_rows, (struct row){.name = name});
 *
 * An array that grows by AG_ARRAY_ADD stores no capacity: it is full when its count is 0, 16, or a
 * higher power of two, and then its memory is doubled. The caller may decrease the count at any
 * time. AG_ARRAY_RESERVE is for arrays that grow by many items at a time; such an array also has a
 * variable for its capacity. AG_ARRAY_EXTEND is for arrays that are indexed by ids. Use only one of
 * the three macros on an array.
 *
 * No array has more than AG_ARRAY_MOST items, so that 32-bit indices suffice. No array has more
 * than AG_ARRAY_BYTES_MOST bytes (512 GiB), because the allocators of sanitizers abort at larger
 * sizes instead of returning NULL. */
#ifndef AG_ARRAY_H
#define AG_ARRAY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_ARRAY_FIRST = 16 };
#define AG_ARRAY_MOST ((size_t)1 << 31)
#define AG_ARRAY_BYTES_MOST ((size_t)1 << 39)

/* Adds an item, the last argument. Returns 0, or -ENOMEM and leaves the array unchanged. */
#define AG_ARRAY_ADD(items, count, ...)                                                    \
    (ag_array_is_full(count) && ag_array_double(&(items), (count), sizeof((items)[0])) < 0 \
         ? -ENOMEM                                                                         \
         : ((items)[(count)] = (__VA_ARGS__), (count)++, 0))

/* Makes room for WANTED items in total. Returns 0, or -ENOMEM and leaves the array unchanged. */
#define AG_ARRAY_RESERVE(items, capacity, wanted) \
    ((wanted) <= (capacity)                       \
         ? 0                                      \
         : ag_array_reserve(&(items), &(capacity), (wanted), sizeof((items)[0])))

/* For an array whose indexes are numbers that the caller gets from elsewhere, such as ids. Enlarges
 * the array to at least WANTED items; new items are zero. COUNT is both the count and the capacity.
 * Returns 0, or -ENOMEM and leaves the array unchanged. */
#define AG_ARRAY_EXTEND(items, count, wanted) \
    ((wanted) <= (count) ? 0 : ag_array_extend(&(items), &(count), (wanted), sizeof((items)[0])))

/* The functions that the macros call; ITEMS is the address of the pointer to the items. */
static inline bool ag_array_is_full(size_t count) {
    return (count & (count - 1)) == 0 && (count == 0 || count >= AG_ARRAY_FIRST);
}
int ag_array_double(void *items, size_t count, size_t item_bytes);
int ag_array_reserve(void *items, size_t *capacity, size_t wanted, size_t item_bytes);
int ag_array_extend(void *items, size_t *count, size_t wanted, size_t item_bytes);

#endif
