/* sampled_pass.h: a pass over the events of a sampled trace. The ledger (the code that computes
 * sums from events) counts samples; the results of the pass are estimates with variances. */
#ifndef AG_SAMPLED_PASS_H
#define AG_SAMPLED_PASS_H

#include "model/pass/event_pass.h"
#include "model/pass/weights.h"

/* Copies the results of a closed ledger. Returns 0 or -ENOMEM. */
typedef int ag_take_results(const struct ag_ledger *ledger, struct ag_model_sums *ret_sums,
                            struct ag_live_sum **ret_live);
/* Makes the pass. LEDGER must be new, and no visitor of its steps (births and deaths of blocks) may
 * be set. The visitors in OPTIONS get each block with its weight, the number of blocks and bytes
 * that it represents. Returns 0 or -ENOMEM. */
int ag_sampled_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                    const struct ag_pass_options *options, struct ag_ledger *ledger,
                    ag_take_results *take_results, struct ag_model_sums *ret_sums,
                    struct ag_live_sum **ret_live);

#endif
