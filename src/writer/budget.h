/* budget.h: keeps what allogram takes under a share of the programs' CPU, by moving the interval.
 */
#ifndef AG_BUDGET_H
#define AG_BUDGET_H

#include <stdint.h>

struct ag_writer;

struct ag_budget { /* zero-initialise; what was measured at the last look */
    uint64_t next_ns;
    uint64_t spent_ns, samples_ns, programs_ns; /* spent: samples and the writer */
};
/* Call often. Does nothing where the session has no budget. */
void ag_budget_keep(struct ag_budget *budget, struct ag_writer *writer, uint64_t now_ns);

#endif
