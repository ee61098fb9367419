/* types.c: determines the type of the blocks of each stack, for views by type. If the program or a
 * runtime (virtual machine) reported the type, the trace contains it, as a leaf of the stack tree
 * or in a stack_type record. Otherwise the type is read from the function names of the innermost
 * frames (type_names.c).
 *
 * The innermost pc of most stacks is enough to find the type, because the functions of the standard
 * library are inlined there. Many stacks have the same innermost pc. So the result is cached by
 * site (a pc in an image), and only stacks that need further frames are read individually. Reading
 * ends at a frame without debug information, because the frame may contain inlined code of users
 * that is not visible. Frames that cannot contain inlined code of users are an exception. */
#include "model/answers/types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtimes.h"
#include "model/answers/blamed_lines.h"
#include "model/answers/type_names.h"
#include "model/metric.h"
#include "model/profile_state.h"
#include "symbol/decoder.h"
#include "symbol/symbol.h"
#include "table/array.h"

/* ---- a runtime's types ---- */

/* Some runtimes, such as Crystal, record only a number for the type of an object. The code below
 * finds the name of the type. The place of a stack is its innermost frame, as the runtime's decoder
 * (the code that decodes its symbol names) classifies it (enum ag_decoded_place).
 *
 * If the source line of a frame such as "Point.new" is known, the frame makes a Point, whatever
 * number was recorded, because the symbol contains the name of the type. If the compiler inlined
 * the function, the name of the frame is only "new"; then the number determines the type. The name
 * of a number is in the file that the user gave, or is learned from other stacks of the trace. If
 * the name is not known, the type is shown as the number with the place.
 *
 * If no source lines are known (there is no debug information), inlined calls are not visible: a
 * call that was inlined into "Point.new", such as the "Mutex.new" of a member, looks like
 * "Point.new". So without lines the number determines the type. But the block may be a buffer for
 * elements, whose first element looks like a number. So the number of a stack counts only if three
 * conditions hold: the code of the place stores this number in the block (can_be_object lists two
 * alternatives); the blocks have the size that most objects with this number have; and the file of
 * names, if there is one, contains the number. Otherwise only the place is shown. These conditions
 * do not apply to numbers that have the same name in all programs, such as that of strings: strings
 * differ in size, and the recorder inside the process has checked that the block is a string. A
 * number is learned as the number of Point if it is the only number seen in "Point.new", or the
 * only one that remains after the numbers known from other stacks are removed.
 *
 * The type of a buffer for elements is the type of the pointer to the buffer, if the function's
 * name contains this type. A number recorded for a buffer is the number of an element type, so it
 * is not used. If the compiler has merged two allocations, the frame has neither a line nor the
 * name of an inlined function; then, too, the number determines the type. Newer Crystal compilers
 * keep the line that both allocations have in common. These compilers also keep the line of an
 * allocation of memory for the variables of a closure. This memory may begin with any number,
 * so only the place is shown. */

enum {
    TEXT_BYTES = 4096,
    /* most rounds of settle(): a number that one round learns may leave another type with only one
     * unknown number, which the next round learns */
    ROUNDS = 8,
};

static const struct ag_decoder *decoder_of(const struct ag_profile *profile, const char *runtime) {
    const struct ag_symbol_options *options = profile->options.symbol;
    const struct ag_runtime *row = options ? options->runtimes : NULL;
    for (; runtime && row && row->name; row++) {
        if (row->decoder && row->decoder->place && strcmp(row->name, runtime) == 0) {
            return row->decoder;
        }
    }
    return NULL;
}

struct place {
    const struct ag_decoder *decoder;
    enum ag_decoded_place kind;
    const struct ag_frame *frame; /* the innermost frame */
    /* the function into which `frame` is inlined, which is shown for buffers; `frame` itself if it
     * is not inlined */
    const struct ag_frame *caller;
    char type[TEXT_BYTES];
};

/* Finds the place of a node. Returns false if the runtime of the node's frame has no decoder. */
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

/* Returns the type that the process recorded for the blocks of a stack: by a leaf of the stack, or
 * by a stack_type record; NULL: none. */
