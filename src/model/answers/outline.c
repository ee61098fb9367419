/* outline.c: selects the heaviest part of a profile's call tree, which the page of `allogram view`
 * shows.
 *
 * The weight of a stack is the largest of its five shares of the whole profile: of allocated bytes,
 * allocated blocks, bytes in use at the end, bytes at the peak, and temporary blocks. The weight of
 * a node is the sum over all stacks that contain it. So the weight of a parent is at least that of
 * its child, and the nodes whose weight is above a limit form a tree. The outline contains these
 * ("kept") nodes. The lowest limit with few enough nodes is found by bisection. The bisection needs
 * about forty loops over the nodes, which take half a second for three million nodes.
 *
 * A merged profile has nodes of its own for each process. Nodes with the same frames on the way to
 * the root are one node of the outline, so their weights and rows are added up at the first of them
 * (the twin of the others). Otherwise the tree of a hundred equal processes would be cut as if it
 * had a hundred times more nodes. */
#include "model/answers/outline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/collections.h"
#include "model/answers/known_blocks.h"
#include "model/metric.h"
#include "model/profile_state.h"
#include "table/array.h"

enum {
    HALVINGS = 40,
    VIA_BITS = 8,
    ATTEMPTS = 8,
    /* this many labels with the largest weights always get groups of their own, even if fewer nodes
     * can then be kept */
    LABELS_ALWAYS = 8,
    /* at most this many labels get groups of their own, and only as long as at least half of the
     * groups remain for other stacks */
    LABELS_MOST = 256,
    /* Values of label_of_row. NO_LABEL: the row has no label. OTHER_LABELS: the row is in a group
     * for other labels. All other values are FIRST_LABEL + index in definitions->labels. */
    NO_LABEL = 0,
    OTHER_LABELS = 1,
    FIRST_LABEL = 2,
};
const char ag_outline_other_labels[] = "other labels";

struct cutting {
    struct ag_profile *profile;
    struct ag_outline *outline;
    /* by node: the first node with the same frames on the way to the root; NULL: the profile is of
     * one process, and each node is its own twin */
    uint32_t *twin;
    /* by node, for nodes that are their own twins: sum of the weights of all stacks that contain
     * it */
    double *weight;
    /* by node, for nodes that are their own twins: number of rows (stacks of the profile) that end
     * in it */
    uint32_t *rows_at;
    /* For nodes that are their own twins. has_other_labels: by node, whether rows with OTHER_LABELS
     * end in the node. has_cut_child: by node, whether a child of the node is not kept. */
    uint8_t *has_other_labels, *has_cut_child;
    const uint32_t *label_of_row; /* NULL: no block has a label */
    const uint32_t *left_out;     /* by site, see ag_profile_left_out (blamed_lines.h) */
    /* by node: the node of the outline (called place) that shows it */
    uint32_t *place;
    double limit;
    /* place << 32 | frame -> place; the frame has the bit LEFT_OUT if folding leaves it out */
    struct ag_index_map by_step;
    /* The next five maps find the group of a row. One key cannot contain all properties of a group,
     * so each map adds one property to the number that the previous map has for the row. */
    struct ag_index_map by_via; /* place << VIA_BITS | via (allocation function) -> a number */
    /* (number that by_via has for the row) << 32 | frame of the blamed line -> another number; the
     * frame has the bit IS_KNOWN if the group is of known blocks */
    struct ag_index_map by_line;
    /* for rows with a label: (number that by_line has for the row) << 32 | label -> another
     * number */
    struct ag_index_map by_label;
    /* for rows of other processes than the first: (number that by_label has for the row or, for a
     * row without a label, the one that by_line has) << 32 | process -> another number */
    struct ag_index_map by_process;
    /* number << 32 | text of the type -> group. The number is the one that the last of the maps
     * above has for the row. */
    struct ag_index_map by_group;
    uint32_t n_numbers;
};

/* ---- weights ---- */

