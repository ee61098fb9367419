/* julia_blocks.h: which addresses that libjulia got from malloc and mmap are whose. A forked child
 * has its parent's. Started with the adapter. */
#ifndef AG_JULIA_BLOCKS_H
#define AG_JULIA_BLOCKS_H

#include "base/address_bits.h"
#include "base/compiler.h"

enum ag_julia_block {
    AG_JULIA_BLOCK_OWN,   /* of posix_memalign: malloc's trace does not know it */
    AG_JULIA_BLOCK_BIG,   /* the trace has it in the heap of big objects */
    AG_JULIA_BLOCK_STD,   /* the trace has it as memory of an array */
    AG_JULIA_BLOCK_STACK, /* a task's stack, told as such */
    AG_JULIA_BLOCKS
};
extern struct ag_address_bits ag_julia_blocks AG_HIDDEN;

#endif