static const struct ag_model_type *reported_definition(const struct ag_profile *profile,
                                                       uint32_t stack) {
    const struct ag_definitions *definitions = &profile->definitions;
    uint32_t type = ag_stack_nodes_leaf(&definitions->nodes, stack).type;
    if (type == 0) {
        const uint32_t at = ag_index_map_find(&definitions->stack_type_index, stack);
        type = at != AG_INDEX_NONE ? at : 0;
    }
    return type != 0 ? ag_definitions_type(definitions, type) : NULL;
}

/* Returns the type number that the process recorded for the blocks of a stack; 0: none. The
 * recorded text is "#187", or "#187 Point" if the process knew the name. *ret_name: the recorded
 * name, or NULL. */
static uint32_t reported_type(const struct ag_profile *profile, uint32_t stack,
                              const char **ret_name) {
    const struct ag_model_type *reported = reported_definition(profile, stack);
    const char *name = reported ? ag_text(&profile->definitions.texts, reported->name) : "";
    char *end = NULL;
    const uint32_t number = name[0] == '#' ? (uint32_t)strtoul(name + 1, &end, 10) : 0;
    *ret_name = number != 0 && end[0] == ' ' ? end + 1 : NULL;
    return number;
}

/* ---- stacks whose blocks are objects of the recorded number ---- */

struct object_size {
    uint64_t bytes, blocks; /* bytes: size of one object. blocks: sum over all stacks with this
                             * number and size */
};
struct object_sizes {
    struct object_size *list;
    size_t count;
    struct ag_index_map index; /* number << 40 | bytes -> index in `list` */
    struct ag_index_map usual; /* number -> index of the size that most objects have */
};
enum { SIZE_BITS = 40 };

static const char *given_name(const struct ag_profile *profile, const struct ag_decoder *decoder,
                              uint32_t number) {
    const struct ag_decoder_types *types =
        profile->options.types_decoder == decoder ? profile->options.types : NULL;
    return decoder->type_name ? decoder->type_name(types, number) : NULL;
}

/* Whether the number has the same name in all programs. */
static bool is_universal(const struct ag_decoder *decoder, uint32_t number) {
    return decoder->type_name && decoder->type_name(/* types= */ NULL, number) != NULL;
}

/* Returns the size of the row's blocks; 0: the blocks have different sizes, or the trace is
 * sampled, so that bytes and blocks are estimates. */
static uint64_t object_bytes(const struct ag_profile *profile, size_t row) {
    const struct ag_metrics *metrics = &profile->rows[row].metrics;
    const uint64_t blocks = metrics->allocated_blocks, bytes = metrics->allocated_bytes;
    return blocks == 0 || bytes % blocks != 0 || profile->identity.is_sampled ? 0 : bytes / blocks;
}

/* Whether the row's blocks can be objects of the type NUMBER. The file of names, if there is one,
 * must contain NUMBER. In addition, one of three conditions must hold: the name of the function
 * contains the type that the file gives for NUMBER; the frame is managed; the code of the place
 * stores NUMBER in the block. A number with the same name in all programs needs no check. */
static bool can_be_object(const struct ag_profile *profile, size_t row, const struct place *place,
                          uint32_t number) {
    const struct ag_decoder *decoder = place->decoder;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    const struct ag_stack_site *site = &nodes->sites[nodes->nodes[profile->row_nodes[row]].site];
    if (!decoder->stores_type || is_universal(decoder, number)) {
        return true;
    }
    const uint64_t bytes = object_bytes(profile, row);
    const char *name = given_name(profile, decoder, number);
    if (!name && profile->options.types_decoder == decoder && profile->options.types) {
        return false;
    }
    return (name && place->kind == AG_PLACE_OBJECT && strcmp(name, place->type) == 0) ||
           site->image == AG_IMAGE_MANAGED ||
           ((bytes != 0 || profile->identity.is_sampled) &&
            ag_symbolizer_stores_type(profile->frames.symbolizer, site->image, site->pc, number,
                                      bytes));
}

