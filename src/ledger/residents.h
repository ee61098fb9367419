/* residents.h: keeps measured resident sizes until the events of their time have come. */
#ifndef AG_RESIDENTS_H
#define AG_RESIDENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_resident {
    uint64_t time_ns, bytes;
};
struct ag_residents { /* zero-initialise */
    struct ag_resident *items;
    size_t first, end; /* waiting: [first, end) */
    uint64_t share;    /* how many measurements each of them stands for, a power of two */
    uint64_t in_last;  /* measurements in the last one so far */
};

void ag_residents_done(struct ag_residents *residents);
/* Adds a measurement, in the order of times. 0 or -ENOMEM. */
int ag_residents_add(struct ag_residents *residents, const struct ag_resident *resident);
/* Removes and returns the first if its time is not after TIME_NS. */
bool ag_residents_take(struct ag_residents *residents, uint64_t time_ns,
                       struct ag_resident *ret_resident);

#endif
