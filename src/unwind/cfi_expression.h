/* cfi_expression.h: evaluates DWARF expressions as they occur in CFI: arithmetic on registers and
 * stack words. */
#ifndef AG_CFI_EXPRESSION_H
#define AG_CFI_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

/* How an expression reads registers and memory. The functions return false if they cannot. */
struct ag_cfi_machine {
    bool (*read_register)(void *context, uint32_t reg, uintptr_t *ret_value);
    bool (*read_word)(void *context, uintptr_t address, uintptr_t *ret_value);
    void *context;
};

/* Evaluates the expression on a stack that holds `start`, or is empty if start is NULL. false: an
 * unknown operation, a stack over- or underflow, or a value that is not available. */
bool ag_cfi_expression_evaluate(const uint8_t *expression, uint32_t bytes, const uintptr_t *start,
                                const struct ag_cfi_machine *machine, uintptr_t *ret_value);

#endif