static int note_size(struct object_sizes *sizes, uint32_t number, uint64_t bytes, uint64_t blocks) {
    uint32_t at = 0;
    int r = ag_index_map_number(&sizes->index, (uint64_t)number << SIZE_BITS | bytes, &at);
    r = r > 0 ? AG_ARRAY_ADD(sizes->list, sizes->count, (struct object_size){.bytes = bytes}) : r;
    if (r < 0) {
        return r;
    }
    sizes->list[at].blocks += blocks;
    const uint32_t usual = ag_index_map_find(&sizes->usual, number);
    if (usual != AG_INDEX_NONE && sizes->list[usual].blocks >= sizes->list[at].blocks) {
        return 0;
    }
    if (usual != AG_INDEX_NONE) {
        ag_index_map_remove(&sizes->usual, number, usual);
    }
    return ag_index_map_insert(&sizes->usual, number, at);
}

/* Notes the size of the row's objects if the row's blocks can be objects of the recorded number.
 * *ret_number: the recorded number; 0: the blocks cannot be objects of it. */
static int look_at_size(struct ag_profile *profile, size_t row, struct place *place,
                        struct object_sizes *sizes, uint32_t *ret_number) {
    const char *unused = NULL;
    const uint32_t node = profile->row_nodes[row];
    const uint32_t number = reported_type(profile, profile->rows[row].stack, &unused);
    *ret_number = 0;
    if (number == 0 || !find_place(profile, node, place) || place->kind == AG_PLACE_BUFFER ||
        !can_be_object(profile, row, place, number)) {
        return 0;
    }
    *ret_number = number;
    const uint64_t bytes = object_bytes(profile, row);
    return bytes != 0 && bytes >> SIZE_BITS == 0 && !is_universal(place->decoder, number)
               ? note_size(sizes, number, bytes, profile->rows[row].metrics.allocated_blocks)
               : 0;
}

static bool has_usual_size(const struct ag_profile *profile, size_t row,
                           const struct ag_decoder *decoder, const struct object_sizes *sizes,
                           uint32_t number) {
    if (!decoder->stores_type || is_universal(decoder, number) || profile->identity.is_sampled) {
        return true;
    }
    const uint32_t usual = ag_index_map_find(&sizes->usual, number);
    return usual != AG_INDEX_NONE && sizes->list[usual].bytes == object_bytes(profile, row);
}

static int find_object_stacks(struct ag_profile *profile, struct place *place) {
    struct object_sizes sizes = {0};
    uint32_t *numbers = calloc(profile->n_rows + 1, sizeof(*numbers)); /* by row; 0: none */
    int r = numbers ? 0 : -ENOMEM;
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        r = look_at_size(profile, i, place, &sizes, &numbers[i]);
    }
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        if (numbers[i] != 0 && find_place(profile, profile->row_nodes[i], place) &&
            has_usual_size(profile, i, place->decoder, &sizes, numbers[i])) {
            r = ag_index_map_insert_first(&profile->object_stacks, profile->rows[i].stack, 0);
        }
    }
    free(numbers);
    free(sizes.list);
    ag_index_map_done(&sizes.index);
    ag_index_map_done(&sizes.usual);
    return r;
}

static bool makes_objects(const struct ag_profile *profile, uint32_t stack) {
    return ag_index_map_find(&profile->object_stacks, stack) != AG_INDEX_NONE;
}

/* ---- learning names of numbers ---- */

struct sighting { /* `number` was recorded in a function that makes objects of the type with the
                   * name `text` */
    uint32_t text, number;
};
struct sightings {
    struct sighting *list;
    size_t count;
    struct ag_index_map seen; /* a set with the keys number << 32 | text */
};

static int note_sighting(struct sightings *sightings, uint32_t text, uint32_t number) {
    const int r = ag_index_map_number(&sightings->seen, text | (uint64_t)number << 32, NULL);
    return r > 0 ? AG_ARRAY_ADD(sightings->list, sightings->count,
                                (struct sighting){.text = text, .number = number})
                 : r;
}

/* Learns the name of the row's number if the frame has a line, because the function name then shows
 * the type. If the frame has no line, adds the number and the type to SIGHTINGS. */
