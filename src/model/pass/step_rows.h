/* step_rows.h: maps a step of the ledger to its row of the profile. The (stack, via) of a step is
 * looked up once, by the ledger's own dense number of the sum; steps that the filters left out have
 * no row. */
#ifndef AG_STEP_ROWS_H
#define AG_STEP_ROWS_H

#include "ledger/ledger.h"
#include "model/profile.h"
#include "table/array.h"
#include "table/index_map.h"

struct ag_step_rows {
    struct ag_index_map by_key; /* stack | via << 32 -> row */
    uint32_t *of_sum;           /* row + 1; 0: not looked up yet; UINT32_MAX: none */
    size_t n_sums;
};

/* Zeroed before. 0 or -ENOMEM; to be ended in either case. */
int ag_step_rows_init(struct ag_step_rows *rows, const struct ag_profile *profile);
void ag_step_rows_done(struct ag_step_rows *rows);
uint32_t ag_step_rows_find(const struct ag_step_rows *rows, uint32_t stack,
                           uint8_t via); /* AG_INDEX_NONE: none */
/* The row of a step for whose sum AG_ARRAY_EXTEND has made room; UINT32_MAX: none. */
uint32_t ag_step_rows_of(struct ag_step_rows *rows, const struct ag_step *step);

#endif
