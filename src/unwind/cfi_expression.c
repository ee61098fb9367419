/* cfi_expression.c: evaluates the DWARF expressions of CFI rows (rows of the DWARF call frame
 * table) by a small stack machine, for general_step.c. The machine supports no jumps, so every
 * expression terminates. Such expressions occur in PLT entries, in hand-written assembler
 * (libcrypto keeps its CFA, the caller's sp, in a stack slot or in another register), and in signal
 * trampolines. */
#include "unwind/cfi_expression.h"

#include "base/byte_reader.h"

enum {
    STACK_SLOTS = 8, /* the expressions of libcrypto and libc need three */

    DW_OP_addr = 0x03,
    DW_OP_deref = 0x06,
    DW_OP_const1u = 0x08, /* then const1s, const2u, const2s, const4u, const4s, const8u */
    DW_OP_const8s = 0x0f,
    DW_OP_constu = 0x10,
    DW_OP_consts = 0x11,
    DW_OP_dup = 0x12,
    DW_OP_drop = 0x13,
    DW_OP_over = 0x14,
    DW_OP_swap = 0x16,
    DW_OP_and = 0x1a,
    DW_OP_minus = 0x1c,
    DW_OP_mul = 0x1e,
    DW_OP_neg = 0x1f,
    DW_OP_not = 0x20,
    DW_OP_or = 0x21,
    DW_OP_plus = 0x22,
    DW_OP_plus_uconst = 0x23,
    DW_OP_shl = 0x24,
    DW_OP_shr = 0x25,
    DW_OP_shra = 0x26,
    DW_OP_xor = 0x27,
    DW_OP_eq = 0x29,
    DW_OP_ge = 0x2a,
    DW_OP_gt = 0x2b,
    DW_OP_le = 0x2c,
    DW_OP_lt = 0x2d,
    DW_OP_ne = 0x2e,
    DW_OP_lit0 = 0x30,
    DW_OP_lit31 = 0x4f,
    DW_OP_breg0 = 0x70,
    DW_OP_breg31 = 0x8f,
    DW_OP_bregx = 0x92,
    DW_OP_nop = 0x96,
};

struct stack {
    uintptr_t slots[STACK_SLOTS];
    uint32_t depth;
    bool bad; /* stack overflow or underflow */
};

static void stack_push(struct stack *stack, uintptr_t value) {
    if (stack->depth == STACK_SLOTS) {
        stack->bad = true;
        return;
    }
    stack->slots[stack->depth++] = value;
}

static uintptr_t pop(struct stack *stack) {
    if (stack->depth == 0) {
        stack->bad = true;
        return 0;
    }
    return stack->slots[--stack->depth];
}

/* Reads the operand of an operation from const1u to const8s. */
static uintptr_t read_constant(struct ag_byte_reader *reader, uint8_t operation) {
    const uint32_t index = operation - DW_OP_const1u;
    const uint32_t bits = 8u << (index / 2);
    const uint64_t value = ag_byte_reader_take(reader, bits / 8);
    const bool is_signed = index & 1;
    return is_signed ? (uintptr_t)((int64_t)(value << (64 - bits)) >> (64 - bits)) : value;
}

/* Runs an operation on the two topmost values. Returns false if `operation` is not supported. */
static bool run_binary(struct stack *stack, uint8_t operation) {
    const uintptr_t b = pop(stack), a = pop(stack);
    const intptr_t signed_a = (intptr_t)a, signed_b = (intptr_t)b;
    switch (operation) {
    case DW_OP_and:
        stack_push(stack, a & b);
        return true;
    case DW_OP_minus:
        stack_push(stack, a - b);
        return true;
    case DW_OP_mul:
        stack_push(stack, a * b);
        return true;
    case DW_OP_or:
        stack_push(stack, a | b);
        return true;
    case DW_OP_plus:
        stack_push(stack, a + b);
        return true;
    case DW_OP_shl:
        stack_push(stack, b < 64 ? a << b : 0);
        return true;
    case DW_OP_shr:
        stack_push(stack, b < 64 ? a >> b : 0);
        return true;
    case DW_OP_shra:
        stack_push(stack, (uintptr_t)(signed_a >> (b < 64 ? b : 63)));
        return true;
    case DW_OP_xor:
        stack_push(stack, a ^ b);
        return true;
    case DW_OP_eq:
        stack_push(stack, a == b);
        return true;
    case DW_OP_ge:
        stack_push(stack, signed_a >= signed_b);
        return true;
    case DW_OP_gt:
        stack_push(stack, signed_a > signed_b);
        return true;
    case DW_OP_le:
        stack_push(stack, signed_a <= signed_b);
        return true;
    case DW_OP_lt:
        stack_push(stack, signed_a < signed_b);
        return true;
    case DW_OP_ne:
        stack_push(stack, a != b);
        return true;
    default: // division, modulo and the conditional jump do not occur in CFI
        return false;
    }
}

