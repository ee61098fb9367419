/* budget.h: keeps allogram's cost below a share of the programs' CPU time by adjusting the sampling
 * interval (the mean number of allocated bytes between two samples). */
#ifndef AG_BUDGET_H
#define AG_BUDGET_H

#include <stdint.h>

struct ag_writer;

struct ag_budget {    /* zero-initialize */
    uint64_t next_ns; /* CLOCK_MONOTONIC of the next measurement */
    /* the CPU times when the current period began: */
    uint64_t samples_ns;  /* what samples had cost the recorded processes */
    uint64_t spent_ns;    /* samples_ns and the CPU time of the writer process */
    uint64_t programs_ns; /* CPU time of the recorded processes */
};
/* Adjusts the interval if next_ns has been reached and the programs have used enough CPU time in
 * the current period. A new period begins after an adjustment, and when a process has ended. Call
 * often. Does nothing if the user set no budget. */
void ag_budget_keep(struct ag_budget *budget, struct ag_writer *writer, uint64_t now_ns);

#endif
