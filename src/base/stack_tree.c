/* stack_tree.c: lock-free interning of call sites and stack nodes in memory that several processes
 * share.
 *
 * 1. Data
 *
 *     memory   | sites: level 0 .. 3 | nodes | number of ids | index: level 0 .. 5 |
 *     node     | parent:32 | site:32 | child:32 | sibling:32 |      place 0 .. 15: the roots
 *     level    | bucket | bucket | ...      2^12, 2^14 .. 2^18 sites; 2^14, 2^16 .. 2^24 of the
 *                                           index
 *     bucket   | slot x 4 (site) or x 16 (index)     one cache line
 *     index    | tag:8 | id:24 |            tag: more of the word's hash, never 0
 *
 * A site, and a node's entry in the index, hashes to one bucket of each level. It lives in the
 * first of these buckets that had a free slot when it came, and never moves. A site's slot number
 * is its id; a node's id is the next number. Nothing is ever removed (a dead site keeps its slot),
 * so a reader that finds a key needs nothing else to be sure of it.
 *
 * The index decides which nodes there are. The first children of a node are linked besides, in the
 * order of their coming: that is how nodes are found (stack_tree_fast.h); the index is asked for
 * what is new and for nodes with many children.
 *
 * Example: site 7 called from the frame of node 40: word = 40 << 32 | 7. Node 40 has two children,
 * 41 and 52, neither with site 7. The word's buckets in levels 0 and 1 are full of others; slot 3
 * of that in level 2 is free. 5000 ids were given out: nodes[5016] gets the word, the slot becomes
 * (tag, 5016), and then nodes[52].sibling becomes 5016.
 *
 * 2. Synchronisation
 *
 * A slot goes from 0 to its key by one compare-and-swap. Everybody looks at the slots of a bucket
 * in the same order and tries the first free one; the loser of a race sees the winner's key, which
 * is either the same (done) or another (next slot). So one key never has two slots, whoever interns
 * it: threads, forked relatives, signal handlers that interrupt an interning. Nobody waits for
 * anybody, hence a process that is killed at any instruction blocks nobody.
 *
 * An id is taken and the node's word is written before the compare-and-swap on the index. Who loses
 * it (or is killed before it) leaves an id that nobody names: a hole of 16 bytes. Only the winner
 * links the node, by a compare-and-swap on the last link; killed before that, it leaves a node that
 * is found by the index alone.
 *
 * A site has two words: pc, claimed first, and (settled, image), settled by a second
 * compare-and-swap. A key found claimed but unsettled (its claimer was interrupted) is settled by
 * the finder: with the finder's image, which is as good, since a claimer that then fails to settle
 * compares and moves on. Nodes name only settled sites: the CAS on the index and that on a link
 * release what the finder of the site acquired.
 *
 * A site without an image (JIT code) that dies gets a bit set in pc and so never compares equal
 * again. The others need not die: (pc, image) is the key, and an image's id is not used twice.
 *
 * 3. Memory
 *
 * The file is sparse. A slice is populated, by a call that can fail, before its first touch; a bit
 * per slice remembers it. The bits are private: relatives after a fork populate again what only the
 * other one knew, which is cheap and harmless. 200,000 stacks with 400,000 nodes take 6.4 MiB of
 * nodes and 5.3 MiB of index (levels 0 to 3).
 *
 * 4. Why not one growing hash table
 *
 * It would have to move entries (readers wait) or to reserve its final size (every touch a page
 * fault and a cache miss). Levels keep a small program's index in 64 KiB.
 *
 * 5. Why links, and ids in order
 *
 * What a big tree costs are cache misses: 100 ns each, ten times the rest of a lookup. In the order
 * of a hash each frame of a walk costs one, somewhere in 10 MiB. In the order of their coming a
 * node, its children and what the program met next are neighbours, and a program comes back to them
 * together, too. So does the collector, which goes from node to parent and keeps a table by id. */
