/* image_file.c: opens the files with symbols and debug information of an image (a loaded program or
 * library), and looks addresses up in them.
 *
 * The file of the image is searched at the recorded path, then in .build-id folders, then with
 * debuginfod. The debug information may be in the file of the image or in a separate file. If the
 * file of the image was removed or replaced, the separate file may still be found by the recorded
 * build id; the separate file contains functions and lines, too. */
#include "image_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "base/runtimes.h"
#include "remote/remote_elf.h"
#include "unwind/eh_frame.h"

/* the most bytes of a name from the symbol table, if the image has reached its limit of work */
enum { SPENT_NAME_BYTES = 512 };

/* The kernel appends " (deleted)" to the name of a file that was removed or replaced. */
static size_t bytes_without_deleted(const char *path) {
    static const char deleted[] = " (deleted)";
    const size_t length = strlen(path), suffix = strlen(deleted);
    const bool has_suffix = length > suffix && strcmp(path + length - suffix, deleted) == 0;
    return has_suffix ? length - suffix : length;
}

struct ag_image_file *ag_image_file_new(const char *path, const struct ag_build_id *build_id,
                                        struct ag_work_reserve *reserve) {
    struct ag_image_file *image = calloc(1, sizeof(*image));
    if (image == NULL) {
        return NULL;
    }
    image->path = strndup(path, bytes_without_deleted(path));
    image->build_id = *build_id;
    image->meter.reserve = reserve;
    return image->path != NULL ? image : ag_image_file_free(image);
}

struct ag_image_file *ag_image_file_free(struct ag_image_file *image) {
    if (image == NULL) {
        return NULL;
    }
    ag_pointer_map_done(&image->answers, free);
    (void)ag_image_cfi_free(image->cfi);
    if (image->decoder != NULL) {
        image->decoder->close(image->decoder_state);
    }
    ag_decoder_file_close(&image->decoder_file);
    ag_elf_functions_clear(&image->functions);
    ag_dwarf_units_clear(&image->units);
    (void)dwarf_end(image->dwarf); /* dwarf_end accepts NULL; a failure cannot be handled */
    (void)dwarf_end(image->shared_dwarf);
    ag_elf_file_close(&image->shared);
    ag_elf_file_close(&image->debug);
    ag_elf_file_close(&image->main);
    free(image->path);
    free(image->root);
    free(image);
    return NULL;
}

uint64_t ag_image_file_hash(const char *path, const struct ag_build_id *build_id) {
    return ag_keyed_hash_bytes(path, bytes_without_deleted(path)) ^
           ag_keyed_hash(ag_keyed_hash_bytes(build_id->bytes, build_id->n_bytes));
}

bool ag_image_file_is(const struct ag_image_file *image, const char *path,
                      const struct ag_build_id *build_id) {
    const size_t length = bytes_without_deleted(path);
    return strncmp(image->path, path, length) == 0 && image->path[length] == '\0' &&
           ag_build_id_equals(&image->build_id, build_id);
}

