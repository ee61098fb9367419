/* tree_view.c: `report --view=tree`: allocations by call path, from main down to the allocating
 * functions, or with --bottom-up from the allocating functions to their callers.
 *
 * In text, nodes are indented only below a node with several children (the figure leaves out the
 * column with the number of blocks):
 *
 *       1.02  100 %  main                        main.c:10
 *       1.02  100 %  process                     jq.c:70
 *       0.71   70 %  ├─ parse                    parse.c:118
 *       0.70   69 %  │  token                    parse.c:40
 *       0.31   30 %  └─ print                    print.c:9 */
#include <string.h>

#include "report/branch_walk.h"
#include "report/quantity.h"
#include "report/view.h"

struct tree_columns { /* the columns of the text; widths are in characters */
    struct ag_unit unit, blocks_unit;
    int width, blocks_width; /* widths of the columns of numbers, which also fit their heads */
    uint64_t whole;
};
struct tree_walk {
    struct ag_view *view;
    const struct ag_tree_node *nodes;
    uint64_t least; /* nodes with less of the metric are hidden */
    struct tree_columns columns;
    struct ag_branch_walk branches;
};

static struct ag_branch branch_of(const void *context, uint32_t number) {
    const struct tree_walk *walk = context;
    const struct ag_view *view = walk->view;
    const struct ag_tree_node *node = &walk->nodes[number];
    const uint64_t value = ag_metric_of(&node->total, view->sort);
    return (struct ag_branch){
        .first_child = node->first_child,
        .next_sibling = node->next_sibling,
        .value = value,
        .is_shown =
            value >= walk->least &&
            ag_metric_of(&node->total, ag_metric_blocks_of(view->sort)) >= view->options->min_count,
    };
}

static int start_walk(struct tree_walk *walk, struct ag_view *view, double usual_min_percent) {
    *walk = (struct tree_walk){.view = view};
    walk->branches = (struct ag_branch_walk){.get = branch_of, .context = walk, .view = view};
    size_t n_nodes;
    int r = ag_profile_tree(view->profile, view->options->is_bottom_up, &walk->nodes, &n_nodes);
    if (r < 0) {
        return r;
    }
    double percent = view->options->min_share_percent >= 0 ? view->options->min_share_percent
                                                           : usual_min_percent;
    uint64_t whole = n_nodes > 0 ? ag_metric_of(&walk->nodes[0].total, view->sort) : 0;
    walk->least = (uint64_t)((double)whole * percent / 100);
    walk->branches.n_nodes = n_nodes;
    return 0;
}

static void open_node_json(struct ag_view *view, const struct ag_tree_node *node, bool is_root) {
    static const struct ag_frame root = {.function = "[root]"};
    ag_json_frame(view->json, is_root ? &root : ag_profile_frame(view->profile, node->frame));
    ag_json_metrics(view, &node->total);
    ag_json_open(view->json, "own", '{');
    ag_json_metrics(view, &node->own);
    ag_json_close(view->json, '}');
    ag_json_open(view->json, "children", '[');
}

static void visit_node_json(void *context, uint32_t node) {
    const struct tree_walk *walk = context;
    ag_json_open(walk->view->json, NULL, '{');
    open_node_json(walk->view, &walk->nodes[node], /* is_root= */ false);
}

static void close_node_json(void *context) {
    const struct tree_walk *walk = context;
    ag_json_close(walk->view->json, ']');
    ag_json_close(walk->view->json, '}');
}

int ag_tree_view_json(struct ag_view *view) {
    static const struct ag_tree_node nothing = {.first_child = UINT32_MAX};
    struct tree_walk walk;
    int r = start_walk(&walk, view, /* usual_min_percent= */ 0);
    if (r < 0) {
        return r;
    }
    ag_json_open(view->json, "root", '{');
    open_node_json(view, walk.branches.n_nodes > 0 ? &walk.nodes[0] : &nothing,
                   /* is_root= */ true);
    walk.branches.visit = visit_node_json;
    walk.branches.leave = close_node_json;
    return ag_branch_walk_run(&walk.branches);
}

/* ---- text ---- */

enum { WHERE_COLUMNS = 20, LEAST_NAME_COLUMNS = 16 };

