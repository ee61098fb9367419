/* functions.c: merges the call trees of a trace into one tree and sums it by function, for the
 * functions view, the HTML page and exports. A call tree contains the call paths, with counts, of
 * one thread or process of a runtime (a virtual machine). A snapshot is a call tree as the trace
 * contains it. A node of the merged tree is called a place: a function as reached through certain
 * callers. The rows of the result are functions.
 *
 * 1. Each row of a snapshot has a function and a parent row. The place of the row is looked up
 *    among the places below the parent's place, and added if it is missing. So equal paths of all
 *    trees have one place. A trace is not trusted: a parent that is not among the previous rows of
 *    the snapshot is replaced by the place at which the snapshot's paths begin. So there are no
 *    cycles, and every place has a higher number than its parent.
 * 2. Filters select whole paths. The counts of a path that is not selected are set to 0. The places
 *    of this path are removed unless a selected path contains them.
 * 3. The acc counts of a place are the sum of its own counts and those of all places below it. One
 *    loop from the highest number to the lowest adds them. The acc counts of a function are the sum
 *    over its outermost places: those that are not below another place of the same function. A walk
 *    over the tree finds the outermost places: for each function, the walk counts how many places
 *    of the function are on the current path.
 * The code does not recurse, because a tree is as deep as the recursion of the program. */
#include "model/answers/functions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/profile_state.h"
#include "table/array.h"
#include "table/index_map.h"

#define NONE UINT32_MAX

/* ---- merging trees ---- */

struct builder {
    struct ag_profile *profile; /* the profile that gets the functions */
    /* the profile whose trees are read: `profile` or, if `profile` is merged from several
     * processes, the profile of one of them */
    struct ag_profile *source;
    uint32_t process; /* the number of `source` in `profile` */
    struct ag_functions *functions;
    struct ag_index_map rows; /* frame of `profile` -> row */
    /* (text of the image) << 32 | (text of the function) -> the first row with this name */
    struct ag_index_map named;
    struct ag_index_map children;   /* place << 32 | row -> place */
    struct ag_index_map own_frames; /* id of a FRAME record of `source` -> row */
    uint32_t *places;               /* by row of the current snapshot: its place */
    size_t place_capacity;
};

/* Returns the frame of builder->profile that FRAME record ID of builder->source defines. The frame
 * is copied if these two profiles differ. If the counts come from samples of an observed process,
 * file and line are removed, because they are those of the sample and not of the function's
 * beginning. */
static uint32_t frame_of(struct builder *builder, uint32_t id) {
    struct ag_frame_table *own = &builder->source->frames;
    const uint32_t frame = ag_frame_table_managed(own, id, /* line= */ 0);
    const bool is_sampled = ag_profile_observed(builder->source)->is_there;
    if (frame == AG_INDEX_NONE || (builder->source == builder->profile && !is_sampled)) {
        return frame;
    }
    struct ag_frame function = ag_frame_table_get(own, frame)->frame;
    if (is_sampled) {
        function.file = NULL;
        function.line = 0;
        function.end_column = 0;
    }
    return ag_frame_table_copy(&builder->profile->frames, &function);
}

/* Sets the row's name to the name of its function with file and line, as far as these are known.
 * false: out of memory. */
static bool name_with_place(struct builder *builder, struct ag_function_row *row) {
    const struct ag_frame *frame = ag_profile_frame(builder->profile, row->frame);
    char line[32] = "", *name = NULL;
    if (row->name) {
        return true;
    }
    if (frame->line != 0) {
        (void)snprintf(line, sizeof line, "%s%u", frame->file ? ":" : " line ", frame->line);
    }
    const int length = asprintf(&name, "%s%s%s%s", frame->function, frame->file ? " " : "",
                                frame->file ? frame->file : "", line);
    if (length < 0) {
        return false;
    }
    row->name = ag_text_keep(&builder->profile->definitions.texts, name, (size_t)length);
    free(name);
    return row->name != NULL;
}