static int look_at_row(struct ag_profile *profile, size_t row, struct place *place,
                       struct sightings *sightings) {
    const char *reported = NULL;
    const uint32_t number = reported_type(profile, profile->rows[row].stack, &reported);
    if (number == 0 || !find_place(profile, profile->row_nodes[row], place) ||
        place->kind != AG_PLACE_OBJECT || place->type[0] == '\0') {
        return 0;
    }
    const uint32_t text = ag_text_id(&profile->definitions.texts, place->type, strlen(place->type));
    if (place->frame->line == 0 && !makes_objects(profile, profile->rows[row].stack)) {
        return 0;
    }
    if (place->frame->line == 0) {
        return given_name(profile, place->decoder, number) ? 0
                                                           : note_sighting(sightings, text, number);
    }
    return ag_index_map_insert_first(&profile->learned_types, number, text);
}

struct only_values { /* finds the keys that have only one value */
    struct ag_index_map first, has_more;
};

static int note_value(struct only_values *values, uint32_t key, uint32_t value) {
    const uint32_t first = ag_index_map_find(&values->first, key);
    if (first == AG_INDEX_NONE) {
        return ag_index_map_insert(&values->first, key, value);
    }
    return first == value ? 0 : ag_index_map_insert_first(&values->has_more, key, 0);
}

static bool is_only_value(const struct only_values *values, uint32_t key, uint32_t value) {
    return ag_index_map_find(&values->first, key) == value &&
           ag_index_map_find(&values->has_more, key) == AG_INDEX_NONE;
}

static void only_values_done(struct only_values *values) {
    ag_index_map_done(&values->first);
    ag_index_map_done(&values->has_more);
}

static bool is_learned(const struct ag_profile *profile, uint32_t number) {
    return ag_index_map_find(&profile->learned_types, number) != AG_INDEX_NONE;
}

/* Learns each number that is the only unknown number of exactly one type. Returns how many numbers
 * were learned, or a negative errno. */
static int settle(struct ag_profile *profile, const struct sightings *sightings) {
    struct only_values number_of = {0}, text_of = {0};
    int n_learned = 0, r = 0;
    for (size_t i = 0; i < sightings->count && r == 0; i++) {
        const struct sighting *seen = &sightings->list[i];
        r = is_learned(profile, seen->number) ? 0
                                              : note_value(&number_of, seen->text, seen->number);
    }
    for (size_t i = 0; i < sightings->count && r == 0; i++) {
        const struct sighting *seen = &sightings->list[i];
        r = is_only_value(&number_of, seen->text, seen->number)
                ? note_value(&text_of, seen->number, seen->text)
                : 0;
    }
    for (size_t i = 0; i < sightings->count && r == 0; i++) {
        const struct sighting *seen = &sightings->list[i];
        if (is_only_value(&text_of, seen->number, seen->text) &&
            !is_learned(profile, seen->number)) {
            r = ag_index_map_insert(&profile->learned_types, seen->number, seen->text);
            n_learned++;
        }
    }
    only_values_done(&number_of);
    only_values_done(&text_of);
    return r < 0 ? r : n_learned;
}

static int types_learn(struct ag_profile *profile) {
    if (profile->has_learned_types) {
        return 0;
    }
    profile->has_learned_types = true;
    struct sightings sightings = {0};
    struct place *place = malloc(sizeof(*place));
    int r = place ? find_object_stacks(profile, place) : -ENOMEM;
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        r = look_at_row(profile, i, place, &sightings);
    }
    int n_learned = r < 0 ? r : 1;
    for (int round = 0; round < ROUNDS && n_learned > 0; round++) {
        n_learned = settle(profile, &sightings);
    }
    r = n_learned < 0 ? n_learned : 0;
    free(place);
    free(sightings.list);
    ag_index_map_done(&sightings.seen);
    return r;
}

void ag_profile_forget_types(struct ag_profile *profile) {
    ag_index_map_done(&profile->learned_types);
    ag_index_map_done(&profile->object_stacks);
    profile->has_learned_types = false;
}

