/* guile_jit_frame.c: the native frame of code that Guile's JIT compiler made, on x86-64.
 *
 * The entry saves rbx, r12 and r13. Compiled code does not move the stack pointer, and does not use
 * rbp. So at each call of a C function the stack has, from the stack pointer upward, these three
 * registers and the return address into libguile. */
#include "guile/guile_jit_frame.h"

#include <stddef.h>
#include <string.h>

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
_Static_assert(offsetof(struct description, fde) == 24 &&
                   sizeof(struct description) == AG_GUILE_TABLES_BYTES,
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

int32_t ag_guile_jit_describe(void *ret_tables, uintptr_t low, size_t bytes) {
    struct description *description = ret_tables;
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
    return offsetof(struct description, fde);
}

bool ag_guile_jit_is_entry(uintptr_t address) {
    static const uint8_t entry[] = {
        0x48, 0x83, 0xec, 0x18,       /* sub $24, %rsp */
        0x48, 0x89, 0x1c, 0x24,       /* mov %rbx, (%rsp) */
        0x4c, 0x89, 0x64, 0x24, 0x08, /* mov %r12, 8(%rsp) */
        0x4c, 0x89, 0x6c, 0x24, 0x10, /* mov %r13, 16(%rsp) */
    };
    // NOLINTNEXTLINE(performance-no-int-to-ptr): code in an arena
    return memcmp((const void *)address, entry, sizeof(entry)) == 0;
}
