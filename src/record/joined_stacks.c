/* joined_stacks.c: stacks that are put together: the walk knows the native frames, a runtime knows
 * its own, and which of them an event belongs to.
 *
 * A stack is the id of its innermost node, so its outer part is the node of an outer frame: taking
 * frames off is reading a parent, and putting frames on is interning a node. A frame may stand at
 * an address that is no code: where a runtime has a place for one of several allocations of a call
 * in its own tables. Such a site is found in a small cache, since an image is looked up for it
 * otherwise. An entry of the cache has the site and of address / 4 the bits from CACHE_BITS on; the
 * lower bits are where it lies, mixed with the others. */
#include "base/stack_tree_fast.h"
#include "images.h"
#include "recorder.h"
#include "unwind/unwind_space.h"

enum { CACHE_BITS = 12, SITE_BITS = 26 };
_Static_assert(AG_SITE_SLOTS < 1 << SITE_BITS, "a site fits its bits");
_Static_assert(46 - CACHE_BITS + SITE_BITS <= 64, "and the address beside it");

static struct {
    _Atomic uint32_t recording; /* that the sites are of; in a forked child another one */
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

/* A stack with a hole in it would be another function's: what cannot be kept stays not kept. */
static uint32_t push(uint32_t caller, uint32_t site) {
    const uint32_t node = site != 0 && caller != AG_ROOT_NOT_KEPT
                              ? ag_node_intern_fast(&ag_recorder.space->tree, caller, site)
                              : 0;
    return node != 0 ? node : AG_ROOT_NOT_KEPT;
}

uint32_t ag_stack_push(uint32_t caller, uintptr_t pc) {
    return push(caller, AG_PC_SITE(ag_pc_find_fast(ag_recorder.space, pc)));
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
        return push(caller, (uint32_t)(found & ((1 << SITE_BITS) - 1)));
    }
    const uint32_t site = find_site(address);
    if (site != 0) {
        atomic_store_explicit(entry, high << SITE_BITS | site, memory_order_relaxed);
    }
    return push(caller, site);
}
