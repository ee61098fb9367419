/* work_meter.h: limits the CPU time and the memory for reading the files of an image (a loaded
 * program or library), in proportion to the bytes that these files occupy.
 *
 * A hostile file may contain debug information of which a megabyte costs gigabytes and minutes:
 * lists that every entry shares, tables that are read again for every unit, sections that grow a
 * thousandfold when they are decompressed. There are too many possibilities to limit each of them
 * separately, and some are in libdw. So the cost itself is measured, in short intervals: the CPU
 * time of the thread, and the growth of the process' peak of resident memory. Before a single step
 * that may cost much (decompression), the cost of the step is taken in advance from the common
 * reserve, which the next paragraph describes (ag_work_meter_borrow).
 *
 * The limit (share) of an image is a fixed amount per byte of its files, plus a quarter of what is
 * left of a reserve that all images have in common. So even many expensive images leave a part of
 * the reserve for other images. When the share of an image is spent, no more of its debug
 * information is read, and only its symbol table is used. */
#ifndef AG_WORK_METER_H
#define AG_WORK_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_work_reserve { /* shared by all images of a symbolizer */
    uint64_t left_ns, left_bytes;
    /* returns true if nothing more is to be read, because time is short; may be NULL */
    bool (*is_hurried)(void);
};
struct ag_work_meter { /* all zero except `reserve`: nothing was used; `reserve` NULL: no limit */
    struct ag_work_reserve *reserve;
    uint64_t stored_bytes; /* bytes that the image's files occupy */
    uint64_t used_ns, used_bytes;
    uint64_t lent_ns, lent_bytes; /* what was taken from the reserve */
    uint64_t from_ns;             /* CPU time of the thread at the last reading */
    uint64_t from_bytes;          /* peak of resident memory at the last reading; 0: unknown */
    uint32_t n_steps;
    bool is_running; /* between ag_work_meter_begin and ag_work_meter_end */
    bool is_spent;
};

void ag_work_reserve_init(struct ag_work_reserve *reserve);

/* Called before and after each piece of work for the image; the time outside of these pieces does
 * not count. N_BYTES: bytes of the names that this work stored; they count only if the memory was
 * not read during the work. */
void ag_work_meter_begin(struct ag_work_meter *meter);
void ag_work_meter_end(struct ag_work_meter *meter, size_t n_bytes);
/* ag_work_meter_look and ag_work_meter_step return false if the image's share is spent.
 * ag_work_meter_look reads the clock and the memory. Call ag_work_meter_look before the first part
 * of the work that may use much memory, and after each long part. Call ag_work_meter_step for each
 * short part: only some of these calls read the clock and the memory. METER may be NULL. */
bool ag_work_meter_look(struct ag_work_meter *meter);
bool ag_work_meter_step(struct ag_work_meter *meter);
/* Takes N_BYTES of memory, and the time to fill this memory, from the reserve before the memory is
 * used. Returns false, and takes nothing, if the image's share of the reserve is too small for
 * both. */
bool ag_work_meter_borrow(struct ag_work_meter *meter, uint64_t n_bytes);

#endif
