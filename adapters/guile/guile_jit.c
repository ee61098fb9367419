/* guile_jit.c: makes stacks continue through the machine code that Guile's JIT compiler makes.
 *
 * 1. Guile maps arenas of executable memory for this code. The adapter replaces libguile's import
 * of mmap, and gives the unwinder a frame description for each arena when it is mapped.
 *
 * 2. All compiled code has the same native frame. Scheme calls between compiled procedures use the
 * VM stack only. C code enters compiled code through one piece of code at the beginning of the
 * first arena, which saves registers and jumps to the procedure. The adapter compares this entry
 * with the expected bytes when it first sees compiled code in a stack.
 *
 * 3. An address of compiled code gets the name [compiled code]. The procedures that run are
 * reported by guile_stacks.c, from the VM stack. */
#include "guile_jit.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "allogram/allogram.h"
#include "base/own_memory.h"
#include "guile_jit_frame.h"
#include "guile_runtime.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"
#include "record/made_code.h"
#include "record/recorder.h"

enum { ARENAS_MOST = 4096 };
static struct { uintptr_t low, high; } arenas[ARENAS_MOST];
static _Atomic uint32_t n_arenas;
static _Atomic bool is_adding;

typedef void *map_fn(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
static map_fn *next_mmap;

static void add_arena(uintptr_t low, size_t bytes) {
    /* A spinlock. A thread that holds it may be preempted, but calls nothing that waits. */
    while (atomic_exchange_explicit(&is_adding, true, memory_order_acquire)) {
    }
    const uint32_t n = atomic_load_explicit(&n_arenas, memory_order_relaxed);
    void *tables = n < ARENAS_MOST ? ag_own_memory_take(AG_GUILE_TABLES_BYTES) : NULL;
    if (tables) {
        const struct ag_cfi_place place = {.first_pc = 0,
                                           .entry = ag_guile_jit_describe(tables, low, bytes)};
        const struct ag_made_code code = {.low = low,
                                          .high = low + bytes,
                                          .tables_low = (uintptr_t)tables,
                                          .tables_high = (uintptr_t)tables + AG_GUILE_TABLES_BYTES,
                                          .places = &place,
                                          .n_places = 1};
        (void)ag_made_code_add(&code); /* table full: stacks end in this code, and are counted as
                                        * incomplete */
        arenas[n].low = low;
        arenas[n].high = low + bytes;
        /* release: pairs with the acquire in ag_guile_jit_has */
        atomic_store_explicit(&n_arenas, n + 1, memory_order_release);
    }
    atomic_store_explicit(&is_adding, false, memory_order_release);
}

static void *map_code(void *address, size_t bytes, int protection, int flags, int fd,
                      off_t offset) {
    void *mapped = next_mmap(address, bytes, protection, flags, fd, offset);
    if (mapped != MAP_FAILED) {
        add_arena((uintptr_t)mapped, bytes);
    }
    return mapped;
}

/* For other mappings the hook ends with a tail call, so that the recorded stack begins at the
 * caller. */
static void *hooked_mmap(void *address, size_t bytes, int protection, int flags, int fd,
                         off_t offset) {
    return (protection & PROT_EXEC) != 0 && (flags & MAP_ANONYMOUS) != 0
               ? map_code(address, bytes, protection, flags, fd, offset)
               : next_mmap(address, bytes, protection, flags, fd, offset);
}

void ag_guile_jit_follow(void) {
    struct ag_symbol_place place;
    void *unused = NULL;
    if (ag_symbol_find("mmap", AG_SYMBOL_FIRST, NULL, &place)) {
        next_mmap = (map_fn *)(uintptr_t)place.address;
        (void)ag_import_replace((const void *)ag_guile.call_low, "mmap",
                                (void *)(uintptr_t)hooked_mmap, &unused);
    }
}

bool ag_guile_jit_has(uintptr_t pc) {
    for (uint32_t i = atomic_load_explicit(&n_arenas, memory_order_acquire); i-- > 0;) {
        if (pc - arenas[i].low < arenas[i].high - arenas[i].low) {
            return true;
        }
    }
    return false;
}

void ag_guile_jit_name_new(void) {
    static _Atomic uint32_t n_named;
    static _Atomic bool is_busy;
    const uint32_t n = ag_made_code_count();
    if (AG_LIKELY(atomic_load_explicit(&n_named, memory_order_relaxed) == n) ||
        atomic_exchange_explicit(&is_busy, true, memory_order_acquire)) {
        return; /* another thread may be naming the addresses */
    }
    const struct allogram_function_options options = {
        .size = sizeof(options), .name = "[compiled code]"}; /* counts as native code */
    uint32_t at = atomic_load_explicit(&n_named, memory_order_relaxed);
    if (at == 0 && !ag_guile_jit_is_entry(arenas[0].low)) {
        ag_guile.disagreement = "the entry of its compiled code differs from the expected one";
    }
    const struct ag_made_place named = {.function = allogram_register_function(&options)};
    for (; at < n && named.function != 0 && ag_made_code_pc(at) != 0; at++) {
        ag_record_code(ag_made_code_pc(at), &named, 1);
    }
    atomic_store_explicit(&n_named, at, memory_order_relaxed);
    atomic_store_explicit(&is_busy, false, memory_order_release);
}
