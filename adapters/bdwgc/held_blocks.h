/* held_blocks.h: two sets of addresses in the collector's heap: blocks that the trace has as live,
 * and blocks that wait in free lists of its threads. Both are empty in a forked child. Started with
 * the adapter. */
#ifndef AG_HELD_BLOCKS_H
#define AG_HELD_BLOCKS_H

#include "base/address_bits.h"
#include "base/compiler.h"

enum ag_held_kind { AG_HELD_ALIVE, AG_HELD_WAITING, AG_HELD_KINDS };
extern struct ag_address_bits ag_held AG_HIDDEN;

#endif
