/* thread_filter.h: --thread=ID: whether a trace knows that thread, and which ones there are. */
#ifndef AG_THREAD_FILTER_H
#define AG_THREAD_FILTER_H

#include "model/definitions/definitions.h"

/* THREAD: its kernel tid; -1: nothing asked for. SUMS: of the pass that looked for it. 0, or -ESRCH
 * when nothing in this trace is of that thread: the message names some that are there. */
int ag_thread_filter_check(const struct ag_definitions *definitions,
                           const struct ag_model_sums *sums, int64_t thread, const char *path,
                           char ret_message[512]);

#endif