static double share(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static double greatest(double a, double b) {
    return a > b ? a : b;
}

static double weight_of(const struct ag_metrics *part, const struct ag_metrics *whole) {
    double weight = share(part->allocated_bytes, whole->allocated_bytes);
    weight = greatest(weight, share(part->allocated_blocks, whole->allocated_blocks));
    weight = greatest(weight, share(part->in_use_bytes, whole->in_use_bytes));
    weight = greatest(weight, share(part->peak_bytes, whole->peak_bytes));
    return greatest(weight, share(part->temporary_blocks, whole->temporary_blocks));
}

static uint32_t label_of(const struct cutting *cutting, size_t row) {
    return cutting->label_of_row ? cutting->label_of_row[row] : NO_LABEL;
}

static uint32_t twin_of(const struct cutting *cutting, uint32_t node) {
    return cutting->twin ? cutting->twin[node] : node;
}

/* Finds the twins of the nodes of a merged profile. The key of a node is a hash of its frames and
 * of the twin of its parent; two different nodes have the same hash with a probability of 2^-64.
 * */
static int find_twins(struct cutting *cutting) {
    struct ag_profile *profile = cutting->profile;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    struct ag_index_map known = {0};
    int r = 0;
    cutting->twin = calloc(nodes->count + 1, sizeof(*cutting->twin));
    if (!cutting->twin) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < nodes->count && r == 0; i++) {
        size_t n;
        const uint32_t *frames = ag_profile_node_frames(profile, i, &n);
        const uint32_t parent = nodes->nodes[i].parent;
        const uint64_t key =
            ag_keyed_hash_pair(ag_keyed_hash_bytes(frames, n * sizeof(*frames)),
                               (uint64_t)cutting->left_out[nodes->nodes[i].site] << 32 |
                                   (AG_IS_ROOT(parent) ? parent : cutting->twin[parent]));
        const uint32_t found = ag_index_map_find(&known, key);
        cutting->twin[i] = found != AG_INDEX_NONE ? found : i;
        r = found != AG_INDEX_NONE ? 0 : ag_index_map_insert(&known, key, i);
    }
    ag_index_map_done(&known);
    return r;
}

static void weigh(struct cutting *cutting, const struct ag_metrics *whole) {
    const struct ag_profile *profile = cutting->profile;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    for (size_t i = 0; i < profile->n_rows; i++) {
        if (!AG_IS_ROOT(profile->row_nodes[i])) {
            const uint32_t node = twin_of(cutting, profile->row_nodes[i]);
            const bool is_other = label_of(cutting, i) == OTHER_LABELS;
            cutting->weight[node] += weight_of(&profile->rows[i].metrics, whole);
            cutting->rows_at[node] += !(is_other && cutting->has_other_labels[node]);
            cutting->has_other_labels[node] |= is_other;
        }
    }
    for (size_t i = nodes->count; i-- > 0;) {
        if (!AG_IS_ROOT(nodes->nodes[i].parent)) {
            cutting->weight[twin_of(cutting, nodes->nodes[i].parent)] += cutting->weight[i];
        }
    }
}

static bool is_kept(const struct cutting *cutting, uint32_t node) {
    const double weight = cutting->weight[twin_of(cutting, node)];
    return weight > 0 && weight >= cutting->limit;
}

/* Returns whether the nodes with at least weight LIMIT, and their groups, are few enough. Sets
 * cutting->limit and has_cut_child. */
static bool fits(struct cutting *cutting, double limit, size_t most_nodes, size_t most_groups) {
    const struct ag_stack_nodes *nodes = &cutting->profile->definitions.nodes;
    size_t n_nodes = 0, n_groups = 0;
    cutting->limit = limit;
    memset(cutting->has_cut_child, 0, nodes->count);
    for (size_t i = nodes->count; i-- > 0;) {
        if (twin_of(cutting, (uint32_t)i) != i) {
            continue;
        }
        if (is_kept(cutting, (uint32_t)i)) {
            n_nodes++;
            n_groups += cutting->rows_at[i] + cutting->has_cut_child[i];
        } else if (cutting->weight[i] > 0 && !AG_IS_ROOT(nodes->nodes[i].parent)) {
            cutting->has_cut_child[twin_of(cutting, nodes->nodes[i].parent)] = 1;
        }
    }
    return n_nodes <= most_nodes && n_groups <= most_groups;
}

