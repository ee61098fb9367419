/* thread_filter.c: the trace knows a thread by its name, by what it allocated or freed, by a
 * collection or by counted calls. A cut trace may have only one of these. */
#include "model/thread_filter.h"

#include <errno.h>
#include <stdio.h>

#include "format/segment.h"

static bool is_known(const struct ag_definitions *definitions, const struct ag_model_sums *sums,
                     int64_t thread) {
    for (size_t i = 0; i < definitions->n_threads; i++) {
        if ((definitions->threads[i].thread_id & ~AG_THREAD_NESTED) == thread) {
            return true;
        }
    }
    for (size_t i = 0; i < sums->n_threads; i++) {
        if ((sums->threads[i].thread_id & ~AG_THREAD_NESTED) == thread) {
            return true;
        }
    }
    for (size_t i = 0; i < definitions->n_collections; i++) {
        if (definitions->collections[i].thread_id == thread) {
            return true;
        }
    }
    for (size_t i = 0; i < definitions->call_trees.count; i++) {
        if (definitions->call_trees.trees[i].newest.thread_id == thread) {
            return true;
        }
    }
    return false;
}

int ag_thread_filter_check(const struct ag_definitions *definitions,
                           const struct ag_model_sums *sums, int64_t thread, const char *path,
                           char ret_message[512]) {
    if (thread < 0 || is_known(definitions, sums, thread)) {
        return 0;
    }
    size_t used = (size_t)snprintf(ret_message, 512, "%.200s: --thread=%lld: no such thread", path,
                                   (long long)thread);
    size_t n_reported = 0;
    for (size_t i = 0; i < definitions->n_threads && used < 440; i++) {
        const struct ag_model_thread *known = &definitions->threads[i];
        if (!(known->thread_id & AG_THREAD_NESTED)) {
            const char *name = known->name;
            used += (size_t)snprintf(ret_message + used, 512 - used, "%s %u%s%.40s%s",
                                     n_reported > 0 ? "," : "; it has", known->thread_id,
                                     *name != '\0' ? " (" : "", name, *name != '\0' ? ")" : "");
            n_reported++;
        }
    }
    return -ESRCH;
}
