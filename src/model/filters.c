/* filters.c: selects the stacks of a runtime, and checks that a trace contains the runtime of
 * --runtime and the thread of --thread, for profile.c, stack_rows.c and collections.c.
 *
 * A stack belongs to a runtime (virtual machine, collector or language) if its blocks are from a
 * heap of the runtime, or if any of its frames is of the runtime. Not only the innermost frame
 * counts, because a runtime also allocates in its own native functions. A stack may belong to
 * several runtimes: objects of a language whose collector is a library belong to both. The runtime
 * `c` selects the stacks that belong to no other runtime.
 *
 * Some frames are known from the trace (those of a virtual machine), others only from the symbol
 * file of the image (native code that a decoder recognizes). So the filter finds the frames of all
 * stacks. */
#include "model/filters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/segment.h"

/* native_name: the argument of --runtime for the stacks that belong to no runtime; also the name in
 * place of the runtime for heaps and functions that have no runtime. libc_name: the runtime of
 * malloc's heaps, whose blocks are native. */
static const char native_name[] = "c", libc_name[] = "libc";

/* ---- the names ---- */

/* The most names that a message lists. A valid trace has fewer runtimes. */
enum { NAMES_MOST = 32 };

struct names {
    const char *wanted, *list[NAMES_MOST];
    size_t count;
    bool has_wanted;
};

static void add_name(struct names *names, const char *name) {
    names->has_wanted |= strcmp(name, names->wanted) == 0;
    bool is_listed = *name == '\0' || names->count == NAMES_MOST;
    for (size_t i = 0; i < names->count && !is_listed; i++) {
        is_listed = strcmp(names->list[i], name) == 0;
    }
    if (!is_listed) {
        names->list[names->count++] = name;
    }
}

/* A trace may have hundreds of thousands of functions and only a few runtimes, so a name equal to
 * the previous one is skipped without a search in the list. */
static void find_names(const struct ag_definitions *definitions, const struct ag_frame_table *table,
                       struct names *names) {
    add_name(names, native_name);
    for (size_t i = 0; i < definitions->n_runtimes; i++) {
        add_name(names, definitions->runtimes[i].name);
    }
    for (size_t i = 0; i < definitions->n_heaps; i++) {
        add_name(names, definitions->heaps[i].runtime);
    }
    uint32_t last = 0;
    for (size_t i = 0; i < definitions->n_functions; i++) {
        if (definitions->functions[i].runtime != last) {
            last = definitions->functions[i].runtime;
            add_name(names, ag_text(&definitions->texts, last));
        }
    }
    for (size_t i = 0; i < definitions->call_trees.count; i++) {
        const struct ag_call_tree *tree = &definitions->call_trees.trees[i];
        if (tree->newest.runtime != last) {
            last = tree->newest.runtime;
            add_name(names, ag_text(&definitions->texts, last));
        }
    }
    for (size_t i = 0; i < table->n_frames; i++) {
        const struct ag_model_frame *frame = ag_frame_table_get(table, (uint32_t)i);
        if (frame->runtime != last && frame->frame.is_known) {
            last = frame->runtime;
            add_name(names, ag_text(&definitions->texts, last));
        }
    }
    const char *last_name = NULL; /* equal texts have the same address */
    for (size_t i = 0; i < definitions->n_collections; i++) {
        if (definitions->collections[i].row.runtime != last_name) {
            last_name = definitions->collections[i].row.runtime;
            add_name(names, last_name);
        }
    }
}

int ag_runtime_filter_check(const struct ag_definitions *definitions,
                            const struct ag_frame_table *table, const char *name, const char *path,
                            char ret_message[512]) {
    if (!name) {
        return 0;
    }
    struct names names = {.wanted = name};
    find_names(definitions, table, &names);
    if (names.has_wanted && *name != '\0') {
        return 0;
    }
    size_t used = (size_t)snprintf(
        ret_message, 512, "%.200s: --runtime=%.60s: the trace has no such runtime; it has:", path,
        name);
    for (size_t i = 0; i < names.count && used < 440; i++) {
        used += (size_t)snprintf(ret_message + used, 512 - used, "%s %.60s", i > 0 ? "," : "",
                                 names.list[i]);
    }
    return -EINVAL;
}

/* ---- stacks ---- */

bool ag_runtime_wants_native(const char *name) {
    return strcmp(name, native_name) == 0;
}

bool ag_runtime_is_native(const char *runtime) {
    return *runtime == '\0' || strcmp(runtime, native_name) == 0 || strcmp(runtime, libc_name) == 0;
}

int ag_runtime_filter_start(struct ag_runtime_filter *filter,
                            const struct ag_definitions *definitions, struct ag_frame_table *table,
                            const char *name) {
    *filter = (struct ag_runtime_filter){.wanted = name};
    if (!name) {
        return 0;
    }
    const struct ag_stack_nodes *nodes = &definitions->nodes;
    filter->wants_native = ag_runtime_wants_native(name);
    filter->has_frame = calloc(nodes->count + 1, sizeof(*filter->has_frame));
    filter->is_frame = calloc(nodes->count + 1, sizeof(*filter->is_frame));
    if (!filter->has_frame || !filter->is_frame) {
        return -ENOMEM;
    }
    for (size_t i = nodes->count; i-- > 0;) { /* callees first, as in ag_profile_resolve */
        const struct ag_frame_answer *answer = ag_frame_table_site(table, nodes->nodes[i].site);
        if (!answer) {
            return -ENOMEM;
        }
        for (size_t k = 0; k < answer->count && !filter->is_frame[i]; k++) {
            const struct ag_model_frame *frame =
                ag_frame_table_get(table, table->list[answer->first + k]);
            filter->is_frame[i] = filter->wants_native ? frame->runtime != table->native
                                                       : strcmp(frame->frame.runtime, name) == 0;
        }
    }
    for (size_t i = 0; i < nodes->count; i++) {
        const uint32_t parent = nodes->nodes[i].parent;
        filter->has_frame[i] =
            filter->is_frame[i] || (!AG_IS_ROOT(parent) && filter->has_frame[parent]);
    }
    return 0;
}

void ag_runtime_filter_end(struct ag_runtime_filter *filter) {
    free(filter->has_frame);
    free(filter->is_frame);
    *filter = (struct ag_runtime_filter){0};
}

bool ag_runtime_filter_keeps(const struct ag_runtime_filter *filter, uint32_t node,
                             const struct ag_model_heap *heap) {
    if (!filter->wanted) {
        return true;
    }
    const bool has_frame = !AG_IS_ROOT(node) && filter->has_frame[node];
    if (filter->wants_native) {
        return !has_frame && (!heap || ag_runtime_is_native(heap->runtime));
    }
    return has_frame || (heap && strcmp(heap->runtime, filter->wanted) == 0);
}

/* ---- --thread ---- */

/* A thread is found by the record with its name, by the sums of its allocations and frees, by its
 * garbage collections, or by its counted calls. An incomplete trace may contain only one of these
 * four. */
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
                                     n_reported > 0 ? "," : "; the trace has", known->thread_id,
                                     *name != '\0' ? " (" : "", name, *name != '\0' ? ")" : "");
            n_reported++;
        }
    }
    return -ESRCH;
}
