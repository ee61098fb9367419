/* stack_tree.c: lock-free interning of sites (a pc and the image, or loaded file, that contains it)
 * and of nodes of stacks (a parent node and a site). The tables are in memory that several
 * processes share. The unwinder uses the tables.
 *
 * 1. Data
 *
 *     base     | sites: level 0 .. 3 | nodes: window 0 | counts | index: level 0 .. 4 |
 *     pieces   | nodes: window 1 .. 3 | index: level 5, 6 | sites: level 4 | windows 4 .. 15 | ...
 *     node     | parent:32 | site:32 | child:32 | sibling:32 |      ids 0 .. 15: the roots
 *     level    | bucket | bucket | ...      slots: 2^12, 2^14 .. 2^24 (sites), .. 2^28 (index)
 *     bucket   | slot x 4 (site) or x 8 (index)     one cache line
 *     index    | tag:32 | id:32 |           tag: high bits of the word's hash
 *
 * A site hashes to one bucket of each level. It is stored in the first of these buckets that had a
 * free slot when the site was added, and never moves. A site's id is one more than the number
 * of its slot. Node ids are assigned in order. Nothing is ever removed (a dead site keeps its
 * slot), so a reader that finds a key needs no further check.
 *
 * The key of a node is its word: parent << 32 | site. The first AG_NODE_LINKED_MAX children of a
 * node form a linked list, in the order in which they were added. The list only grows at its end,
 * and does not change when it is full. Later children are in the index, where a word hashes to one
 * bucket of each level, like a site. A lookup searches the list first, then the index. Most nodes
 * have few children, so a program mostly needs no index at all.
 *
 * Example: site 7 called from the frame of node 40: word = 40 << 32 | 7. Node 40 has two children,
 * 41 and 52, neither with site 7. 5000 ids have been assigned: nodes[5016] gets the word, and then
 * nodes[52].sibling becomes 5016. If node 40 had eight children, the word's buckets in levels 0 and
 * 1 were full, and slot 3 of its bucket in level 2 were free, that slot would become (tag, 5016).
 *
 * 2. Synchronization
 *
 * One compare-and-swap (CAS) changes a link from 0 to an id, or a slot from 0 to its key. All
 * threads follow the links, and examine the slots of a bucket, in the same order, and try to fill
 * the first that is free. A thread that loses a race reads the winner's key: if this key is equal
 * to the thread's own key, the search is over; if not, the thread continues with the next link or
 * slot. So one key is never stored twice, whether it is interned by threads, by forked processes,
 * or by signal handlers that interrupt an interning. No thread waits for another. Hence a process
 * that is killed at any instruction blocks no other process.
 *
 * A thread takes an id and writes the node's word before the CAS. If the CAS fails (or the thread
 * is killed before it), this id is never used: 16 bytes are lost.
 *
 * A site has two words. The first CAS claims the slot: it writes pc. The second CAS settles the
 * slot: it writes (settled, image). A thread may find a slot that contains the pc of its site and
 * is claimed but not settled, because the claiming thread was interrupted. Then the thread that
 * finds the slot settles it with its own image. This is correct: when the claiming thread
 * continues, its second CAS fails; it compares the images and, if they differ, continues with the
 * next slot. Nodes refer only to settled sites: the thread that finds a site acquires its words,
 * and its later CAS on a link or on the index releases them to the readers of the node.
 *
 * When generated code (JIT code, which has no image) is discarded, a bit is set in the pc of its
 * sites, so that these dead sites never compare equal again. Sites with an image need not die:
 * their key is (pc, image), and the id of an image is not used twice.
 *
 * 3. Memory
 *
 * The file is sparse. A slice is 16 KiB. It is populated (its pages are allocated), by a call that
 * can fail, before it is first touched; then a bit of the slice is set. Each process has its own
 * bits: after a fork, a process may populate a slice again that another process has populated,
 * which is cheap and harmless. The 400,000 nodes of 200,000 stacks take 6.4 MB.
 *
 * Address space is also used as needed. At the start, a process maps the base, which has room for 4
 * million nodes. It maps another piece when an id in this piece is first used. A piece has a fixed
 * offset in the file, so that all processes that share the tree find the same bytes. So a program
 * that limits its address space, or locks its memory (mlockall), needs only the 80 MiB of the base,
 * not the 7 GiB that a tree may reach. When a piece cannot be mapped or populated, nothing is
 * interned there, and the caller records AG_ROOT_NOT_KEPT.
 *
 * 4. Why not one growing hash table
 *
 * A table that grows has to move its entries, and readers must wait meanwhile. A table that has its
 * final size from the start is so large that most accesses are page faults and cache misses.
 *
 * 5. Why links, and ids in order
 *
 * The cost of a big tree is cache misses: each takes 100 ns, ten times the rest of a lookup. If
 * nodes were stored in slots that their hash selects, each frame of a stack would cause a cache
 * miss. Nodes are stored in the order of creation. So a node, its children and the nodes created
 * next are neighbors, and a program mostly uses them together. The process that writes the trace
 * also uses them together: it goes from node to parent, and keeps a table by id. */