static const char *name_of_number(struct ag_profile *profile, const struct ag_decoder *decoder,
                                  uint32_t number) {
    const char *name = given_name(profile, decoder, number);
    const uint32_t text = ag_index_map_find(&profile->learned_types, number);
    return name ? name : text != AG_INDEX_NONE ? ag_text(&profile->definitions.texts, text) : NULL;
}

/* Returns the innermost caller of FRAME, a frame of NODE, that is in the program's own code. NULL:
 * there is no such caller, or FRAME is itself in the program's own code, or the line of FRAME is
 * unknown. */
static const struct ag_frame *find_caller(struct ag_profile *profile, uint32_t node,
                                          const struct ag_frame *frame) {
    if (frame->line == 0 || ag_frame_owner(profile, frame) != AG_OWNER_SYSTEM) {
        return NULL;
    }
    bool is_outside = false;
    for (; !AG_IS_ROOT(node); node = profile->definitions.nodes.nodes[node].parent) {
        size_t n;
        const uint32_t *frames = ag_profile_node_frames(profile, node, &n);
        for (size_t i = 0; i < n; i++) {
            const struct ag_frame *at = &ag_frame_table_get(&profile->frames, frames[i])->frame;
            if (is_outside && ag_frame_owner(profile, at) == AG_OWNER_READER) {
                return at;
            }
            is_outside = is_outside || at == frame;
        }
    }
    return NULL;
}

static int write_frame(const struct ag_frame *frame, char *text, size_t capacity) {
    return frame->line != 0 ? snprintf(text, capacity, "%s @ %s:%u", frame->function,
                                       frame->file ? ag_base_name(frame->file) : "?", frame->line)
                            : snprintf(text, capacity, "%s", frame->function);
}

/* Writes the text that is shown for a type without a name: the number of the type (or the word
 * "buffer") and the place. If the place is in the language's library, which many types share, the
 * text also has the frame of the program that called the library. */
static int label_of(struct ag_profile *profile, uint32_t node, const struct place *place,
                    uint32_t number, char *text, size_t capacity) {
    const struct ag_frame *where = place->kind == AG_PLACE_BUFFER ? place->caller : place->frame;
    const struct ag_frame *caller = find_caller(profile, node, where);
    char begin[32] = "", parts[2][TEXT_BYTES] = {"", ""};
    if (place->kind == AG_PLACE_BUFFER) {
        (void)snprintf(begin, sizeof(begin), "buffer ");
    } else if (number != 0) {
        (void)snprintf(begin, sizeof(begin), "#%u ", number);
    }
    if (write_frame(where, parts[0], TEXT_BYTES) >= TEXT_BYTES ||
        (caller && write_frame(caller, parts[1], TEXT_BYTES) >= TEXT_BYTES)) {
        return TEXT_BYTES;
    }
    return snprintf(text, capacity, "%s(%s%s%s)", begin, parts[0], caller ? " < " : "", parts[1]);
}

static uint32_t runtime_type(struct ag_profile *profile, uint32_t stack, uint32_t node,
                             const char **ret_runtime) {
    struct place place;
    char text[TEXT_BYTES];
    if (!find_place(profile, node, &place)) {
        return 0;
    }
    const char *reported = NULL, *name = place.type[0] ? place.type : NULL;
    const bool has_line = place.frame->line != 0;
    const uint32_t recorded = reported_type(profile, stack, &reported);
    name = place.kind == AG_PLACE_OBJECT && recorded != 0 && !has_line ? NULL : name;
    const uint32_t number =
        (has_line && place.kind == AG_PLACE_OBJECT) || makes_objects(profile, stack) ? recorded : 0;
    const bool is_object =
        place.kind == AG_PLACE_OBJECT || (place.kind == AG_PLACE_SILENT && number != 0 &&
                                          (!has_line || is_universal(place.decoder, number)));
    if (!name && is_object && number != 0) {
        name = name_of_number(profile, place.decoder, number);
        name = name ? name : reported;
    }
    if (!name) {
        const int n = label_of(profile, node, &place, is_object ? number : 0, text, sizeof(text));
        if (n < 0 || (size_t)n >= sizeof(text)) {
            return 0;
        }
        name = text;
    }
    *ret_runtime = place.decoder->runtime;
    return ag_text_id(&profile->definitions.texts, name, strlen(name));
}

