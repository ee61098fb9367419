/* cfi_expression.h: evaluates the DWARF expressions that occur in CFI (call frame information, the
 * unwind tables): arithmetic on registers and stack words. */
#ifndef AG_CFI_EXPRESSION_H
#define AG_CFI_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

/* The functions by which an expression reads registers and memory. They return false if the value
 * is not available. */
struct ag_cfi_machine {
    bool (*read_register)(void *context, uint32_t reg, uintptr_t *ret_value);
    bool (*read_word)(void *context, uintptr_t address, uintptr_t *ret_value);
    void *context;
};

/* Evaluates the expression. At first the expression's stack contains *start; the stack is empty if
 * start is NULL. Returns false at an unknown operation, a stack overflow or underflow, or a value
 * that is not available. */
bool ag_cfi_expression_evaluate(const uint8_t *expression, uint32_t bytes, const uintptr_t *start,
                                const struct ag_cfi_machine *machine, uintptr_t *ret_value);

#endif
