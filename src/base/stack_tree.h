/* stack_tree.h: the bytes and the lock-free interning of sites (pc) and nodes (parent, site): every stack is one integer.
 *
 * site: a pc where a frame stood. Site id = its slot in `sites` + 1; 0 is no site.
 * node: parent node and site in one word, (parent << 32 | site). Node id = its slot in `nodes` + AG_NODE_FIRST.
 * A stack is the id of its innermost frame's node. Its outermost frame's parent says how the walk ended.
 *
 * Both tables live one after the other in AG_TREE_BYTES of shared memory and never move: several processes (a fork
 * family) and their signal handlers intern at once; the collector reads beside them. The algorithm's essay is in
 * stack_tree.c. */
#ifndef AG_STACK_TREE_H
#define AG_STACK_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum ag_root {
    AG_ROOT_COMPLETE = 0,   /* the walk reached the thread's or coroutine's first frame */
    AG_ROOT_INCOMPLETE = 1, /* no rule, no image, an unreadable or impossible frame */
    AG_ROOT_CUT = 2,        /* deeper than --depth: the innermost frames are kept */
    AG_NODE_FIRST = 16,
};
enum {
    AG_SITE_LEVELS = 4, /* 2^12, 2^14, 2^16, 2^18 slots */
    AG_NODE_LEVELS = 6, /* 2^14 .. 2^24 slots, each four times the one before */
    AG_SITE_SLOTS = (1 << 12) + (1 << 14) + (1 << 16) + (1 << 18),
    AG_NODE_SLOTS = (1 << 14) + (1 << 16) + (1 << 18) + (1 << 20) + (1 << 22) + (1 << 24),
};
struct ag_site {
    _Atomic uint64_t pc;    /* bits 0..47 the address, AG_SITE_DEAD: its image is gone, a new site takes new finds */
    _Atomic uint32_t image; /* id of the image record, 0: none (JIT, vdso); written before any node names the site */
    uint32_t reserved;
};
#define AG_SITE_DEAD (UINT64_C(1) << 63)
#define AG_SITE_PC_MASK ((UINT64_C(1) << 48) - 1)
#define AG_TREE_BYTES ((uint64_t)AG_SITE_SLOTS * sizeof(struct ag_site) + (uint64_t)AG_NODE_SLOTS * 8)

/* Makes [address, address + bytes) touchable without SIGBUS (a full disk or tmpfs answers a touch of a hole with SIGBUS);
 * false: there is no memory. Async-signal-safe. See populate.h. */
typedef bool ag_populate_fn(void *address, size_t bytes);

#endif