#include "base/stack_tree.h"

#include <errno.h>

#include "base/stack_tree_fast.h"

/* levels of the index that a lookup prefetches; they have slots for 350,000 nodes */
enum { PREFETCHED_LEVELS = 4 };
_Static_assert(sizeof(struct ag_site) == 16, "four sites in a cache line");
_Static_assert(sizeof(struct ag_linked_node) == 16, "four nodes in a cache line");
_Static_assert(sizeof(struct ag_tree_counts) <= AG_CACHE_LINE, "counts fit in front of the index");
_Static_assert(AG_INDEX_OFFSET % AG_CACHE_LINE == 0, "buckets of the index are cache lines");
_Static_assert(AG_TREE_BASE_BYTES % AG_TREE_SLICE_BYTES == 0 &&
                   AG_COUNTS_OFFSET % AG_TREE_SLICE_BYTES == 0,
               "the base and the counts end at the end of a slice");
_Static_assert((AG_TREE_PIECES + 63) / 64 == 2, "two words have a bit for each piece");

/* ---- geometry ------------------------------------------------------------ */

/* Bytes of a level of sites outside the base. */
static uint64_t site_level_bytes(uint32_t level) {
    return sizeof(struct ag_site) << (AG_SITE_FIRST_BITS + 2 * level);
}

static uint64_t index_level_bytes(uint32_t level) {
    return sizeof(uint64_t) << (AG_INDEX_FIRST_BITS + 2 * level);
}

struct ag_tree_piece ag_tree_piece(int piece) {
    static const struct {
        /* offset of the first level of the index that this size adds; the level follows the windows
         * that this size adds */
        uint64_t offset;
        uint32_t first_level, n_levels, site_level;
    } sizes[AG_TREE_SIZES] = {
        [1] = {AG_SIZE_1_OFFSET + 3 * AG_WINDOW_BYTES_OF_NODES, AG_INDEX_BASE_LEVELS, 2,
               AG_SITE_BASE_LEVELS},
        [2] = {AG_SIZE_2_OFFSET + 12 * AG_WINDOW_BYTES_OF_NODES, AG_INDEX_BASE_LEVELS + 2, 1,
               AG_SITE_BASE_LEVELS + 1},
        [3] = {AG_SIZE_3_OFFSET + 48 * AG_WINDOW_BYTES_OF_NODES, AG_INDEX_BASE_LEVELS + 3, 1,
               AG_SITE_BASE_LEVELS + 2},
    };
    if (piece == AG_PIECE_BASE) {
        return (struct ag_tree_piece){0, AG_TREE_BASE_BYTES};
    }
    if (piece < AG_NODE_WINDOWS) {
        return (struct ag_tree_piece){ag_tree_node_offset((uint32_t)piece << AG_WINDOW_BITS),
                                      AG_WINDOW_BYTES_OF_NODES};
    }
    for (int size = 1; size < AG_TREE_SIZES; size++) {
        uint64_t offset = sizes[size].offset;
        for (uint32_t i = 0; i < sizes[size].n_levels; i++) {
            const uint32_t level = sizes[size].first_level + i;
            if (piece == AG_PIECE_INDEX + (int)level - AG_INDEX_BASE_LEVELS) {
                return (struct ag_tree_piece){offset, index_level_bytes(level)};
            }
            offset += index_level_bytes(level);
        }
        if (piece == AG_PIECE_SITES + (int)sizes[size].site_level - AG_SITE_BASE_LEVELS) {
            return (struct ag_tree_piece){offset, site_level_bytes(sizes[size].site_level)};
        }
    }
    return (struct ag_tree_piece){0, 0};
}

/* The level that contains a site's slot, and the number of the slot in that level. */
static uint32_t site_level(uint32_t slot, uint32_t *ret_slot_in_level) {
    uint32_t level = 0;
    while (slot >= 1u << (AG_SITE_FIRST_BITS + 2 * level)) {
        slot -= 1u << (AG_SITE_FIRST_BITS + 2 * level++);
    }
    *ret_slot_in_level = slot;
    return level;
}

