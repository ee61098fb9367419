/* speedscope_format.c: exports the file format of speedscope.app, with a profile of type "sampled".
 *
 * The format is specified in github.com/jlfwong/speedscope, src/lib/file-format-spec.ts.
 * shared.frames is a table of functions. A profile has a list of samples and a list of their
 * weights. A sample is a list of frame numbers, from the outermost frame inward. This file writes a
 * sample for each node of the call tree whose own value of --metric is not 0: the functions from
 * the root to this node, with the value as the weight. The unit is bytes, nanoseconds, or none.
 * Frames are functions, not lines, so that the sandwich view of speedscope.app adds up all lines of
 * a function. */
#include <errno.h>
#include <stdlib.h>

#include "export/call_tree.h"
#include "text/json_writer.h"

struct speedscope {
    struct ag_export *export;
    struct ag_call_tree tree;
    struct ag_json json;
    uint64_t *own;
    uint32_t *path;
    uint32_t *node_of_function; /* the first node of each function */
};

static void write_frames(struct speedscope *all) {
    struct ag_json *json = &all->json;
    for (uint32_t i = (uint32_t)all->tree.count; i-- > 0;) {
        all->node_of_function[all->tree.nodes[i].function] = i;
    }
    ag_json_open(json, "shared", '{');
    ag_json_open(json, "frames", '[');
    for (size_t i = 0; i < all->tree.n_functions; i++) {
        const struct ag_frame *frame =
            ag_export_frame(all->export, all->tree.nodes[all->node_of_function[i]].frame.frame);
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "name", frame->label);
        if (frame->file) {
            ag_json_string(json, "file", frame->file);
        } else if (frame->image && frame->image[0] != '\0') {
            ag_json_string(json, "file", frame->image);
        }
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
}

static void write_samples(struct speedscope *all) {
    struct ag_json *json = &all->json;
    ag_json_open(json, "samples", '[');
    for (uint32_t i = 0; i < all->tree.count; i++) {
        if (all->own[i] == 0) {
            continue;
        }
        size_t depth = 0;
        for (uint32_t node = i; node != AG_CALL_ROOT; node = all->tree.nodes[node].parent) {
            all->path[depth++] = all->tree.nodes[node].function;
        }
        ag_json_open(json, NULL, '[');
        while (depth-- > 0) {
            ag_json_integer(json, NULL, all->path[depth]);
        }
        ag_json_close(json, ']');
    }
    ag_json_close(json, ']');
}

static void write_profile(struct speedscope *all) {
    struct ag_json *json = &all->json;
    uint64_t total = 0;
    for (size_t i = 0; i < all->tree.count; i++) {
        total += all->own[i];
    }
    ag_json_open(json, "profiles", '[');
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "type", "sampled");
    const enum ag_call_metric call_metric = all->export->call_metric;
    const bool is_bytes = all->export->functions ? call_metric == AG_CALL_METRIC_OWN_BYTES
                                                 : ag_metric_is_bytes(all->export->metric);
    ag_json_string(json, "name",
                   all->export->functions ? ag_call_metric_name(call_metric)
                                          : ag_metric_name(all->export->metric));
    ag_json_string(json, "unit",
                   is_bytes                               ? "bytes"
                   : call_metric == AG_CALL_METRIC_OWN_NS ? "nanoseconds"
                                                          : "none");
    ag_json_integer(json, "startValue", 0);
    ag_json_integer(json, "endValue", total);
    write_samples(all);
    ag_json_open(json, "weights", '[');
    for (size_t i = 0; i < all->tree.count; i++) {
        if (all->own[i] != 0) {
            ag_json_integer(json, NULL, all->own[i]);
        }
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
    ag_json_close(json, ']');
}

static void write_file(struct speedscope *all) {
    const struct ag_profile_identity *identity = ag_profile_identity(all->export->profile);
    struct ag_json *json = &all->json;
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    ag_json_string(json, "name", identity->exe ? identity->exe : "");
    char note[AG_EXPORT_NOTE_BYTES], exporter[AG_EXPORT_NOTE_BYTES + 16] = "allogram";
    if (ag_export_note(all->export, note)[0]) {
        snprintf(exporter, sizeof exporter, "allogram; %s", note);
    }
    ag_json_string(json, "exporter", exporter);
    ag_json_integer(json, "activeProfileIndex", 0);
    write_frames(all);
    write_profile(all);
    ag_json_close(json, '}');
}

int ag_speedscope_format(struct ag_export *export) {
    struct speedscope all = {.export = export, .json = {.out = export->out, .line_depth = 3}};
    int r = ag_call_tree_start(&all.tree, export, AG_CALL_FUNCTION);
    if (r < 0) {
        return r;
    }
    all.own = ag_call_tree_own(&all.tree, export, export->metric);
    all.path = malloc((all.tree.count + 1) * sizeof(*all.path));
    all.node_of_function = malloc((all.tree.n_functions + 1) * sizeof(*all.node_of_function));
    r = all.own && all.path && all.node_of_function ? 0 : -ENOMEM;
    if (r == 0) {
        write_file(&all);
    }
    free(all.own);
    free(all.path);
    free(all.node_of_function);
    ag_call_tree_end(&all.tree);
    return r;
}
