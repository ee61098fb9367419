/* work_meter.h: bounds the cost of reading one image's files, in CPU and memory, by the bytes that
 * they occupy.
 *
 * Debug information can be constructed so that a megabyte of it costs gigabytes and minutes: lists
 * that every entry shares, tables that are read again for every unit, sections that grow a
 * thousandfold when they are decompressed. There are too many such ways to bound each on its own,
 * and some are in libdw. So the cost itself is measured, in short intervals: the CPU time of the
 * thread, and the growth of the process' peak of resident memory. Before a single step that may
 * cost much (decompression), its cost is taken from the reserve in advance (ag_work_meter_borrow).
 *
 * An image may cost a fixed amount per byte of its files, and beyond that a quarter of what is left
 * of a reserve that all images share: so many expensive images leave something for the others. When
 * this share is spent, the image's debug information is read no further, and its symbol table is
 * used. */
#ifndef AG_WORK_METER_H
#define AG_WORK_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_work_reserve { /* of all images of a symbolizer */
    uint64_t left_ns, left_bytes;
    bool (*is_hurried)(void); /* returns true when nothing more is to be read; may be NULL */
};
struct ag_work_meter { /* all zero except reserve: nothing was used. reserve NULL: no bound */
    struct ag_work_reserve *reserve;
    uint64_t stored_bytes; /* bytes that the image's files occupy */
    uint64_t used_ns, used_bytes;
    uint64_t lent_ns, lent_bytes; /* taken from the reserve */
    uint64_t from_ns;             /* thread's CPU time at the last reading */
    uint64_t from_bytes;          /* peak of resident memory at the last reading; 0: unknown */
    uint32_t n_steps;
    bool is_running; /* between begin and end */
    bool is_spent;
};

void ag_work_reserve_init(struct ag_work_reserve *reserve);

/* Called before and after each piece of work for the image; time outside of them does not count.
 * N_BYTES: of names that were interned since the beginning. */
void ag_work_meter_begin(struct ag_work_meter *meter);
void ag_work_meter_end(struct ag_work_meter *meter, size_t n_bytes);
/* Both return false if the image's share is spent. ag_work_meter_look reads the clock and the
 * memory: call it before the first work that may use much memory, and after each long part of it.
 * ag_work_meter_step does so at times only: call it for each short part. METER may be NULL. */
bool ag_work_meter_look(struct ag_work_meter *meter);
bool ag_work_meter_step(struct ag_work_meter *meter);
/* Takes N_BYTES of memory, and the time to fill them, from the reserve before they are used.
 * Returns false if that exceeds the image's share; then nothing was taken. */
bool ag_work_meter_borrow(struct ag_work_meter *meter, uint64_t n_bytes);

#endif
