/* stack_tree.h: the layout of a tree of stacks, and its lock-free interning of sites (pc) and nodes
 * (parent, site). With the tree, every stack is one integer.
 *
 * A site is the pc of a frame, with the image (loaded file) that contains it. The id of a site is
 * the number of its slot in `sites`, plus 1; the id 0 means no site. A node is one frame of a
 * stack: its parent node (the caller) and its site in one word, (parent << 32 | site), and links to
 * other nodes. The id of a node is its index in `nodes`; indexes are assigned in order, so nodes
 * created together are neighbors. A stack is identified by the id of its innermost frame's node.
 * The parent of its outermost frame is a root (enum ag_root), which says how the walk ended.
 *
 * The tables live in up to AG_TREE_BYTES of shared memory and never move. Several processes (a
 * process and its forks) and their signal handlers intern at the same time. Meanwhile the process
 * that writes the trace reads sites and the words of nodes. stack_tree.c explains the algorithm. */
#ifndef AG_STACK_TREE_H
#define AG_STACK_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum ag_root {
    AG_ROOT_COMPLETE = 0, /* the walk reached the thread's or coroutine's first frame */
    /* the walk stopped early: no unwind rule, no image, an unreadable or impossible frame */
    AG_ROOT_INCOMPLETE = 1,
    AG_ROOT_CUT = 2, /* deeper than --depth: the innermost frames are kept */
    /* there was no memory or no id for a frame. The stack has no frames, so that its blocks are
     * not attributed to a wrong function; leaves (see AG_IMAGE_TYPE) may be added to it */
    AG_ROOT_NOT_KEPT = 3,
    AG_ROOT_LAST = AG_ROOT_NOT_KEPT,
    AG_NODE_FIRST = 16, /* id of the first node; lower ids are roots or unused */
};
/* The tree has four sizes. Each size consists of the pieces of the previous size and further
 * pieces; the smallest size is the base. The base is mapped at the start, another piece when its
 * first site, node or slot is needed (stack_tree.c, section 3). The table of sites, and the index
 * (a hash table that finds a node by its word), consist of levels; each level has four times the
 * slots of the previous level. */
enum {
    AG_TREE_SIZES = 4,
    AG_SITE_BASE_LEVELS = 4,  /* 2^12, 2^14, 2^16, 2^18 slots */
    AG_SITE_LEVELS = 7,       /* the levels after the base have 2^20, 2^22, 2^24 slots */
    AG_INDEX_BASE_LEVELS = 5, /* 2^12 .. 2^20 slots, each level four times the previous one */
    AG_INDEX_LEVELS = 9,      /* the levels after the base have 2^22 .. 2^28 slots */
    AG_WINDOW_BITS = 22,      /* log2 of the nodes of a window (64 MiB of the array of nodes) */
    AG_WINDOW_NODES = 1 << AG_WINDOW_BITS,
    AG_NODE_BITS = 28, /* log2 of the number of node ids; 2^28 nodes take 4 GiB */
    AG_NODE_WINDOWS = 1 << (AG_NODE_BITS - AG_WINDOW_BITS),
    AG_SITE_BASE_SLOTS = (1 << 12) + (1 << 14) + (1 << 16) + (1 << 18),
    AG_SITE_SLOTS = AG_SITE_BASE_SLOTS + (1 << 20) + (1 << 22) + (1 << 24),
    AG_NODE_SLOTS = (1 << AG_NODE_BITS) - AG_NODE_FIRST,
    AG_INDEX_BASE_SLOTS = (1 << 12) + (1 << 14) + (1 << 16) + (1 << 18) + (1 << 20),
    /* the unit in which the pages of the tree are allocated, so that only the used parts of a large
     * level take memory */
    AG_TREE_SLICE_BYTES = 16 * 1024,
};
/* The pc of a site is a return address, or 1 plus the address of an instruction that a signal
 * interrupted. In both cases pc - 1 lies inside the instruction that the frame was executing. So
 * readers always subtract 1. */
struct ag_site {
    /* bits 0..47: the address; AG_SITE_DEAD: a lookup of this pc does not find this site */
    _Atomic uint64_t pc;
    union {                             /* written once, before any node refers to the site: */
        _Atomic uint64_t settled_image; /* AG_SITE_SETTLED | image; 0: not written yet */
        _Atomic uint32_t image;         /* id of the image record, 0: none (JIT, vdso) */
    };
};
#define AG_SITE_SETTLED (UINT64_C(1) << 32)
#define AG_SITE_DEAD (UINT64_C(1) << 63)
#define AG_SITE_PC_MASK ((UINT64_C(1) << 48) - 1)
/* A leaf is a node that represents a property of a stack's blocks (a type, or a label that the
 * program has set) instead of a frame. The site of a leaf has one of these numbers instead of an
 * image, and the number of the type or label instead of a pc. Leaves are the innermost nodes: the
 * parent of a type's leaf is the label's leaf, whose parent is the innermost frame. Type and label
 * are optional. */
