/* julia_decoder.c: decodes the functions of Julia's system image and package images offline, for
 * reports (symbol/decoder.h). These functions are native code with DWARF that Julia wrote: only
 * their names need conversion. Code that is generated in the process is named in the process
 * (julia_code.c). */
#include <stddef.h>
#include <stdint.h>

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

const struct ag_decoder ag_decoder_julia = {
    .runtime = "julia", .open = open_image, .close = close_image, .name = name_of};
