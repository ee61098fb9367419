/* tree_view.c: callers downward from main, or with --bottom-up from the allocating functions to
 * their callers.
 *
 * A tree may be as deep as the program's recursion, so nothing here recurses: a walk keeps, for
 * each level it is in, the children that are to be shown, the largest first, and which of them is
 * next.
 *
 * In text a chain of single children stays on one level, for indentation means a choice:
 *
 *       1.02  100 %  main                        main.c:10
 *       1.02  100 %  process                     jq.c:70
 *       0.71   70 %  ├─ parse                    parse.c:118
 *       0.70   69 %  │  token                    parse.c:40
 *       0.31   30 %  └─ print                    print.c:9
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/quantity.h"
#include "report/ranking.h"
#include "report/view.h"

struct level { /* start < next <= end, in ranks: the node that the walk is at on this level is next
                  - 1 */
    uint32_t start, next, end;
};

struct tree_walk {
    struct ag_view *view;
    const struct ag_tree_node *nodes;
    size_t n_nodes;
    uint64_t least;        /* nodes with less of the metric are hidden */
    struct ag_rank *ranks; /* a stack: the shown children of each level */
    uint32_t n_ranks;
    struct level *levels; /* a stack: levels[0] are the children of the root */
    size_t n_levels, capacity;
    uint64_t n_hidden; /* children left out, what is below them not counted */
    uint64_t hidden;   /* what these have of the metric */
};

static void end_walk(struct tree_walk *walk) {
    free(walk->ranks);
    free(walk->levels);
}

static int start_walk(struct tree_walk *walk, struct ag_view *view, double usual_min_percent) {
    *walk = (struct tree_walk){.view = view};
    int r =
        ag_profile_tree(view->profile, view->options->is_bottom_up, &walk->nodes, &walk->n_nodes);
    if (r < 0) {
        return r;
    }
    walk->ranks = calloc(walk->n_nodes + 1, sizeof *walk->ranks);
    if (walk->ranks == NULL) {
        return -ENOMEM;
    }
    double percent = view->options->min_share_percent >= 0 ? view->options->min_share_percent
                                                           : usual_min_percent;
    uint64_t whole = walk->n_nodes > 0 ? ag_metric_of(&walk->nodes[0].total, view->sort) : 0;
    walk->least = (uint64_t)((double)whole * percent / 100);
    return 0;
}

static bool is_shown(const struct tree_walk *walk, const struct ag_tree_node *node) {
    const struct ag_view *view = walk->view;
    return ag_metric_of(&node->total, view->sort) >= walk->least &&
           ag_metric_of(&node->total, ag_metric_blocks_of(view->sort)) >= view->options->min_count;
}

static void hide(struct tree_walk *walk, uint64_t value) {
    walk->n_hidden += value != 0;
    walk->hidden += value;
}

/* Opens the level of a node's children. 0 or -ENOMEM. */
static int enter(struct tree_walk *walk, uint32_t node) {
    if (walk->n_levels == walk->capacity) {
        size_t capacity = walk->capacity * 2 + 64;
        struct level *levels = realloc(walk->levels, capacity * sizeof *levels);
        if (levels == NULL) {
            return -ENOMEM;
        }
        walk->levels = levels;
        walk->capacity = capacity;
    }
    const struct ag_view *view = walk->view;
    bool is_deepest = view->options->frames != 0 && walk->n_levels >= view->options->frames;
    uint32_t start = walk->n_ranks;
    for (uint32_t child = walk->nodes[node].first_child; child < walk->n_nodes;
         child = walk->nodes[child].next_sibling) {
        uint64_t value = ag_metric_of(&walk->nodes[child].total, view->sort);
        if (!is_deepest && is_shown(walk, &walk->nodes[child])) {
            walk->ranks[walk->n_ranks++] = (struct ag_rank){.first = value, .row = child};
        } else {
            hide(walk, value);
        }
    }
    ag_ranking_sort_part(walk->ranks + start, walk->n_ranks - start);
    while (walk->n_ranks - start > view->limit) {
        hide(walk, walk->ranks[--walk->n_ranks].first);
    }
    walk->levels[walk->n_levels++] =
        (struct level){.start = start, .next = start, .end = walk->n_ranks};
    return 0;
}

/* The next node of the deepest level, or NULL when that level is done: leave it then. */
static const struct ag_tree_node *next_node(struct tree_walk *walk, uint32_t *ret_node) {
    struct level *level = &walk->levels[walk->n_levels - 1];
    if (level->next == level->end) {
        return NULL;
    }
    *ret_node = walk->ranks[level->next++].row;
    return &walk->nodes[*ret_node];
}

static void leave(struct tree_walk *walk) {
    walk->n_ranks = walk->levels[--walk->n_levels].start;
}

static void open_node_json(struct ag_view *view, const struct ag_tree_node *node, bool is_root) {
    static const struct ag_frame root = {.function = "[root]"};
    ag_json_frame(view->json, is_root ? &root : ag_profile_frame(view->profile, node->frame));
    ag_json_metrics(view->json, &node->total);
    ag_json_open(view->json, "own", '{');
    ag_json_metrics(view->json, &node->own);
    ag_json_close(view->json, '}');
    ag_json_open(view->json, "children", '[');
}