static void write_node_text(void *context, uint32_t at) {
    const struct tree_walk *walk = context;
    const struct ag_tree_node *node = &walk->nodes[at];
    const struct tree_columns *columns = &walk->columns;
    struct ag_view *view = walk->view;
    struct ag_page *page = view->page;
    struct ag_quantity number, share, blocks;
    uint64_t value = ag_metric_of(&node->total, view->sort);
    ag_quantity_in(&number, value, columns->unit);
    ag_quantity_share(&share, value, columns->whole);
    ag_quantity_in(&blocks, ag_metric_of(&node->total, ag_metric_blocks_of(view->sort)),
                   columns->blocks_unit);
    ag_page_print(page, AG_STYLE_BRIGHT, "  %*s", columns->width, number.text);
    ag_page_print(page, AG_STYLE_PLAIN, "  %5s  %*s  ", share.text, columns->blocks_width,
                  blocks.text);
    size_t taken = (size_t)(2 + columns->width + 2 + 5 + 2 + columns->blocks_width + 2);
    if (ag_profile_identity(view->profile)->is_sampled) {
        enum { SPREAD_COLUMNS = 8 };
        ag_quantity_spread(&number, &node->total, view->sort);
        ag_page_text(page, AG_STYLE_DIM, number.text);
        const size_t spread_columns = ag_page_columns_of(number.text);
        ag_page_spaces(page, spread_columns < SPREAD_COLUMNS ? SPREAD_COLUMNS - spread_columns : 1);
        taken += spread_columns < SPREAD_COLUMNS ? SPREAD_COLUMNS : spread_columns + 1;
    }
    size_t least = taken + LEAST_NAME_COLUMNS + 2 + WHERE_COLUMNS;
    size_t room = page->columns > least ? page->columns - least : 0;
    taken += ag_branch_walk_lines(&walk->branches, page, room);
    size_t name_columns = page->columns - 2 - WHERE_COLUMNS > taken + LEAST_NAME_COLUMNS
                              ? page->columns - 2 - WHERE_COLUMNS - taken
                              : LEAST_NAME_COLUMNS;
    const struct ag_frame *frame = ag_profile_frame(view->profile, node->frame);
    struct ag_frame_text text;
    struct ag_fitted fitted;
    size_t name_taken = ag_page_fit(&fitted, ag_frame_function(&text, frame), name_columns);
    ag_page_text(page, AG_STYLE_PLAIN, fitted.text);
    if (ag_page_fit(&fitted, ag_frame_where(&text, frame), WHERE_COLUMNS) > 0) {
        ag_page_spaces(page, name_columns - name_taken + 2);
        ag_page_text(page, AG_STYLE_DIM, fitted.text);
    }
    ag_page_end_line(page);
}

static void choose_columns(struct tree_walk *walk, char heads[2][48]) {
    struct tree_columns *columns = &walk->columns;
    enum ag_metric metric = walk->view->sort;
    const struct ag_metrics *all = &walk->nodes[0].total;
    uint64_t whole = ag_metric_of(all, metric);
    uint64_t blocks = ag_metric_of(all, ag_metric_blocks_of(metric));
    columns->whole = whole;
    columns->unit = ag_metric_is_bytes(metric) ? ag_unit_of_bytes(whole) : ag_unit_of_blocks(whole);
    columns->blocks_unit = ag_unit_of_blocks(blocks);
    struct ag_quantity number;
    snprintf(heads[0], 48, "%s%s%s", ag_metric_words(metric),
             *columns->unit.name != '\0' ? " " : "", columns->unit.name);
    snprintf(heads[1], 48, "blocks%s%s", *columns->blocks_unit.name != '\0' ? " " : "",
             columns->blocks_unit.name);
    int number_width = (int)strlen(ag_quantity_in(&number, whole, columns->unit));
    int blocks_width = (int)strlen(ag_quantity_in(&number, blocks, columns->blocks_unit));
    int head_widths[] = {(int)strlen(heads[0]), (int)strlen(heads[1])};
    columns->width = number_width > head_widths[0] ? number_width : head_widths[0];
    columns->blocks_width = blocks_width > head_widths[1] ? blocks_width : head_widths[1];
}

int ag_tree_view_text(struct ag_view *view) {
    struct tree_walk walk;
    int r = start_walk(&walk, view, /* usual_min_percent= */ 1);
    if (r < 0 || walk.branches.n_nodes == 0) {
        return r;
    }
    char heads[2][48];
    choose_columns(&walk, heads);
    ag_page_print(view->page, AG_STYLE_DIM, "  %*s  share  %*s  %s\n", walk.columns.width, heads[0],
                  walk.columns.blocks_width, heads[1],
                  view->options->is_bottom_up ? "function, below it its callers" : "function");
    walk.branches.visit = write_node_text;
    r = ag_branch_walk_run(&walk.branches);
    if (r == 0) {
        ag_branch_walk_write_hidden(&walk.branches, view->page, walk.columns.whole);
    }
    return r;
}
