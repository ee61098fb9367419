/* guile_decoder.c: says which procedures belong to Guile itself, so that reports attribute blocks
 * to procedures of the program (symbol/decoder.h). It decodes no names, because procedures are
 * named in the process (guile_code.c). */
#include <stddef.h>
#include <string.h>

#include "guile_files.h"
#include "symbol/decoder.h"

static void *open_image(struct ag_decoder_file *file) {
    (void)file;
    return NULL;
}

/* A procedure without a file is code of Guile's virtual machine. The frame AG_GUILE_START stands
 * for Guile's C code that runs before the first procedure. It has no file either, but is not
 * treated as library code: reports have no procedure to show in its place. [compiled code] is the
 * native frame of code that Guile's JIT compiler made (guile_jit.c). */
static bool is_library(const char *function, const char *file, bool is_native) {
    if (is_native) {
        return strcmp(function, "[compiled code]") == 0;
    }
    if (file == NULL) {
        return strcmp(function, AG_GUILE_START) != 0;
    }
    return strncmp(file, AG_GUILE_LIBRARY, sizeof(AG_GUILE_LIBRARY) - 1) == 0;
}

const struct ag_decoder ag_decoder_guile = {
    .runtime = "guile", .open = open_image, .is_library = is_library};
