/* function_names.c: finds functions by their name among those with function counters (counts of
 * calls, words and time), and adds up the counts of all functions with the same name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/functions.h"

/* Reports shorten a long name by writing this in place of its middle. */
static const char ellipsis[] = "…";

/* Whether SHORTENED is NAME, or NAME with its middle replaced by an ellipsis. */
static bool is_short_of(const char *name, const char *shortened) {
    const char *middle = strstr(shortened, ellipsis);
    if (!middle) {
        return strcmp(name, shortened) == 0;
    }
    const size_t length = strlen(name), before = (size_t)(middle - shortened);
    const char *rest = middle + sizeof(ellipsis) - 1;
    const size_t behind = strlen(rest);
    return length > before + behind && strncmp(name, shortened, before) == 0 &&
           strcmp(name + length - behind, rest) == 0;
}

/* Whether NAME is the name of the row, or the whole or shortened name of the row's function. The
 * runtime in brackets ("[vm] ") may precede the name. */
static bool is_called(const struct ag_function_row *row, const struct ag_frame *frame,
                      const char *name) {
    const size_t mark = strlen(frame->label) - strlen(frame->function);
    name += mark > 0 && strncmp(frame->label, name, mark) == 0 ? mark : 0;
    return is_short_of(frame->function, name) || (row->name && strcmp(row->name, name) == 0);
}

size_t ag_functions_find_named(const struct ag_functions *functions,
                               const struct ag_profile *profile, const char *name, bool *is_named) {
    size_t count = 0;
    const char *found = NULL;
    bool is_ambiguous = false;
    for (size_t i = 0; i < functions->n_rows; i++) {
        const struct ag_function_row *row = &functions->rows[i];
        const struct ag_frame *frame = ag_profile_frame(profile, row->frame);
        is_named[i] = !row->is_group && is_called(row, frame, name);
        count += is_named[i];
        if (is_named[i]) {
            is_ambiguous |= found && strcmp(found, frame->function) != 0;
            found = frame->function;
        }
    }
    if (is_ambiguous && strstr(name, ellipsis)) { /* a shortened name that fits several functions */
        memset(is_named, 0, functions->n_rows * sizeof(*is_named));
        count = 0;
    }
    return count;
}

/* Adds up the counts of all functions that IS_NAMED selects. IS_BELOW has an element for each node
 * (a function at one place of the call tree). The element is set if the node's function or one of
 * its callers is selected. */
static struct ag_call_counts add_up(const struct ag_functions *functions, const bool *is_named,
                                    bool *is_below) {
    struct ag_call_counts sum = {0};
    for (size_t i = 1; i < functions->n_nodes; i++) { /* callers have smaller indexes */
        const struct ag_function_node *node = &functions->nodes[i];
        is_below[i] = is_below[node->parent];
        if (is_named[node->row]) {
            ag_call_counts_add_own(&sum, &node->counts);
            if (!is_below[i]) {
                ag_call_counts_add_acc(&sum, &node->counts);
            }
            is_below[i] = true;
        }
    }
    return sum;
}

int ag_profile_function_counts(struct ag_profile *profile, const char *name,
                               struct ag_call_counts *ret_counts) {
    const struct ag_functions *functions;
    int r = ag_profile_functions(profile, &functions);
    if (r < 0) {
        return r;
    }
    bool *is_named = calloc(functions->n_rows + 1, sizeof(*is_named));
    bool *is_below = calloc(functions->n_nodes + 1, sizeof(*is_below));
    r = !is_named || !is_below                                             ? -ENOMEM
        : ag_functions_find_named(functions, profile, name, is_named) == 0 ? -ENOENT
                                                                           : 0;
    if (r == 0) {
        *ret_counts = add_up(functions, is_named, is_below);
    }
    free(is_named);
    free(is_below);
    return r;
}
