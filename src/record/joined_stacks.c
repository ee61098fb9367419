/* joined_stacks.c: joins stacks from two sources: the stack walker finds the native frames; a
 * runtime reports its own frames, and the native frame to which they belong.
 *
 * A stack is identified by the node of its innermost frame in a tree (base/stack_tree.h), where a
 * node's parent is the caller. Frames are removed by going to a parent, and added by interning a
 * node. The address of a frame need not be code: a runtime may use addresses in its own tables to
 * distinguish several allocations of one call. The sites of such addresses (a site is an address
 * with its image) are cached, because a new site requires a lookup of the image. An entry of the
 * cache contains the site and the high bits of (address / 4), from bit CACHE_BITS on. The low bits,
 * XORed with a hash of the high bits, are the index of the entry. */
#include "base/stack_tree_fast.h"
#include "images.h"
#include "recorder.h"
#include "unwind/unwind_space.h"

enum { CACHE_BITS = 12, SITE_BITS = 26 };
_Static_assert(AG_SITE_SLOTS < 1 << SITE_BITS, "SITE_BITS is enough for all sites");
_Static_assert(46 - CACHE_BITS + SITE_BITS <= 64,
               "a word has room for a site and the rest of an address");

static struct {
    /* the recording (ag_stacks_recording) to which the sites belong; a forked child is another
     * recording */
    _Atomic uint32_t recording;
    _Atomic uint64_t entries[1 << CACHE_BITS];
} places;

bool ag_stack_top(uint32_t stack, uintptr_t *ret_pc, uint32_t *ret_caller) {
    struct ag_stack_tree *tree = &ag_recorder.space->tree;
    uint64_t pc = 0;
    uint32_t caller = 0, site = 0, image = 0;
    if (!ag_stack_tree_node(tree, stack, &caller, &site) ||
        !ag_stack_tree_site(tree, site, &pc, &image)) {
        return false;
    }
    *ret_caller = caller;
    *ret_pc = pc;
    return true;
}

/* Returns the node of the stack CALLER with one more frame. If the node cannot be interned, the
 * result is AG_ROOT_NOT_KEPT, not CALLER: a stack with a missing frame would look like the stack of
 * another function. */
static uint32_t stack_push_site(uint32_t caller, uint32_t site) {
    const uint32_t node = site != 0 && caller != AG_ROOT_NOT_KEPT
                              ? ag_node_intern_fast(&ag_recorder.space->tree, caller, site)
                              : 0;
    return node != 0 ? node : AG_ROOT_NOT_KEPT;
}

uint32_t ag_stack_push(uint32_t caller, uintptr_t pc) {
    return stack_push_site(caller, AG_PC_SITE(ag_pc_find_fast(ag_recorder.space, pc)));
}

static void take_id(void *context, const struct ag_unwind_image *image) {
    *(uint32_t *)context = image->id;
}

AG_COLD static uint32_t find_site(uintptr_t address) {
    uint32_t image = 0;
    return address <= AG_SITE_PC_MASK && ag_images_find(NULL, address, take_id, &image) == 0
               ? ag_site_intern(&ag_recorder.space->tree, address, image)
               : 0;
}

uint32_t ag_stacks_recording(void) {
    const uint32_t generation =
        atomic_load_explicit(&ag_recorder.space->generation, memory_order_acquire);
    return generation * 64 + (ag_recorder.pid + ag_recorder.recording) % 64 + 1;
}

uint32_t ag_stack_push_data(uint32_t caller, uintptr_t address) {
    const uint32_t recording = ag_stacks_recording();
    if (AG_UNLIKELY(atomic_load_explicit(&places.recording, memory_order_acquire) != recording)) {
        for (size_t i = 0; i < AG_ARRAY_SIZE(places.entries); i++) {
            atomic_store_explicit(&places.entries[i], 0, memory_order_relaxed);
        }
        atomic_store_explicit(&places.recording, recording, memory_order_release);
    }
    const uint64_t key = (uint64_t)address >> 2;
    const uint64_t high = key >> CACHE_BITS;
    _Atomic uint64_t *entry =
        &places.entries[(key ^ ag_stack_tree_hash(high)) & ((1 << CACHE_BITS) - 1)];
    const uint64_t found = atomic_load_explicit(entry, memory_order_relaxed);
    if (AG_LIKELY(found >> SITE_BITS == high && found != 0)) {
        return stack_push_site(caller, (uint32_t)(found & ((1 << SITE_BITS) - 1)));
    }
    const uint32_t site = find_site(address);
    if (site != 0) {
        atomic_store_explicit(entry, high << SITE_BITS | site, memory_order_relaxed);
    }
    return stack_push_site(caller, site);
}
