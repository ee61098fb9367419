/* blamed_lines.c: finds for each stack the line that the summary and its findings name as the
 * origin of the blocks (the blamed line). Sections 1 to 3 explain how.
 *
 * 1. Owners. strdup allocates, but the reader of a report cannot change its line. So the blamed
 * line of a stack is the innermost frame whose source file is known and belongs to the reader's
 * program. If the stack has no such frame, the blamed line is the innermost frame outside of the C
 * library, the language's library and the runtime. If all frames are in these libraries, the blamed
 * line is the innermost frame of the stack. But if the stack is cut (deeper than --depth), the
 * program's frames are missing, and the innermost frame of the language's library is more useful to
 * the reader than a function of the runtime.
 *
 * 2. Wrappers. A function such as xmalloc allocates nearly everything, so its line is not useful to
 * the reader; the lines of its callers are. A function is skipped if its name contains "alloc" and
 * it has at least two callers, or if it allocates half of all blocks or bytes and has at least
 * three. A function with a single caller is never skipped, because its own line is as useful as its
 * caller's. Wrappers call each other (sqlite3Malloc, mallocWithAlarm, sqlite3MemMalloc), so this
 * step is repeated until nothing changes, at most WRAPPERS_MOST times.
 *
 * 3. All stacks with the same blamed line are added to one row, struct ag_blamed_line.
 *
 * 4. Folding (ag_profile_fold). The views for people leave out what the reader cannot change: each
 * stack begins at its blamed line, and a code address whose frames are all of libraries (the _start
 * before main, std::thread's functions, the runtime) is not shown. A code address is left out of
 * all stacks or of none. The code addresses of a stack that has only frames of libraries are shown
 * in all stacks. The sums of the rows stay the same; only the frames of the rows change. The types
 * of blocks are found in whole stacks (std::vector's functions name the type), so they are
 * determined before the folding. */
#include "model/answers/blamed_lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "base/runtimes.h"
#include "model/answers/lifetimes.h"
#include "model/metric.h"
#include "model/profile_state.h"
#include "symbol/decoder.h"
#include "symbol/symbol.h"

/* ---- the owner of a frame ---- */

/* The owner of a frame is decided by paths and names alone, because the files of the machine that
 * compiled the program are not available.
 *
 * The libraries of the C runtime are recognized by their names: distributions build them with
 * relative paths below ".", so their source paths look like those of any program. Headers of a
 * compiler have absolute paths below /usr. Rust's library has paths below /rustc/ or library/,
 * which exist on no machine. If no file is known, the namespace of the function decides. For a
 * runtime (virtual machine), the decoder of its symbol names knows which frames belong to the
 * runtime and to the library of its language. */

