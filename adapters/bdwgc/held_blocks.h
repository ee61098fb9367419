/* held_blocks.h: two sets of addresses in the Boehm collector's heap. AG_HELD_ALIVE: the blocks
 * that are live in the trace. AG_HELD_WAITING: the blocks that the collector has put into the free
 * lists of threads and that the program has not received yet. Both sets are made when the adapter
 * (allogram's code for the collector) starts, and are empty in a forked child. */
#ifndef AG_HELD_BLOCKS_H
#define AG_HELD_BLOCKS_H

#include "base/address_bits.h"
#include "base/compiler.h"

enum ag_held_kind { AG_HELD_ALIVE, AG_HELD_WAITING, AG_HELD_KINDS };
extern struct ag_address_bits ag_held AG_HIDDEN;

#endif
