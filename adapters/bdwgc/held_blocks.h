/* held_blocks.h: which addresses of the collector's heap are blocks that the trace knows alive, and
 * which wait in free lists of its threads. A forked child begins with none. Started with the
 * adapter. */
#ifndef AG_HELD_BLOCKS_H
#define AG_HELD_BLOCKS_H

#include "base/address_bits.h"
#include "base/compiler.h"

enum ag_held_kind { AG_HELD_ALIVE, AG_HELD_WAITING, AG_HELD_KINDS };
extern struct ag_address_bits ag_held AG_HIDDEN;

#endif