const char *ag_image_file_base_name(const struct ag_image_file *image) {
    const char *slash = strrchr(image->path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : image->path;
}

static bool is_vdso(const char *path) {
    return strcmp(path, "[vdso]") == 0 ||
           strncmp(path, "linux-vdso.so", strlen("linux-vdso.so")) == 0;
}

/* Opens the file below image->root, which is the root folder of the recorded process if that lives
 * still. Another process may have its pid by now, so only a file with the recorded build id is
 * used. */
static int open_below_root(struct ag_image_file *image) {
    struct ag_build_id found;
    char *path;
    if (image->root == NULL || image->build_id.n_bytes == 0) {
        return -ENOENT;
    }
    if (asprintf(&path, "%s%s", image->root, image->path) < 0) {
        return -ENOMEM;
    }
    const int r = ag_elf_file_open(path, &image->build_id, &found, &image->main);
    free(path);
    return r;
}

static int open_main(struct ag_image_file *image, const struct ag_debug_places *places,
                     const char *sysroot, struct ag_build_id *ret_found) {
    const struct ag_build_id *id = &image->build_id;
    if (is_vdso(image->path)) {
        return ag_elf_file_open_vdso(id, &image->main);
    }
    if (image->path[0] != '/') {
        /* a name that does not begin with a slash, such as "[heap]", is not the path of a file */
        return -ENOENT;
    }
    char *path;
    if (asprintf(&path, "%s%s", sysroot != NULL ? sysroot : "", image->path) < 0) {
        return -ENOMEM;
    }
    const int r = ag_elf_file_open(path, id, ret_found, &image->main);
    free(path);
    if (r < 0 && sysroot == NULL && open_below_root(image) == 0) {
        return 0;
    }
    if (r == 0 || ag_debug_file_by_build_id(places, id, "", &image->main) == 0) {
        return 0;
    }
    return places->allow_debuginfod &&
                   ag_debuginfod_open(id, AG_DEBUGINFOD_EXECUTABLE, &image->main) == 0
               ? 0
               : r;
}

/* Returns the debug information of FILE if it has at least one unit, or NULL. (libdw also opens
 * files that have only .eh_frame.) */
static Dwarf *open_dwarf(struct ag_image_file *image, const struct ag_elf_file *file) {
    image->meter.stored_bytes += file->elf != NULL ? file->stored_bytes : 0;
    if (file->elf == NULL || !ag_work_meter_step(&image->meter)) {
        return NULL;
    }
    /* libdw decompresses all sections at once */
    const uint64_t n_bytes = ag_elf_file_decompressed_bytes(file);
    if (n_bytes > AG_ELF_GROWTH * file->stored_bytes &&
        !ag_work_meter_borrow(&image->meter, n_bytes - AG_ELF_GROWTH * file->stored_bytes)) {
        image->is_too_large = true;
        return NULL;
    }
    Dwarf *dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
    Dwarf_Off next;
    size_t header_bytes;
    if (dwarf != NULL && dwarf_nextcu(dwarf, 0, &next, &header_bytes, NULL, NULL, NULL) != 0) {
        (void)dwarf_end(dwarf);
        return NULL;
    }
    return dwarf;
}

static void open_separate(struct ag_image_file *image, const struct ag_debug_places *places) {
    const struct ag_elf_file wanted = {.build_id = image->build_id};
    const struct ag_elf_file *main = image->main.elf != NULL ? &image->main : &wanted;
    if (main->elf == NULL && main->build_id.n_bytes == 0) {
        return;
    }
    if (ag_debug_file_find(places, main, &image->debug) == 0) {
        image->dwarf = open_dwarf(image, &image->debug);
    }
}

static const struct ag_elf_file *file_with_dwarf(const struct ag_image_file *image) {
    return image->debug.elf != NULL ? &image->debug : &image->main;
}

/* Opens the file that contains what several debug files have in common, if the image's debug
 * information refers to such a file (see ag_debug_file_find_shared). If such a file is needed but
 * missing, libdw would search for it without allogram's checks; so the image's debug information is
 * closed, and is not used. Returns a problem for the user, or NULL. */
static const char *open_shared(struct ag_image_file *image, const struct ag_debug_places *places) {
    const int r = ag_debug_file_find_shared(places, file_with_dwarf(image), &image->shared);
    if (r == -ENODATA) {
        return NULL;
    }
    image->shared_dwarf = open_dwarf(image, &image->shared);
    if (image->shared_dwarf == NULL) {
        (void)dwarf_end(image->dwarf);
        image->dwarf = NULL;
        return image->is_too_large ? NULL
                                   : "the shared debug file that it refers to "
                                     "(.gnu_debugaltlink) is missing or cannot be read";
    }
    dwarf_setalt(image->dwarf, image->shared_dwarf);
    return NULL;
}

static char *describe_failure(const struct ag_image_file *image, int error,
                              const struct ag_build_id *found) {
    char recorded_text[AG_BUILD_ID_TEXT_BYTES], found_text[AG_BUILD_ID_TEXT_BYTES];
    char *text;
    int r;
    if (error == -ESTALE) {
        ag_build_id_format(&image->build_id, recorded_text);
        ag_build_id_format(found, found_text);
        r = asprintf(&text, "build id differs: recorded %s, the file has %s", recorded_text,
                     found->n_bytes > 0 ? found_text : "none");
    } else if (error == -EINVAL) {
        r = asprintf(&text, "not a regular file");
    } else if (error == -EFBIG) {
        r = asprintf(&text, "the file is not read, because it is sparse: most of it has no data");
    } else if (error == -ENOEXEC) {
        r = asprintf(&text, "not a 64-bit ELF file");
    } else {
        char reason[128];
        r = asprintf(&text, "%s", strerror_r(-error, reason, sizeof(reason)));
    }
    return r < 0 ? NULL : text;
}

/* Limits the bytes of a file's line programs (which make its line tables) to the size of the file
 * plus 2 MiB. Line programs are about a twentieth of complete debug information, and about half of
 * debug information that was reduced to little more than line numbers. */
static void bound_lines(struct ag_image_file *image) {
    const struct ag_elf_file *file = file_with_dwarf(image);
    image->units.meter = &image->meter;
    image->units.line_section = ag_elf_file_section(file, ".debug_line");
    if (image->units.line_section == NULL) {
        image->units.line_section = ag_elf_file_section(file, ".zdebug_line");
    }
    image->units.most_line_bytes = (UINT64_C(2) << 20) + file->stored_bytes;
}

static char *open_metered(struct ag_image_file *image, const struct ag_debug_places *places,
                          const char *sysroot) {
    struct ag_build_id found = {0};
    const int r = open_main(image, places, sysroot, &found);
    image->dwarf = open_dwarf(image, &image->main);
    if (image->dwarf == NULL) {
        open_separate(image, places);
    }
    const char *problem = image->dwarf != NULL ? open_shared(image, places) : NULL;
    if (image->dwarf != NULL) {
        bound_lines(image);
    }
    if (image->dwarf != NULL &&
        ag_dwarf_units_read(&image->units, image->dwarf, file_with_dwarf(image)->path) < 0) {
        problem = "no memory for its debug information";
    }
    /* if memory is exhausted, the symbols that were read so far are used */
    if (image->main.elf != NULL) {
        (void)ag_elf_functions_add(&image->functions, &image->main);
    }
    if (image->debug.elf != NULL) {
        (void)ag_elf_functions_add(&image->functions, &image->debug);
    }
    ag_elf_functions_sort(&image->functions);

    if (r < 0 && image->debug.elf == NULL) {
        return image->path[0] == '/' ? describe_failure(image, r, &found) : NULL;
    }
    if (r == 0 && image->build_id.n_bytes == 0 && problem == NULL) {
        problem = "no build id was recorded, so this may be another version of the file";
    }
    return problem != NULL ? strdup(problem) : NULL;
}

/* Ends a piece of work whose cost is measured. If the image has reached its limit of work, closes
 * the image's debug information. KEPT_BYTES: bytes of the names that the work stored. */
static void end_work(struct ag_image_file *image, size_t kept_bytes) {
    ag_work_meter_end(&image->meter, kept_bytes);
    if (image->meter.is_spent && image->dwarf != NULL) {
        ag_dwarf_units_clear(&image->units);
        (void)dwarf_end(image->dwarf); /* a failure of dwarf_end cannot be handled */
        (void)dwarf_end(image->shared_dwarf);
        image->dwarf = image->shared_dwarf = NULL;
    }
}

char *ag_image_file_open(struct ag_image_file *image, const struct ag_debug_places *places,
                         const char *sysroot) {
    image->is_open = true;
    ag_work_meter_begin(&image->meter);
    (void)ag_work_meter_look(&image->meter); /* the memory that is used from here on is counted */
    char *problem = open_metered(image, places, sysroot);
    end_work(image, 0);
    return problem;
}

const char *ag_image_file_shortfall(const struct ag_image_file *image) {
    if (image->is_too_large) {
        return "its debug information is not read: it is compressed, and would grow more than "
               "twelvefold";
    }
    if (image->meter.is_spent) {
        return "its debug information is read only in part, because reading all of it would take too much "
               "time for a file of this size; some functions have no line numbers";
    }
    return image->units.n_refused > 0 ? "some line numbers are not read, because there are too "
                                        "many for a file of this size"
                                      : NULL;
}

/* ---- frames ---- */

static size_t native_frames(struct ag_image_file *image, uint64_t address, struct ag_names *names,
                            struct ag_symbol_frame ret_frames[AG_FRAMES_PER_ADDRESS]) {
    size_t n =
        image->dwarf != NULL ? ag_dwarf_frames(&image->units, address, names, ret_frames) : 0;
    if (n > 0 && ret_frames[n - 1].function != NULL) {
        return n;
    }
    const struct ag_elf_function *function = ag_elf_functions_find(&image->functions, address);
    if (function == NULL) {
        return n;
    }
    if (n == 0) {
        ret_frames[n++] = (struct ag_symbol_frame){0};
    }
    char cut[SPENT_NAME_BYTES + 1] = "";
    const char *name = function->name;
    if (image->meter.is_spent && function->name_bytes > SPENT_NAME_BYTES) {
        memcpy(cut, name, SPENT_NAME_BYTES);
        name = cut;
    }
    ret_frames[n - 1].function = ag_names_function(names, name);
    ret_frames[n - 1].linkage = ag_names_keep(names, name);
    ret_frames[n - 1].is_known = ret_frames[n - 1].function != NULL;
    return n;
}

void ag_image_file_choose_decoder(struct ag_image_file *image, const struct ag_runtime *runtimes) {
    if (runtimes == NULL || image->main.elf == NULL ||
        ag_decoder_file_open(&image->main, &image->meter, &image->decoder_file) < 0) {
        return;
    }
    ag_work_meter_begin(&image->meter);
    (void)ag_work_meter_look(&image->meter); /* the memory that is used from here on is counted */
    for (; runtimes->name != NULL && image->decoder == NULL; runtimes++) {
        const struct ag_decoder *decoder = runtimes->decoder;
        image->decoder_state = decoder != NULL ? decoder->open(&image->decoder_file) : NULL;
        image->decoder = image->decoder_state != NULL ? decoder : NULL;
    }
    end_work(image, 0);
}

/* Returns the decoder to use in addition to the native tables (DWARF and symbol table); NULL: none,
 * or the image has reached its limit of work. */
static const struct ag_decoder *asked_decoder(const struct ag_image_file *image) {
    return image->meter.is_spent ? NULL : image->decoder;
}

static size_t decoded_frames(struct ag_image_file *image, uint64_t pc, bool is_return_address,
                             struct ag_names *names,
                             struct ag_symbol_frame ret_frames[AG_FRAMES_PER_ADDRESS]) {
    const struct ag_decoder *decoder = asked_decoder(image);
    struct ag_decoded_frame decoded[AG_FRAMES_PER_ADDRESS];
    if (decoder == NULL || decoder->frames == NULL) {
        return 0;
    }
    const size_t n = decoder->frames(image->decoder_state, pc, is_return_address, decoded,
                                     AG_FRAMES_PER_ADDRESS);
    for (size_t i = 0; i < n; i++) {
        ret_frames[i] =
            (struct ag_symbol_frame){.function = ag_names_keep(names, decoded[i].function),
                                     .file = ag_names_keep(names, decoded[i].file),
                                     .line = decoded[i].line,
                                     .column = decoded[i].column,
                                     .end_column = decoded[i].end_column,
                                     .is_inlined = decoded[i].is_inlined,
                                     .is_known = decoded[i].function != NULL,
                                     .runtime = decoder->runtime};
    }
    return n;
}

/* Asks the decoder whether a function that the native tables found belongs to the runtime. The
 * decoder decides by the linker symbol. If the function belongs to the runtime, the frame gets the
 * function name that the decoder returns. */
static void name_by_decoder(const struct ag_image_file *image, struct ag_names *names,
                            struct ag_symbol_frame *frame) {
    char text[4096];
    const struct ag_decoder *decoder = asked_decoder(image);
    if (decoder != NULL && decoder->name != NULL && frame->linkage != NULL &&
        decoder->name(image->decoder_state, frame->linkage, text, sizeof(text))) {
        const char *kept = ag_names_keep(names, text);
        if (kept != NULL) {
            frame->function = kept;
            frame->is_known = true;
            frame->runtime = decoder->runtime;
        }
    }
}

/* Sets the frame's linkage to the function's name in the symbol table, because decoders read this
 * name. The name in the debug information may be shorter. */
static void take_symbol(const struct ag_image_file *image, uint64_t address, struct ag_names *names,
                        struct ag_symbol_frame *frame) {
    const struct ag_elf_function *function = ag_elf_functions_find(&image->functions, address);
    if (function != NULL) {
        frame->linkage = ag_names_keep(names, function->name);
    }
}

/* Marks N frames at one address as frames of the runtime: the outermost function belongs to the
 * runtime, so the functions inlined into it also do. */
static void mark_inlined(const struct ag_decoder *decoder, struct ag_symbol_frame *frames,
                         size_t n) {
    char type[4096];
    for (size_t i = 0; i < n; i++) {
        frames[i].runtime = decoder->runtime;
        frames[i].is_shim =
            decoder->place != NULL && frames[i].function != NULL &&
            decoder->place(frames[i].function, frames[i].file, type, sizeof(type)) == AG_PLACE_SHIM;
    }
}

static size_t find_frames(struct ag_image_file *image, uint64_t pc, bool is_return_address,
                          struct ag_names *names,
                          struct ag_symbol_frame ret_frames[AG_FRAMES_PER_ADDRESS]) {
    size_t n = decoded_frames(image, pc, is_return_address, names, ret_frames);
    if (n > 0) {
        return n;
    }
    n = native_frames(image, pc - is_return_address, names, ret_frames);
    if (n > 0 && asked_decoder(image) != NULL) {
        take_symbol(image, pc - is_return_address, names, &ret_frames[n - 1]);
    }
    for (size_t i = 0; i < n; i++) {
        name_by_decoder(image, names, &ret_frames[i]);
    }
    if (n > 0 && ret_frames[n - 1].runtime != NULL) {
        mark_inlined(image->decoder, ret_frames, n);
    }
    return n;
}

size_t ag_image_file_frames(struct ag_image_file *image, uint64_t pc, bool is_return_address,
                            struct ag_names *names,
                            struct ag_symbol_frame ret_frames[AG_FRAMES_PER_ADDRESS]) {
    const size_t kept_bytes = names->n_bytes;
    if (image->dwarf == NULL && image->decoder == NULL && image->functions.n == 0) {
        return 0; /* without the cost of the meter: such an image may have a million pcs */
    }
    ag_work_meter_begin(&image->meter);
    const size_t n = find_frames(image, pc, is_return_address, names, ret_frames);
    end_work(image, names->n_bytes - kept_bytes);
    return n;
}

/* Reads the unwind tables of an open file, also of one that has no path anymore. */
static struct ag_image_cfi *read_cfi(const struct ag_elf_file *file) {
    char path[32];
    struct ag_remote_elf elf;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
    if (ag_remote_elf_open(path, &elf) < 0) {
        return NULL;
    }
    struct ag_image_cfi *cfi = ag_image_cfi_new(&elf);
    ag_remote_elf_close(&elf);
    return cfi;
}

uint64_t ag_image_file_function(struct ag_image_file *image, uint64_t address) {
    if (!image->has_read_cfi && image->main.elf != NULL && !image->meter.is_spent) {
        image->has_read_cfi = true;
        ag_work_meter_begin(&image->meter);
        (void)ag_work_meter_look(&image->meter); /* the memory used from here on is counted */
        image->cfi = read_cfi(&image->main);
        end_work(image, 0);
    }
    struct ag_cfi_entry entry;
    return ag_image_cfi_function(image->cfi, address, &entry) == 0 ? entry.function : 0;
}

bool ag_image_file_stores_type(struct ag_image_file *image, uint64_t return_address,
                               uint32_t number, uint64_t size_of_object) {
    ag_work_meter_begin(&image->meter);
    const struct ag_decoder *decoder = asked_decoder(image);
    const bool stores =
        decoder != NULL && decoder->stores_type != NULL &&
        decoder->stores_type(image->decoder_state, return_address, number, size_of_object);
    end_work(image, 0);
    return stores;
}
