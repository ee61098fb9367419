/* quantity.h: formats numbers for people. The locale is ignored: a comma separates thousands, a
 * point separates the fraction.
 *
 * The functions ag_quantity_... fill a buffer of their caller and return the buffer's text, so that
 * a call can be an argument of printf. */
#ifndef AG_QUANTITY_H
#define AG_QUANTITY_H

#include <stdint.h>

struct ag_quantity { /* room for one formatted number with its unit */
    char text[40];
};

/* Numbers in running text: each has its own unit and about three significant digits, except that
 * ag_quantity_count writes all digits. */
const char *ag_quantity_bytes(struct ag_quantity *buffer, uint64_t bytes);  /* "1.02 GiB" */
const char *ag_quantity_time(struct ag_quantity *buffer, uint64_t time_ns); /* "930 ms" */
const char *ag_quantity_count(struct ag_quantity *buffer, uint64_t count);  /* "12,704,112" */
const char *ag_quantity_short(struct ag_quantity *buffer, uint64_t count);  /* "12.7 M" */
const char *ag_quantity_share(struct ag_quantity *buffer, uint64_t part,
                              uint64_t whole); /* "32 %" "<1 %" */

/* The noun after a number of blocks. */
static inline const char *ag_blocks_word(uint64_t count) {
    return count == 1 ? "block" : "blocks";
}

/* Numbers in a column: all have the unit chosen for the largest, so that they align and can be
 * compared. */
struct ag_unit {
    const char *name; /* for the head of the column; "" for plain counts */
    double size;      /* one unit, in bytes, blocks or nanoseconds */
    int decimals;     /* digits after the decimal point */
};
struct ag_unit ag_unit_of_bytes(uint64_t largest);
struct ag_unit ag_unit_of_blocks(uint64_t largest);
struct ag_unit ag_unit_of_time(uint64_t largest_ns);
/* Returns "412.3"; "<0.1" for a number that would round to 0, and "0" only for 0. */
const char *ag_quantity_in(struct ag_quantity *buffer, uint64_t value, struct ag_unit unit);

#endif