#include "base/stack_tree.h"

#include <errno.h>

#include "base/stack_tree_fast.h"

enum { PREFETCHED_LEVELS = 4 }; /* of the index: 1.4 million nodes */
_Static_assert(sizeof(struct ag_site) == 16, "four sites in a cache line");
_Static_assert(AG_TREE_BYTES % AG_TREE_SLICE_BYTES == 0, "slices tile the tree");
_Static_assert(sizeof(struct ag_linked_node) == 16, "four nodes in a cache line");
_Static_assert(AG_INDEX_OFFSET % AG_CACHE_LINE == 0, "buckets of the index are cache lines");

static bool prepare_slice(struct ag_stack_tree *tree, uint64_t offset);

/* Makes the slice at `offset` bytes into the tree touchable. */
static inline bool slice_is_ready(struct ag_stack_tree *tree, uint64_t offset) {
    const uint64_t slice = offset / AG_TREE_SLICE_BYTES;
    const uint64_t bits = atomic_load_explicit(&tree->ready[slice / 64], memory_order_relaxed);
    return AG_LIKELY(bits >> slice % 64 & 1) || prepare_slice(tree, offset);
}

AG_COLD static bool prepare_slice(struct ag_stack_tree *tree, uint64_t offset) {
    const uint64_t slice = offset / AG_TREE_SLICE_BYTES;
    if (!tree->populate((char *)tree->sites + slice * AG_TREE_SLICE_BYTES, AG_TREE_SLICE_BYTES)) {
        return false;
    }
    /* relaxed: the bit says something of the page table, not of what the page holds */
    atomic_fetch_or_explicit(&tree->ready[slice / 64], UINT64_C(1) << slice % 64,
                             memory_order_relaxed);
    return true;
}

int ag_stack_tree_init(struct ag_stack_tree *tree, void *memory, ag_populate_fn *populate) {
    tree->sites = memory;
    tree->nodes = (struct ag_linked_node *)((char *)memory + AG_NODES_OFFSET);
    tree->n_nodes = (_Atomic uint64_t *)((char *)memory + AG_INDEX_OFFSET - AG_CACHE_LINE);
    tree->index = (_Atomic uint32_t *)((char *)memory + AG_INDEX_OFFSET);
    tree->populate = populate;
    return slice_is_ready(tree, AG_NODES_OFFSET) &&
                   slice_is_ready(tree, AG_INDEX_OFFSET - AG_CACHE_LINE)
               ? 0
               : -ENOMEM;
}

/* ---- sites --------------------------------------------------------------- */

/* Gives a claimed site its image; false: it settled with another one. */
static bool settle_image(struct ag_site *site, uint32_t image) {
    const uint64_t settled = AG_SITE_SETTLED | image;
    uint64_t found = 0;
    return atomic_compare_exchange_strong_explicit(&site->settled_image, &found, settled,
                                                   memory_order_acq_rel, memory_order_acquire) ||
           found == settled;
}

uint32_t ag_site_intern(struct ag_stack_tree *tree, uint64_t pc, uint32_t image) {
    /* the image too: a plugin that is loaded again and again must not fill the buckets of its pcs
     */
    const uint64_t hash = ag_stack_tree_hash(pc + image * UINT64_C(0xd1b54a32d192ed03));
    uint32_t level_start = 0;
    for (uint32_t level = 0; level < AG_SITE_LEVELS; level++) {
        const uint32_t bits = AG_SITE_FIRST_BITS + 2 * level;
        const uint32_t first = level_start + ag_stack_tree_bucket(hash, bits, AG_SITE_BUCKET);
        if (!slice_is_ready(tree, first * sizeof(struct ag_site))) {
            return 0;
        }
        for (uint32_t slot = first; slot < first + AG_SITE_BUCKET; slot++) {
            uint64_t found = 0;
            if ((atomic_compare_exchange_strong_explicit(&tree->sites[slot].pc, &found, pc,
                                                         memory_order_acq_rel,
                                                         memory_order_acquire) ||
                 found == pc) &&
                settle_image(&tree->sites[slot], image)) {
                return slot + 1;
            }
        }
        level_start += 1u << bits;
    }
    return 0;
}

