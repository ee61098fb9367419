/* ocaml_decoder.c: decodes OCaml's functions and frames offline, for reports (symbol/decoder.h).
 *
 * OCaml's own frame table is the best source. It has the function, the line and the inlined
 * functions of every return address. Where the compiler combined several allocations, the table has
 * debug information for each of them. For a combined allocation the adapter in the process records
 * the address of this debug information, which lies in the program's data; all other frames are
 * return addresses. Without -g, the linker's symbol still has the function's name. */
#include "symbol/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "debug_info.h"
#include "frame_index.h"
#include "ocaml_name.h"

struct state {
    struct ag_decoder_file *file;
    enum ag_ocaml_debug_format format;
    uint64_t tables;
    bool has_index;
    struct ag_ocaml_frame_index index;
    struct ag_ocaml_debug_texts texts;
};

static void *open_image(struct ag_decoder_file *file) {
    uint64_t tables = 0, unused;
    if (!ag_decoder_symbol(file, "caml_frametable", &tables)) {
        return NULL;
    }
    struct state *state = calloc(1, sizeof(*state));
    if (state != NULL) {
        state->file = file;
        state->tables = tables;
        state->format =
            ag_decoder_symbol(file, "caml_memprof_track_young", &unused)    ? AG_OCAML_DEBUG_4
            : ag_decoder_symbol(file, "caml_memprof_sample_young", &unused) ? AG_OCAML_DEBUG_5
                                                                            : AG_OCAML_DEBUG_NONE;
    }
    return state;
}

static void close_image(void *context) {
    struct state *state = context;
    ag_ocaml_frame_index_clear(&state->index);
    free(state);
}

static bool name_of(void *context, const char *linkage, char *ret_text, size_t capacity) {
    (void)context;
    return ag_ocaml_symbol_name(linkage, ret_text, capacity);
}

static size_t frames_at(void *context, uint64_t pc, bool is_return_address,
                        struct ag_decoded_frame *ret_frames, size_t capacity) {
    struct state *state = context;
    uint64_t debug_info = pc;
    if (state->format == AG_OCAML_DEBUG_NONE) {
        return 0;
    }
    if (ag_decoder_is_code(state->file, pc)) {
        if (!state->has_index) {
            state->has_index = true;
            ag_ocaml_frame_index_read(&state->index, state->file, state->tables);
        }
        debug_info = is_return_address ? ag_ocaml_frame_index_find(&state->index, pc) : 0;
        if (is_return_address && debug_info == 0) { /* after a stub the pc is one higher
                                                     * (callstack.c) */
            debug_info = ag_ocaml_frame_index_find(&state->index, pc - 1);
        }
    }
    return debug_info != 0 ? ag_ocaml_debug_frames(state->file, state->format, debug_info,
                                                   &state->texts, ret_frames, capacity)
                           : 0;
}

static bool begins_with(const char *text, const char *beginning) {
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* The functions of OCaml's runtime are C functions whose names begin with caml_. C functions of
 * programs may have such names, too, so the source file, if it is known, must be one of OCaml's
 * own, which are in the folders runtime and otherlibs. Of the libraries that are part of OCaml,
 * those are recognized whose modules have names that no program uses for modules of its own. */
static bool is_library(const char *function, const char *file, bool is_native) {
    static const char *const modules[] = {"Stdlib.", "Camlinternal", "Std_exit.",
                                          "Unix.",   "UnixLabels.",  "Str."};
    if (is_native) {
        return begins_with(function, "caml_") &&
               (file == NULL || strstr(file, "/runtime/") != NULL ||
                strstr(file, "/otherlibs/") != NULL);
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(modules); i++) {
        if (begins_with(function, modules[i])) {
            return true;
        }
    }
    return false;
}

const struct ag_decoder ag_decoder_ocaml = {
    .runtime = "ocaml",
    .open = open_image,
    .close = close_image,
    .name = name_of,
    .frames = frames_at,
    .is_library = is_library,
};
