/* julia_blocks.h: which addresses that libjulia got from malloc and mmap are whose.
 *
 * Bits, one a granule of 16 bytes, in regions of 1 MiB that are mapped as they are met. Any thread
 * may call anything at any time; no lock. */
#ifndef AG_JULIA_BLOCKS_H
#define AG_JULIA_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

enum ag_julia_block {
    AG_JULIA_BLOCK_OWN,   /* of posix_memalign: malloc's trace does not know it */
    AG_JULIA_BLOCK_BIG,   /* the trace has it in the heap of big objects */
    AG_JULIA_BLOCK_STD,   /* the trace has it as memory of an array */
    AG_JULIA_BLOCK_STACK, /* a task's stack, told as such */
    AG_JULIA_BLOCKS
};

int ag_julia_blocks_start(void); /* 0 or -ENOMEM */
/* false: there is no memory. */
bool ag_julia_blocks_set(enum ag_julia_block kind, uintptr_t address);
/* Whether it was set: of several who take it away one hears yes. */
bool ag_julia_blocks_clear(enum ag_julia_block kind, uintptr_t address);

#endif
