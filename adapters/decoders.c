/* decoders.c: the runtimes whose functions and frames reports understand offline, one row each
 * (src/symbol/decoder.h). The first one that knows an image answers for it. */
#include "symbol/decoder.h"

#include <stddef.h>

extern const struct ag_decoder ag_decoder_ocaml;

const struct ag_decoder *const ag_decoders[] = {
    &ag_decoder_ocaml,
    NULL,
};