uint64_t ag_tree_site_offset(uint32_t id) {
    if (id <= AG_SITE_BASE_SLOTS) {
        return (uint64_t)(id - 1) * sizeof(struct ag_site);
    }
    uint32_t slot;
    const uint32_t level = site_level(id - 1, &slot);
    return ag_tree_piece(AG_PIECE_SITES + (int)level - AG_SITE_BASE_LEVELS).offset +
           (uint64_t)slot * sizeof(struct ag_site);
}

/* ---- memory -------------------------------------------------------------- */

static bool prepare_slice(struct ag_stack_tree *tree, uint64_t offset, const char *address);

/* Populates the slice that contains the byte at `offset` in the tree, which is mapped at `address`.
 * Returns false if there is no memory. */
static inline bool slice_is_ready(struct ag_stack_tree *tree, uint64_t offset,
                                  const void *address) {
    const uint64_t slice = offset / AG_TREE_SLICE_BYTES;
    const uint64_t bits = atomic_load_explicit(&tree->ready[slice / 64], memory_order_relaxed);
    return AG_LIKELY(bits >> slice % 64 & 1) || prepare_slice(tree, offset, address);
}

AG_COLD static bool prepare_slice(struct ag_stack_tree *tree, uint64_t offset,
                                  const char *address) {
    const uint64_t slice = offset / AG_TREE_SLICE_BYTES;
    if (!tree->populate((char *)address - offset % AG_TREE_SLICE_BYTES, AG_TREE_SLICE_BYTES)) {
        return false;
    }
    /* relaxed: the bit concerns the page table, not the contents of the page */
    atomic_fetch_or_explicit(&tree->ready[slice / 64], UINT64_C(1) << slice % 64,
                             memory_order_relaxed);
    return true;
}

AG_COLD static char *map_piece(struct ag_stack_tree *tree, int piece) {
    const uint64_t bytes = ag_tree_piece(piece).bytes;
    if (tree->mapper == NULL || bytes == 0 ||
        ag_tree_piece(piece).offset + bytes > ag_tree_bytes(tree->size)) {
        return NULL;
    }
    atomic_fetch_or_explicit(&tree->counts->pieces[piece / 64], UINT64_C(1) << piece % 64,
                             memory_order_relaxed);
    char *found = NULL, *mapped = tree->mapper->map(tree, piece);
    if (mapped == NULL ||
        atomic_compare_exchange_strong_explicit(&tree->pieces[piece], &found, mapped,
                                                memory_order_acq_rel, memory_order_acquire)) {
        return mapped;
    }
    tree->mapper->unmap(mapped, bytes);
    return found;
}

/* The address of a piece in this process; NULL: it cannot be mapped. */
static inline char *piece_at(struct ag_stack_tree *tree, int piece) {
    char *address = atomic_load_explicit(&tree->pieces[piece], memory_order_acquire);
    return AG_LIKELY(address != NULL) ? address : map_piece(tree, piece);
}

/* The address of a node or root; NULL: its piece cannot be mapped, or no node can have this id. */
static inline struct ag_linked_node *node_or_null(struct ag_stack_tree *tree, uint32_t id) {
    if (AG_LIKELY(id < AG_WINDOW_NODES)) {
        return &tree->nodes[id];
    }
    char *window = id >> AG_NODE_BITS == 0 ? piece_at(tree, (int)(id >> AG_WINDOW_BITS)) : NULL;
    return window != NULL ? (struct ag_linked_node *)(void *)window + id % AG_WINDOW_NODES : NULL;
}

const struct ag_linked_node *ag_node_far(struct ag_stack_tree *tree, uint32_t id) {
    static const struct ag_linked_node absent;
    const struct ag_linked_node *node = node_or_null(tree, id);
    return node != NULL ? node : &absent;
}

