/* large_blocks.c: keeps OCaml 5's blocks of more than 128 words from being counted twice. Each of
 * them is a block of malloc; it is recorded as a block of OCaml and not also as one of malloc.
 *
 * caml_shared_try_alloc takes these blocks from malloc, and returns the address after two words of
 * its own (runtime/shared_heap.c, struct large_alloc). When a sweep finds such a block dead, it
 * calls free, from a function without a symbol. So this file replaces the runtime's import slot of
 * free, and a free of one of these blocks, whose addresses are kept in a set, is not recorded.
 * Other import slots of the object are not changed. */
#include "base/address_bits.h"
#include "collector_hooks.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"

enum { POOLED_WORDS = 128, HEAD_BYTES = 16 }; /* with the header; struct large_alloc */

static struct ag_address_bits large;
static uintptr_t (*try_alloc)(void *heap, uintptr_t words, uintptr_t tag, uintptr_t reserved);
static void (*host_free)(void *block);
static bool is_followed;

static uintptr_t hooked_try_alloc(void *heap, uintptr_t words, uintptr_t tag, uintptr_t reserved) {
    if (words + 1 <= POOLED_WORDS) {
        return try_alloc(heap, words, tag, reserved);
    }
    const uintptr_t suspended = ag_record_suspend();
    const uintptr_t block = try_alloc(heap, words, tag, reserved);
    ag_record_resume(suspended);
    if (block) {
        (void)ag_address_bits_set(&large, /* set= */ 0, block - HEAD_BYTES);
    }
    return block;
}

static void hooked_free(void *block) {
    if (block && ag_address_bits_clear(&large, /* set= */ 0, (uintptr_t)block)) {
        const uintptr_t suspended = ag_record_suspend();
        host_free(block);
        ag_record_resume(suspended);
        return;
    }
    host_free(block);
}

bool ag_ocaml_large_blocks_follow(void) {
    struct ag_symbol_place place;
    void *bound; /* not used: an unbound slot has the loader's stub */
    const void *inside = ag_ocaml_find("caml_shared_try_alloc");
    if (!inside || !ag_import_find(inside, "free") ||
        !ag_symbol_find("free", AG_SYMBOL_FIRST, NULL, &place) ||
        ag_address_bits_start(&large, /* n_sets= */ 1, /* forgets_on_fork= */ false) < 0) {
        return false;
    }
    host_free = (void (*)(void *))place.address;
    /* The hook of free comes first: if it fails, the blocks stay recorded as malloc's as well. */
    is_followed = ag_import_replace(inside, "free", (void *)hooked_free, &bound) == 0 &&
                  ag_ocaml_detour("caml_shared_try_alloc", ag_kept_call, (void *)hooked_try_alloc,
                                  (void **)&try_alloc);
    return is_followed;
}

bool ag_ocaml_large_blocks_count_once(void) {
    return is_followed;
}