void ag_stack_tree_kill_sites(struct ag_stack_tree *tree, uint64_t low, uint64_t high) {
    const uint32_t slice_sites = AG_TREE_SLICE_BYTES / sizeof(struct ag_site);
    for (uint32_t slot = 0; slot < AG_SITE_SLOTS; slot++) {
        const uint64_t slice = slot / slice_sites;
        if (!(atomic_load_explicit(&tree->ready[slice / 64], memory_order_relaxed) >> slice % 64 &
              1)) {
            slot += slice_sites - 1; // AG_SITE_SLOTS is a multiple of slice_sites
            continue;
        }
        const uint64_t pc = atomic_load_explicit(&tree->sites[slot].pc, memory_order_relaxed);
        const uint64_t image =
            atomic_load_explicit(&tree->sites[slot].settled_image, memory_order_relaxed);
        if (image == AG_SITE_SETTLED && pc - 1 >= low && pc - 1 < high) {
            atomic_fetch_or_explicit(&tree->sites[slot].pc, AG_SITE_DEAD, memory_order_relaxed);
        }
    }
}

/* ---- nodes --------------------------------------------------------------- */

static uint32_t tag_of(uint64_t hash) {
    const uint32_t tag = (uint32_t)hash >> 24;
    return tag != 0 ? tag : 1;
}

/* The node in a slot of the index that has the word; 0: another one. */
static uint32_t node_if_equal(const struct ag_stack_tree *tree, uint32_t entry, uint64_t hash,
                              uint64_t word) {
    const uint32_t node = entry & AG_NODE_ID_MASK;
    return entry >> 24 == tag_of(hash) &&
                   atomic_load_explicit(&tree->nodes[node].word, memory_order_relaxed) == word
               ? node
               : 0;
}

/* Takes an id and writes the word there; 0: there is none left, or no memory. */
static uint32_t write_node(struct ag_stack_tree *tree, uint64_t word) {
    /* asked before it is taken: without memory no id is used up */
    const uint64_t next = atomic_load_explicit(tree->n_nodes, memory_order_relaxed) + AG_NODE_FIRST;
    if (next > AG_NODE_ID_MASK ||
        !slice_is_ready(tree, AG_NODES_OFFSET + next * sizeof(struct ag_linked_node))) {
        return 0;
    }
    const uint64_t node =
        atomic_fetch_add_explicit(tree->n_nodes, 1, memory_order_relaxed) + AG_NODE_FIRST;
    if (node > AG_NODE_ID_MASK ||
        !slice_is_ready(tree, AG_NODES_OFFSET + node * sizeof(struct ag_linked_node))) {
        return 0;
    }
    atomic_store_explicit(&tree->nodes[node].word, word, memory_order_relaxed);
    return (uint32_t)node;
}

/* Links a node behind its parent's children, unless these are many. */
static void link_child(struct ag_stack_tree *tree, uint32_t parent, uint32_t node) {
    _Atomic uint32_t *link = &tree->nodes[parent & AG_NODE_ID_MASK].child;
    for (uint32_t i = 0; i < AG_NODE_LINKED_MAX; i++) {
        uint32_t found = 0;
        /* release: pairs with the acquire in ag_node_intern_fast */
        if (atomic_compare_exchange_strong_explicit(link, &found, node, memory_order_acq_rel,
                                                    memory_order_acquire)) {
            return;
        }
        link = &tree->nodes[found & AG_NODE_ID_MASK].sibling;
    }
}

