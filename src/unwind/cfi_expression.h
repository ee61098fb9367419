/* cfi_expression.h: DWARF expressions as they occur in CFI: arithmetic on registers and stack
 * words. */
#ifndef AG_CFI_EXPRESSION_H
#define AG_CFI_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

/* What an expression may ask for; false: not to be had. */
struct ag_cfi_machine {
    bool (*read_register)(void *context, uint32_t reg, uintptr_t *ret_value);
    bool (*read_word)(void *context, uintptr_t address, uintptr_t *ret_value);
    void *context;
};

/* Runs the expression on a stack that holds `start`, or is empty when start is NULL. false: an
 * operation that we do not know, a stack that under- or overflows, or something not to be had. */
bool ag_cfi_expression_evaluate(const uint8_t *expression, uint32_t bytes, const uintptr_t *start,
                                const struct ag_cfi_machine *machine, uintptr_t *ret_value);

#endif
