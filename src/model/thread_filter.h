/* thread_filter.h: --thread=ID: whether a trace has that thread, and which ones it has. */
#ifndef AG_THREAD_FILTER_H
#define AG_THREAD_FILTER_H

#include "model/definitions/definitions.h"

/* THREAD: its kernel tid; -1: no filter. SUMS: of the pass with the filter. Returns 0, or -ESRCH if
 * nothing in this trace is from that thread: the message lists some that exist. */
int ag_thread_filter_check(const struct ag_definitions *definitions,
                           const struct ag_model_sums *sums, int64_t thread, const char *path,
                           char ret_message[512]);

#endif
