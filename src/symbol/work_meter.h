/* work_meter.h: what reading one image's files may cost: CPU and memory, by what they occupy.
 *
 * Debug information can be made so that a megabyte of it costs gigabytes and minutes: lists that
 * every entry shares, tables that are read anew for every unit, sections that grow a thousandfold
 * when they are decompressed. There are too many such ways to bound each on its own, and some are
 * in libdw. So what is measured is the cost itself: the CPU time of the thread and the growth of
 * the process' peak of resident memory, between two looks, never far from each other. Where the
 * work between them could multiply, its cost is borrowed first (ag_work_meter_borrow).
 *
 * An image may cost a fixed amount per byte of its files, and beyond that a quarter of what is left
 * of a reserve that all images share: many expensive images leave something for the others. When
 * that is spent, its debug information is read no further, and its symbol table answers. */
#ifndef AG_WORK_METER_H
#define AG_WORK_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_work_reserve { /* of all images of a symbolizer */
    uint64_t left_ns, left_bytes;
    bool (*is_hurried)(void); /* true: nothing more is read; may be NULL */
};
struct ag_work_meter { /* all zero but for reserve: nothing was done. reserve NULL: no bound */
    struct ag_work_reserve *reserve;
    uint64_t stored_bytes; /* of the image's files */
    uint64_t used_ns, used_bytes;
    uint64_t lent_ns, lent_bytes; /* of the reserve */
    uint64_t from_ns;             /* thread's CPU time when it was last looked at */
    uint64_t from_bytes;          /* peak of resident memory then; 0: not known */
    uint32_t n_steps;
    bool is_running; /* between begin and end */
    bool is_spent;
};

void ag_work_reserve_init(struct ag_work_reserve *reserve);

/* Around all that is done for the image; time between them does not count. N_BYTES: of names that
 * were kept since the beginning. */
void ag_work_meter_begin(struct ag_work_meter *meter);
void ag_work_meter_end(struct ag_work_meter *meter, size_t n_bytes);
/* Call look before work that may use much memory, the first time since the beginning, and after
 * each part of it that may be long; step for each short one. false: the image's share is spent.
 * METER may be NULL. */
bool ag_work_meter_look(struct ag_work_meter *meter);
bool ag_work_meter_step(struct ag_work_meter *meter);
/* Takes N_BYTES of memory, and the time to fill them, out of the reserve before they are used.
 * false: that is more than the image may have; nothing was taken. */
bool ag_work_meter_borrow(struct ag_work_meter *meter, uint64_t n_bytes);

#endif