int ag_stack_tree_init(struct ag_stack_tree *tree, void *memory, int size, ag_populate_fn *populate,
                       const struct ag_piece_mapper *mapper) {
    char *base = memory;
    tree->size = size;
    tree->node_limit = ag_tree_node_limit(size);
    tree->sites = memory;
    tree->nodes = (struct ag_linked_node *)(void *)(base + AG_NODES_OFFSET);
    tree->counts = (struct ag_tree_counts *)(void *)(base + AG_COUNTS_OFFSET);
    tree->populate = populate;
    tree->mapper = mapper;
    for (int piece = 0; piece < AG_TREE_PIECES; piece++) {
        const struct ag_tree_piece place = ag_tree_piece(piece);
        const bool is_there = piece == AG_PIECE_BASE ||
                              (mapper == NULL && place.offset + place.bytes <= ag_tree_bytes(size));
        atomic_store_explicit(&tree->pieces[piece], is_there ? base + place.offset : NULL,
                              memory_order_release);
    }
    return slice_is_ready(tree, AG_NODES_OFFSET, tree->nodes) &&
                   slice_is_ready(tree, AG_COUNTS_OFFSET, tree->counts)
               ? 0
               : -ENOMEM;
}

void ag_stack_tree_unmap_pieces(struct ag_stack_tree *tree) {
    for (int piece = AG_PIECE_BASE + 1; tree->mapper != NULL && piece < AG_TREE_PIECES; piece++) {
        char *mapped = atomic_exchange_explicit(&tree->pieces[piece], NULL, memory_order_relaxed);
        if (mapped != NULL) {
            tree->mapper->unmap(mapped, ag_tree_piece(piece).bytes);
        }
    }
}

/* ---- sites --------------------------------------------------------------- */

/* Gives a claimed site its image; false: the site was settled with another image. */
static bool settle_image(struct ag_site *site, uint32_t image) {
    const uint64_t settled = AG_SITE_SETTLED | image;
    uint64_t found = 0;
    return atomic_compare_exchange_strong_explicit(&site->settled_image, &found, settled,
                                                   memory_order_acq_rel, memory_order_acquire) ||
           found == settled;
}

uint32_t ag_site_intern(struct ag_stack_tree *tree, uint64_t pc, uint32_t image) {
    /* The hash includes the image: a plugin that is loaded many times at one address must not fill
     * the buckets of its pcs. */
    const uint64_t hash = ag_stack_tree_hash(pc + image * UINT64_C(0xd1b54a32d192ed03));
    uint32_t level_start = 0;
    for (uint32_t level = 0; level < AG_SITE_LEVELS; level++) {
        const uint32_t bits = AG_SITE_FIRST_BITS + 2 * level;
        const uint32_t first = ag_stack_tree_bucket(hash, bits, AG_SITE_BUCKET);
        struct ag_site *sites = &tree->sites[level_start];
        if (level >= AG_SITE_BASE_LEVELS) {
            sites = (struct ag_site *)(void *)piece_at(tree, AG_PIECE_SITES + (int)level -
                                                                 AG_SITE_BASE_LEVELS);
            if (sites == NULL) {
                return 0;
            }
        }
        struct ag_site *bucket = sites + first;
        if (!slice_is_ready(tree, ag_tree_site_offset(level_start + first + 1), bucket)) {
            return 0;
        }
        for (uint32_t i = 0; i < AG_SITE_BUCKET; i++) {
            uint64_t found = 0;
            if ((atomic_compare_exchange_strong_explicit(
                     &bucket[i].pc, &found, pc, memory_order_acq_rel, memory_order_acquire) ||
                 found == pc) &&
                settle_image(&bucket[i], image)) {
                return level_start + first + i + 1;
            }
        }
        level_start += 1u << bits;
    }
    return 0;
}

/* The address of a site; NULL: no site can have this id, or its piece cannot be mapped. */
static struct ag_site *site_or_null(struct ag_stack_tree *tree, uint32_t id) {
    if (id == 0 || id > AG_SITE_SLOTS) {
        return NULL;
    }
    if (AG_LIKELY(id <= AG_SITE_BASE_SLOTS)) {
        return &tree->sites[id - 1];
    }
    uint32_t slot;
    const uint32_t level = site_level(id - 1, &slot);
    char *far = piece_at(tree, AG_PIECE_SITES + (int)level - AG_SITE_BASE_LEVELS);
    return far != NULL ? (struct ag_site *)(void *)far + slot : NULL;
}

void ag_stack_tree_kill_site(struct ag_stack_tree *tree, uint32_t id) {
    struct ag_site *site = site_or_null(tree, id);
    if (site != NULL &&
        atomic_load_explicit(&site->settled_image, memory_order_relaxed) == AG_SITE_SETTLED) {
        atomic_fetch_or_explicit(&site->pc, AG_SITE_DEAD, memory_order_relaxed);
    }
}

