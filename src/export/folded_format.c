/* folded_format.c: exports collapsed stacks, a line `outer;inner;innermost N` for each stack, for
 * flamegraph.pl, inferno, speedscope and most other flame graph tools.
 *
 * The format has no specification; its reference is stackcollapse-perf.pl and flamegraph.pl of
 * github.com/brendangregg/FlameGraph. The last blank of a line separates the stack from its number,
 * so names may contain blanks. A semicolon in a name (names of Rust types may contain one) is
 * replaced by a colon, as inferno does. Each line has one number, the metric of --metric; lines
 * with 0 are left out.
 *
 * If --metric is a metric of function counters (counts of calls), the lines are call paths with
 * their own counts. For a trace of `allogram observe` with CPU samples and no blocks, the number of
 * a line is the number of samples. */
#include <errno.h>
#include <stdlib.h>

#include "export/call_tree.h"
#include "text/number.h"

/* Writes the functions from the outermost one to that of NODE. PATH: a buffer with room for all
 * nodes. */
static void put_path(struct ag_export *export, const struct ag_call_tree *tree, uint32_t node,
                     uint32_t *path) {
    size_t depth = 0;
    for (; node != AG_CALL_ROOT; node = tree->nodes[node].parent) {
        path[depth++] = node;
    }
    while (depth-- > 0) {
        const int64_t frame = tree->nodes[path[depth]].frame.frame;
        ag_put_function(export->out, ag_export_frame(export, frame), ';', ':');
        putc_unlocked(depth > 0 ? ';' : ' ', export->out);
    }
}

int ag_folded_format(struct ag_export *export) {
    struct ag_call_tree tree;
    int r = ag_call_tree_start(&tree, export, AG_CALL_FUNCTION);
    if (r < 0) {
        return r;
    }
    uint64_t *own = ag_call_tree_own(&tree, export, export->metric);
    uint32_t *path = malloc((tree.count + 1) * sizeof(*path));
    r = own && path ? 0 : -ENOMEM;
    for (uint32_t node = 0; node < tree.count && r == 0; node++) {
        if (own[node] != 0) {
            put_path(export, &tree, node, path);
            ag_put_number(export->out, own[node]);
            putc_unlocked('\n', export->out);
        }
    }
    free(own);
    free(path);
    ag_call_tree_end(&tree);
    return r;
}
