/* guile_jit.c: makes stacks continue through the machine code that Guile's JIT compiler makes.
 *
 * 1. Guile maps arenas of executable memory for this code. The adapter replaces libguile's import
 * of mmap, and gives the unwinder a frame description for each arena when it is mapped.
 *
 * 2. All compiled code has the same native frame. Scheme calls between compiled procedures use the
 * VM stack only. C code enters compiled code through one piece of code at the beginning of the
 * first arena: it saves rbx, r12 and r13 and jumps to the procedure. So at each call of a C
 * function the stack has, from the stack pointer upward, these three registers and the return
 * address into libguile. The adapter compares the entry with the expected bytes when it first sees
 * compiled code in a stack.
 *
 * 3. An address of compiled code gets the name [compiled code]. The procedures that run are
 * reported by guile_stacks.c, from the VM stack. */
#include "guile_jit.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "allogram/allogram.h"
#include "base/own_memory.h"
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

/* A .eh_frame section of a CIE and an FDE. */
struct description {
    struct {
        uint32_t bytes, id;
        uint8_t version, augmentation, code_alignment, data_alignment, return_register;
        uint8_t define_cfa, cfa_register, cfa_offset;
        uint8_t at_return, return_place, at_rbx, rbx_place, at_r12, r12_place, at_r13, r13_place;
    } cie;
    struct {
        uint32_t bytes, to_cie;
        uint64_t low, n_bytes;
    } fde;
};
_Static_assert(offsetof(struct description, fde) == 24 && sizeof(struct description) == 48,
               "the descriptions have no gaps");

enum { /* DWARF: opcodes, registers, and the frame's size with the return address */
       DEFINE_CFA = 0x0c,
       AT_OFFSET = 0x80,
       RBX = 3,
       RSP = 7,
       R12 = 12,
       R13 = 13,
       RIP = 16,
       FRAME_BYTES = 32,
       MINUS_8 = 0x78, /* as SLEB128 */
};

static void describe(struct description *description, uintptr_t low, size_t bytes) {
    *description = (struct description){
        .cie = {.bytes = sizeof(description->cie) - sizeof(uint32_t),
                .version = 1,
                .code_alignment = 1,
                .data_alignment = MINUS_8,
                .return_register = RIP,
                .define_cfa = DEFINE_CFA,
                .cfa_register = RSP,
                .cfa_offset = FRAME_BYTES,
                .at_return = AT_OFFSET | RIP,
                .return_place = 1,
                .at_rbx = AT_OFFSET | RBX,
                .rbx_place = 4,
                .at_r12 = AT_OFFSET | R12,
                .r12_place = 3,
                .at_r13 = AT_OFFSET | R13,
                .r13_place = 2},
        .fde = {.bytes = sizeof(description->fde) - sizeof(uint32_t),
                .to_cie = offsetof(struct description, fde.to_cie),
                .low = low,
                .n_bytes = bytes},
    };
}

static void add_arena(uintptr_t low, size_t bytes) {
    /* The thread may be preempted here, but does not wait while it holds this lock. */
    while (atomic_exchange_explicit(&is_adding, true, memory_order_acquire)) {
    }
    const uint32_t n = atomic_load_explicit(&n_arenas, memory_order_relaxed);
    struct description *description =
        n < ARENAS_MOST ? ag_own_memory_take(sizeof(*description)) : NULL;
    if (description) {
        describe(description, low, bytes);
        const struct ag_cfi_place place = {.first_pc = 0,
                                           .entry = offsetof(struct description, fde)};
        const struct ag_made_code code = {.low = low,
                                          .high = low + bytes,
                                          .tables_low = (uintptr_t)description,
                                          .tables_high = (uintptr_t)(description + 1),
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

static void check_entry(void) {
    static const uint8_t entry[] = {
        0x48, 0x83, 0xec, 0x18,       /* sub $24, %rsp */
        0x48, 0x89, 0x1c, 0x24,       /* mov %rbx, (%rsp) */
        0x4c, 0x89, 0x64, 0x24, 0x08, /* mov %r12, 8(%rsp) */
        0x4c, 0x89, 0x6c, 0x24, 0x10, /* mov %r13, 16(%rsp) */
    };
    if (memcmp((const void *)arenas[0].low, entry, sizeof(entry)) != 0) {
        ag_guile.disagreement = "its compiled code is entered in an unknown way";
    }
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
    if (at == 0) {
        check_entry();
    }
    const struct ag_made_place named = {.function = allogram_register_function(&options)};
    for (; at < n && named.function != 0 && ag_made_code_pc(at) != 0; at++) {
        ag_record_code(ag_made_code_pc(at), &named, 1);
    }
    atomic_store_explicit(&n_named, at, memory_order_relaxed);
    atomic_store_explicit(&is_busy, false, memory_order_release);
}