/* If another function of the same runtime has the name of this row's function, adds file and line
 * to the names of both rows. false: out of memory. */
static bool make_distinct(struct builder *builder, uint32_t row) {
    struct ag_function_row *rows = builder->functions->rows;
    const struct ag_model_frame *model =
        ag_frame_table_get(&builder->profile->frames, rows[row].frame);
    const uint64_t name = model->function | (uint64_t)model->image << 32;
    const uint32_t first = ag_index_map_find(&builder->named, name);
    if (first == AG_INDEX_NONE) {
        return ag_index_map_insert(&builder->named, name, row) == 0;
    }
    return name_with_place(builder, &rows[first]) && name_with_place(builder, &rows[row]);
}

/* Finds or adds the row of a frame of the profile. NONE: no memory. */
static uint32_t row_of_frame(struct builder *builder, uint32_t frame) {
    struct ag_functions *functions = builder->functions;
    if (frame == AG_INDEX_NONE) {
        return NONE;
    }
    uint32_t row;
    int r = ag_index_map_number(&builder->rows, frame, &row);
    if (r == 0) {
        return row;
    }
    r = r < 0 ? r
              : AG_ARRAY_ADD(functions->rows, functions->n_rows,
                             (struct ag_function_row){.frame = frame});
    return r == 0 && make_distinct(builder, row) ? row : NONE;
}

/* Finds or adds the row of FRAME record ID of the source. NONE: no memory. */
static uint32_t row_of(struct builder *builder, uint32_t id) {
    const uint32_t known = ag_index_map_find(&builder->own_frames, id);
    if (known != AG_INDEX_NONE) {
        return known;
    }
    const uint32_t row = row_of_frame(builder, frame_of(builder, id));
    return row == NONE || ag_index_map_insert(&builder->own_frames, id, row) < 0 ? NONE : row;
}

/* Finds or adds the place of function ROW below the place PARENT. NONE: no memory. */
static uint32_t place_of(struct builder *builder, uint32_t parent, uint32_t row) {
    struct ag_functions *functions = builder->functions;
    const uint64_t key = (uint64_t)parent << 32 | row;
    const uint32_t known = ag_index_map_find(&builder->children, key);
    if (known != AG_INDEX_NONE) {
        return known;
    }
    const uint32_t made = (uint32_t)functions->n_nodes;
    const struct ag_function_node node = {.row = row,
                                          .parent = parent,
                                          .first_child = NONE,
                                          .next_sibling = functions->nodes[parent].first_child};
    if (ag_index_map_insert(&builder->children, key, made) < 0 ||
        AG_ARRAY_ADD(functions->nodes, functions->n_nodes, node) < 0) {
        return NONE;
    }
    functions->nodes[parent].first_child = made;
    return made;
}

/* Returns the place below which the paths of a snapshot begin: the root, or the place of the
 * snapshot's group (see functions.h). The row of a group has the image "[RUNTIME process]", so it
 * differs from the row of a function with the same name. NONE: out of memory. */
static uint32_t top_of(struct builder *builder, const struct ag_call_snapshot *snapshot) {
    struct ag_functions *functions = builder->functions;
    if (functions->group == AG_CALLS_TOGETHER) {
        return 0;
    }
    struct ag_text_store *texts = &builder->source->definitions.texts;
    const bool is_process = functions->group == AG_CALLS_BY_PROCESS;
    const bool is_os_process = functions->group == AG_CALLS_BY_OS_PROCESS;
    const char *name =
        is_os_process ? ag_profile_process_name(builder->profile, builder->process)
                      : ag_text(texts, is_process ? snapshot->process : snapshot->initial_call);
    const char *runtime = ag_text(texts, snapshot->runtime);
    char thread[32], image[128];
    if (!name || name[0] == '\0') {
        (void)snprintf(thread, sizeof thread, "thread %u", snapshot->thread_id);
        name = !is_process                ? "(unknown initial call)"
               : snapshot->thread_id != 0 ? thread
                                          : "(process without a name)";
    }
    (void)snprintf(image, sizeof image, "[%s process]", runtime);
    const struct ag_frame frame = {
        .function = name,
        .image = image,
        .runtime = runtime,
        /* two processes, or programs of one process, may have the same name and pid */
        .file = is_os_process ? ag_profile_process(builder->profile, builder->process)->file : NULL,
        .is_known = true};
    const uint32_t row =
        row_of_frame(builder, ag_frame_table_copy(&builder->profile->frames, &frame));
    if (row == NONE) {
        return NONE;
    }
    functions->rows[row].is_group = true;
    functions->rows[row].process = builder->process;
    functions->rows[row].n_trees++;
    return place_of(builder, /* parent= */ 0, row);
}