void ag_stack_tree_kill_sites(struct ag_stack_tree *tree, uint64_t low, uint64_t high) {
    const uint32_t slice_sites = AG_TREE_SLICE_BYTES / sizeof(struct ag_site);
    /* a level consists of whole slices, so a slice contains no sites of two levels */
    for (uint32_t id = 1; id <= AG_SITE_SLOTS; id += slice_sites) {
        const uint64_t slice = ag_tree_site_offset(id) / AG_TREE_SLICE_BYTES;
        if (!(atomic_load_explicit(&tree->ready[slice / 64], memory_order_relaxed) >> slice % 64 &
              1)) {
            continue;
        }
        const struct ag_site *sites = site_or_null(tree, id);
        for (uint32_t i = 0; sites != NULL && i < slice_sites; i++) {
            const uint64_t pc = atomic_load_explicit(&sites[i].pc, memory_order_relaxed);
            if ((pc & ~AG_SITE_DEAD) - 1 >= low && (pc & ~AG_SITE_DEAD) - 1 < high) {
                ag_stack_tree_kill_site(tree, id + i);
            }
        }
    }
}

/* ---- nodes --------------------------------------------------------------- */

static struct ag_linked_node *ready_node(struct ag_stack_tree *tree, uint64_t id) {
    struct ag_linked_node *node = id < tree->node_limit ? node_or_null(tree, (uint32_t)id) : NULL;
    return node != NULL && slice_is_ready(tree, ag_tree_node_offset((uint32_t)id), node) ? node
                                                                                         : NULL;
}

/* Takes an id and writes the node's word; 0: no id left, or no memory. */
static uint32_t write_node(struct ag_stack_tree *tree, uint64_t word) {
    /* the slice is populated before the id is taken, so that no id is lost if there is no memory */
    _Atomic uint64_t *n_nodes = &tree->counts->n_nodes;
    if (ready_node(tree, atomic_load_explicit(n_nodes, memory_order_relaxed) + AG_NODE_FIRST) ==
        NULL) {
        return 0;
    }
    const uint64_t id = atomic_fetch_add_explicit(n_nodes, 1, memory_order_relaxed) + AG_NODE_FIRST;
    struct ag_linked_node *node = ready_node(tree, id);
    if (node == NULL) {
        return 0;
    }
    atomic_store_explicit(&node->word, word, memory_order_relaxed);
    return (uint32_t)id;
}

/* The node of an entry of the index, if this node has the word; else 0. */
static uint32_t node_if_equal(struct ag_stack_tree *tree, uint64_t entry, uint64_t hash,
                              uint64_t word) {
    const uint32_t node = (uint32_t)entry;
    return entry >> 32 == hash >> 32 &&
                   atomic_load_explicit(&ag_node_at(tree, node)->word, memory_order_relaxed) == word
               ? node
               : 0;
}

/* The first slot of a bucket of the index, populated; NULL: no memory. */
static _Atomic uint64_t *index_bucket(struct ag_stack_tree *tree, uint32_t level,
                                      uint32_t level_start, uint32_t first) {
    uint64_t offset = AG_INDEX_OFFSET + (uint64_t)(level_start + first) * sizeof(uint64_t);
    char *address = (char *)tree->sites + offset;
    if (level >= AG_INDEX_BASE_LEVELS) {
        const int piece = AG_PIECE_INDEX + (int)level - AG_INDEX_BASE_LEVELS;
        char *far = piece_at(tree, piece);
        if (far == NULL) {
            return NULL;
        }
        offset = ag_tree_piece(piece).offset + first * sizeof(uint64_t);
        address = far + first * sizeof(uint64_t);
    }
    return slice_is_ready(tree, offset, address) ? (_Atomic uint64_t *)(void *)address : NULL;
}

/* Finds or adds a child in the index. own: an id that the caller has taken for this child already,
 * or 0. */
