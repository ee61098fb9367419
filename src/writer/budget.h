/* budget.h: keeps allogram's cost below a share of the programs' CPU time by adjusting the sampling
 * interval. */
#ifndef AG_BUDGET_H
#define AG_BUDGET_H

#include <stdint.h>

struct ag_writer;

struct ag_budget { /* zero-initialise; sums at the previous measurement */
    uint64_t next_ns;
    uint64_t spent_ns, samples_ns, programs_ns; /* spent: samples plus the writer */
};
/* Call often. Does nothing when the session has no budget. */
void ag_budget_keep(struct ag_budget *budget, struct ag_writer *writer, uint64_t now_ns);

#endif