/* Returns the place of the parent of row AT of a snapshot. The nodes of a snapshot are normally
 * numbered 1, 2, 3 ...; then row N - 1 has node N, and BY_NODE is empty. TOP: the place of a row
 * without a valid parent. */
static uint32_t parent_place(struct builder *builder, const struct ag_call_snapshot *snapshot,
                             size_t at, uint32_t top, const struct ag_index_map *by_node) {
    const uint32_t parent = snapshot->rows[at].parent;
    if (parent == 0) {
        return top;
    }
    if (by_node->count == 0) {
        return parent - 1 < at ? builder->places[parent - 1] : top;
    }
    const uint32_t row = ag_index_map_find(by_node, parent);
    return row != AG_INDEX_NONE && row < at ? builder->places[row] : top;
}

/* If the nodes are not numbered 1, 2, 3 ..., fills BY_NODE, which maps the number of a node to its
 * row. If a number occurs twice, the first row with it is used. */
static int map_nodes(const struct ag_call_snapshot *snapshot, struct ag_index_map *by_node) {
    bool is_in_order = true;
    for (size_t i = 0; i < snapshot->n_rows && is_in_order; i++) {
        is_in_order = snapshot->rows[i].node == i + 1;
    }
    int r = 0;
    for (size_t i = 0; i < snapshot->n_rows && r == 0 && !is_in_order; i++) {
        r = ag_index_map_insert_first(by_node, snapshot->rows[i].node, (uint32_t)i);
    }
    return r;
}

static int add_paths(struct builder *builder, const struct ag_call_snapshot *snapshot,
                     const struct ag_index_map *by_node) {
    const uint32_t top = top_of(builder, snapshot);
    if (top == NONE) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < snapshot->n_rows; i++) {
        const struct ag_call_row *path = &snapshot->rows[i];
        const uint32_t row = row_of(builder, path->frame);
        const uint32_t place =
            row != NONE ? place_of(builder, parent_place(builder, snapshot, i, top, by_node), row)
                        : NONE;
        if (place == NONE) {
            return -ENOMEM;
        }
        builder->places[i] = place;
        const struct ag_call_counts counts = {.calls = path->calls,
                                              .own_words = path->own_words,
                                              .own_bytes = path->own_words * snapshot->word_bytes,
                                              .own_ns = path->own_ns};
        ag_call_counts_add_own(&builder->functions->nodes[place].counts, &counts);
    }
    return 0;
}

static void add_apart(struct ag_apart *sum, uint64_t count, uint64_t words, uint64_t word_bytes) {
    sum->count += count;
    if (words == UINT64_MAX) { /* ALLOGRAM_UNKNOWN_WORDS */
        sum->is_unknown = true;
        return;
    }
    sum->words += words;
    sum->bytes += words * word_bytes;
}

static int add_snapshot(struct builder *builder, const struct ag_call_snapshot *snapshot) {
    struct ag_functions *functions = builder->functions;
    struct ag_index_map by_node = {0};
    int r = AG_ARRAY_RESERVE(builder->places, builder->place_capacity, snapshot->n_rows);
    r = r < 0 ? r : map_nodes(snapshot, &by_node);
    r = r < 0 ? r : add_paths(builder, snapshot, &by_node);
    ag_index_map_done(&by_node);
    functions->n_trees++;
    functions->n_partial_trees += !ag_call_snapshot_is_whole(snapshot);
    const uint32_t word_bytes = snapshot->word_bytes;
    add_apart(&functions->messages, snapshot->messages, snapshot->message_words, word_bytes);
    add_apart(&functions->spawn_arguments, snapshot->spawns, snapshot->spawn_words, word_bytes);
    add_apart(&functions->profiler, snapshot->profiler_events, snapshot->profiler_words,
              word_bytes);
    return r;
}