static bool push_register(struct stack *stack, struct ag_byte_reader *reader, uint64_t reg,
                          const struct ag_cfi_machine *machine) {
    const int64_t offset = ag_byte_reader_sleb(reader);
    uintptr_t value;
    if (reg > UINT32_MAX || !machine->read_register(machine->context, (uint32_t)reg, &value)) {
        return false;
    }
    stack_push(stack, value + (uintptr_t)offset);
    return true;
}

/* Runs an operation that pushes a number or a register. Returns false if `operation` does
 * neither. Sets *ret_failed if the register is not available. */
static bool run_push(struct stack *stack, struct ag_byte_reader *reader, uint8_t operation,
                     const struct ag_cfi_machine *machine, bool *ret_failed) {
    if (operation >= DW_OP_lit0 && operation <= DW_OP_lit31) {
        stack_push(stack, operation - DW_OP_lit0);
        return true;
    }
    if (operation >= DW_OP_breg0 && operation <= DW_OP_breg31) {
        *ret_failed = !push_register(stack, reader, operation - DW_OP_breg0, machine);
        return true;
    }
    if (operation >= DW_OP_const1u && operation <= DW_OP_const8s) {
        stack_push(stack, read_constant(reader, operation));
        return true;
    }
    switch (operation) {
    case DW_OP_addr:
        stack_push(stack, ag_byte_reader_take(reader, 8));
        return true;
    case DW_OP_constu:
        stack_push(stack, ag_byte_reader_uleb(reader));
        return true;
    case DW_OP_consts:
        stack_push(stack, (uintptr_t)ag_byte_reader_sleb(reader));
        return true;
    case DW_OP_bregx:
        *ret_failed = !push_register(stack, reader, ag_byte_reader_uleb(reader), machine);
        return true;
    default:
        return false;
    }
}

/* Runs an operation on the topmost values. Returns false if `operation` is not supported, or if a
 * word of memory cannot be read. */
static bool run_other(struct stack *stack, struct ag_byte_reader *reader, uint8_t operation,
                      const struct ag_cfi_machine *machine) {
    uintptr_t a, b;
    switch (operation) {
    case DW_OP_deref:
        if (!machine->read_word(machine->context, pop(stack), &a)) {
            return false;
        }
        stack_push(stack, a);
        return true;
    case DW_OP_dup:
        a = pop(stack);
        stack_push(stack, a);
        stack_push(stack, a);
        return true;
    case DW_OP_drop:
        (void)pop(stack);
        return true;
    case DW_OP_over:
        b = pop(stack);
        a = pop(stack);
        stack_push(stack, a);
        stack_push(stack, b);
        stack_push(stack, a);
        return true;
    case DW_OP_swap:
        b = pop(stack);
        a = pop(stack);
        stack_push(stack, b);
        stack_push(stack, a);
        return true;
    case DW_OP_neg:
        stack_push(stack, -pop(stack));
        return true;
    case DW_OP_not:
        stack_push(stack, ~pop(stack));
        return true;
    case DW_OP_plus_uconst:
        stack_push(stack, pop(stack) + ag_byte_reader_uleb(reader));
        return true;
    case DW_OP_nop:
        return true;
    default:
        return false;
    }
}

static bool takes_two(uint8_t operation) {
    return operation >= DW_OP_and && operation <= DW_OP_ne && operation != DW_OP_neg &&
           operation != DW_OP_not && operation != DW_OP_plus_uconst;
}

bool ag_cfi_expression_evaluate(const uint8_t *expression, uint32_t bytes, const uintptr_t *start,
                                const struct ag_cfi_machine *machine, uintptr_t *ret_value) {
    struct ag_byte_reader reader = {.at = expression, .end = expression + bytes};
    struct stack stack = {.depth = 0};
    if (start != NULL) {
        stack_push(&stack, *start);
    }
    while (reader.at < reader.end) {
        const uint8_t operation = (uint8_t)ag_byte_reader_take(&reader, 1);
        bool failed = false;
        if (takes_two(operation)) {
            failed = !run_binary(&stack, operation);
        } else if (!run_push(&stack, &reader, operation, machine, &failed)) {
            failed = !run_other(&stack, &reader, operation, machine);
        }
        if (failed || stack.bad || reader.is_bad) {
            return false;
        }
    }
    const uintptr_t value = pop(&stack);
    if (stack.bad) {
        return false;
    }
    *ret_value = value;
    return true;
}
