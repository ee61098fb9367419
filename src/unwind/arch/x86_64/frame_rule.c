/* frame_rule.c (x86-64): makes the packed rule of a pc (frame_step_fast.h), for unwind_space.c. It
 * packs the CFI row of the pc (a row of the DWARF call frame table) into 32 bits, or guesses the
 * rule from the code if no row covers the pc. By measurement, nearly every row of libc, libstdc++,
 * z3 and jq that can apply at a call fits into 32 bits. The exceptions are a few hand-written
 * functions whose CFA (the caller's sp) is in another register than rsp or rbp. Their rows get the
 * rule GENERAL, and general_step.c evaluates them. */
#include "unwind/arch/x86_64/frame_rule.h"

#include <string.h>

#include "base/byte_reader.h"
#include "base/compiler.h"
#include "unwind/arch/x86_64/frame_step_fast.h"
#include "unwind/readable_range.h"

enum { DWARF_RBP = AG_DWARF_FRAME_POINTER, DWARF_RSP = 7 };
enum { DW_OP_deref = 0x06, DW_OP_breg6 = 0x76, DW_OP_breg7 = 0x77 };

/* Whether the expression is `register + offset`, followed by exactly `tail`. */
static bool is_register_plus(const struct ag_cfi_rule *rule, uint8_t operation, const uint8_t *tail,
                             size_t tail_bytes, int64_t *ret_offset) {
    struct ag_byte_reader reader = {rule->expression, rule->expression + rule->expression_bytes,
                                    false};
    const bool is_operation = ag_byte_reader_take(&reader, 1) == operation;
    const int64_t offset = ag_byte_reader_sleb(&reader);
    if (!is_operation || reader.is_bad || (size_t)(reader.end - reader.at) != tail_bytes ||
        memcmp(reader.at, tail, tail_bytes) != 0) {
        return false;
    }
    *ret_offset = offset;
    return true;
}

static bool is_deref_of(const struct ag_cfi_rule *rule, uint8_t operation, int64_t *ret_offset) {
    static const uint8_t deref[] = {DW_OP_deref};
    return is_register_plus(rule, operation, deref, sizeof deref, ret_offset);
}

/* Whether this is the expression that linkers write for the PLT: rsp + 8 + ((rip & 15) >= N) * 8,
 * where N is the offset in the PLT entry at which the push ends. */
static bool is_plt(const struct ag_cfi_rule *rule, uint32_t *ret_push_end) {
    /* breg7 8 | breg16 0 | lit15 | and | litN | ge | lit3 | shl | plus */
    static const uint8_t head[] = {DW_OP_breg7, 8, 0x80, 0, 0x3f, 0x1a};
    static const uint8_t tail[] = {0x2a, 0x33, 0x24, 0x22};
    if (rule->expression_bytes != sizeof head + 1 + sizeof tail ||
        memcmp(rule->expression, head, sizeof head) != 0 ||
        memcmp(rule->expression + sizeof head + 1, tail, sizeof tail) != 0) {
        return false;
    }
    const uint8_t literal = rule->expression[sizeof head];
    if (literal < 0x30 || literal > 0x3f) {
        return false;
    }
    *ret_push_end = literal - 0x30u;
    return true;
}

/* Encodes the place where the caller's rbp is saved; the result is a slot (frame_step_fast.h).
 * Returns false if no slot can express the place. */
static bool pack_rbp_slot(const struct ag_cfi_rule *rule, uint32_t *ret_slot) {
    int64_t offset;
    switch ((enum ag_cfi_rule_kind)rule->kind) {
    case AG_CFI_SAME:
    case AG_CFI_UNDEFINED: // undefined: no outer frame reads rbp
        *ret_slot = AG_RULE_SLOT_SAME;
        return true;
    case AG_CFI_AT_CFA:
        if (rule->offset >= 0 || rule->offset % 8 != 0 || -rule->offset / 8 >= AG_RULE_SLOT_AT_BP) {
            return false;
        }
        *ret_slot = (uint32_t)(-rule->offset / 8);
        return true;
    case AG_CFI_AT_EXPRESSION:
        if (!is_register_plus(rule, DW_OP_breg6, rule->expression, 0, &offset) || offset != 0) {
            return false;
        }
        *ret_slot = AG_RULE_SLOT_AT_BP;
        return true;
    case AG_CFI_IS_CFA:
    case AG_CFI_IN_REGISTER:
    case AG_CFI_IS_EXPRESSION:
        return false;
    }
    return false;
}