static bool is_tree_wanted(const struct ag_profile *profile,
                           const struct ag_call_snapshot *snapshot) {
    const struct ag_profile_options *options = &profile->options;
    const char *runtime = ag_text(&profile->definitions.texts, snapshot->runtime);
    return (options->thread < 0 || options->thread == snapshot->thread_id) &&
           (!options->runtime || strcmp(options->runtime, runtime) == 0);
}

static int add_trees(struct builder *builder, struct ag_profile *source) {
    const struct ag_call_trees *trees = &source->definitions.call_trees;
    const uint32_t epoch = ag_call_trees_epoch(trees);
    builder->source = source;
    int r = 0;
    for (size_t i = 0; i < trees->count && r == 0; i++) {
        const struct ag_call_snapshot *snapshot = ag_call_tree_snapshot(&trees->trees[i]);
        if (snapshot->epoch == epoch && is_tree_wanted(source, snapshot)) {
            r = add_snapshot(builder, snapshot);
        }
    }
    ag_index_map_done(&builder->own_frames);
    return r;
}

/* ---- filters ---- */

/* Removes places from the lists of children if they and all places below them have no counts. */
static void unlink_empty(struct ag_functions *functions, uint8_t *has_any) {
    memset(has_any, 0, functions->n_nodes);
    for (size_t i = functions->n_nodes; i-- > 1;) {
        const struct ag_function_node *node = &functions->nodes[i];
        const struct ag_call_counts *counts = &node->counts;
        has_any[i] |= counts->calls != 0 || counts->own_words != 0 || counts->own_ns != 0;
        has_any[node->parent] |= has_any[i];
        functions->nodes[i].first_child = NONE;
    }
    functions->nodes[0].first_child = NONE;
    for (size_t i = functions->n_nodes; i-- > 1;) {
        struct ag_function_node *node = &functions->nodes[i];
        if (has_any[i]) {
            node->next_sibling = functions->nodes[node->parent].first_child;
            functions->nodes[node->parent].first_child = (uint32_t)i;
        }
    }
}

/* Removes the counts of paths that --focus and --ignore exclude. A merged profile has no compiled
 * expressions of its own; those of the first process are used. */
static int filter(struct builder *builder) {
    struct ag_profile *profile = builder->profile;
    const struct ag_profile *options = profile->n_parts > 0 ? profile->parts[0].profile : profile;
    struct ag_functions *functions = builder->functions;
    if (!options->has_focus && !options->has_ignore) {
        return 0;
    }
    enum { FOCUSED = 1, IGNORED = 2 };
    uint8_t *of_row = calloc(functions->n_rows + 1, 1);
    uint8_t *of_node = calloc(functions->n_nodes + 1, 1);
    if (!of_row || !of_node) {
        free(of_row);
        free(of_node);
        return -ENOMEM;
    }
    for (size_t i = 0; i < functions->n_rows; i++) {
        const struct ag_frame *frame = ag_profile_frame(profile, functions->rows[i].frame);
        if (functions->rows[i].is_group) {
            continue; /* a group is not a function, so the expressions do not apply */
        }
        of_row[i] |= options->has_focus && ag_frame_matches(&options->focus, frame) ? FOCUSED : 0;
        of_row[i] |= options->has_ignore && ag_frame_matches(&options->ignore, frame) ? IGNORED : 0;
    }
    for (size_t i = 1; i < functions->n_nodes; i++) {
        struct ag_function_node *node = &functions->nodes[i];
        of_node[i] = of_node[node->parent] | of_row[node->row];
        if ((options->has_focus && !(of_node[i] & FOCUSED)) || of_node[i] & IGNORED) {
            node->counts = (struct ag_call_counts){0};
        }
    }
    free(of_row);
    unlink_empty(functions, of_node);
    free(of_node);
    return 0;
}

