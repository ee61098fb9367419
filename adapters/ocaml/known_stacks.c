/* known_stacks.c: a cache of the stacks of OCaml blocks, so that a stack is not walked again for
 * each block.
 *
 * A program allocates at the same places over and over. For each block Memprof, the runtime's
 * sampler, gives the OCaml half of the stack, the callstack. If two callstacks have the same return
 * addresses, and the native stacks end at the same address (so they are of the same thread), a walk
 * of the native half would find the same joined stack again. The key is a hash of 64 bits; the
 * chance that two of a million different stacks have the same key is 1 in 30 million.
 *
 * All threads share one table without locks. An entry's first word is key xor stack. So if two
 * threads each wrote one of the two words of an entry, the entry matches no key. */
#include "known_stacks.h"

enum { TABLE_BITS = 14 };
static struct { _Atomic uint64_t mixed, stack; } table[1 << TABLE_BITS];
static _Atomic uint32_t times_forgotten;

AG_FAST uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

uint64_t ag_ocaml_stack_key(const ag_ocaml_value *slots, size_t n_slots, const void *place) {
    uint64_t hash = mix((uintptr_t)place, n_slots);
    hash = mix(hash, (uint64_t)ag_recorder.tree_index << 32 | ag_recorder.tree_generation);
    hash = mix(hash, (uint64_t)ag_recorder.recording << 32 |
                         atomic_load_explicit(&times_forgotten, memory_order_relaxed));
    for (size_t i = 0; i < n_slots; i++) {
        hash = mix(hash, (uint64_t)slots[i] |
                             1); /* a callback gets the slots as OCaml integers (bit 0 set) */
    }
    return mix(hash, n_slots);
}

uint32_t ag_ocaml_known_stack(uint64_t key) {
    const size_t at = key >> (64 - TABLE_BITS);
    const uint64_t stack = atomic_load_explicit(&table[at].stack, memory_order_relaxed);
    const uint64_t mixed = atomic_load_explicit(&table[at].mixed, memory_order_relaxed);
    return (mixed ^ stack) == key ? (uint32_t)stack : 0;
}

void ag_ocaml_remember_stack(uint64_t key, uint32_t stack) {
    const size_t at = key >> (64 - TABLE_BITS);
    atomic_store_explicit(&table[at].mixed, key ^ stack, memory_order_relaxed);
    atomic_store_explicit(&table[at].stack, stack, memory_order_relaxed);
}

void ag_ocaml_forget_stacks(void) {
    atomic_fetch_add_explicit(&times_forgotten, 1, memory_order_relaxed);
}
