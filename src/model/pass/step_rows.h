/* step_rows.h: maps a step of the ledger (the birth or death of a block) to its row of the profile.
 * A row has a stack and a via (the allocation function). A step whose stack the filters exclude has
 * no row. */
#ifndef AG_STEP_ROWS_H
#define AG_STEP_ROWS_H

#include "ledger/ledger.h"
#include "model/profile.h"
#include "table/array.h"
#include "table/index_map.h"

struct ag_step_rows {
    struct ag_index_map by_key; /* stack | via << 32 -> row */
    /* by number of the ledger's sum (step->sum): row + 1; 0: not looked up yet; UINT32_MAX: no
     * row */
    uint32_t *of_sum;
    size_t n_sums;
};

/* *ROWS must be zero-initialized. Returns 0 or -ENOMEM; in either case the caller calls
 * ag_step_rows_done. */
int ag_step_rows_init(struct ag_step_rows *rows, const struct ag_profile *profile);
void ag_step_rows_done(struct ag_step_rows *rows);
uint32_t ag_step_rows_find(const struct ag_step_rows *rows, uint32_t stack,
                           uint8_t via); /* AG_INDEX_NONE: no row */
/* Returns the row of a step; UINT32_MAX: no row. The caller must first extend rows->of_sum with
 * AG_ARRAY_EXTEND to step->sum + 1 elements. */
uint32_t ag_step_rows_of(struct ag_step_rows *rows, const struct ag_step *step);

#endif