static void find_limit(struct cutting *cutting, size_t most_nodes, size_t most_groups) {
    if (fits(cutting, 0, most_nodes, most_groups)) {
        return;
    }
    double low = 0, high = 0; /* high: at first above the weight of every node, so that no node is
                               * kept */
    for (size_t i = 0; i < cutting->profile->definitions.nodes.count; i++) {
        high = greatest(high, cutting->weight[i] * 2);
    }
    for (int i = 0; i < HALVINGS; i++) {
        /* the weights of most nodes are tiny, so the limit is first divided by 8 until it is too
         * low */
        const double middle = low == 0 ? high / 8 : (low + high) / 2;
        if (fits(cutting, middle, most_nodes, most_groups)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    /* the loop may have ended with another limit: set cutting->limit and has_cut_child again */
    (void)fits(cutting, high, most_nodes, most_groups);
}

/* ---- labels ---- */

struct label_share {
    double weight;
    size_t n_rows;
    uint32_t place; /* index in definitions->labels */
};

static int by_weight(const void *a, const void *b) {
    const struct label_share *left = a, *right = b;
    return left->weight != right->weight
               ? (left->weight < right->weight ? 1 : -1)
               : (left->place > right->place) - (left->place < right->place);
}

/* Computes the weight of each label. Fills RET_LABEL_OF_ROW as if each label had groups of its
 * own. */
static void weigh_labels(const struct ag_profile *profile, const struct ag_metrics *whole,
                         struct label_share *shares, uint32_t *ret_label_of_row) {
    const struct ag_definitions *definitions = &profile->definitions;
    for (uint32_t i = 0; i < definitions->n_labels; i++) {
        shares[i].place = i;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        const uint32_t label =
            ag_stack_nodes_leaf(&definitions->nodes, profile->rows[i].stack).label;
        const uint32_t place =
            label != 0 ? ag_index_map_find(&definitions->label_index, label) : AG_INDEX_NONE;
        if (place != AG_INDEX_NONE) {
            shares[place].weight += weight_of(&profile->rows[i].metrics, whole);
            shares[place].n_rows++;
            ret_label_of_row[i] = place + FIRST_LABEL;
        }
    }
}

/* Decides which labels get groups of their own. *ret_label_of_row: by row, the label of its group;
 * NULL: the trace has no labels. Returns 0 or -ENOMEM. */
static int choose_labels(const struct ag_profile *profile, const struct ag_metrics *whole,
                         size_t most_groups, uint32_t **ret_label_of_row) {
    const size_t n = profile->definitions.n_labels;
    *ret_label_of_row = NULL;
    if (n == 0) {
        return 0;
    }
    struct label_share *shares = calloc(n, sizeof(*shares));
    bool *is_other = calloc(n, sizeof(*is_other));
    uint32_t *label_of_row = calloc(profile->n_rows + 1, sizeof(*label_of_row));
    if (!shares || !is_other || !label_of_row) {
        free(shares);
        free(is_other);
        free(label_of_row);
        return -ENOMEM;
    }
    weigh_labels(profile, whole, shares, label_of_row);
    qsort(shares, n, sizeof(*shares), by_weight);
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        n_rows += shares[i].n_rows;
        is_other[shares[i].place] =
            i >= LABELS_ALWAYS && (i >= LABELS_MOST || n_rows > most_groups / 2);
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        if (label_of_row[i] >= FIRST_LABEL && is_other[label_of_row[i] - FIRST_LABEL]) {
            label_of_row[i] = OTHER_LABELS;
        }
    }
    free(shares);
    free(is_other);
    *ret_label_of_row = label_of_row;
    return 0;
}

static const char *label_name(const struct ag_profile *profile, uint32_t label) {
    return label == NO_LABEL       ? NULL
           : label == OTHER_LABELS ? ag_outline_other_labels
                                   : profile->definitions.labels[label - FIRST_LABEL].name;
}

/* ---- the tree ---- */

#define LEFT_OUT (UINT32_C(1) << 31) /* no profile has so many frames */
#define IS_KNOWN LEFT_OUT

static int add_node(struct cutting *cutting, uint32_t parent, uint32_t frame, bool is_left_out,
                    uint32_t *ret_place) {
    struct ag_outline *outline = cutting->outline;
    const uint64_t key = (uint64_t)parent << 32 | (frame ^ (is_left_out ? LEFT_OUT : 0));
    const int r = ag_index_map_number(&cutting->by_step, key, ret_place);
    (*ret_place)++; /* 0 is the root */
    return r > 0 ? AG_ARRAY_ADD(outline->nodes, outline->n_nodes,
                                (struct ag_outline_node){
                                    .parent = parent, .frame = frame, .is_left_out = is_left_out})
                 : r;
}

static int plant(struct cutting *cutting) {
    struct ag_profile *profile = cutting->profile;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    for (size_t i = 0; i < nodes->count; i++) {
        if (!is_kept(cutting, (uint32_t)i)) {
            continue;
        }
        const uint32_t parent = nodes->nodes[i].parent;
        uint32_t place = AG_IS_ROOT(parent) ? 0 : cutting->place[parent];
        size_t n;
        const uint32_t *frames = ag_profile_node_frames(profile, (uint32_t)i, &n);
        while (n-- > 0) { /* from the outermost function to the functions that are inlined into
                           * it */
            const bool is_left_out = n < cutting->left_out[nodes->nodes[i].site];
            const int r = add_node(cutting, place, frames[n], is_left_out, &place);
            if (r < 0) {
                return r;
            }
        }
        cutting->place[i] = place;
    }
    return 0;
}

/* ---- groups ---- */

/* Finds the number of KEY in MAP; a new key gets the next unused number. 0 or -ENOMEM. */
static int number_of(struct cutting *cutting, struct ag_index_map *map, uint64_t key,
                     uint32_t *ret_number) {
    *ret_number = ag_index_map_find(map, key);
    if (*ret_number != AG_INDEX_NONE) {
        return 0;
    }
    *ret_number = cutting->n_numbers++;
    return ag_index_map_insert(map, key, *ret_number);
}

/* Finds the group of row ROW. If there is none, adds a copy of LIKE as its group. */
static int group_of(struct cutting *cutting, const struct ag_outline_group *like, size_t row,
                    uint32_t type, uint32_t *ret_group) {
    const uint32_t via = cutting->profile->rows[row].via % AG_MODEL_VIAS;
    const uint32_t label = label_of(cutting, row);
    uint32_t number;
    int r = number_of(cutting, &cutting->by_via, (uint64_t)like->node << VIA_BITS | via, &number);
    r = r < 0 ? r
              : number_of(cutting, &cutting->by_line,
                          (uint64_t)number << 32 | (like->line ^ (like->is_known ? IS_KNOWN : 0)),
                          &number);
    if (r == 0 && label != NO_LABEL) {
        r = number_of(cutting, &cutting->by_label, (uint64_t)number << 32 | label, &number);
    }
    if (r == 0 && like->process != 0) {
        r = number_of(cutting, &cutting->by_process, (uint64_t)number << 32 | like->process,
                      &number);
    }
    if (r < 0) {
        return r;
    }
    r = ag_index_map_number(&cutting->by_group, (uint64_t)number << 32 | type, ret_group);
    struct ag_outline *outline = cutting->outline;
    return r > 0 ? AG_ARRAY_ADD(outline->groups, outline->n_groups, *like) : r;
}

/* Assigns each row to a group. If the innermost node of the row is kept, the group belongs to that
 * node. Otherwise the group belongs to a node below the node "other" of the innermost caller that
 * is kept. */
static int group_rows(struct cutting *cutting, const struct ag_metrics *whole) {
    struct ag_profile *profile = cutting->profile;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    struct ag_outline *outline = cutting->outline;
    const struct ag_blamed_line *lines;
    size_t n_lines;
    const int r_lines = ag_profile_blamed_lines(profile, &lines, &n_lines);
    if (r_lines < 0) {
        return r_lines;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        const struct ag_stack_row *row = &profile->rows[i];
        uint32_t node = profile->row_nodes[i];
        const bool has_stack = !AG_IS_ROOT(node);
        const bool is_folded = has_stack && !is_kept(cutting, node);
        while (!AG_IS_ROOT(node) && !is_kept(cutting, node)) {
            node = nodes->nodes[node].parent;
        }
        uint32_t place = AG_IS_ROOT(node) ? 0 : cutting->place[node];
        int r = 0;
        if (is_folded) { /* the outline does not contain all callers, but it contains the function
                          * that allocated */
            size_t n;
            const uint32_t innermost =
                ag_profile_node_frames(profile, profile->row_nodes[i], &n)[0];
            const uint32_t site = nodes->nodes[profile->row_nodes[i]].site;
            r = add_node(cutting, place, AG_OUTLINE_OTHER, false, &place);
            r = r < 0 ? r
                      : add_node(cutting, place, innermost, cutting->left_out[site] > 0, &place);
        } else if (!has_stack) {
            r = add_node(cutting, place, profile->frames.no_stack, false, &place);
        }
        const uint32_t type = ag_profile_row_type(profile, i);
        const struct ag_outline_group like = {
            .node = place,
            .line = lines[profile->line_of_row[i]].frame,
            .process = ag_profile_process_of_row(profile, i),
            .is_known = ag_profile_known(profile, i) != 0,
            .is_collected = ag_profile_row_is_collected(profile, i),
            .via_name = row->via_name,
            .type = type ? ag_text(&profile->definitions.texts, type) : NULL,
            .label = label_name(profile, label_of(cutting, i))};
        r = r < 0 ? r : group_of(cutting, &like, i, type, &outline->group_of_row[i]);
        if (r < 0) {
            return r;
        }
        ag_metrics_add(&outline->groups[outline->group_of_row[i]].metrics, &row->metrics);
    }
    for (size_t i = 0; i < outline->n_groups; i++) {
        outline->groups[i].weight = weight_of(&outline->groups[i].metrics, whole);
    }
    return 0;
}

/* ---- making an outline ---- */

static int outline_start(struct cutting *cutting) {
    struct ag_profile *profile = cutting->profile;
    struct ag_outline *outline = cutting->outline;
    const size_t n = profile->definitions.nodes.count + 1;
    cutting->weight = calloc(n, sizeof(*cutting->weight));
    cutting->rows_at = calloc(n, sizeof(*cutting->rows_at));
    cutting->has_other_labels = calloc(n, sizeof(*cutting->has_other_labels));
    cutting->has_cut_child = calloc(n, sizeof(*cutting->has_cut_child));
    cutting->place = calloc(n, sizeof(*cutting->place));
    outline->group_of_row = calloc(profile->n_rows + 1, sizeof(*outline->group_of_row));
    outline->n_rows = profile->n_rows;
    if (!cutting->weight || !cutting->rows_at || !cutting->has_other_labels ||
        !cutting->has_cut_child || !cutting->place || !outline->group_of_row) {
        return -ENOMEM;
    }
    return AG_ARRAY_ADD(outline->nodes, outline->n_nodes,
                        (struct ag_outline_node){.parent = 0, .frame = AG_OUTLINE_ROOT});
}

static void outline_stop(struct cutting *cutting) {
    ag_index_map_done(&cutting->by_step);
    ag_index_map_done(&cutting->by_via);
    ag_index_map_done(&cutting->by_line);
    ag_index_map_done(&cutting->by_label);
    ag_index_map_done(&cutting->by_process);
    ag_index_map_done(&cutting->by_group);
    free(cutting->twin);
    free(cutting->weight);
    free(cutting->rows_at);
    free(cutting->has_other_labels);
    free(cutting->has_cut_child);
    free(cutting->place);
}

static int make(struct ag_profile *profile, const struct ag_metrics *whole,
                const uint32_t *label_of_row, size_t most_nodes, size_t most_groups,
                struct ag_outline *outline) {
    struct cutting cutting = {.profile = profile, .outline = outline, .label_of_row = label_of_row};
    int r = outline_start(&cutting);
    r = r < 0 ? r : ag_profile_left_out(profile, &cutting.left_out);
    r = r < 0 || profile->n_parts == 0 ? r : find_twins(&cutting);
    if (r == 0) {
        weigh(&cutting, whole);
        find_limit(&cutting, most_nodes, most_groups);
        r = plant(&cutting);
    }
    r = r < 0 ? r : group_rows(&cutting, whole);
    outline_stop(&cutting);
    return r;
}

int ag_outline_make(struct ag_profile *profile, size_t most_nodes, size_t most_groups,
                    struct ag_outline *ret_outline) {
    *ret_outline = (struct ag_outline){0};
    uint32_t *label_of_row = NULL;
    int r = ag_profile_prepare_types(profile);
    r = r < 0 ? r : choose_labels(profile, &profile->total, most_groups, &label_of_row);
    /* The number of groups below "other" nodes is not known before the outline is made. If the
     * outline has too many groups, it is made again with half of the previous limit of groups. If
     * this does not reduce the groups of a merged profile by a tenth, most of its groups are those
     * that processes keep apart, and a lower limit would only remove more callers. */
    size_t n_before = SIZE_MAX;
    for (size_t limit = most_groups, i = 0; r == 0 && i < ATTEMPTS; i++, limit /= 2) {
        ag_outline_done(ret_outline);
        r = make(profile, &profile->total, label_of_row, most_nodes, limit, ret_outline);
        const size_t n = ret_outline->n_groups;
        if (n <= most_groups || (profile->n_parts > 0 && n > n_before - n_before / 10)) {
            break;
        }
        n_before = n;
    }
    free(label_of_row);
    return r;
}

uint32_t ag_outline_folded_start(const struct ag_outline *outline,
                                 const struct ag_outline_group *group) {
    uint32_t at = group->node;
    while (at != 0 && (outline->nodes[at].frame != group->line || outline->nodes[at].is_left_out)) {
        at = outline->nodes[at].parent;
    }
    return at;
}

void ag_outline_done(struct ag_outline *outline) {
    free(outline->nodes);
    free(outline->groups);
    free(outline->group_of_row);
    *outline = (struct ag_outline){0};
}