static bool begins_with_any(const char *text, const char *const *beginnings, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_file_of_system(const char *file) {
    static const char *const beginnings[] = {"/usr/", "/rustc/", "library/"};
    return begins_with_any(file, beginnings, AG_ARRAY_SIZE(beginnings));
}

static bool is_image_of_system(const char *image) {
    static const char *const beginnings[] = {"libc.so",     "libc-",      "ld-linux",  "ld-2.",
                                             "libm.so",     "libpthread", "libstdc++", "libgcc_s",
                                             "liballogram-"}; /* allogram's own functions may appear
                                                               * in stacks */
    return begins_with_any(image, beginnings, AG_ARRAY_SIZE(beginnings));
}

static bool is_function_of_system(const char *function) {
    static const char *const beginnings[] = {
        "std::",       "void std::",   "__gnu_cxx::", "void __gnu_cxx::", "operator new",
        "alloc::",     "core::",       "<alloc::",    "<core::",          "<std::",
        "hashbrown::", "<hashbrown::", "__rust_",     "__rustc::",        "__rdl_",
        "__rg_", /* the compiler's calls of a #[global_allocator], with the line of the attribute */
        "__cxxabiv1::"};
    /* _start calls main; it is in the program's file, but has no source */
    return begins_with_any(function, beginnings, AG_ARRAY_SIZE(beginnings)) ||
           strcmp(function, "_start") == 0;
}

static bool begins_with_one_of(const char *text, const char *const *beginnings) {
    for (; beginnings && *beginnings; beginnings++) {
        if (strncmp(text, *beginnings, strlen(*beginnings)) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_frame_of_runtime(const struct ag_profile *profile, const struct ag_frame *frame) {
    const struct ag_symbol_options *options = profile->options.symbol;
    const struct ag_runtime *row = options ? options->runtimes : NULL;
    const bool is_native = !ag_frame_is_managed(frame);
    for (; row && row->name; row++) {
        if (is_native && frame->image && begins_with_one_of(frame->image, row->libraries)) {
            return true;
        }
        if (frame->function && row->decoder && row->decoder->is_library &&
            (is_native || strcmp(row->name, frame->runtime) == 0) &&
            row->decoder->is_library(frame->function, frame->file, is_native)) {
            return true;
        }
    }
    return false;
}

enum ag_frame_owner ag_frame_owner(const struct ag_profile *profile, const struct ag_frame *frame) {
    const bool is_of_system = (frame->file && is_file_of_system(frame->file)) ||
                              (frame->image && is_image_of_system(frame->image)) ||
                              (frame->function && is_function_of_system(frame->function)) ||
                              is_frame_of_runtime(profile, frame);
    return is_of_system ? AG_OWNER_SYSTEM : frame->file ? AG_OWNER_READER : AG_OWNER_UNKNOWN;
}

enum {
    /* most wrappers that are skipped in one stack; the programs that were examined have up to 4 */
    WRAPPERS_MOST = 8,
    NAMED_CALLERS = 2, /* least number of callers of a wrapper with "alloc" in its name */
    /* least number of callers of any other wrapper, which must also allocate half of all blocks or
     * bytes */
    UNNAMED_CALLERS = 3,
};
/* a frame in a stack: index AT of the frames of NODE (inlined functions are frames, too) */
struct position {
    uint32_t node, at;
};
/* a function, with the sums of all rows (stacks) whose current position is in this function */
struct function {
    uint64_t blocks, bytes;
    uint32_t callers[UNNAMED_CALLERS]; /* the first callers that differ from each other; more are
                                        * not needed */
    uint32_t n_callers;
    bool is_wrapper, is_named;
};
struct walk {
    struct ag_profile *profile;
    /* index: row of the profile (a stack with its sums); the current position in the stack. If
     * `node` of the position is AG_NODE_ROOT(...), the stack has no frames */
    struct position *positions;
    enum ag_frame_owner *least;  /* by row: frames whose owner has a lower value are skipped */
    uint8_t *owner_of_frame;     /* 1 + enum ag_frame_owner; 0: not determined yet */
    uint32_t *function_of_frame; /* 1 + index in functions; 0: not determined yet */
    /* image << 32 | function (ids of texts) -> index in functions */
    struct ag_index_map function_index;
    struct function *functions;
    size_t n_functions;
    uint64_t blocks, bytes; /* sums of all rows */
};

/* ---- frames along a stack ---- */

static enum ag_frame_owner owner_of(struct walk *walk, uint32_t frame) {
    uint8_t *known = &walk->owner_of_frame[frame];
    if (*known == 0) {
        *known =
            (uint8_t)(1 + ag_frame_owner(walk->profile, ag_profile_frame(walk->profile, frame)));
    }
    return (enum ag_frame_owner)(*known - 1);
}

static uint32_t frame_at(struct walk *walk, const struct position *position) {
    size_t n;
    return ag_profile_node_frames(walk->profile, position->node, &n)[position->at];
}

/* Moves one frame outward, toward the caller. Returns false if the frame was the outermost. */
static bool go_out(struct walk *walk, struct position *position) {
    size_t n;
    (void)ag_profile_node_frames(walk->profile, position->node, &n);
    if (position->at + 1 < n) {
        position->at++;
        return true;
    }
    const uint32_t parent = walk->profile->definitions.nodes.nodes[position->node].parent;
    if (AG_IS_ROOT(parent)) {
        return false;
    }
    *position = (struct position){.node = parent};
    return true;
}

/* Moves outward to the next frame whose owner is at least LEAST. Does not move if the current frame
 * already has such an owner. Returns false if no frame has such an owner. */
static bool find_owned(struct walk *walk, struct position *position, enum ag_frame_owner least) {
    struct position at = *position;
    while (owner_of(walk, frame_at(walk, &at)) < least) {
        if (!go_out(walk, &at)) {
            return false;
        }
    }
    *position = at;
    return true;
}

/* Moves outward to the innermost frame of a virtual machine whose source file is known, if there is
 * one. */
static void find_managed(struct walk *walk, struct position *position) {
    struct position at = *position;
    do {
        const struct ag_frame *frame = ag_profile_frame(walk->profile, frame_at(walk, &at));
        if (ag_frame_is_managed(frame) && frame->file) {
            *position = at;
            return;
        }
    } while (go_out(walk, &at));
}

static void start_row(struct walk *walk, size_t row) {
    struct position *position = &walk->positions[row];
    *position = (struct position){.node = walk->profile->row_nodes[row]};
    walk->least[row] = AG_OWNER_SYSTEM;
    if (AG_IS_ROOT(position->node)) {
        return;
    }
    for (enum ag_frame_owner least = AG_OWNER_READER; least > AG_OWNER_SYSTEM; least--) {
        if (find_owned(walk, position, least)) {
            walk->least[row] = least;
            return;
        }
    }
    if (walk->profile->rows[row].state == AG_STACK_CUT) {
        find_managed(walk, position);
    }
}

/* ---- wrappers ---- */

static bool is_named_wrapper(const char *function) {
    return function && strcasestr(function, "alloc");
}

/* The number of a frame's function, or AG_INDEX_NONE: no memory. */
static uint32_t function_of(struct walk *walk, uint32_t frame) {
    uint32_t *known = &walk->function_of_frame[frame];
    if (*known != 0) {
        return *known - 1;
    }
    const struct ag_model_frame *model = ag_frame_table_get(&walk->profile->frames, frame);
    const uint64_t key = model->function | (uint64_t)model->image << 32;
    uint32_t at;
    const int r = ag_index_map_number(&walk->function_index, key, &at);
    if (r < 0) {
        return AG_INDEX_NONE;
    }
    if (r > 0) {
        walk->functions[walk->n_functions++].is_named = is_named_wrapper(model->frame.function);
    }
    *known = at + 1;
    return at;
}

/* Moves outward to the caller: the next frame of another function whose owner is not skipped.
 * Returns false if there is none. */
static bool find_caller(struct walk *walk, size_t row, struct position *position) {
    struct position at = *position;
    const uint32_t callee = function_of(walk, frame_at(walk, &at));
    do {
        if (!go_out(walk, &at) || !find_owned(walk, &at, walk->least[row])) {
            return false;
        }
    } while (function_of(walk, frame_at(walk, &at)) == callee);
    *position = at;
    return true;
}

static void count_row(struct walk *walk, size_t row) {
    struct position at = walk->positions[row];
    if (AG_IS_ROOT(at.node)) {
        return;
    }
    const struct ag_metrics *metrics = &walk->profile->rows[row].metrics;
    struct function *function = &walk->functions[function_of(walk, frame_at(walk, &at))];
    function->blocks += metrics->allocated_blocks;
    function->bytes += metrics->allocated_bytes;
    if (function->n_callers < UNNAMED_CALLERS && find_caller(walk, row, &at)) {
        const uint32_t caller = function_of(walk, frame_at(walk, &at));
        bool is_known = false;
        for (uint32_t i = 0; i < function->n_callers; i++) {
            is_known = is_known || function->callers[i] == caller;
        }
        if (!is_known) {
            function->callers[function->n_callers++] = caller;
        }
    }
}

static bool is_wrapper(const struct walk *walk, const struct function *function) {
    const bool has_most =
        function->blocks >= walk->blocks / 2 || function->bytes >= walk->bytes / 2;
    return (function->is_named && function->n_callers >= NAMED_CALLERS) ||
           (has_most && function->n_callers >= UNNAMED_CALLERS);
}

/* Moves each row whose position is in a wrapper to the caller of the wrapper, once (section 2 at
 * the top of this file). Returns whether the position of any row changed. */
static bool pass_wrappers(struct walk *walk) {
    for (size_t i = 0; i < walk->n_functions; i++) {
        walk->functions[i] = (struct function){.is_named = walk->functions[i].is_named};
    }
    for (size_t i = 0; i < walk->profile->n_rows; i++) {
        count_row(walk, i);
    }
    for (size_t i = 0; i < walk->n_functions; i++) {
        walk->functions[i].is_wrapper = is_wrapper(walk, &walk->functions[i]);
    }
    bool has_moved = false;
    for (size_t i = 0; i < walk->profile->n_rows; i++) {
        struct position *at = &walk->positions[i];
        if (!AG_IS_ROOT(at->node) &&
            walk->functions[function_of(walk, frame_at(walk, at))].is_wrapper) {
            has_moved = find_caller(walk, i, at) || has_moved;
        }
    }
    return has_moved;
}

/* ---- blamed_lines ---- */

static int add_rows(struct walk *walk) {
    struct ag_profile *profile = walk->profile;
    struct ag_index_map by_frame = {0};
    int r = 0;
    for (size_t i = 0; i < profile->n_rows && r >= 0; i++) {
        const struct position *position = &walk->positions[i];
        const uint32_t frame =
            AG_IS_ROOT(position->node) ? profile->frames.no_stack : frame_at(walk, position);
        uint32_t at = 0;
        r = ag_index_map_number(&by_frame, frame, &at);
        if (r > 0) {
            profile->blamed_lines[profile->n_blamed_lines++].frame = frame;
        }
        profile->line_of_row[i] = at;
        ag_metrics_add(&profile->blamed_lines[at].metrics, &profile->rows[i].metrics);
    }
    ag_index_map_done(&by_frame);
    return r < 0 ? r : 0;
}

/* Allocates room for all possible frames and functions first, so that nothing fails later. */
static int walk_make_room(struct walk *walk) {
    struct ag_profile *profile = walk->profile;
    const size_t n_rows = profile->n_rows, n_frames = profile->frames.n_frames;
    profile->blamed_lines = calloc(n_rows + 1, sizeof(*profile->blamed_lines));
    profile->line_of_row = calloc(n_rows + 1, sizeof(*profile->line_of_row));
    walk->positions = calloc(n_rows + 1, sizeof(*walk->positions));
    walk->least = calloc(n_rows + 1, sizeof(*walk->least));
    walk->owner_of_frame = calloc(n_frames + 1, sizeof(*walk->owner_of_frame));
    walk->function_of_frame = calloc(n_frames + 1, sizeof(*walk->function_of_frame));
    walk->functions = calloc(n_frames + 1, sizeof(*walk->functions));
    const bool has_room = profile->blamed_lines && profile->line_of_row && walk->positions &&
                          walk->least && walk->owner_of_frame && walk->function_of_frame &&
                          walk->functions;
    return has_room ? 0 : -ENOMEM;
}

static int number_functions(struct walk *walk) {
    for (size_t i = 0; i < walk->profile->frames.n_frames; i++) {
        if (function_of(walk, (uint32_t)i) == AG_INDEX_NONE) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* ---- folding ---- */

static int find_types(struct ag_profile *profile) {
    const struct ag_type_row *types;
    size_t n_types;
    int r = ag_profile_types(profile, &types, &n_types);
    uint32_t *row_types = calloc(profile->n_rows + 1, sizeof(*row_types));
    r = r < 0 ? r : row_types ? 0 : -ENOMEM;
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        const uint32_t stack = profile->rows[i].stack;
        row_types[i] = ag_profile_row_type(profile, i);
        if (ag_index_map_find(&profile->type_of_stack, stack) == AG_INDEX_NONE) {
            r = ag_index_map_insert(&profile->type_of_stack, stack, row_types[i]);
        }
    }
    profile->row_types = row_types; /* the profile frees the array, also after an error */
    return r;
}

/* Marks the sites of NODE and its callers with VALUE. */
static void mark_sites(const struct ag_profile *profile, uint32_t node, uint8_t value,
                       uint8_t *marks) {
    const struct ag_stack_node *nodes = profile->definitions.nodes.nodes;
    for (; !AG_IS_ROOT(node); node = nodes[node].parent) {
        marks[nodes[node].site] = value;
    }
}

/* Decides which frames are left out of all stacks (section 4 at the top of this file), see
 * ag_profile_left_out. */
static int decide(struct walk *walk) {
    struct ag_profile *profile = walk->profile;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    const struct ag_frame_answer *answers = profile->frames.answers;
    uint8_t *keeps_site = calloc(nodes->n_sites + 1, 1);
    uint32_t *left_out = profile->left_out = calloc(nodes->n_sites + 1, sizeof(*left_out));
    if (!keeps_site || !left_out) {
        free(keeps_site);
        return -ENOMEM;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        const struct position *at = &walk->positions[i];
        if (AG_IS_ROOT(at->node)) {
            continue;
        }
        const uint32_t site = nodes->nodes[at->node].site;
        /* Functions that are inlined into the blamed line's function are left out. A blamed line is
         * never left out. */
        left_out[site] = keeps_site[site] && left_out[site] < at->at ? left_out[site] : at->at;
        keeps_site[site] = 1;
    }
    for (size_t i = 0; i < profile->n_rows; i++) {
        if (!AG_IS_ROOT(walk->positions[i].node) && walk->least[i] == AG_OWNER_SYSTEM) {
            mark_sites(profile, walk->positions[i].node, 1, keeps_site);
        }
    }
    for (size_t i = 0; i < nodes->count; i++) {
        const uint32_t site = nodes->nodes[i].site;
        if (!profile->node_is_used[i] || keeps_site[site]) {
            continue;
        }
        keeps_site[site] = 1; /* so that the site is examined once */
        bool is_library = answers[site].count > 0;
        for (size_t k = 0; k < answers[site].count && is_library; k++) {
            const uint32_t frame = profile->frames.list[answers[site].first + k];
            is_library = owner_of(walk, frame) == AG_OWNER_SYSTEM;
        }
        left_out[site] = is_library ? answers[site].count : 0;
    }
    free(keeps_site);
    return 0;
}

/* Whether a shown frame called the code of NODE. The frames outside of main, such as _start, have
 * no such caller; leaving them out need not be reported. */
static bool has_shown_caller(const struct ag_profile *profile, uint32_t node) {
    const struct ag_stack_node *nodes = profile->definitions.nodes.nodes;
    do {
        node = nodes[node].parent;
    } while (!AG_IS_ROOT(node) && profile->frames.answers[nodes[node].site].is_folded);
    return !AG_IS_ROOT(node);
}

/* Begins each stack at its blamed line. Returns whether this changed the beginning of any stack. */
static bool fold_starts(struct walk *walk) {
    struct ag_profile *profile = walk->profile;
    bool is_folded = false;
    for (size_t i = 0; i < profile->n_rows; i++) {
        const struct position *at = &walk->positions[i];
        if (AG_IS_ROOT(at->node)) {
            continue;
        }
        const uint32_t leaf =
            ag_stack_nodes_find(&profile->definitions.nodes, profile->rows[i].stack);
        is_folded = is_folded || profile->row_nodes[i] != at->node;
        profile->folded_start[profile->row_nodes[i]] = at->node + 1;
        if (!AG_IS_ROOT(leaf)) {
            profile->folded_start[leaf] = at->node + 1;
        }
        profile->row_nodes[i] = at->node;
    }
    return is_folded;
}

static int fold(struct walk *walk, bool *ret_is_folded) {
    struct ag_profile *profile = walk->profile;
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    int r = find_types(profile);
    profile->folded_start = calloc(nodes->count + 1, sizeof(*profile->folded_start));
    r = r < 0 ? r : profile->folded_start ? 0 : -ENOMEM;
    if (r < 0) {
        return r;
    }
    bool is_folded = fold_starts(walk);
    for (size_t i = 0; i < nodes->n_sites; i++) {
        struct ag_frame_answer *answer = &profile->frames.answers[i];
        const uint32_t n = profile->left_out[i];
        answer->is_folded = n > 0 && n == answer->count;
        answer->first += n;
        answer->count -= n;
        is_folded = is_folded || (n > 0 && !answer->is_folded);
    }
    for (size_t i = 0; i < nodes->count && !is_folded; i++) {
        is_folded = profile->node_is_used[i] &&
                    profile->frames.answers[nodes->nodes[i].site].is_folded &&
                    has_shown_caller(profile, (uint32_t)i);
    }
    *ret_is_folded = is_folded;
    ag_profile_mark_used(profile);
    return 0;
}

static void forget_blamed_lines(struct ag_profile *profile) {
    free(profile->blamed_lines);
    free(profile->line_of_row);
    free(profile->left_out);
    profile->left_out = NULL;
    profile->blamed_lines = NULL;
    profile->line_of_row = NULL;
    profile->n_blamed_lines = 0;
}

/* FOLDED: where to store whether folding left out a frame; NULL: the stacks are not folded. */
static int blamed_lines_make(struct ag_profile *profile, bool *folded) {
    struct walk walk = {.profile = profile};
    int r = ag_profile_resolve(profile);
    r = r < 0 ? r : walk_make_room(&walk);
    r = r < 0 ? r : number_functions(&walk);
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        start_row(&walk, i);
        walk.blocks += profile->rows[i].metrics.allocated_blocks;
        walk.bytes += profile->rows[i].metrics.allocated_bytes;
    }
    for (int round = 0; round < WRAPPERS_MOST && r == 0; round++) {
        if (!pass_wrappers(&walk)) {
            break;
        }
    }
    r = r < 0 ? r : add_rows(&walk);
    r = r < 0 ? r : decide(&walk);
    r = r < 0 || !folded ? r : fold(&walk, folded);
    free(walk.positions);
    free(walk.least);
    free(walk.owner_of_frame);
    free(walk.function_of_frame);
    free(walk.functions);
    ag_index_map_done(&walk.function_index);
    if (r < 0) {
        forget_blamed_lines(profile);
    }
    return r;
}

/* Frees the blamed lines, and the cached results that folding changes. */
static void forget_answers(struct ag_profile *profile) {
    static const enum ag_site_key changed[] = {AG_BY_FUNCTION, AG_BY_LINE, AG_BY_IMAGE,
                                               AG_BY_STACK};
    for (size_t i = 0; i < AG_ARRAY_SIZE(changed); i++) {
        free(profile->sites[changed[i]]);
        profile->sites[changed[i]] = NULL;
        ag_lifetimes_end(&profile->lifetimes[changed[i]]);
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(profile->trees); i++) {
        free(profile->trees[i]);
        profile->trees[i] = NULL;
    }
    for (size_t i = 0; i < profile->n_lists; i++) {
        free(profile->lists[i].frames);
    }
    ag_index_map_done(&profile->frame_lists);
    profile->n_lists = profile->listed_frames = 0;
    forget_blamed_lines(profile);
}

int ag_profile_fold(struct ag_profile *profile, bool *ret_is_folded) {
    *ret_is_folded = false;
    if (profile->folded_start) {
        return 0;
    }
    forget_answers(profile);
    return blamed_lines_make(profile, ret_is_folded);
}

int ag_profile_blamed_lines(struct ag_profile *profile, const struct ag_blamed_line **ret_lines,
                            size_t *ret_n) {
    const int r = profile->blamed_lines ? 0 : blamed_lines_make(profile, /* folded= */ NULL);
    if (r < 0) {
        return r;
    }
    *ret_lines = profile->blamed_lines;
    *ret_n = profile->n_blamed_lines;
    return 0;
}

int ag_profile_left_out(struct ag_profile *profile, const uint32_t **ret_left_out) {
    const int r = profile->blamed_lines ? 0 : blamed_lines_make(profile, /* folded= */ NULL);
    if (r < 0) {
        return r;
    }
    *ret_left_out = profile->left_out;
    return 0;
}

const struct ag_frame *ag_profile_blamed_frame(struct ag_profile *profile,
                                               const struct ag_stack_row *row) {
    const struct ag_blamed_line *lines;
    size_t n;
    if (ag_profile_blamed_lines(profile, &lines, &n) < 0) {
        return NULL;
    }
    return ag_profile_frame(profile, lines[profile->line_of_row[row - profile->rows]].frame);
}

bool ag_profile_blamed_line_goes_through(struct ag_profile *profile, size_t blamed_line,
                                         uint32_t frame) {
    enum { NEARLY_ALL_PERCENT = 90 };
    const struct ag_stack_nodes *nodes = &profile->definitions.nodes;
    long double all_bytes = 0, through_bytes = 0;
    for (size_t i = 0; i < profile->n_rows; i++) {
        if (profile->line_of_row[i] != blamed_line) {
            continue;
        }
        bool is_through = false;
        uint32_t node = profile->row_nodes[i];
        for (; !AG_IS_ROOT(node) && !is_through; node = nodes->nodes[node].parent) {
            size_t n;
            const uint32_t *frames = ag_profile_node_frames(profile, node, &n);
            for (size_t k = 0; k < n && !is_through; k++) {
                is_through = frames[k] == frame;
            }
        }
        all_bytes += profile->rows[i].metrics.in_use_bytes;
        through_bytes += is_through ? profile->rows[i].metrics.in_use_bytes : 0;
    }
    return all_bytes > 0 && through_bytes * 100 >= all_bytes * NEARLY_ALL_PERCENT;
}