static uint32_t intern_in_index(struct ag_stack_tree *tree, uint64_t word, uint32_t own) {
    const uint64_t hash = ag_stack_tree_hash(word);
    uint32_t level_start = 0;
    for (uint32_t level = 0; level < PREFETCHED_LEVELS; level++) {
        const uint32_t bits = AG_INDEX_FIRST_BITS + 2 * level;
        const uint32_t first = ag_stack_tree_bucket(hash, bits, AG_INDEX_BUCKET);
        AG_PREFETCH((char *)tree->sites + AG_INDEX_OFFSET +
                    (uint64_t)(level_start + first) * sizeof(uint64_t));
        level_start += 1u << bits;
    }
    level_start = 0;
    for (uint32_t level = 0; level < AG_INDEX_LEVELS; level++) {
        const uint32_t bits = AG_INDEX_FIRST_BITS + 2 * level;
        _Atomic uint64_t *bucket = index_bucket(tree, level, level_start,
                                                ag_stack_tree_bucket(hash, bits, AG_INDEX_BUCKET));
        if (bucket == NULL) {
            return 0;
        }
        for (uint32_t i = 0; i < AG_INDEX_BUCKET; i++) {
            /* acquire: pairs with the CAS below, so that the node's word is valid */
            uint64_t entry = atomic_load_explicit(&bucket[i], memory_order_acquire);
            if (entry == 0) {
                if (own == 0 && (own = write_node(tree, word)) == 0) {
                    return 0;
                }
                if (atomic_compare_exchange_strong_explicit(
                        &bucket[i], &entry, (hash >> 32) << 32 | own, memory_order_acq_rel,
                        memory_order_acquire)) {
                    return own;
                }
            }
            const uint32_t node = node_if_equal(tree, entry, hash, word);
            if (node != 0) {
                return node;
            }
        }
        level_start += 1u << bits;
    }
    return 0;
}

AG_NOINLINE uint32_t ag_node_intern_slow(struct ag_stack_tree *tree, uint64_t word) {
    struct ag_linked_node *at = node_or_null(tree, (uint32_t)(word >> 32));
    if (at == NULL) {
        return 0;
    }
    _Atomic uint32_t *link = &at->child;
    uint32_t own = 0;
    for (uint32_t i = 0; i < AG_NODE_LINKED_MAX; i++) {
        uint32_t found = atomic_load_explicit(link, memory_order_acquire);
        if (found == 0) {
            if (own == 0 && (own = write_node(tree, word)) == 0) {
                return 0;
            }
            /* release: pairs with the acquire in ag_node_intern_fast */
            if (atomic_compare_exchange_strong_explicit(link, &found, own, memory_order_acq_rel,
                                                        memory_order_acquire)) {
                return own;
            }
        }
        at = node_or_null(tree, found);
        if (at == NULL) {
            return 0;
        }
        if (atomic_load_explicit(&at->word, memory_order_relaxed) == word) {
            return found;
        }
        link = &at->sibling;
    }
    return intern_in_index(tree, word, own);
}

uint32_t ag_node_intern(struct ag_stack_tree *tree, uint32_t parent, uint32_t site) {
    return ag_node_intern_fast(tree, parent, site);
}

/* ---- reading ------------------------------------------------------------- */

bool ag_stack_tree_site(struct ag_stack_tree *tree, uint32_t id, uint64_t *ret_pc,
                        uint32_t *ret_image) {
    const struct ag_site *site = site_or_null(tree, id);
    const uint64_t pc = site != NULL ? atomic_load_explicit(&site->pc, memory_order_acquire) : 0;
    if (pc == 0) {
        return false;
    }
    *ret_pc = pc & AG_SITE_PC_MASK;
    *ret_image = (uint32_t)atomic_load_explicit(&site->settled_image, memory_order_acquire);
    return true;
}

bool ag_stack_tree_node(struct ag_stack_tree *tree, uint32_t id, uint32_t *ret_parent,
                        uint32_t *ret_site) {
    if (id < AG_NODE_FIRST || id - AG_NODE_FIRST >= AG_NODE_SLOTS) {
        return false;
    }
    const uint64_t word = atomic_load_explicit(&ag_node_at(tree, id)->word, memory_order_acquire);
    if (word == 0) {
        return false;
    }
    *ret_parent = (uint32_t)(word >> 32);
    *ret_site = (uint32_t)word;
    return true;
}

int ag_stack_tree_frames(struct ag_stack_tree *tree, uint32_t node, int capacity, uint64_t *ret_pcs,
                         enum ag_root *ret_root) {
    int n_frames = 0;
    while (node >= AG_NODE_FIRST) {
        uint32_t parent, site, image;
        uint64_t pc;
        if (n_frames == AG_DEPTH_MAX || !ag_stack_tree_node(tree, node, &parent, &site) ||
            !ag_stack_tree_site(tree, site, &pc, &image)) {
            return -EINVAL;
        }
        if (n_frames < capacity) {
            ret_pcs[n_frames] = pc;
        }
        n_frames++;
        node = parent;
    }
    if (node > AG_ROOT_LAST) {
        return -EINVAL;
    }
    *ret_root = (enum ag_root)node;
    return n_frames;
}
