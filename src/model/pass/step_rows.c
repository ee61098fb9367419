/* step_rows.c: finds the row of a profile for a step of the ledger, for replay.c and findings.c.
 * The ledger has a numbered sum for each pair of a stack and a via (allocation function). The row
 * of a pair is found once in a hash map by stack and via, and later in an array by the number of
 * the sum. */
#include "model/pass/step_rows.h"

#include <stdlib.h>

#include "model/profile_state.h"

static uint64_t key_of(uint32_t stack, uint8_t via) {
    return stack | (uint64_t)via << 32;
}

int ag_step_rows_init(struct ag_step_rows *rows, const struct ag_profile *profile) {
    int r = 0;
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        const uint64_t key = key_of(profile->rows[i].stack, profile->rows[i].via);
        r = ag_index_map_insert_first(&rows->by_key, key, (uint32_t)i);
    }
    return r;
}

void ag_step_rows_done(struct ag_step_rows *rows) {
    ag_index_map_done(&rows->by_key);
    free(rows->of_sum);
    *rows = (struct ag_step_rows){0};
}

uint32_t ag_step_rows_find(const struct ag_step_rows *rows, uint32_t stack, uint8_t via) {
    return ag_index_map_find(&rows->by_key, key_of(stack, via));
}

uint32_t ag_step_rows_of(struct ag_step_rows *rows, const struct ag_step *step) {
    uint32_t *known = &rows->of_sum[step->sum];
    if (*known == 0) {
        const uint32_t row = ag_step_rows_find(rows, step->stack, step->via);
        *known = row == AG_INDEX_NONE ? UINT32_MAX : row + 1;
    }
    return *known == UINT32_MAX ? UINT32_MAX : *known - 1;
}
