/* julia_decoder.c: decodes the functions of Julia's system image and package images offline, for
 * reports (symbol/decoder.h). These functions are native code with DWARF that Julia wrote: only
 * their names need conversion. Code that is generated in the process is named in the process
 * (julia_code.c). */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "julia_name.h"
#include "symbol/decoder.h"

static char a_state; /* no state per image */

/* A symbol that every image that Julia compiled has, and no other (src/aot.cpp, 1.0 to 1.5). */
static void *open_image(struct ag_decoder_file *file) {
    uint64_t unused;
    return ag_decoder_symbol(file, "jl_RTLD_DEFAULT_handle_pointer", &unused) ? &a_state : NULL;
}

static void close_image(void *state) {
    (void)state;
}

static bool name_of(void *state, const char *linkage, char *ret_text, size_t capacity) {
    (void)state;
    return ag_julia_symbol_name(linkage, ret_text, capacity);
}

/* The source files of Julia's Base have paths without a folder or below ".", those of its standard
 * library are in the folder stdlib. Functions of the system image may have no file. Files that a
 * program includes have absolute paths. */
static bool is_library(const char *function, const char *file, bool is_native) {
    (void)function;
    if (is_native || file == NULL) {
        return !is_native;
    }
    const size_t length = strlen(file);
    const bool is_source = length > 3 && strcmp(file + length - 3, ".jl") == 0;
    return is_source && (file[0] != '/' || strstr(file, "/share/julia/stdlib/") != NULL ||
                         strstr(file, "/share/julia/base/") != NULL);
}

const struct ag_decoder ag_decoder_julia = {.runtime = "julia",
                                            .open = open_image,
                                            .close = close_image,
                                            .name = name_of,
                                            .is_library = is_library};
