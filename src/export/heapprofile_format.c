/* heapprofile_format.c: exports Chrome's sampling heap profile (.heapprofile), for DevTools, VS
 * Code and speedscope.
 *
 * The format is SamplingHeapProfile of the DevTools protocol
 * (chromedevtools.github.io/devtools-protocol, domain HeapProfiler): a tree of nodes {callFrame,
 * selfSize, id, children} below a head node called (root), and a list of samples {size, nodeId,
 * ordinal}. Lines and columns of callFrame count from 0; -1 is unknown. scriptId is "0", as for
 * native functions. selfSize is the value of --metric. Each node with a value has one sample,
 * because the tree contains only sums. */
#include <errno.h>
#include <stdlib.h>

#include "export/call_tree.h"
#include "text/json_writer.h"

struct heapprofile {
    struct ag_export *export;
    struct ag_call_tree tree;
    struct ag_json json;
    uint64_t *own;
    /* by node; first_child[tree.count] is the first child of the head */
    uint32_t *first_child, *next_sibling;
};

/* Makes the list of the children of each node. The loop runs backwards, so that the children in a
 * list are in ascending order. */
static int link_children(struct heapprofile *all) {
    const size_t n = all->tree.count;
    all->first_child = malloc((n + 1) * sizeof(*all->first_child));
    all->next_sibling = malloc((n + 1) * sizeof(*all->next_sibling));
    if (!all->first_child || !all->next_sibling) {
        return -ENOMEM;
    }
    for (size_t i = 0; i <= n; i++) {
        all->first_child[i] = AG_CALL_ROOT;
    }
    for (uint32_t i = (uint32_t)n; i-- > 0;) {
        const uint32_t parent = all->tree.nodes[i].parent;
        const size_t list = parent == AG_CALL_ROOT ? n : parent;
        all->next_sibling[i] = all->first_child[list];
        all->first_child[list] = i;
    }
    return 0;
}

static void open_node(struct heapprofile *all, const char *key, const struct ag_frame *frame,
                      uint64_t size, uint64_t id) {
    struct ag_json *json = &all->json;
    ag_json_open(json, key, '{');
    ag_json_open(json, "callFrame", '{');
    ag_json_string(json, "functionName", frame->label);
    ag_json_string(json, "scriptId", "0");
    ag_json_string(json, "url", frame->file ? frame->file : frame->image);
    ag_json_signed(json, "lineNumber", frame->line > 0 ? (int64_t)frame->line - 1 : -1);
    ag_json_signed(json, "columnNumber", -1);
    ag_json_close(json, '}');
    ag_json_integer(json, "selfSize", size);
    ag_json_integer(json, "id", id);
    ag_json_open(json, "children", '[');
}

static void close_node(struct heapprofile *all) {
    ag_json_close(&all->json, ']');
    ag_json_close(&all->json, '}');
}

/* Writes all nodes. The function does not recurse, because a stack can be as deep as the recursion
 * of the program. */
static void write_nodes(struct heapprofile *all) {
    uint32_t node = all->first_child[all->tree.count];
    while (node != AG_CALL_ROOT) {
        open_node(all, /* key= */ NULL,
                  ag_export_frame(all->export, all->tree.nodes[node].frame.frame), all->own[node],
                  (uint64_t)node + 2);
        uint32_t next = all->first_child[node];
        while (next == AG_CALL_ROOT && node != AG_CALL_ROOT) {
            close_node(all);
            next = all->next_sibling[node];
            node = all->tree.nodes[node].parent;
        }
        node = next;
    }
}

static void write_file(struct heapprofile *all) {
    static const struct ag_frame head = {.function = "(root)", .label = "(root)", .image = ""};
    struct ag_json *json = &all->json;
    ag_json_open(json, NULL, '{');
    open_node(all, "head", &head, 0, 1);
    write_nodes(all);
    close_node(all);
    ag_json_open(json, "samples", '[');
    uint64_t ordinal = 0;
    for (size_t i = 0; i < all->tree.count; i++) {
        if (all->own[i] != 0) {
            ag_json_open(json, NULL, '{');
            ag_json_integer(json, "size", all->own[i]);
            ag_json_integer(json, "nodeId", i + 2);
            ag_json_integer(json, "ordinal", ++ordinal);
            ag_json_close(json, '}');
        }
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
}

int ag_heapprofile_format(struct ag_export *export) {
    struct heapprofile all = {.export = export, .json = {.out = export->out}};
    int r = ag_call_tree_start(&all.tree, export, AG_CALL_FUNCTION);
    if (r < 0) {
        return r;
    }
    all.own = ag_call_tree_own(&all.tree, export, export->metric);
    r = all.own ? link_children(&all) : -ENOMEM;
    if (r == 0) {
        write_file(&all);
    }
    free(all.own);
    free(all.first_child);
    free(all.next_sibling);
    ag_call_tree_end(&all.tree);
    return r;
}
