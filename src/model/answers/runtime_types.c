/* runtime_types.c: see runtime_types.h.
 *
 * The innermost frame decides. "Point.new" makes a Point, whatever number the process told: names
 * of linker symbols are of the program itself. Where the compiler inlined it, "new" is all that is
 * left, and the number says which; its name stands in the file that the user gave, or was learned
 * from other stacks of the trace, or it stays a number with the place. A frame that makes memory
 * for elements has no type of its own but its pointer's; numbers read there were elements. Where a
 * compiler has joined two allocations there is no line, and no name of what was inlined: then the
 * number decides as well. Newer compilers leave the line that both have in common, as they do for
 * memory that holds a closure's variables: that may begin with any number, so the place is all. */
#include "model/answers/runtime_types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/profile_state.h"
#include "symbol/decoder.h"

enum { TEXT_BYTES = 4096, CONFLICT = UINT32_MAX };

static const struct ag_decoder *decoder_of(const struct ag_profile *profile, const char *runtime) {
    const struct ag_decoder *const *all = profile->options.symbol.decoders;
    for (size_t i = 0; runtime && all && all[i]; i++) {
        if (all[i]->place && strcmp(all[i]->runtime, runtime) == 0) {
            return all[i];
        }
    }
    return NULL;
}

struct place {
    const struct ag_decoder *decoder;
    enum ag_decoded_place kind;
    const struct ag_frame *frame;  /* that decides */
    const struct ag_frame *caller; /* of it, for a place that people know; or the same */
    char type[TEXT_BYTES];
};

/* false: no runtime knows it. */
static bool find_place(struct ag_profile *profile, uint32_t node, struct place *ret_place) {
    size_t n = 0;
    if (AG_IS_ROOT(node) || !profile->node_is_used[node]) {
        return false;
    }
    const uint32_t *frames = ag_profile_node_frames(profile, node, &n);
    if (n == 0) {
        return false;
    }
    const struct ag_frame *frame = &ag_frame_table_get(&profile->frames, frames[0])->frame;
    *ret_place = (struct place){.decoder = decoder_of(profile, frame->runtime), .frame = frame};
    if (!ret_place->decoder) {
        return false;
    }
    ret_place->kind = ret_place->decoder->place(frame->function, frame->file, ret_place->type,
                                                sizeof(ret_place->type));
    ret_place->caller =
        n > 1 ? &ag_frame_table_get(&profile->frames, frames[1])->frame : ret_place->frame;
    return true;
}

/* The number that the process told of a stack's blocks ("#187", or "#187 Point" where it knew), 0:
 * none. ret_name: or NULL. */
static uint32_t told_number(const struct ag_profile *profile, uint32_t stack,
                            const char **ret_name) {
    const struct ag_definitions *definitions = &profile->definitions;
    uint32_t type = ag_stack_nodes_leaf(&definitions->nodes, stack).type;
    if (type == 0) {
        const uint32_t at = ag_index_map_find(&definitions->stack_type_index, stack);
        type = at != AG_INDEX_NONE ? at : 0;
    }
    const struct ag_model_type *told = type != 0 ? ag_definitions_type(definitions, type) : NULL;
    const char *name = told ? ag_text(&definitions->texts, told->name) : "";
    char *end = NULL;
    const uint32_t number = name[0] == '#' ? (uint32_t)strtoul(name + 1, &end, 10) : 0;
    *ret_name = number != 0 && end[0] == ' ' ? end + 1 : NULL;
    return number;
}

int ag_profile_learn_types(struct ag_profile *profile) {
    if (profile->learned_types.slots) {
        return 0;
    }
    int r = ag_index_map_init(&profile->learned_types);
    struct place *place = malloc(sizeof(*place));
    r = r < 0 ? r : place ? 0 : -ENOMEM;
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        const char *told = NULL;
        const uint32_t number = told_number(profile, profile->rows[i].stack, &told);
        if (number == 0 || !find_place(profile, profile->row_nodes[i], place) ||
            place->kind != AG_PLACE_OBJECT || place->type[0] == '\0') {
            continue;
        }
        const uint32_t text =
            ag_text_id(&profile->definitions.texts, place->type, strlen(place->type));
        if (ag_index_map_find(&profile->learned_types, number) == AG_INDEX_NONE) {
            r = ag_index_map_insert(&profile->learned_types, number, text);
        }
    }
    free(place);
    return r;
}

void ag_profile_forget_types(struct ag_profile *profile) {
    ag_index_map_done(&profile->learned_types);
}

static const char *name_of_number(struct ag_profile *profile, const struct ag_decoder *decoder,
                                  uint32_t number) {
    const struct ag_decoder_types *types =
        profile->options.types_decoder == decoder ? profile->options.types : NULL;
    const char *name = decoder->type_name ? decoder->type_name(types, number) : NULL;
    const uint32_t text = ag_index_map_find(&profile->learned_types, number);
    return name ? name : text != AG_INDEX_NONE ? ag_text(&profile->definitions.texts, text) : NULL;
}

static const char *base_name(const char *file) {
    const char *slash = file ? strrchr(file, '/') : NULL;
    return slash ? slash + 1 : file ? file : "?";
}

/* What stands for a type that has no name here: its number, and the place. */
static int label_of(const struct place *place, uint32_t number, char *text, size_t capacity) {
    const struct ag_frame *where = place->kind == AG_PLACE_BUFFER ? place->caller : place->frame;
    char begin[32] = "";
    if (place->kind == AG_PLACE_BUFFER) {
        (void)snprintf(begin, sizeof(begin), "buffer ");
    } else if (number != 0) {
        (void)snprintf(begin, sizeof(begin), "#%u ", number);
    }
    return where->line != 0 ? snprintf(text, capacity, "%s(%s @ %s:%u)", begin, where->function,
                                       base_name(where->file), where->line)
                            : snprintf(text, capacity, "%s(%s)", begin, where->function);
}

uint32_t ag_profile_runtime_type(struct ag_profile *profile, uint32_t stack, uint32_t node,
                                 const char **ret_runtime) {
    struct place place;
    char text[TEXT_BYTES];
    if (!find_place(profile, node, &place)) {
        return 0;
    }
    const char *told = NULL, *name = place.type[0] ? place.type : NULL;
    const uint32_t number = told_number(profile, stack, &told);
    const bool is_object =
        place.kind == AG_PLACE_OBJECT ||
        (place.kind == AG_PLACE_SILENT && number != 0 &&
         (place.frame->line == 0 || place.decoder->type_name(/* types= */ NULL, number) != NULL));
    if (!name && is_object && number != 0) {
        name = name_of_number(profile, place.decoder, number);
        name = name ? name : told;
    }
    if (!name) {
        const int n = label_of(&place, is_object ? number : 0, text, sizeof(text));
        if (n < 0 || (size_t)n >= sizeof(text)) {
            return 0;
        }
        name = text;
    }
    *ret_runtime = place.decoder->runtime;
    return ag_text_id(&profile->definitions.texts, name, strlen(name));
}
