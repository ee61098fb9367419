/* image_file.h: one recorded image with all files that have information about it, and the look-ups
 * of its addresses.
 *
 * Images of the same file at other addresses (a fork family, dlopen twice) share one. Addresses
 * here are the file's own: the process's minus the bias. */
#ifndef AG_IMAGE_FILE_H
#define AG_IMAGE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "debug_file.h"
#include "decoder_file.h"
#include "dwarf_frames.h"
#include "elf_functions.h"
#include "table/pointer_map.h"

struct ag_image_file {
    struct ag_image_file *next; /* with the same hash */
    char *path;                 /* as recorded, without " (deleted)" */
    struct ag_build_id build_id;
    bool is_open;                           /* opening was attempted */
    struct ag_elf_file main, debug, shared; /* shared: the file that dwz made of debug's shared
                                             * parts */
    Dwarf *dwarf, *shared_dwarf;
    struct ag_work_meter meter; /* for all work on the image */
    bool is_too_large;          /* some debug information would exceed its bound
                                 * when decompressed */
    struct ag_dwarf_units units;
    struct ag_elf_functions functions;
    struct ag_pointer_map answers; /* look-up results by address */
    struct ag_decoder_file decoder_file;
    const struct ag_decoder *decoder; /* the decoder that recognizes the image, or NULL */
    void *decoder_state;
    bool has_shortfall; /* the problems contain ag_image_file_shortfall */
    bool has_gap;       /* the problems say why some address has no name */
};

/* RESERVE must stay valid as long as the image. */
struct ag_image_file *ag_image_file_new(const char *path, const struct ag_build_id *build_id,
                                        struct ag_work_reserve *reserve);
struct ag_image_file *ag_image_file_free(struct ag_image_file *image);
/* Equal for images that ag_image_file_is considers equal. */
uint64_t ag_image_file_hash(const char *path, const struct ag_build_id *build_id);
bool ag_image_file_is(const struct ag_image_file *image, const char *path,
                      const struct ag_build_id *build_id);
const char *ag_image_file_base_name(const struct ag_image_file *image);

/* Opens the files that can be found, once. Returns a problem for the user as malloc'ed text "could
 * not ...", or NULL. */
char *ag_image_file_open(struct ag_image_file *image, const struct ag_debug_places *places,
                         const char *sysroot);
/* What the results lack because of a bound, as text; NULL: nothing. */
const char *ag_image_file_shortfall(const struct ag_image_file *image);
/* Finds the decoder that recognizes the image; runtimes may be NULL. Called once, when it is
 * open. */
void ag_image_file_choose_decoder(struct ag_image_file *image, const struct ag_runtime *runtimes);
/* Looks PC up, uncached: 0 to AG_FRAMES_PER_ADDRESS frames, the outermost without a function if no
 * table has its name. For a return address, the call before it is looked up. */
size_t ag_image_file_frames(struct ag_image_file *image, uint64_t pc, bool is_return_address,
                            struct ag_names *names,
                            struct ag_symbol_frame ret_frames[AG_FRAMES_PER_ADDRESS]);

#endif