/* ---- adding up ---- */

static void add_up_nodes(struct ag_functions *functions) {
    /* children have higher numbers than their parents */
    for (size_t i = functions->n_nodes; i-- > 0;) {
        struct ag_function_node *node = &functions->nodes[i];
        node->counts.acc_words += node->counts.own_words;
        node->counts.acc_bytes += node->counts.own_bytes;
        node->counts.acc_ns += node->counts.own_ns;
        if (i > 0) {
            ag_call_counts_add_acc(&functions->nodes[node->parent].counts, &node->counts);
            ag_call_counts_add_own(&functions->rows[node->row].counts, &node->counts);
            ag_call_counts_add_own(&functions->total, &node->counts);
        }
    }
    ag_call_counts_add_acc(&functions->total, &functions->nodes[0].counts);
}

/* Called for each place, callers before callees. ON_PATH: by row, how many places of the row are on
 * the path from the root to the caller of the place. */
typedef int visit_place(void *context, const struct ag_functions *functions, uint32_t node,
                        const uint32_t *on_path);

/* Visits all places. Descends by first_child and returns by `parent`, so that no stack is needed.
 * Ends when VISIT returns a negative errno. */
static int walk_places(const struct ag_functions *functions, visit_place *visit, void *context) {
    const struct ag_function_node *nodes = functions->nodes;
    uint32_t *on_path = calloc(functions->n_rows + 1, sizeof(*on_path));
    int r = on_path ? 0 : -ENOMEM;
    uint32_t at = nodes[0].first_child;
    while (at != NONE && at != 0 && r == 0) {
        r = visit(context, functions, at, on_path);
        on_path[nodes[at].row]++;
        uint32_t next = nodes[at].first_child;
        while (next == NONE && at != 0) {
            on_path[nodes[at].row]--;
            next = nodes[at].next_sibling;
            at = next == NONE ? nodes[at].parent : at;
        }
        at = next;
    }
    free(on_path);
    return r;
}

/* Adds the acc counts of a place to its function, unless the same function is on the path above the
 * place (section 3 at the top of this file). */
static int add_up_row(void *rows, const struct ag_functions *functions, uint32_t node,
                      const uint32_t *on_path) {
    const struct ag_function_node *place = &functions->nodes[node];
    if (on_path[place->row] == 0) {
        ag_call_counts_add_acc(&((struct ag_function_row *)rows)[place->row].counts,
                               &place->counts);
    }
    return 0;
}

/* A group has no counts of its own, so its row gets the sums of all places below it. */
static int add_up_groups(struct ag_functions *functions) {
    /* by node: the row of its group */
    uint32_t *group_of = calloc(functions->n_nodes, sizeof(*group_of));
    if (!group_of) {
        return -ENOMEM;
    }
    for (size_t i = 1; i < functions->n_nodes; i++) {
        const struct ag_function_node *node = &functions->nodes[i];
        group_of[i] = node->parent == 0 ? node->row : group_of[node->parent];
        functions->rows[group_of[i]].counts.calls += node->counts.calls;
    }
    free(group_of);
    for (size_t i = 0; i < functions->n_rows; i++) {
        struct ag_call_counts *counts = &functions->rows[i].counts;
        if (functions->rows[i].is_group) {
            counts->own_words = counts->acc_words;
            counts->own_bytes = counts->acc_bytes;
            counts->own_ns = counts->acc_ns;
        }
    }
    return 0;
}

/* Returns an array with the place of the caller of each place. A place whose parent has the same
 * function (direct recursion) gets the caller of its parent, so all places of such a chain have the
 * caller of the outermost one. NULL: out of memory. */
