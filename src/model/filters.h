/* filters.h: --runtime=NAME: which stacks belong to a runtime, and which names exist; --thread=ID:
 * whether a trace has that thread, and which ones it has. */
#ifndef AG_FILTERS_H
#define AG_FILTERS_H

#include "model/definitions/definitions.h"

struct ag_runtime_filter {
    const char *wanted; /* NULL: all stacks are kept */
    bool wants_native;
    bool *has_frame; /* by node: from it outward a frame of the runtime; wants_native: a managed one
                      */
};

/* Returns 0, or -EINVAL if NAME (NULL: no filter) is no runtime of this trace: the message lists
 * those that are. */
int ag_runtime_filter_check(const struct ag_definitions *definitions, const char *name,
                            const char *path, char ret_message[512]);
/* 0 or -ENOMEM; end it in any case. */
int ag_runtime_filter_start(struct ag_runtime_filter *filter,
                            const struct ag_definitions *definitions, const char *name);
void ag_runtime_filter_end(struct ag_runtime_filter *filter);
/* NODE: the innermost of a stack, or AG_NODE_ROOT; HEAP: that its blocks are from, or NULL. */
bool ag_runtime_filter_keeps(const struct ag_runtime_filter *filter, uint32_t node,
                             const struct ag_model_heap *heap);

/* THREAD: its kernel tid; -1: no filter. SUMS: of the pass with the filter. Returns 0, or -ESRCH if
 * nothing in this trace is from that thread: the message lists some that exist. */
int ag_thread_filter_check(const struct ag_definitions *definitions,
                           const struct ag_model_sums *sums, int64_t thread, const char *path,
                           char ret_message[512]);

#endif
