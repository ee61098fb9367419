/* types.c: the type of each stack's blocks: recorded by the program where it reports its own memory
 * (a leaf of the stack), else read from the names of its innermost frames.
 *
 * Most stacks show their type at the innermost pc (everything of the library is inlined there), and
 * many stacks share that pc; so the result is cached by site, and only stacks whose reading
 * continues beyond it are read individually. Frames without debug information end the reading,
 * because where inlined frames are missing, the present one may not be the one that allocated;
 * except frames that cannot contain inlined code of users. */
#include "model/answers/types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/runtime_types.h"
#include "model/answers/type_names.h"
#include "model/metric.h"
#include "model/profile_state.h"

enum { TYPE_BYTES = 1024, UNASKED = 0, GOES_ON = 1, TOLD = 2 /* and the text's number */ };

/* Reads the frames of a node. False: the reading has come to its end. */
static bool read_node(struct ag_profile *profile, uint32_t node, struct ag_type_reading *reading) {
    size_t n;
    const uint32_t *frames = ag_profile_node_frames(profile, node, &n);
    for (size_t i = 0; i < n; i++) {
        const struct ag_frame *frame = &ag_frame_table_get(&profile->frames, frames[i])->frame;
        const bool is_readable = (frame->file && !ag_frame_is_managed(frame)) ||
                                 ag_type_runs_no_other_code(frame->function);
        if (!is_readable || !ag_type_read(reading, frame->function)) {
            return false;
        }
    }
    return true;
}

static uint32_t text_of(struct ag_profile *profile, const struct ag_type_reading *reading) {
    char text[TYPE_BYTES];
    return ag_type_name(reading, text, sizeof(text))
               ? ag_text_id(&profile->definitions.texts, text, strlen(text))
               : 0;
}

/* The number of the type's text, 0: unknown. Nodes are resolved. */
static uint32_t type_of_node(struct ag_profile *profile, uint32_t node) {
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    if (AG_IS_ROOT(node) || !profile->node_is_used[node]) {
        return 0;
    }
    uint32_t *known =
        &profile->site_types[2 * (size_t)nodes->nodes[node].site + profile->node_is_exact[node]];
    if (*known >= TOLD) {
        return *known - TOLD;
    }
    struct ag_type_reading reading = {.rank = 0};
    bool goes_on = read_node(profile, node, &reading);
    if (!goes_on) {
        const uint32_t text = text_of(profile, &reading);
        *known = TOLD + text;
        return text;
    }
    *known = GOES_ON;
    for (node = nodes->nodes[node].parent; goes_on && !AG_IS_ROOT(node);
         node = nodes->nodes[node].parent) {
        goes_on = read_node(profile, node, &reading);
    }
    return text_of(profile, &reading);
}

/* The type that the program reported for a stack's blocks; NULL: none. */
static const struct ag_model_type *hooked_type(const struct ag_profile *profile, uint32_t stack) {
    const uint32_t type = ag_stack_nodes_leaf(&profile->definitions.nodes, stack).type;
    return type != 0 ? ag_definitions_type(&profile->definitions, type) : NULL;
}

int ag_profile_prepare_types(struct ag_profile *profile) {
    int r = ag_profile_resolve(profile);
    if (r == 0 && !profile->site_types) {
        profile->site_types =
            calloc(2 * profile->definitions.nodes.n_sites + 1, sizeof(*profile->site_types));
    }
    r = r < 0 ? r : profile->site_types ? 0 : -ENOMEM;
    return r < 0 ? r : ag_profile_learn_types(profile);
}

/* ret_runtime: the runtime of the type. */
static uint32_t type_of(struct ag_profile *profile, uint32_t stack, uint32_t node,
                        const char **ret_runtime) {
    const struct ag_model_type *told = hooked_type(profile, stack);
    *ret_runtime = told && told->runtime[0] ? told->runtime : "c";
    const uint32_t text = ag_profile_runtime_type(profile, stack, node, ret_runtime);
    return text != 0 ? text : told ? told->name : type_of_node(profile, node);
}

uint32_t ag_profile_row_type(struct ag_profile *profile, size_t row) {
    const char *unused;
    return type_of(profile, profile->rows[row].stack, profile->row_nodes[row], &unused);
}

const char *ag_profile_stack_type(struct ag_profile *profile, uint32_t stack) {
    if (ag_profile_prepare_types(profile) < 0) {
        return NULL;
    }
    const char *unused;
    const uint32_t node =
        ag_profile_start_node(profile, ag_stack_nodes_find(&profile->definitions.nodes, stack));
    const uint32_t text = type_of(profile, stack, node, &unused);
    return text != 0 ? ag_text(&profile->definitions.texts, text) : NULL;
}

static int add_up(struct ag_profile *profile, struct ag_index_map *index) {
    int r = 0;
    for (size_t i = 0; i < profile->n_rows && r >= 0; i++) {
        const char *runtime;
        const uint32_t text =
            type_of(profile, profile->rows[i].stack, profile->row_nodes[i], &runtime);
        uint32_t at = 0;
        r = ag_index_map_number(index, text, &at);
        if (r > 0) {
            profile->types[profile->n_types++] = (struct ag_type_row){
                .type = text != 0 ? ag_text(&profile->definitions.texts, text) : NULL,
                .runtime = runtime};
        }
        ag_metrics_add(&profile->types[at].metrics, &profile->rows[i].metrics);
    }
    return r < 0 ? r : 0;
}

int ag_profile_types(struct ag_profile *profile, const struct ag_type_row **ret_rows,
                     size_t *ret_count) {
    if (!profile->types) {
        struct ag_index_map index = {0};
        int r = ag_profile_prepare_types(profile);
        profile->types = r == 0 ? calloc(profile->n_rows + 1, sizeof(*profile->types)) : NULL;
        r = r < 0 ? r : profile->types ? 0 : -ENOMEM;
        r = r < 0 ? r : add_up(profile, &index);
        ag_index_map_done(&index);
        if (r < 0) {
            free(profile->types);
            profile->types = NULL;
            return r;
        }
    }
    *ret_rows = profile->types;
    *ret_count = profile->n_types;
    return 0;
}