#define AG_IMAGE_TYPE UINT32_C(0xfffffffe)
#define AG_IMAGE_LABEL UINT32_C(0xfffffffd)
#define AG_IMAGE_IS_LEAF(image) ((image) == AG_IMAGE_TYPE || (image) == AG_IMAGE_LABEL)
struct ag_linked_node {
    _Atomic uint64_t word;           /* parent << 32 | site; 0: no node, or a root */
    _Atomic uint32_t child, sibling; /* first child; next child of the same parent; 0: none */
};
/* The counts that all processes using a tree share. They take the cache line before the index. */
struct ag_tree_counts {
    /* number of assigned ids, including those whose node was not created */
    _Atomic uint64_t n_nodes;
    /* bit i: a process has mapped piece i, so the contents of this piece may differ from zero */
    _Atomic uint64_t pieces[2];
};

/* Numbers of pieces: 0 is the base, 1 to 63 are the windows of nodes after the window in the base;
 * then the levels of sites outside the base follow, then those of the index. */
enum {
    AG_PIECE_BASE = 0,
    AG_PIECE_SITES = AG_NODE_WINDOWS, /* the piece of level AG_SITE_BASE_LEVELS */
    AG_PIECE_INDEX = AG_PIECE_SITES + AG_SITE_LEVELS - AG_SITE_BASE_LEVELS,
    AG_TREE_PIECES = AG_PIECE_INDEX + AG_INDEX_LEVELS - AG_INDEX_BASE_LEVELS,
};
/* Layout of the base: sites | nodes, by id | counts | index | padding to the end of a slice. */
#define AG_WINDOW_BYTES_OF_NODES ((uint64_t)AG_WINDOW_NODES * sizeof(struct ag_linked_node))
#define AG_NODES_OFFSET ((uint64_t)AG_SITE_BASE_SLOTS * sizeof(struct ag_site))
#define AG_COUNTS_OFFSET (AG_NODES_OFFSET + AG_WINDOW_BYTES_OF_NODES)
#define AG_INDEX_OFFSET (AG_COUNTS_OFFSET + AG_CACHE_LINE)
#define AG_TREE_BASE_BYTES \
    (AG_COUNTS_OFFSET + (uint64_t)AG_INDEX_BASE_SLOTS * 8 + AG_TREE_SLICE_BYTES)
/* Each further size appends: windows of nodes | levels of the index | a level of sites. */
#define AG_SIZE_1_OFFSET AG_TREE_BASE_BYTES
#define AG_SIZE_2_OFFSET                                                                           \
    (AG_SIZE_1_OFFSET + 3 * AG_WINDOW_BYTES_OF_NODES + (UINT64_C(8) << 22) + (UINT64_C(8) << 24) + \
     (UINT64_C(16) << 20))
#define AG_SIZE_3_OFFSET \
    (AG_SIZE_2_OFFSET + 12 * AG_WINDOW_BYTES_OF_NODES + (UINT64_C(8) << 26) + (UINT64_C(16) << 22))
#define AG_TREE_BYTES \
    (AG_SIZE_3_OFFSET + 48 * AG_WINDOW_BYTES_OF_NODES + (UINT64_C(8) << 28) + (UINT64_C(16) << 24))

/* Bytes of a tree of this size (0 to 3): 80 MiB, 448 MiB, 1.8 GiB, 7 GiB. Only used pages take
 * memory. */
AG_FAST uint64_t ag_tree_bytes(int size) {
    return size == 0   ? AG_SIZE_1_OFFSET
           : size == 1 ? AG_SIZE_2_OFFSET
           : size == 2 ? AG_SIZE_3_OFFSET
                       : AG_TREE_BYTES;
}
/* The size whose trees have this number of bytes; -1: none. */
AG_FAST int ag_tree_size_of(uint64_t bytes) {
    int size = AG_TREE_SIZES - 1;
    while (size >= 0 && ag_tree_bytes(size) != bytes) {
        size--;
    }
    return size;
}
/* Node ids are less than the result. */
AG_FAST uint32_t ag_tree_node_limit(int size) {
    return 1u << (AG_WINDOW_BITS + 2 * size);
}
/* The largest site id; the smallest is 1. */
AG_FAST uint32_t ag_tree_site_limit(int size) {
    return AG_SITE_BASE_SLOTS + (((1u << 2 * size) - 1) / 3 << 20);
}
/* The offsets of a node and of a site in the file of the tree. */
AG_FAST uint64_t ag_tree_node_offset(uint32_t id) {
    const uint32_t window = id >> AG_WINDOW_BITS;
    const uint64_t bytes = (uint64_t)id * sizeof(struct ag_linked_node);
    return window == 0   ? AG_NODES_OFFSET + bytes
           : window < 4  ? AG_SIZE_1_OFFSET + bytes - AG_WINDOW_BYTES_OF_NODES
           : window < 16 ? AG_SIZE_2_OFFSET + bytes - 4 * AG_WINDOW_BYTES_OF_NODES
                         : AG_SIZE_3_OFFSET + bytes - 16 * AG_WINDOW_BYTES_OF_NODES;
}
uint64_t ag_tree_site_offset(uint32_t id);
/* The location of a piece in the file of the tree; bytes 0: there is no piece with this number. */
struct ag_tree_piece {
    uint64_t offset, bytes;
};
struct ag_tree_piece ag_tree_piece(int piece);

