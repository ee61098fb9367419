/* julia_blocks.h: sets of the addresses that libjulia got from malloc and mmap, one set for each
 * use of the memory. The sets are made when the adapter (allogram's code for Julia) starts. A
 * forked child begins with its parent's sets. */
#ifndef AG_JULIA_BLOCKS_H
#define AG_JULIA_BLOCKS_H

#include "base/address_bits.h"
#include "base/compiler.h"

enum ag_julia_block {
    AG_JULIA_BLOCK_OWN,   /* from posix_memalign, and not recorded as a block of malloc */
    AG_JULIA_BLOCK_BIG,   /* recorded in the heap of big objects */
    AG_JULIA_BLOCK_STD,   /* recorded as memory of an array */
    AG_JULIA_BLOCK_STACK, /* a task's stack, recorded as memory that the heap of stacks has
                           * mapped */
    AG_JULIA_BLOCKS
};
extern struct ag_address_bits ag_julia_blocks AG_HIDDEN;

#endif
