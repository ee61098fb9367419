/* debug_info.h: decodes OCaml's debug information of one place: function, file, line, and the
 * functions it was inlined into. */
#ifndef AG_OCAML_DEBUG_INFO_H
#define AG_OCAML_DEBUG_INFO_H

#include "symbol/decoder.h"

enum ag_ocaml_debug_format {
    AG_OCAML_DEBUG_NONE, /* of an unsupported version of OCaml */
    AG_OCAML_DEBUG_4,    /* of OCaml 4.11 to 4.14 */
    AG_OCAML_DEBUG_5,    /* of OCaml 5.2 and later */
};
struct ag_ocaml_debug_texts { /* storage for the frames' names */
    char bytes[32 << 10];
    size_t used;
};

/* The frames at ADDRESS, innermost first; 0: none, or the data is invalid. */
size_t ag_ocaml_debug_frames(struct ag_decoder_file *file, enum ag_ocaml_debug_format format,
                             uint64_t address, struct ag_ocaml_debug_texts *texts,
                             struct ag_decoded_frame *ret_frames, size_t capacity);

#endif