AG_NOINLINE uint32_t ag_node_intern_slow(struct ag_stack_tree *tree, uint64_t word) {
    const uint64_t hash = ag_stack_tree_hash(word);
    uint32_t level_start = 0, own = 0;
    for (uint32_t level = 0; level < PREFETCHED_LEVELS; level++) {
        const uint32_t bits = AG_NODE_FIRST_BITS + 2 * level;
        AG_PREFETCH(&tree->index[level_start + ag_stack_tree_bucket(hash, bits, AG_NODE_BUCKET)]);
        level_start += 1u << bits;
    }
    level_start = 0;
    for (uint32_t level = 0; level < AG_NODE_LEVELS; level++) {
        const uint32_t bits = AG_NODE_FIRST_BITS + 2 * level;
        const uint32_t first = level_start + ag_stack_tree_bucket(hash, bits, AG_NODE_BUCKET);
        if (!slice_is_ready(tree, AG_INDEX_OFFSET + first * sizeof tree->index[0])) {
            return 0;
        }
        for (uint32_t slot = first; slot < first + AG_NODE_BUCKET; slot++) {
            /* acquire: pairs with the CAS below; the node's word is there */
            uint32_t entry = atomic_load_explicit(&tree->index[slot], memory_order_acquire);
            if (entry == 0) {
                if (own == 0 && (own = write_node(tree, word)) == 0) {
                    return 0;
                }
                if (atomic_compare_exchange_strong_explicit(
                        &tree->index[slot], &entry, tag_of(hash) << 24 | own, memory_order_acq_rel,
                        memory_order_acquire)) {
                    link_child(tree, (uint32_t)(word >> 32), own);
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

uint32_t ag_node_intern(struct ag_stack_tree *tree, uint32_t parent, uint32_t site) {
    return ag_node_intern_fast(tree, parent, site);
}

/* ---- reading ------------------------------------------------------------- */

bool ag_stack_tree_site(const void *memory, uint32_t id, uint64_t *ret_pc, uint32_t *ret_image) {
    if (id == 0 || id > AG_SITE_SLOTS) {
        return false;
    }
    const struct ag_site *site = (const struct ag_site *)memory + (id - 1);
    const uint64_t pc = atomic_load_explicit(&site->pc, memory_order_acquire);
    if (pc == 0) {
        return false;
    }
    *ret_pc = pc & AG_SITE_PC_MASK;
    *ret_image = (uint32_t)atomic_load_explicit(&site->settled_image, memory_order_acquire);
    return true;
}

bool ag_stack_tree_node(const void *memory, uint32_t id, uint32_t *ret_parent, uint32_t *ret_site) {
    if (id < AG_NODE_FIRST || id - AG_NODE_FIRST >= AG_NODE_SLOTS) {
        return false;
    }
    const struct ag_linked_node *nodes =
        (const struct ag_linked_node *)(const void *)((const char *)memory + AG_NODES_OFFSET);
    const uint64_t word = atomic_load_explicit(&nodes[id].word, memory_order_acquire);
    if (word == 0) {
        return false;
    }
    *ret_parent = (uint32_t)(word >> 32);
    *ret_site = (uint32_t)word;
    return true;
}

int ag_stack_tree_frames(const void *memory, uint32_t node, int capacity, uint64_t *ret_pcs,
                         enum ag_root *ret_root) {
    int n_frames = 0;
    while (node >= AG_NODE_FIRST) {
        uint32_t parent, site, image;
        uint64_t pc;
        if (n_frames == AG_DEPTH_MAX || !ag_stack_tree_node(memory, node, &parent, &site) ||
            !ag_stack_tree_site(memory, site, &pc, &image)) {
            return -EINVAL;
        }
        if (n_frames < capacity) {
            ret_pcs[n_frames] = pc;
        }
        n_frames++;
        node = parent;
    }
    if (node > AG_ROOT_CUT) {
        return -EINVAL;
    }
    *ret_root = (enum ag_root)node;
    return n_frames;
}
