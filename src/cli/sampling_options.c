#include "cli/sampling_options.h"

#include "base/skip.h"
#include "cli/options.h"

#define MIN_BUDGET_PERCENT 0.01

const char *const ag_sampling_option_names[] = {[AG_SAMPLING_INTERVAL] = "--interval",
                                                [AG_SAMPLING_BUDGET] = "--budget",
                                                [AG_SAMPLING_SEED] = "--seed"};

const char *ag_sampling_option_set(struct ag_session_options *session,
                                   enum ag_sampling_option option, const char *value) {
    switch (option) {
    case AG_SAMPLING_INTERVAL:
        return ag_parse_bytes(value, &session->interval_bytes) && session->interval_bytes > 0 &&
                       session->interval_bytes <= AG_INTERVAL_MAX_BYTES
                   ? NULL
                   : "not a number of bytes from 1 to 8192G, such as 512K";
    case AG_SAMPLING_BUDGET:
        return ag_parse_percent(value, &session->budget_percent) &&
                       session->budget_percent >= MIN_BUDGET_PERCENT
                   ? NULL
                   : "not a share of CPU from 0.01 to 100 percent";
    case AG_SAMPLING_SEED:
        session->has_seed = true;
        return ag_parse_count(value, &session->seed) ? NULL : "not a number from 0 to 2^64 - 1";
    }
    return NULL;
}
