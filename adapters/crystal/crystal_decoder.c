/* crystal_decoder.c: decodes Crystal's functions and types offline, for reports (symbol/decoder.h).
 * Crystal programs are native code with DWARF and ELF symbols. So this file decodes only the form
 * of the symbols' names, and the type numbers at the beginning of objects. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "crystal_name.h"
#include "crystal_site.h"
#include "crystal_table.h"
#include "symbol/decoder.h"

/* The state that the decoder keeps for an image (a program or library) is its file. */
static void *open_image(struct ag_decoder_file *file) {
    uint64_t unused;
    return ag_decoder_symbol(file, "__crystal_main", &unused) ? file : NULL;
}

static void close_image(void *state) {
    (void)state;
}

static bool name_of(void *state, const char *linkage, char *ret_text, size_t capacity) {
    (void)state;
    return ag_crystal_name(linkage, ret_text, capacity);
}

static enum ag_decoded_place place_of(const char *function, const char *file, char *ret_type,
                                      size_t capacity) {
    switch (ag_crystal_place(function, file, ret_type, capacity)) {
    case AG_CRYSTAL_NO_PLACE:
        return AG_PLACE_SILENT;
    case AG_CRYSTAL_SHIM:
        return AG_PLACE_SHIM;
    case AG_CRYSTAL_OBJECT:
        return AG_PLACE_OBJECT;
    case AG_CRYSTAL_BUFFER:
        return AG_PLACE_BUFFER;
    }
    return AG_PLACE_SILENT;
}

static bool stores_type(void *state, uint64_t return_address, uint32_t number,
                        uint64_t size_of_object) {
    return ag_crystal_site_stores(state, return_address, number, size_of_object);
}

/* Crystal's library is installed as sources, and compiled with each program. */
static bool is_library(const char *function, const char *file, bool is_native) {
    (void)function;
    return !is_native && file != NULL &&
           (strstr(file, "/share/crystal/src/") != NULL ||
            strstr(file, "/lib/crystal/lib/") != NULL);
}

const struct ag_decoder ag_decoder_crystal = {
    .runtime = "crystal",
    .open = open_image,
    .close = close_image,
    .name = name_of,
    .place = place_of,
    .stores_type = stores_type,
    .is_library = is_library,
    .types_option = "crystal-types",
    .types_help = "names of the types of a Crystal release build: what\n"
                  "CRYSTAL_DUMP_TYPE_ID=1 crystal build printed",
    .read_types = ag_crystal_table_read,
    .type_name = ag_crystal_table_name,
    .free_types = ag_crystal_table_free,
};