static uint32_t *find_outer_callers(const struct ag_functions *functions) {
    uint32_t *callers = calloc(functions->n_nodes + 1, sizeof(*callers));
    for (size_t i = 1; callers && i < functions->n_nodes; i++) {
        const uint32_t parent = functions->nodes[i].parent;
        const bool is_recursion =
            parent != 0 && functions->nodes[parent].row == functions->nodes[i].row;
        callers[i] = is_recursion ? callers[parent] : parent;
    }
    return callers;
}

static int add_up(struct builder *builder) {
    struct ag_functions *functions = builder->functions;
    builder->profile->outer_callers = find_outer_callers(functions);
    if (!builder->profile->outer_callers) {
        return -ENOMEM;
    }
    add_up_nodes(functions);
    const int r = walk_places(functions, add_up_row, functions->rows);
    return r == 0 && functions->group != AG_CALLS_TOGETHER ? add_up_groups(functions) : r;
}

static int build(struct builder *builder) {
    struct ag_profile *profile = builder->profile;
    const struct ag_profile *options = profile->n_parts > 0 ? profile->parts[0].profile : profile;
    builder->functions->group = options->options.call_group;
    const struct ag_function_node root = {
        .row = NONE, .parent = NONE, .first_child = NONE, .next_sibling = NONE};
    int r = AG_ARRAY_ADD(builder->functions->nodes, builder->functions->n_nodes, root);
    if (r == 0 && profile->n_parts == 0) {
        r = add_trees(builder, profile);
    }
    for (size_t p = 0; p < profile->n_parts && r == 0; p++) {
        builder->process = (uint32_t)p;
        r = add_trees(builder, profile->parts[p].profile);
    }
    r = r < 0 ? r : filter(builder);
    return r < 0 ? r : add_up(builder);
}

int ag_profile_functions(struct ag_profile *profile, const struct ag_functions **ret_functions) {
    if (!profile->has_functions) {
        struct builder builder = {.profile = profile, .functions = &profile->functions};
        const int r = build(&builder);
        ag_index_map_done(&builder.rows);
        ag_index_map_done(&builder.named);
        ag_index_map_done(&builder.children);
        free(builder.places);
        if (r < 0) {
            ag_functions_end(profile);
            return r;
        }
        profile->has_functions = true;
    }
    *ret_functions = &profile->functions;
    return 0;
}

void ag_functions_end(struct ag_profile *profile) {
    free(profile->functions.rows);
    free(profile->functions.nodes);
    free(profile->outer_callers);
    profile->functions = (struct ag_functions){0};
    profile->outer_callers = NULL;
}

/* ---- callers ---- */

/* Adds the own counts of the functions that IS_NAMED selects to the rows of their callers. The last
 * element of ROWS is for places without a caller. */
static void add_up_callers(const struct ag_profile *profile, const bool *is_named,
                           struct ag_caller_row *rows) {
    const struct ag_functions *functions = &profile->functions;
    for (size_t i = 1; i < functions->n_nodes; i++) {
        const struct ag_function_node *node = &functions->nodes[i];
        if (is_named[node->row]) {
            const uint32_t caller = profile->outer_callers[i];
            struct ag_caller_row *row =
                &rows[caller != 0 ? functions->nodes[caller].row : functions->n_rows];
            row->calls += node->counts.calls;
            row->words += node->counts.own_words;
            row->bytes += node->counts.own_bytes;
            row->ns += node->counts.own_ns;
        }
    }
}

