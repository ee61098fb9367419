/* filters.h: the filters --runtime=NAME and --thread=ID. The functions select the stacks of a
 * runtime, and check that a trace contains the runtime or the thread that the user named. */
#ifndef AG_FILTERS_H
#define AG_FILTERS_H

#include "model/definitions/definitions.h"
#include "model/definitions/frame_table.h"

struct ag_runtime_filter {
    const char *wanted; /* NULL: all stacks are kept */
    bool wants_native;  /* `wanted` is "c": only stacks that belong to no runtime are kept */
    /* By node (a frame in the tree of stacks): whether the node is a frame of the runtime; with
     * wants_native, whether it is a frame of any runtime. */
    bool *is_frame;
    bool *has_frame; /* by node: whether is_frame is true for the node or one of its callers */
};

/* Whether --runtime=NAME selects the stacks that belong to no runtime (NAME is "c"). */
bool ag_runtime_wants_native(const char *name);
/* Whether RUNTIME, the name of the runtime of a heap or a collection, stands for native code: the
 * name is empty, "c" or "libc". */
bool ag_runtime_is_native(const char *runtime);
/* Returns 0, or -EINVAL if NAME is not a runtime of the trace; the message then lists the runtimes
 * of the trace. TABLE: the frames that were found so far; call ag_runtime_filter_start first, which
 * finds all. NAME is NULL if there is no filter. PATH is the trace file, for the message. */
int ag_runtime_filter_check(const struct ag_definitions *definitions,
                            const struct ag_frame_table *table, const char *name, const char *path,
                            char ret_message[512]);
/* Finds the frames of all stacks in TABLE if NAME is not NULL. Returns 0 or -ENOMEM; call
 * ag_runtime_filter_end in either case. */
int ag_runtime_filter_start(struct ag_runtime_filter *filter,
                            const struct ag_definitions *definitions, struct ag_frame_table *table,
                            const char *name);
void ag_runtime_filter_end(struct ag_runtime_filter *filter);
/* Whether the filter selects a stack. NODE: the innermost node of the stack, or AG_NODE_ROOT(...).
 * HEAP: the heap of its blocks; NULL: unknown. */
bool ag_runtime_filter_keeps(const struct ag_runtime_filter *filter, uint32_t node,
                             const struct ag_model_heap *heap);

/* THREAD: the kernel's tid of the thread; -1: no filter. SUMS: the sums of the profile, computed
 * with this filter. Returns 0, or -ESRCH if the trace contains nothing from this thread; then the
 * message lists some threads that exist. */
int ag_thread_filter_check(const struct ag_definitions *definitions,
                           const struct ag_model_sums *sums, int64_t thread, const char *path,
                           char ret_message[512]);

#endif
