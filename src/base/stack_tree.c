/* stack_tree.c: lock-free interning of call sites and stack nodes in memory that several processes
 * share.
 *
 * 1. Data
 *
 *     memory   | sites: level 0 .. 3 | nodes: level 0 .. 5 |
 *     level    | bucket | bucket | ...      2^12, 2^14 .. 2^18 sites; 2^14, 2^16 .. 2^24 nodes
 *     bucket   | slot x 4 (site) or x 8 (node)     one cache line
 *
 * A key hashes to one bucket of each level. It lives in the first of these buckets that had a free
 * slot when it came, and never moves: its slot number is its id. Nothing is ever removed (a dead
 * site keeps its slot), so a reader that finds a key needs nothing else to be sure of it.
 *
 * Example: site 7 called from the frame of node 40: word = 40 << 32 | 7. Its bucket in level 0 is
 * full of other words, so is its bucket in level 1; slot 3 of its bucket b in level 2 is free: id =
 * 2^14 + 2^16 + 8 b + 3 + AG_NODE_FIRST.
 *
 * 2. Synchronisation
 *
 * A slot goes from 0 to its key by one compare-and-swap. Everybody looks at the slots of a bucket
 * in the same order and tries the first free one; the loser of a race sees the winner's key, which
 * is either the same (done) or another (next slot). So one key never has two slots, whoever interns
 * it: threads, forked relatives, signal handlers that interrupt an interning. Nobody waits for
 * anybody, hence a process that is killed at any instruction blocks nobody.
 *
 * A site has two words: pc, claimed first, and (settled, image), settled by a second
 * compare-and-swap. A key found claimed but unsettled (its claimer was interrupted) is settled by
 * the finder: with the finder's image, which is as good, since a claimer that then fails to settle
 * compares and moves on. Nodes name only settled sites: their CAS releases what the finder of the
 * site acquired.
 *
 * A site without an image (JIT code) that dies gets a bit set in pc and so never compares equal
 * again. The others need not die: (pc, image) is the key, and an image's id is not used twice.
 *
 * 3. Memory
 *
 * The file is sparse. A slice is populated, by a call that can fail, before its first touch; a bit
 * per slice remembers it. The bits are private: relatives after a fork populate again what only the
 * other one knew, which is cheap and harmless. The first levels are populated by ag_stack_tree_init
 * so that the fast path needs no bit. 200,000 stacks with 400,000 nodes take 11 MiB in levels 0 to
 * 3 and about 150 slices of level 4.
 *
 * 4. Why not one growing hash table
 *
 * It would have to move entries (ids change, readers wait) or to reserve its final size (every
 * touch a page fault and a cache miss). Levels keep a small program's nodes in 128 KiB. The price:
 * a node of level 3 costs four cache lines to find. */
#include "base/stack_tree.h"

#include <errno.h>

#include "base/stack_tree_fast.h"

_Static_assert(sizeof(struct ag_site) == 16, "four sites in a cache line");
_Static_assert(AG_TREE_BYTES % AG_TREE_SLICE_BYTES == 0, "slices tile the tree");
_Static_assert(AG_SITE_SLOTS * sizeof(struct ag_site) % AG_CACHE_LINE == 0,
               "buckets of nodes are cache lines");

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

static uint64_t node_offset(uint64_t slot) {
    return AG_SITE_SLOTS * sizeof(struct ag_site) + slot * sizeof(uint64_t);
}

int ag_stack_tree_init(struct ag_stack_tree *tree, void *memory, ag_populate_fn *populate) {
    tree->sites = memory;
    tree->nodes = (_Atomic uint64_t *)((char *)memory + node_offset(0));
    tree->populate = populate;
    const uint64_t first_level_bytes = (UINT64_C(1) << AG_NODE_FIRST_BITS) * sizeof(uint64_t);
    for (uint64_t offset = 0; offset < first_level_bytes; offset += AG_TREE_SLICE_BYTES) {
        if (!slice_is_ready(tree, node_offset(0) + offset)) {
            return -ENOMEM;
        }
    }
    return 0;
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

AG_NOINLINE uint32_t ag_node_intern_slow(struct ag_stack_tree *tree, uint64_t word, uint64_t hash) {
    uint32_t level_start = 0;
    for (uint32_t level = 0; level < AG_NODE_LEVELS; level++) {
        const uint32_t bits = AG_NODE_FIRST_BITS + 2 * level;
        const uint32_t first = level_start + ag_stack_tree_bucket(hash, bits, AG_NODE_BUCKET);
        if (!slice_is_ready(tree, node_offset(first))) {
            return 0;
        }
        for (uint32_t slot = first; slot < first + AG_NODE_BUCKET; slot++) {
            uint64_t found = atomic_load_explicit(&tree->nodes[slot], memory_order_acquire);
            if (found == 0 && atomic_compare_exchange_strong_explicit(&tree->nodes[slot], &found,
                                                                      word, memory_order_acq_rel,
                                                                      memory_order_acquire)) {
                found = word;
            }
            if (found == word) {
                return slot + AG_NODE_FIRST;
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
    const _Atomic uint64_t *nodes =
        (const _Atomic uint64_t *)((const char *)memory + node_offset(0));
    const uint64_t word = atomic_load_explicit(&nodes[id - AG_NODE_FIRST], memory_order_acquire);
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
