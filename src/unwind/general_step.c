/* general_step.c: steps from a frame to its caller by a CFI row (a row of the DWARF call frame
 * table), for stack_walker.c. This step is slow. It is only used for the few rows that a packed
 * rule (32 bits, see frame_step_fast.h) cannot express.
 *
 * Such rows occur where a signal interrupts a prologue that realigns the stack (CFA = r10), in
 * ld.so's lazy binder (CFA = rbx), which may allocate, and in hand-written assembler (CFA in a
 * stack slot or any register). They are 0.06 % of libc's rows, 2 % of ld.so's and 0.6 % of
 * libcrypto's. This step is also used where a function starts at pc and the function before it ends
 * without a call (AG_OTHER_START): such a frame is the outermost one, unless the frame before it in
 * the walk is that of a signal.
 *
 * A walk computes pc, sp and the frame pointer of each frame. The value of any other register was
 * saved by one of the frames between the current frame and the start of the walk. The rows of these
 * frames are searched, from the current frame inward, until a frame is found that saved the
 * register, or a signal frame, in which the kernel saved all registers. If no frame saved the
 * register, its value is only in the CPU, and the step fails. */
#include "unwind/general_step.h"

#include "unwind/cfi_expression.h"

struct general {
    struct ag_unwind_space *space;
    const struct ag_new_frame *frames;
    uint32_t last;
    ag_read_word_fn *read;
    void *context;
};

static bool read_word(void *context, uintptr_t address, uintptr_t *ret_value) {
    const struct general *general = context;
    return general->read(general->context, address, AG_WORD_OTHER, ret_value);
}

/* Reads the value that register `reg` had in frames[last]. */
static bool read_register(void *context, uint32_t reg, uintptr_t *ret_value) {
    const struct general *general = context;
    if (ag_registers_get(&general->frames[general->last].registers, reg, ret_value)) {
        return true;
    }
    for (uint32_t i = general->last; i-- > 0;) {
        const struct ag_new_frame *callee = &general->frames[i];
        const uintptr_t callee_cfa = callee[1].registers.sp;
        uintptr_t offset;
        if (AG_RULE_KIND(AG_PC_RULE(callee->value)) == AG_RULE_SIGNAL) {
            return ag_signal_register_offset(reg, &offset) &&
                   read_word(context, callee->registers.sp + offset, ret_value);
        }
        struct ag_cfi_row row;
        struct ag_cfi_entry entry;
        if (!ag_register_is_preserved(reg) ||
            ag_unwind_space_find_row(general->space, callee->registers.pc, reg, &row, &entry,
                                     /* ret_expressions= */ NULL) < 0) {
            return false;
        }
        if (row.wanted.kind == AG_CFI_AT_CFA) {
            return read_word(context, callee_cfa + (uintptr_t)row.wanted.offset, ret_value);
        }
        if (row.wanted.kind != AG_CFI_SAME) {
            return false;
        }
    }
    return false;
}

static bool evaluate(struct general *general, const struct ag_cfi_rule *rule, const uintptr_t *cfa,
                     uintptr_t *ret_value) {
    const struct ag_cfi_machine machine = {read_register, read_word, general};
    return ag_cfi_expression_evaluate(rule->expression, rule->expression_bytes, cfa, &machine,
                                      ret_value);
}

/* Computes a register of the caller by a rule. `reg`: the number of the register, which is needed
 * for AG_CFI_SAME. */
static bool apply_rule(struct general *general, const struct ag_cfi_rule *rule, uintptr_t cfa,
                       uint32_t reg, enum ag_word_role role, uintptr_t *ret_value) {
    uintptr_t address;
    switch ((enum ag_cfi_rule_kind)rule->kind) {
    case AG_CFI_SAME:
    case AG_CFI_UNDEFINED: // undefined: no outer frame reads the register
        return read_register(general, reg, ret_value);
    case AG_CFI_AT_CFA:
        return general->read(general->context, cfa + (uintptr_t)rule->offset, role, ret_value);
    case AG_CFI_IS_CFA:
        *ret_value = cfa + (uintptr_t)rule->offset;
        return true;
    case AG_CFI_IN_REGISTER:
        return read_register(general, rule->reg, ret_value);
    case AG_CFI_AT_EXPRESSION:
        return evaluate(general, rule, &cfa, &address) &&
               general->read(general->context, address, role, ret_value);
    case AG_CFI_IS_EXPRESSION:
        return evaluate(general, rule, &cfa, ret_value);
    }
    return false;
}

static bool find_cfa(struct general *general, const struct ag_cfi_rule *rule, uintptr_t *ret_cfa) {
    uintptr_t base;
    if (rule->kind == AG_CFI_IS_EXPRESSION) {
        return evaluate(general, rule, NULL, ret_cfa);
    }
    if (rule->kind != AG_CFI_IN_REGISTER || !read_register(general, rule->reg, &base)) {
        return false;
    }
    *ret_cfa = base + (uintptr_t)rule->offset;
    return true;
}

/* Whether a signal interrupted the code of frames[last]. */
static bool is_interrupted(const struct ag_new_frame *frames, uint32_t last) {
    return last > 0 && AG_RULE_KIND(AG_PC_RULE(frames[last - 1].value)) == AG_RULE_SIGNAL;
}

AG_COLD enum ag_step_result ag_general_step(struct ag_unwind_space *space,
                                            const struct ag_new_frame *frames, uint32_t last,
                                            ag_read_word_fn *read, void *context,
                                            struct ag_registers *ret_registers) {
    struct general general = {space, frames, last, read, context};
    const struct ag_registers *registers = &frames[last].registers;
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    struct ag_row_expressions expressions;
    struct ag_registers caller;
    uintptr_t cfa;
    if (AG_PC_RULE(frames[last].value) == AG_RULE_START && !is_interrupted(frames, last)) {
        return AG_STEP_END;
    }
    if (ag_unwind_space_find_row(space, registers->pc, AG_DWARF_FRAME_POINTER, &row, &entry,
                                 &expressions) < 0 ||
        !find_cfa(&general, &row.cfa, &cfa) ||
        !apply_rule(&general, &row.wanted, cfa, AG_DWARF_FRAME_POINTER, AG_WORD_OTHER,
                    &caller.rbp) ||
        row.return_address.kind == AG_CFI_SAME ||
        !apply_rule(&general, &row.return_address, cfa, AG_DWARF_RETURN_ADDRESS,
                    AG_WORD_RETURN_ADDRESS, &caller.pc)) {
        return AG_STEP_FAILED;
    }
    caller.sp = cfa;
    if (entry.is_signal_frame) { // the interrupted code may be on another stack
        if (ag_unwind_space_find_row(space, registers->pc, AG_DWARF_STACK_POINTER, &row, &entry,
                                     &expressions) < 0 ||
            (row.wanted.kind != AG_CFI_SAME &&
             !apply_rule(&general, &row.wanted, cfa, AG_DWARF_STACK_POINTER, AG_WORD_OTHER,
                         &caller.sp))) {
            return AG_STEP_FAILED;
        }
        caller.pc++; // a frame's pc is one more than the address of an interrupted instruction
    } else if (cfa < registers->sp ||
               cfa % sizeof(uintptr_t) != 0) { // cfa == sp if a register has the return address
        return AG_STEP_FAILED;
    }
    *ret_registers = caller;
    return AG_STEP_CALLER;
}
