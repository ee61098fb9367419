/* branch_walk.c: walks through a tree for the views that print one (tree, process_tree, and
 * functions with --tree), and draws the lines that connect the nodes in text. See branch_walk.h. */
#include "report/branch_walk.h"

#include <errno.h>
#include <stdlib.h>

#include "report/quantity.h"
#include "report/ranking.h"
#include "table/array.h"

enum { BRANCH_COLUMNS = 3, ELLIPSIS_COLUMNS = 2 };

struct ag_branch_level { /* The shown children of one node are ranks[start] to ranks[end - 1]. The
                          * walk visits ranks[next] next. */
    uint32_t start, next, end;
    bool has_lines; /* lines lead to the children */
};

static void hide(struct ag_branch_walk *walk, uint64_t value) {
    walk->n_hidden += value != 0;
    walk->hidden += value;
}

/* Sorts the shown children of NODE, and adds their level to the stack of levels. 0 or -ENOMEM. */
static int branch_walk_enter(struct ag_branch_walk *walk, uint32_t node) {
    const struct ag_report_options *options = walk->view->options;
    bool is_deepest = options->frames != 0 && walk->n_levels >= options->frames;
    uint32_t start = walk->n_ranks;
    uint32_t child = walk->get(walk->context, node).first_child;
    bool has_lines = false;
    while (child < walk->n_nodes) {
        const struct ag_branch branch = walk->get(walk->context, child);
        if (!is_deepest && branch.is_shown) {
            walk->ranks[walk->n_ranks++] = (struct ag_rank){.first = branch.value, .row = child};
            has_lines |= branch.is_indented;
        } else {
            hide(walk, branch.value);
        }
        child = branch.next_sibling;
    }
    ag_ranking_sort_part(walk->ranks + start, walk->n_ranks - start);
    while (walk->n_ranks - start > walk->view->limit) {
        hide(walk, walk->ranks[--walk->n_ranks].first);
    }
    const struct ag_branch_level level = {.start = start,
                                          .next = start,
                                          .end = walk->n_ranks,
                                          .has_lines = has_lines || walk->n_ranks - start > 1};
    return AG_ARRAY_ADD(walk->levels, walk->n_levels, level);
}

static void branch_walk_leave(struct ag_branch_walk *walk) {
    if (walk->leave != NULL) {
        walk->leave(walk->context);
    }
}

int ag_branch_walk_run(struct ag_branch_walk *walk) {
    walk->ranks = calloc(walk->n_nodes + 1, sizeof *walk->ranks);
    int r = walk->ranks == NULL ? -ENOMEM : walk->n_nodes > 0 ? branch_walk_enter(walk, 0) : 0;
    if (walk->n_levels == 0) {
        branch_walk_leave(walk);
    }
    while (walk->n_levels > 0) {
        struct ag_branch_level *level = &walk->levels[walk->n_levels - 1];
        if (r < 0 || level->next == level->end) {
            walk->n_ranks = level->start;
            walk->n_levels--;
            branch_walk_leave(walk);
            continue;
        }
        const uint32_t node = walk->ranks[level->next++].row;
        walk->visit(walk->context, node);
        r = branch_walk_enter(walk, node);
        if (r < 0) { /* no level was added for this node */
            branch_walk_leave(walk);
        }
    }
    free(walk->ranks);
    free(walk->levels);
    return r;
}

/* ---- text ---- */

size_t ag_branch_walk_lines(const struct ag_branch_walk *walk, struct ag_page *page, size_t room) {
    size_t n_branches = 0;
    for (size_t i = 0; i < walk->n_levels; i++) {
        n_branches += walk->levels[i].has_lines;
    }
    const bool is_cut = n_branches > room / BRANCH_COLUMNS;
    const size_t ellipsis = is_cut && room >= ELLIPSIS_COLUMNS ? ELLIPSIS_COLUMNS : 0;
    const size_t n_skipped = is_cut ? n_branches - (room - ellipsis) / BRANCH_COLUMNS : 0;
    size_t n_passed = 0;
    if (ellipsis > 0) {
        ag_page_text(page, AG_STYLE_DIM, "… ");
    }
    for (size_t i = 0; i < walk->n_levels; i++) {
        const struct ag_branch_level *level = &walk->levels[i];
        if (!level->has_lines || n_passed++ < n_skipped) {
            continue;
        }
        bool is_last = level->next == level->end;
        bool is_own = i + 1 == walk->n_levels;
        ag_page_text(page, AG_STYLE_DIM,
                     is_own ? (is_last ? "└─ " : "├─ ") : (is_last ? "   " : "│  "));
    }
    return (n_branches - n_skipped) * BRANCH_COLUMNS + ellipsis;
}

void ag_branch_walk_write_hidden(const struct ag_branch_walk *walk, struct ag_page *page,
                                 uint64_t whole) {
    struct ag_quantity count, share;
    if (walk->n_hidden == 0) {
        return;
    }
    ag_page_end_line(page);
    ag_page_print(
        page, AG_STYLE_DIM, "  hidden: %s %s with %s of the total; --min=0 --limit=0%s shows all\n",
        ag_quantity_count(&count, walk->n_hidden), walk->n_hidden == 1 ? "branch" : "branches",
        ag_quantity_share(&share, walk->hidden, whole),
        walk->view->options->frames != 0 ? " --frames=0" : "");
}