static void close_node_json(struct ag_json *json) {
    ag_json_close(json, ']');
    ag_json_close(json, '}');
}

int ag_tree_view_json(struct ag_view *view) {
    static const struct ag_tree_node nothing = {.first_child = UINT32_MAX};
    struct tree_walk walk;
    int r = start_walk(&walk, view, /* usual_min_percent= */ 0);
    if (r < 0) {
        end_walk(&walk);
        return r;
    }
    ag_json_open(view->json, "root", '{');
    open_node_json(view, walk.n_nodes > 0 ? &walk.nodes[0] : &nothing, /* is_root= */ true);
    r = walk.n_nodes > 0 ? enter(&walk, /* node= */ 0) : 0;
    if (walk.n_levels == 0) {
        close_node_json(view->json);
    }
    while (walk.n_levels > 0) {
        uint32_t index;
        const struct ag_tree_node *node = r == 0 ? next_node(&walk, &index) : NULL;
        if (node == NULL) {
            leave(&walk);
            close_node_json(view->json); /* the node whose children these were */
            continue;
        }
        ag_json_open(view->json, NULL, '{');
        open_node_json(view, node, /* is_root= */ false);
        r = enter(&walk, index);
        if (r < 0) { /* without a level to leave it is closed here; the others by leaving theirs */
            close_node_json(view->json);
        }
    }
    end_walk(&walk);
    return r;
}

/* ---- text ---- */

struct tree_columns {
    struct ag_unit unit, blocks_unit;
    int width, blocks_width; /* of the numbers and of their heads */
    uint64_t whole;
};
enum { WHERE_COLUMNS = 20, LEAST_NAME_COLUMNS = 16, BRANCH_COLUMNS = 3 };

static bool is_branching(const struct level *level) {
    return level->end - level->start > 1;
}

/* The lines that lead to the node the walk is at. Returns the columns they take. Where the page has
 * no room for all of them, the outer ones give way to an ellipsis. */
static size_t write_branches(const struct tree_walk *walk, size_t room) {
    struct ag_page *page = walk->view->page;
    size_t n_branches = 0;
    for (size_t i = 0; i < walk->n_levels; i++) {
        n_branches += is_branching(&walk->levels[i]);
    }
    size_t most = room / BRANCH_COLUMNS;
    size_t n_skipped = n_branches > most ? n_branches - most : 0;
    size_t n_passed = 0;
    if (n_skipped > 0) {
        ag_page_text(page, AG_STYLE_DIM, "… ");
    }
    for (size_t i = 0; i < walk->n_levels; i++) {
        const struct level *level = &walk->levels[i];
        if (!is_branching(level) || n_passed++ < n_skipped) {
            continue;
        }
        bool is_last = level->next == level->end;
        bool is_own = i + 1 == walk->n_levels;
        ag_page_text(page, AG_STYLE_DIM,
                     is_own ? (is_last ? "└─ " : "├─ ") : (is_last ? "   " : "│  "));
    }
    return (n_branches - n_skipped) * BRANCH_COLUMNS + (n_skipped > 0 ? 2 : 0);
}

static void write_node_text(const struct tree_walk *walk, const struct ag_tree_node *node,
                            const struct tree_columns *columns) {
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
    size_t least = taken + LEAST_NAME_COLUMNS + 2 + WHERE_COLUMNS;
    size_t room = page->columns > least ? page->columns - least : 0;
    taken += write_branches(walk, room);
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

static void choose_columns(const struct tree_walk *walk, struct tree_columns *columns,
                           char heads[2][48]) {
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

static void write_hidden(const struct tree_walk *walk, uint64_t whole) {
    struct ag_quantity count, share;
    if (walk->n_hidden == 0) {
        return;
    }
    ag_page_end_line(walk->view->page);
    ag_page_print(walk->view->page, AG_STYLE_DIM,
                  "  hidden: %s %s with %s of it; --min=0 --limit=0%s shows all\n",
                  ag_quantity_count(&count, walk->n_hidden),
                  walk->n_hidden == 1 ? "branch" : "branches",
                  ag_quantity_share(&share, walk->hidden, whole),
                  walk->view->options->frames != 0 ? " --frames=0" : "");
}

int ag_tree_view_text(struct ag_view *view) {
    struct tree_walk walk;
    int r = start_walk(&walk, view, /* usual_min_percent= */ 1);
    if (r < 0 || walk.n_nodes == 0) {
        end_walk(&walk);
        return r;
    }
    struct tree_columns columns;
    char heads[2][48];
    choose_columns(&walk, &columns, heads);
    ag_page_print(view->page, AG_STYLE_DIM, "  %*s  share  %*s  %s\n", columns.width, heads[0],
                  columns.blocks_width, heads[1],
                  view->options->is_bottom_up ? "function, below it its callers" : "function");
    r = enter(&walk, /* node= */ 0);
    while (r == 0 && walk.n_levels > 0) {
        uint32_t index;
        const struct ag_tree_node *node = next_node(&walk, &index);
        if (node == NULL) {
            leave(&walk);
            continue;
        }
        write_node_text(&walk, node, &columns);
        r = enter(&walk, index);
    }
    if (r == 0) {
        write_hidden(&walk, columns.whole);
    }
    end_walk(&walk);
    return r;
}