uint32_t ag_frame_rule_pack(const struct ag_cfi_row *row, bool is_signal_frame) {
    int64_t offset;
    uint32_t push_end, slot;
    if (row->return_address.kind == AG_CFI_UNDEFINED) {
        return AG_RULE(AG_RULE_END, 0, 0);
    }
    if (is_signal_frame) {
        const bool is_kernel_frame = row->cfa.kind == AG_CFI_IS_EXPRESSION &&
                                     is_deref_of(&row->cfa, DW_OP_breg7, &offset) &&
                                     offset == AG_SIGNAL_RSP;
        return is_kernel_frame ? AG_RULE(AG_RULE_SIGNAL, 0, 0) : AG_RULE_GENERAL;
    }
    if (row->return_address.kind != AG_CFI_AT_CFA || row->return_address.offset != -8 ||
        !pack_rbp_slot(&row->wanted, &slot)) {
        return AG_RULE_GENERAL;
    }
    if (row->cfa.kind == AG_CFI_IS_EXPRESSION) {
        if (is_plt(&row->cfa, &push_end) && slot == AG_RULE_SLOT_SAME) {
            return AG_RULE(AG_RULE_PLT, 0, push_end);
        }
        if (is_deref_of(&row->cfa, DW_OP_breg6, &offset) && offset % 8 == 0 &&
            offset / 8 <= AG_RULE_OFFSET_MAX / 2 && offset / 8 >= -AG_RULE_OFFSET_MAX / 2) {
            return AG_RULE(AG_RULE_BP_DEREF, slot, (uint64_t)(offset / 8));
        }
        return AG_RULE_GENERAL;
    }
    offset = row->cfa.offset;
    if (offset < 0 || offset % 8 != 0 || offset / 8 > AG_RULE_OFFSET_MAX) {
        return AG_RULE_GENERAL;
    }
    switch (row->cfa.reg) {
    case DWARF_RSP:
        return AG_RULE(AG_RULE_SP, slot, (uint64_t)(offset / 8));
    case DWARF_RBP:
        return AG_RULE(AG_RULE_BP, slot, (uint64_t)(offset / 8));
    default:
        return AG_RULE_GENERAL;
    }
}

/* The longest indirect call has 7 bytes. */
bool ag_is_indirect_call(const uint8_t *end) {
    for (int bytes = 2; bytes <= 7; bytes++) { // ff /2: call r/m64, the ModRM byte follows ff
        const uint8_t modrm = end[-bytes + 1];
        if (end[-bytes] != 0xff || (modrm >> 3 & 7) != 2) {
            continue;
        }
        const int mode = modrm >> 6, has_sib = mode != 3 && (modrm & 7) == 4;
        const int displacement = mode == 1                       ? 1
                                 : mode == 2                     ? 4
                                 : mode == 0 && (modrm & 7) == 5 ? 4
                                                                 : 0;
        if (bytes == 2 + has_sib + displacement || (has_sib && mode == 0 && bytes == 7)) {
            return true;
        }
    }
    return false;
}

enum { BYTES_BEFORE = 8 };

bool ag_frame_follows_call(uintptr_t pc, uintptr_t low, uintptr_t high) {
    uint8_t code[BYTES_BEFORE];
    if (pc <= BYTES_BEFORE || !ag_readable_copy(code, pc - BYTES_BEFORE, BYTES_BEFORE)) {
        return false;
    }
    const uint8_t *end = code + BYTES_BEFORE;
    int32_t distance;
    memcpy(&distance, end - sizeof distance, sizeof distance);
    const uintptr_t target = pc + (uintptr_t)(intptr_t)distance;
    if (end[-5] == 0xe8 && target >= low && target < high) { // call rel32
        return true;
    }
    return ag_is_indirect_call(end);
}

bool ag_is_signal_trampoline(uintptr_t pc) {
    static const uint8_t trampolines[2][9] = {
        {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}, // mov $SYS_rt_sigreturn, %rax; syscall
        {0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0, 0},       // mov $SYS_rt_sigreturn, %eax; syscall
    };
    static const size_t trampoline_bytes[2] = {9, 7};
    uint8_t code[16];
    for (int i = 0; i < 2; i++) {
        if (ag_readable_copy(code, pc, trampoline_bytes[i]) &&
            memcmp(code, trampolines[i], trampoline_bytes[i]) == 0) {
            return true;
        }
    }
    return false;
}

uint32_t ag_frame_rule_guess(uintptr_t pc) {
    if (ag_is_signal_trampoline(pc)) {
        return AG_RULE(AG_RULE_SIGNAL, 0, 0);
    }
    return ag_frame_follows_call(pc, 0, UINTPTR_MAX) ? AG_RULE_FRAME_POINTER : AG_RULE_NOTHING;
}

/* ---- for the general step (general_step.c) ------------------------------- */
bool ag_registers_get(const struct ag_registers *registers, uint32_t reg, uintptr_t *ret_value) {
    switch (reg) {
    case AG_DWARF_FRAME_POINTER:
        *ret_value = registers->rbp;
        return true;
    case AG_DWARF_STACK_POINTER:
        *ret_value = registers->sp;
        return true;
    case AG_DWARF_RETURN_ADDRESS: // rip: pc - 1 lies inside the frame's current instruction
        *ret_value = registers->pc - 1;
        return true;
    default:
        return false;
    }
}

bool ag_register_is_preserved(uint32_t reg) {
    return reg == 3 || (reg >= 12 && reg <= 15); // rbx, r12 to r15
}

bool ag_signal_register_offset(uint32_t reg, uintptr_t *ret_offset) {
    /* index: DWARF's number of the register; value: its position in the kernel's list r8 to r15,
     * rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip */
    static const uint8_t place[] = {
        [0] = 13, [1] = 12, [2] = 14, [3] = 11, [4] = 9,  [5] = 8,  [6] = 10, [7] = 15,  [8] = 0,
        [9] = 1,  [10] = 2, [11] = 3, [12] = 4, [13] = 5, [14] = 6, [15] = 7, [16] = 16,
    };
    enum { FIRST_OFFSET = 40 };
    _Static_assert(FIRST_OFFSET + 8 * 16 == AG_SIGNAL_RIP,
                   "rip is the last of the saved registers");
    if (reg >= sizeof place) {
        return false;
    }
    *ret_offset = FIRST_OFFSET + (uintptr_t)place[reg] * 8;
    return true;
}
