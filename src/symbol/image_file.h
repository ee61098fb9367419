/* image_file.h: looks up addresses of a recorded image (a loaded program or library) in all files
 * with information about the image.
 *
 * Images of one file at several addresses (for example, after the library was loaded twice) share a
 * struct ag_image_file. Addresses in this header are addresses in the file: the address in the
 * process minus the bias. */
#ifndef AG_IMAGE_FILE_H
#define AG_IMAGE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "debug_file.h"
#include "decoder_file.h"
#include "dwarf_frames.h"
#include "elf_functions.h"
#include "image_cfi.h"
#include "table/pointer_map.h"

struct ag_image_file {
    struct ag_image_file *next; /* next element with the same hash, in a list of symbolizer.c */
    char *path;                 /* as recorded, without " (deleted)" */
    /* folder below which the file is searched if it is not at `path`; NULL: none */
    char *root;
    struct ag_build_id build_id;
    bool is_open;        /* ag_image_file_open was called */
    const char *problem; /* the result of ag_image_file_open, which symbolizer.c keeps; or NULL */
    struct ag_elf_file main, debug, shared; /* debug: the separate debug file. shared: the file into
                                             * which the tool dwz moved what several debug files
                                             * have in common */
    Dwarf *dwarf, *shared_dwarf;
    struct ag_work_meter meter; /* measures and limits all work for the image */
    bool is_too_large;          /* some debug information is not read, because it would exceed its
                                 * limit when decompressed */
    struct ag_dwarf_units units;
    struct ag_elf_functions functions;
    struct ag_image_cfi *cfi; /* unwind tables of the image's file; NULL: not read, or none */
    bool has_read_cfi;
    struct ag_pointer_map answers; /* look-up results by address */
    struct ag_decoder_file decoder_file;
    /* The decoder that recognizes the image, or NULL. A decoder knows the functions of one runtime,
     * such as a virtual machine (decoder.h). */
    const struct ag_decoder *decoder;
    void *decoder_state;
};

/* RESERVE, from which the meter of the image borrows, must stay valid as long as the image. */
struct ag_image_file *ag_image_file_new(const char *path, const struct ag_build_id *build_id,
                                        struct ag_work_reserve *reserve);
struct ag_image_file *ag_image_file_free(struct ag_image_file *image);
/* Returns a hash that is equal for images that ag_image_file_is considers equal. */
uint64_t ag_image_file_hash(const char *path, const struct ag_build_id *build_id);
bool ag_image_file_is(const struct ag_image_file *image, const char *path,
                      const struct ag_build_id *build_id);
const char *ag_image_file_base_name(const struct ag_image_file *image);

/* Opens all files that are found. Called once. Returns a problem for the user as a malloc'ed text,
 * or NULL. */
char *ag_image_file_open(struct ag_image_file *image, const struct ag_debug_places *places,
                         const char *sysroot);
/* Returns a text that says what is missing from the results because a limit was reached; NULL:
 * nothing is missing. */
const char *ag_image_file_shortfall(const struct ag_image_file *image);
/* Finds the decoder that recognizes the image. RUNTIMES may be NULL. Called once, after
 * ag_image_file_open. */
void ag_image_file_choose_decoder(struct ag_image_file *image, const struct ag_runtime *runtimes);
/* Looks up PC, without a cache. Returns the number of frames, 0 to AG_FRAMES_PER_ADDRESS. If no
 * table contains the name of the outermost function, `function` of the last frame is NULL. For a
 * return address, the call before PC is looked up. */
size_t ag_image_file_frames(struct ag_image_file *image, uint64_t pc, bool is_return_address,
                            struct ag_names *names,
                            struct ag_symbol_frame ret_frames[AG_FRAMES_PER_ADDRESS]);
/* Returns the start of the function that contains ADDRESS, from the unwind tables of the image's
 * file, which also stripped files have; 0: unknown. */
uint64_t ag_image_file_function(struct ag_image_file *image, uint64_t address);
/* Whether the code at RETURN_ADDRESS makes an object of SIZE_OF_OBJECT bytes (0: any size) with the
 * type number NUMBER, according to the image's decoder. Returns false if the decoder cannot say
 * this, if there is no decoder, or if the image has reached its limit of work. */
bool ag_image_file_stores_type(struct ag_image_file *image, uint64_t return_address,
                               uint32_t number, uint64_t size_of_object);

#endif
