/* stack_tree.h: the bytes and the lock-free interning of sites (pc) and nodes (parent, site): every
 * stack is one integer.
 *
 * site: a pc where a frame stood. Site id = its slot in `sites` + 1; 0 is no site.
 * node: parent node and site in one word, (parent << 32 | site), and links to other nodes. Node id
 * = its place in `nodes`; places are given out in order, so what is met together lies together. A
 * stack is the id of its innermost frame's node. Its outermost frame's parent says how the walk
 * ended.
 *
 * The tables live one after the other in AG_TREE_BYTES of shared memory and never move: several
 * processes (a fork family) and their signal handlers intern at once; the collector reads sites and
 * the words of nodes beside them. The algorithm's essay is in stack_tree.c. */
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
    AG_NODE_LEVELS = 6, /* of the index: 2^14 .. 2^24 slots, each four times the one before */
    AG_SITE_SLOTS = (1 << 12) + (1 << 14) + (1 << 16) + (1 << 18),
    AG_NODE_SLOTS = (1 << 24) - AG_NODE_FIRST, /* ids have 24 bits */
    AG_INDEX_SLOTS = (1 << 14) + (1 << 16) + (1 << 18) + (1 << 20) + (1 << 22) + (1 << 24),
    AG_TREE_SLICE_BYTES = 16 * 1024, /* populated at once: a huge level costs what is used of it */
};
/* pc - 1 lies inside the instruction at which the frame stood: pc is a return address, or one more
 * than the pc of an instruction that a signal interrupted. So a reader subtracts one, always. */
struct ag_site {
    _Atomic uint64_t pc; /* bits 0..47 the address; AG_SITE_DEAD: a new site takes new finds */
    union {              /* settled once, before any node names the site: */
        _Atomic uint64_t settled_image; /* AG_SITE_SETTLED | image; 0: just claimed */
        _Atomic uint32_t image;         /* id of the image record, 0: none (JIT, vdso) */
    };
};
#define AG_SITE_SETTLED (UINT64_C(1) << 32)
#define AG_SITE_DEAD (UINT64_C(1) << 63)
#define AG_SITE_PC_MASK ((UINT64_C(1) << 48) - 1)
/* A node may also stand for what is known of a stack's blocks and not of the code: a leaf. Its site
 * has one of these numbers instead of an image, and the number of the type or label instead of a
 * pc. Leaves are innermost: node of a type over node of a label over the innermost frame, each of
 * the two optional. */
#define AG_IMAGE_TYPE UINT32_C(0xfffffffe)
#define AG_IMAGE_LABEL UINT32_C(0xfffffffd)
#define AG_IMAGE_IS_LEAF(image) ((image) == AG_IMAGE_TYPE || (image) == AG_IMAGE_LABEL)
struct ag_linked_node {
    _Atomic uint64_t word;           /* parent << 32 | site; 0: no node, or a root */
    _Atomic uint32_t child, sibling; /* nodes: its first child, its parent's next one; 0: none */
};
/* sites | nodes, by id | a line with the number of ids given out | index, to the end of a slice */
#define AG_NODES_OFFSET ((uint64_t)AG_SITE_SLOTS * sizeof(struct ag_site))
#define AG_INDEX_OFFSET \
    (AG_NODES_OFFSET + (UINT64_C(1) << 24) * sizeof(struct ag_linked_node) + AG_CACHE_LINE)
#define AG_TREE_BYTES \
    (AG_INDEX_OFFSET - AG_CACHE_LINE + (uint64_t)AG_INDEX_SLOTS * 4 + AG_TREE_SLICE_BYTES)

/* Makes [address, address + bytes) touchable without SIGBUS (a full disk or tmpfs answers a touch
 * of a hole with SIGBUS); false: there is no memory. Async-signal-safe. See populate.h. */
typedef bool ag_populate_fn(void *address, size_t bytes);

/* ---- interning: one process' view ---------------------------------------- */
enum { AG_TREE_SLICES = (int)(AG_TREE_BYTES / AG_TREE_SLICE_BYTES) };
struct ag_stack_tree { /* private memory of a process; a fork inherits it as it is */
    struct ag_site *sites;
    struct ag_linked_node *nodes;
    _Atomic uint64_t *n_nodes; /* ids given out, whether or not a node came to be there */
    _Atomic uint32_t *index;   /* tag:8 | id:24, 0: free */
    ag_populate_fn *populate;
    _Atomic uint64_t ready[(AG_TREE_SLICES + 63) / 64]; /* bit: this slice has been populated */
};

/* memory: AG_TREE_BYTES, page-aligned, zero or in use by relatives. Populates what the fast paths
 * touch without asking; -ENOMEM when there is no memory for it. */
int ag_stack_tree_init(struct ag_stack_tree *tree, void *memory, ag_populate_fn *populate);

/* The site of (pc, image); 0: the table is full or has no memory. pc below 2^48, not 0. Lock-free,
 * async-signal-safe. The same pc in another image (in a forked relative that loaded something else)
 * is another site. */
uint32_t ag_site_intern(struct ag_stack_tree *tree, uint64_t pc, uint32_t image);

/* The node (parent, site); 0: the table is full or has no memory. parent: a node or an enum
 * ag_root. Lock-free, async-signal-safe; stack_tree_fast.h has the inline version. */
uint32_t ag_node_intern(struct ag_stack_tree *tree, uint32_t parent, uint32_t site);

/* The sites without an image whose instruction lies in [low, high) die: what is found there from
 * now on is another site. Those with an image are told apart by its id. */
void ag_stack_tree_kill_sites(struct ag_stack_tree *tree, uint64_t low, uint64_t high);

/* ---- reading: the collector, the tests ------------------------------------ */

/* `memory` is the mapped tree. Ids are checked against the tables' bounds; false (and nothing
 * written) when out of them or when the slot is empty. Only ids that an event or a node names may
 * be asked for: other slots may be unpopulated. */
bool ag_stack_tree_site(const void *memory, uint32_t id, uint64_t *ret_pc, uint32_t *ret_image);
bool ag_stack_tree_node(const void *memory, uint32_t id, uint32_t *ret_parent, uint32_t *ret_site);
/* The pcs of a stack, innermost first; the number of frames (which may exceed capacity; only
 * capacity are stored) or -EINVAL when a node is out of bounds or the chain is longer than
 * AG_DEPTH_MAX. */
enum { AG_DEPTH_MAX = 65536 };
int ag_stack_tree_frames(const void *memory, uint32_t node, int capacity, uint64_t *ret_pcs,
                         enum ag_root *ret_root);

#endif
