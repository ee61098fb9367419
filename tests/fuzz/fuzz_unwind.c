/* fuzz_unwind.c: reads any bytes as .eh_frame_hdr and .eh_frame, and then as .eh_frame without a
 * header; looks up the unwind rules at a few addresses after the pc, packs them
 * (ag_frame_rule_pack), and evaluates their expressions.
 *
 *     input   | pc, relative to the header : 4 | .eh_frame_hdr | .eh_frame |
 *
 * The seeds are the tables of small programs. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/arch/arch.h"
#include "unwind/cfi_expression.h"
#include "unwind/eh_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static bool read_register(void *context, uint32_t reg, uintptr_t *ret_value) {
    (void)context;
    *ret_value = reg * 0x1000;
    return reg < 16;
}
static bool read_word(void *context, uintptr_t address, uintptr_t *ret_value) {
    (void)context;
    *ret_value = ~address;
    return address % 16 != 0;
}

/* If the rule has an expression, checks that all its bytes lie inside of the tables, and evaluates
 * it. */
static void run_rule(const struct ag_cfi_rule *rule, const struct ag_cfi_tables *tables) {
    if (rule->kind != AG_CFI_AT_EXPRESSION && rule->kind != AG_CFI_IS_EXPRESSION) {
        return;
    }
    const uintptr_t start = (uintptr_t)rule->expression;
    if (start < tables->low || start + rule->expression_bytes > tables->high) {
        __builtin_trap();
    }
    const struct ag_cfi_machine machine = {read_register, read_word, NULL};
    const uintptr_t cfa = 0x7000;
    uintptr_t value;
    (void)ag_cfi_expression_evaluate(rule->expression, rule->expression_bytes, &cfa, &machine,
                                     &value);
}

static void use_rows(const struct ag_cfi_tables *tables, uintptr_t pc) {
    for (uint32_t reg = 3; reg < 17; reg++) {
        struct ag_cfi_row row;
        struct ag_cfi_entry entry;
        if (ag_eh_frame_find(tables, pc + reg, reg, &row, &entry) == 0) {
            (void)ag_frame_rule_pack(&row, entry.is_signal_frame);
            run_rule(&row.cfa, tables);
            run_rule(&row.wanted, tables);
            run_rule(&row.return_address, tables);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    int32_t relative_pc;
    if (n_bytes < sizeof relative_pc) {
        return 0;
    }
    memcpy(&relative_pc, bytes, sizeof relative_pc);
    const size_t n = n_bytes - sizeof relative_pc;
    // a copy exactly as long as the tables, so that the sanitizer finds a read beyond the end
    uint8_t *memory = malloc(n);
    memcpy(memory, bytes + sizeof relative_pc, n);
    const uintptr_t low = (uintptr_t)memory, pc = low + (uintptr_t)(intptr_t)relative_pc;
    struct ag_cfi_tables tables = {.eh_frame_hdr = low, .low = low, .high = low + n};
    use_rows(&tables, pc);

    tables = (struct ag_cfi_tables){.low = low, .high = low + n, .places_pc = low};
    const size_t limit = ag_eh_frame_count(&tables, low, n);
    struct ag_cfi_place *places = malloc(limit * sizeof *places);
    tables.n_places = ag_eh_frame_index(&tables, low, n, places, limit);
    tables.places = places;
    use_rows(&tables, pc);
    free(places);
    free(memory);
    return 0;
}
