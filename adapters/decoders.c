/* decoders.c: the runtimes whose functions and frames reports decode offline, one row each
 * (src/symbol/decoder.h). The first one that recognizes an image decodes it. */
#include "symbol/decoder.h"

#include <stddef.h>

extern const struct ag_decoder ag_decoder_crystal, ag_decoder_julia, ag_decoder_ocaml;

const char ag_types_option[] = "crystal-types";
const char ag_types_option_help[] = "names of the types of a Crystal release build: what\n"
                                    "CRYSTAL_DUMP_TYPE_ID=1 crystal build printed";
const char ag_types_environment[] = "ALLOGRAM_CRYSTAL_TYPES";

const struct ag_decoder *const ag_decoders[] = {
    &ag_decoder_crystal,
    &ag_decoder_julia,
    &ag_decoder_ocaml,
    NULL,
};