/* GOES_ON, KNOWN: values of profile->site_types. 0: the site was not read yet. GOES_ON: the type
 * depends on the callers of the site. KNOWN + N: the name of the type is the text with the id N (0:
 * the type is unknown). */
enum { TYPE_BYTES = 1024, GOES_ON = 1, KNOWN = 2 };

/* Reads the frames of a node. Returns false if no more frames should be read. */
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

/* Returns the id of the type's name, read from function names; 0: unknown. Call ag_profile_resolve
 * first. */
static uint32_t type_of_node(struct ag_profile *profile, uint32_t node) {
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    if (AG_IS_ROOT(node) || !profile->node_is_used[node]) {
        return 0;
    }
    uint32_t *known = &profile->site_types[nodes->nodes[node].site];
    if (*known >= KNOWN) {
        return *known - KNOWN;
    }
    struct ag_type_reading reading = {.rank = 0};
    bool goes_on = read_node(profile, node, &reading);
    if (!goes_on) {
        const uint32_t text = text_of(profile, &reading);
        *known = KNOWN + text;
        return text;
    }
    *known = GOES_ON;
    for (node = nodes->nodes[node].parent; goes_on && !AG_IS_ROOT(node);
         node = nodes->nodes[node].parent) {
        goes_on = read_node(profile, node, &reading);
    }
    return text_of(profile, &reading);
}

int ag_profile_prepare_types(struct ag_profile *profile) {
    int r = ag_profile_resolve(profile);
    if (r == 0 && !profile->site_types) {
        profile->site_types =
            calloc(profile->definitions.nodes.n_sites + 1, sizeof(*profile->site_types));
    }
    r = r < 0 ? r : profile->site_types ? 0 : -ENOMEM;
    return r < 0 ? r : types_learn(profile);
}

/* Returns the id of the name of the type that a stack allocated; 0: unknown. *ret_runtime: the
 * runtime of the type. */
static uint32_t type_of(struct ag_profile *profile, uint32_t stack, uint32_t node,
                        const char **ret_runtime) {
    const struct ag_model_type *reported = reported_definition(profile, stack);
    const bool has_node = ag_stack_nodes_leaf(&profile->definitions.nodes, stack).type != 0;
    if (reported && ag_text(&profile->definitions.texts, reported->name)[0] == '#' &&
        (!has_node || decoder_of(profile, reported->runtime))) {
        reported = NULL; /* a runtime's own number, which only runtime_type can convert to a name */
    }
    *ret_runtime = reported && reported->runtime[0] ? reported->runtime : "c";
    const uint32_t text = runtime_type(profile, stack, node, ret_runtime);
    return text != 0 ? text : reported ? reported->name : type_of_node(profile, node);
}

uint32_t ag_profile_row_type(struct ag_profile *profile, size_t row) {
    const char *unused;
    if (profile->row_types) {
        return profile->row_types[row];
    }
    return type_of(profile, profile->rows[row].stack, profile->row_nodes[row], &unused);
}

const char *ag_profile_stack_type(struct ag_profile *profile, uint32_t stack) {
    if (ag_profile_prepare_types(profile) < 0) {
        return NULL;
    }
    if (profile->row_types) {
        const uint32_t known = ag_index_map_find(&profile->type_of_stack, stack);
        return known != AG_INDEX_NONE && known != 0 ? ag_text(&profile->definitions.texts, known)
                                                    : NULL;
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

/* ---- labels ---- */

/* A label is a leaf of the stack tree, as a type is. So a stack whose blocks have two labels has
 * two rows, and all blocks of a row have the same label. */

const char *ag_profile_stack_label(const struct ag_profile *profile, uint32_t stack) {
    const struct ag_definitions *definitions = &profile->definitions;
    const uint32_t label = ag_stack_nodes_leaf(&definitions->nodes, stack).label;
    return label != 0 ? ag_definitions_label(definitions, label) : NULL;
}