/* Allocates the pages of [address, address + bytes), so that a later access does not raise SIGBUS
 * (as an access to a hole of a file does if the disk or tmpfs is full); false: no memory.
 * Async-signal-safe. See populate.h. */
typedef bool ag_populate_fn(void *address, size_t bytes);

/* ---- interning: one process' view ---------------------------------------- */
struct ag_stack_tree;
/* map: maps a piece that this process has not mapped yet; NULL: no memory. Async-signal-safe. Two
 * threads may map the same piece at once; then the thread that stores its address second unmaps its
 * mapping. */
struct ag_piece_mapper {
    void *(*map)(const struct ag_stack_tree *tree, int piece);
    void (*unmap)(void *address, uint64_t bytes);
};
enum { AG_TREE_SLICES = (int)(AG_TREE_BYTES / AG_TREE_SLICE_BYTES) };
struct ag_stack_tree {            /* private memory of a process; inherited unchanged across fork */
    struct ag_linked_node *nodes; /* nodes of the base */
    struct ag_site *sites;        /* sites of the base */
    struct ag_tree_counts *counts;
    uint32_t node_limit; /* only ids less than this are assigned */
    int size;
    ag_populate_fn *populate;
    /* NULL: the whole tree is mapped, and the pieces follow the base */
    const struct ag_piece_mapper *mapper;
    _Atomic(char *) pieces[AG_TREE_PIECES];             /* NULL: not mapped yet */
    _Atomic uint64_t ready[(AG_TREE_SLICES + 63) / 64]; /* bit: this slice has been populated */
};

/* memory: the base, page-aligned; its contents are zero, or a tree that other processes use
 * already. With a mapper, the memory after the base need not be mapped. Populates the slices that
 * the fast paths access without a check. Returns 0, or -ENOMEM if there is no memory for these
 * slices. */
int ag_stack_tree_init(struct ag_stack_tree *tree, void *memory, int size, ag_populate_fn *populate,
                       const struct ag_piece_mapper *mapper);
/* Unmaps the pieces that the mapper made. */
void ag_stack_tree_unmap_pieces(struct ag_stack_tree *tree);

/* The site of (pc, image); 0: the table is full or has no memory. pc below 2^48, not 0. Lock-free,
 * async-signal-safe. The same pc in another image (in a forked process that loaded another file
 * there) is another site. */
uint32_t ag_site_intern(struct ag_stack_tree *tree, uint64_t pc, uint32_t image);

/* The node (parent, site); 0: the table is full or has no memory. parent: a node or an enum
 * ag_root. Lock-free, async-signal-safe; stack_tree_fast.h has the inline version. */
uint32_t ag_node_intern(struct ag_stack_tree *tree, uint32_t parent, uint32_t site);

/* Kills a site without an image (JIT code): lookups of its pc from now on get another site. Sites
 * with an image are not killed, because the id of the image distinguishes them. */
void ag_stack_tree_kill_site(struct ag_stack_tree *tree, uint32_t site);
/* Kills all sites without an image whose instruction lies in [low, high). Scans all sites. */
void ag_stack_tree_kill_sites(struct ag_stack_tree *tree, uint64_t low, uint64_t high);

/* ---- reading -------------------------------------------------------------- */

/* Read a site and a node. They return false, and write nothing, if the id is out of bounds or its
 * slot is empty. Pass only ids from an event or a node: the memory of other slots may be
 * unpopulated, and an access may raise SIGBUS. */
bool ag_stack_tree_site(struct ag_stack_tree *tree, uint32_t id, uint64_t *ret_pc,
                        uint32_t *ret_image);
bool ag_stack_tree_node(struct ag_stack_tree *tree, uint32_t id, uint32_t *ret_parent,
                        uint32_t *ret_site);
/* Reads the pcs of a stack, innermost first. Returns the number of frames, which may be greater
 * than capacity (only capacity pcs are stored). Returns -EINVAL if a node or site is invalid, or
 * the stack has more than AG_DEPTH_MAX frames. */
enum { AG_DEPTH_MAX = 65536 };
int ag_stack_tree_frames(struct ag_stack_tree *tree, uint32_t node, int capacity, uint64_t *ret_pcs,
                         enum ag_root *ret_root);

#endif
