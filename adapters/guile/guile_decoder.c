/* guile_decoder.c: says which Scheme procedures belong to Guile itself, so that reports attribute
 * blocks to procedures of the program (symbol/decoder.h). The names of procedures are read in the
 * process (guile_code.c), and no image has others. */
#include <string.h>

#include "base/compiler.h"
#include "symbol/decoder.h"

static void *open_image(struct ag_decoder_file *file) {
    (void)file;
    return NULL;
}

/* Guile's own modules have paths that are relative to a folder of its load path. They begin with
 * one of these folders (module/ in Guile's source, 3.0). Code without a file is that of Guile's
 * virtual machine, and [compiled code] is the native frame of its compiler (guile_jit.c). */
static bool is_library(const char *function, const char *file, bool is_native) {
    static const char *const folders[] = {"ice-9/", "language/", "oop/",    "rnrs/",    "scripts/",
                                          "srfi/",  "sxml/",     "system/", "texinfo/", "web/"};
    if (is_native || file == NULL) {
        return !is_native || strcmp(function, "[compiled code]") == 0;
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(folders); i++) {
        if (strncmp(file, folders[i], strlen(folders[i])) == 0) {
            return true;
        }
    }
    return false;
}

const struct ag_decoder ag_decoder_guile = {
    .runtime = "guile", .open = open_image, .is_library = is_library};