int ag_profile_callers(struct ag_profile *profile, const char *name,
                       struct ag_caller_row **ret_rows, size_t *ret_count) {
    const struct ag_functions *functions;
    int r = ag_profile_functions(profile, &functions);
    if (r < 0) {
        return r;
    }
    bool *is_named = calloc(functions->n_rows + 1, sizeof(*is_named));
    struct ag_caller_row *rows = calloc(functions->n_rows + 1, sizeof(*rows));
    r = !is_named || !rows                                                 ? -ENOMEM
        : ag_functions_find_named(functions, profile, name, is_named) == 0 ? -ENOENT
                                                                           : 0;
    if (r < 0) {
        free(is_named);
        free(rows);
        return r;
    }
    add_up_callers(profile, is_named, rows);
    size_t count = 0;
    for (size_t i = 0; i <= functions->n_rows; i++) {
        const struct ag_caller_row row = rows[i];
        if (row.calls != 0 || row.words != 0 || row.ns != 0) {
            rows[count] = row;
            rows[count++].row = i < functions->n_rows ? (uint32_t)i : NONE;
        }
    }
    free(is_named);
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

/* ---- callers and callees ---- */

/* Sums the paths of all functions by pairs of caller and callee (edges), for views that show the
 * callers of every function. Summing the paths takes one loop over the places and one walk;
 * ag_profile_callers would need a loop for each function. */

struct edge_list {
    struct ag_index_map by_pair; /* callee << 32 | caller (NONE: no caller) -> index in edges */
    struct ag_call_edge *edges;
    size_t count;
};

/* Finds or adds the edge of a pair. NULL: no memory. */
static struct ag_call_edge *edge_of(struct edge_list *list, uint32_t caller, uint32_t callee) {
    const uint64_t pair = (uint64_t)callee << 32 | caller;
    uint32_t at;
    int r = ag_index_map_number(&list->by_pair, pair, &at);
    r = r > 0 ? AG_ARRAY_ADD(list->edges, list->count,
                             (struct ag_call_edge){.caller = caller, .callee = callee})
              : r;
    return r < 0 ? NULL : &list->edges[at];
}

static uint32_t row_of_node(const struct ag_functions *functions, uint32_t node) {
    return node != 0 ? functions->nodes[node].row : NONE;
}

static int add_own(struct edge_list *list, const struct ag_functions *functions,
                   const uint32_t *outer_callers) {
    for (size_t i = 1; i < functions->n_nodes; i++) {
        const struct ag_function_node *node = &functions->nodes[i];
        struct ag_call_edge *edge =
            edge_of(list, row_of_node(functions, outer_callers[i]), node->row);
        if (!edge) {
            return -ENOMEM;
        }
        edge->calls += node->counts.calls;
        edge->own_words += node->counts.own_words;
        edge->own_ns += node->counts.own_ns;
    }
    return 0;
}

/* Adds the acc counts of a place to the edge from its caller, unless the caller's function occurs a
 * second time on the path above the place. */
static int add_acc(void *context, const struct ag_functions *functions, uint32_t node,
                   const uint32_t *on_path) {
    const uint32_t parent = functions->nodes[node].parent;
    if (parent != 0 && on_path[functions->nodes[parent].row] != 1) {
        return 0;
    }
    struct ag_call_edge *edge =
        edge_of(context, row_of_node(functions, parent), functions->nodes[node].row);
    if (!edge) {
        return -ENOMEM;
    }
    edge->acc_words += functions->nodes[node].counts.acc_words;
    edge->acc_ns += functions->nodes[node].counts.acc_ns;
    return 0;
}

static int by_callee(const void *a, const void *b) {
    const struct ag_call_edge *left = a, *right = b;
    return left->callee != right->callee   ? (left->callee > right->callee ? 1 : -1)
           : left->caller != right->caller ? (left->caller > right->caller ? 1 : -1)
                                           : 0;
}

int ag_profile_call_edges(struct ag_profile *profile, struct ag_call_edge **ret_edges,
                          size_t *ret_count) {
    const struct ag_functions *functions;
    struct edge_list list = {0};
    int r = ag_profile_functions(profile, &functions);
    r = r < 0 ? r : add_own(&list, functions, profile->outer_callers);
    r = r < 0 ? r : walk_places(functions, add_acc, &list);
    ag_index_map_done(&list.by_pair);
    if (r < 0) {
        free(list.edges);
        return r;
    }
    if (list.count > 0) {
        qsort(list.edges, list.count, sizeof(*list.edges), by_callee);
    }
    *ret_edges = list.edges;
    *ret_count = list.count;
    return 0;
}
