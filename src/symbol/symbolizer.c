/* symbolizer.c: implements the symbolizer of symbol.h: its images, the cache of results, and the
 * list of problems for reports.
 *
 * A result of a look-up is one allocation, a count followed by an array of frames. Results are kept
 * in a map for each file, by address. */
#include "symbol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image_file.h"

/* most problems that are kept, because a trace can name any number of files */
enum { PROBLEMS = 1000 };

struct image {
    struct ag_image_file *file;
    uint64_t bias, low, high;
};
struct answer {
    size_t n;
    struct ag_symbol_frame frames[];
};
struct ag_symbolizer {
    char *sysroot;
    char **folders; /* folders with separate debug files; places.folders points to them */
    struct ag_debug_places places;
    const struct ag_runtime *runtimes;
    struct ag_names names;
    struct ag_work_reserve reserve;
    struct ag_pointer_map images;  /* id of an image -> struct image */
    struct ag_pointer_map outside; /* address outside of all images -> struct answer */
    struct ag_pointer_map files;   /* hash of path and build id -> list of struct ag_image_file */
    /* lines for reports; stored in `names`, because they contain untrusted paths from the trace */
    const char **problems;
    size_t n_problems;
    struct ag_symbol_frame out_of_memory; /* the result if memory is exhausted */
};

static const char system_debug_folder[] = "/usr/lib/debug";

/* Copies the folders with debug files: first those of the user, then /usr/lib/debug below the
 * sysroot, then /usr/lib/debug. */
static int copy_folders(struct ag_symbolizer *symbolizer, const struct ag_symbol_options *options) {
    symbolizer->folders = calloc(options->n_debug_dirs + 2, sizeof(char *));
    if (symbolizer->folders == NULL) {
        return -ENOMEM;
    }
    size_t n = 0;
    for (size_t i = 0; i < options->n_debug_dirs; i++) {
        symbolizer->folders[n++] = strdup(options->debug_dirs[i]);
    }
    if (options->sysroot != NULL) {
        char *path;
        symbolizer->folders[n++] =
            asprintf(&path, "%s%s", options->sysroot, system_debug_folder) < 0 ? NULL : path;
    }
    symbolizer->folders[n++] = strdup(system_debug_folder);
    symbolizer->places.folders = (const char *const *)symbolizer->folders;
    symbolizer->places.n_folders = n;
    symbolizer->places.allow_debuginfod = options->allow_debuginfod;
    for (size_t i = 0; i < n; i++) {
        if (symbolizer->folders[i] == NULL) {
            return -ENOMEM;
        }
    }
    return 0;
}

struct ag_symbolizer *ag_symbolizer_new(const struct ag_symbol_options *options) {
    struct ag_symbol_options known = {
        /* options->size is smaller if the caller was compiled with an older struct; the members
         * that are missing keep their defaults */
        0};
    if (options != NULL) {
        memcpy(&known, options, options->size < sizeof(known) ? options->size : sizeof(known));
    }
    struct ag_symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));
    if (symbolizer == NULL) {
        return NULL;
    }
    symbolizer->out_of_memory.function = "[no memory]";
    symbolizer->sysroot = known.sysroot != NULL ? strdup(known.sysroot) : NULL;
    symbolizer->runtimes = known.runtimes;
    ag_work_reserve_init(&symbolizer->reserve);
    symbolizer->reserve.is_hurried = known.is_hurried;
    symbolizer->problems = calloc(PROBLEMS, sizeof(char *));
    if ((known.sysroot != NULL && symbolizer->sysroot == NULL) || symbolizer->problems == NULL ||
        copy_folders(symbolizer, &known) < 0) {
        return ag_symbolizer_free(symbolizer);
    }
    return symbolizer;
}

static void free_files(void *list) {
    for (struct ag_image_file *file = list, *next; file != NULL; file = next) {
        next = file->next;
        ag_image_file_free(file);
    }
}

struct ag_symbolizer *ag_symbolizer_free(struct ag_symbolizer *symbolizer) {
    if (symbolizer == NULL) {
        return NULL;
    }
    ag_pointer_map_done(&symbolizer->images, free);
    ag_pointer_map_done(&symbolizer->outside, free);
    ag_pointer_map_done(&symbolizer->files, free_files);
    free(symbolizer->problems);
    for (size_t i = 0; i < symbolizer->places.n_folders; i++) {
        free(symbolizer->folders[i]);
    }
    free(symbolizer->folders);
    ag_names_clear(&symbolizer->names);
    free(symbolizer->sysroot);
    free(symbolizer);
    return NULL;
}

static void add_problem(struct ag_symbolizer *symbolizer, const struct ag_image_file *file,
                        const char *what) {
    char *line;
    if (symbolizer->n_problems == PROBLEMS ||
        asprintf(&line, "%s: %s", ag_image_file_base_name(file), what) < 0) {
        return;
    }
    const char *kept = ag_names_keep(&symbolizer->names, line);
    free(line);
    if (kept != NULL) {
        symbolizer->problems[symbolizer->n_problems++] = kept;
    }
}

/* Returns the struct for the file with PATH and BUILD_ID, which all images of this file share.
 * NULL: out of memory. */
static struct ag_image_file *file_of(struct ag_symbolizer *symbolizer, const char *path,
                                     const struct ag_build_id *build_id) {
    const uint64_t key = ag_image_file_hash(path, build_id);
    struct ag_image_file *first = ag_pointer_map_find(&symbolizer->files, key);
    for (struct ag_image_file *file = first; file != NULL; file = file->next) {
        if (ag_image_file_is(file, path, build_id)) {
            return file;
        }
    }
    struct ag_image_file *file = ag_image_file_new(path, build_id, &symbolizer->reserve);
    if (file == NULL || ag_pointer_map_put(&symbolizer->files, key, file) < 0) {
        return ag_image_file_free(file);
    }
    file->next = first;
    return file;
}

int ag_symbolizer_image(struct ag_symbolizer *symbolizer, uint32_t id, const char *path,
                        const void *build_id, size_t build_id_bytes, uint64_t bias, uint64_t low,
                        uint64_t high) {
    const struct ag_build_id wanted = ag_build_id_from(build_id, build_id_bytes);
    struct ag_image_file *file = file_of(symbolizer, path, &wanted);
    struct image *image = file != NULL ? calloc(1, sizeof(*image)) : NULL;
    if (image == NULL) {
        return -ENOMEM;
    }
    *image = (struct image){.file = file, .bias = bias, .low = low, .high = high};
    free(ag_pointer_map_find(&symbolizer->images, id));
    const int r = ag_pointer_map_put(&symbolizer->images, id, image);
    if (r < 0) {
        free(image);
    }
    return r;
}

static const char *unknown_name(struct ag_symbolizer *symbolizer, uint64_t address,
                                const char *image) {
    char *text;
    const int r = image != NULL ? asprintf(&text, "0x%llx [%s]", (unsigned long long)address, image)
                                : asprintf(&text, "0x%llx", (unsigned long long)address);
    if (r < 0) {
        return NULL;
    }
    const char *name = ag_names_keep(&symbolizer->names, text);
    free(text);
    return name;
}

/* Makes a result from N frames. Frames without a function get a name that consists of ADDRESS and
 * the image. NULL: out of memory. */
static struct answer *make_answer(struct ag_symbolizer *symbolizer, struct ag_symbol_frame *frames,
                                  size_t n, uint64_t address, const char *image) {
    if (n == 0) {
        frames[n++] = (struct ag_symbol_frame){0};
    }
    for (size_t i = 0; i < n; i++) {
        if (frames[i].function == NULL) {
            frames[i].function = unknown_name(symbolizer, address, image);
        }
        if (frames[i].function == NULL) {
            return NULL;
        }
    }
    struct answer *answer = malloc(sizeof(*answer) + n * sizeof(frames[0]));
    if (answer != NULL) {
        answer->n = n;
        memcpy(answer->frames, frames, n * sizeof(frames[0]));
    }
    return answer;
}

static void open_file(struct ag_symbolizer *symbolizer, struct ag_image_file *file) {
    char *problem = ag_image_file_open(file, &symbolizer->places, symbolizer->sysroot);
    if (problem != NULL) {
        add_problem(symbolizer, file, problem);
        file->has_gap = true; /* the problem also explains why addresses have no names */
    }
    free(problem);
    ag_image_file_choose_decoder(file, symbolizer->runtimes);
}

void ag_symbolizer_open_image(struct ag_symbolizer *symbolizer, uint32_t id) {
    const struct image *image = ag_pointer_map_find(&symbolizer->images, id);
    if (image != NULL && !image->file->is_open) {
        open_file(symbolizer, image->file);
    }
}

/* Returns the address by which a function without a symbol is named: its start, so that all its
 * addresses have one name; or ADDRESS, if the start is unknown. */
static uint64_t naming_address(struct ag_image_file *file, uint64_t address, bool return_address) {
    const uint64_t start = ag_image_file_function(file, address - return_address);
    return start != 0 ? start : address;
}

static struct answer *look_up(struct ag_symbolizer *symbolizer, struct ag_image_file *file,
                              uint64_t address, bool return_address) {
    struct ag_symbol_frame frames[AG_FRAMES_PER_ADDRESS];
    if (file == NULL) {
        return make_answer(symbolizer, frames, 0, address, NULL);
    }
    if (!file->is_open) {
        open_file(symbolizer, file);
    }
    const size_t n =
        ag_image_file_frames(file, address, return_address, &symbolizer->names, frames);
    const char *shortfall = file->has_shortfall ? NULL : ag_image_file_shortfall(file);
    if (shortfall != NULL) {
        file->has_shortfall = true;
        file->has_gap = true;
        add_problem(symbolizer, file, shortfall);
    }
    const bool is_unknown = n == 0 || frames[n - 1].function == NULL;
    if (is_unknown && !file->has_gap) {
        file->has_gap = true;
        add_problem(symbolizer, file,
                    file->functions.n == 0 ? "no symbol table and no debug information"
                                           : "some addresses are in none of its symbols");
    }
    return make_answer(symbolizer, frames, n,
                       is_unknown ? naming_address(file, address, return_address) : address,
                       ag_image_file_base_name(file));
}

size_t ag_symbolizer_frames(struct ag_symbolizer *symbolizer, uint32_t id, uint64_t pc,
                            bool return_address, const struct ag_symbol_frame **ret_frames) {
    const struct image *image = ag_pointer_map_find(&symbolizer->images, id);
    const bool is_inside =
        image != NULL && (image->high == 0 || (image->low <= pc && pc <= image->high));
    struct ag_image_file *file = is_inside ? image->file : NULL;
    struct ag_pointer_map *answers = is_inside ? &file->answers : &symbolizer->outside;
    const uint64_t address = is_inside ? pc - image->bias : pc;
    /* no bit is lost, because user addresses have at most 56 bits */
    const uint64_t key = address << 1 | return_address;

    struct answer *answer = ag_pointer_map_find(answers, key);
    if (answer == NULL) {
        answer = look_up(symbolizer, file, address, return_address);
        if (answer == NULL || ag_pointer_map_put(answers, key, answer) < 0) {
            free(answer);
            *ret_frames = &symbolizer->out_of_memory;
            return 1;
        }
    }
    *ret_frames = answer->frames;
    return answer->n;
}

bool ag_symbolizer_stores_type(struct ag_symbolizer *symbolizer, uint32_t id, uint64_t pc,
                               uint32_t number, uint64_t size_of_object) {
    const struct image *image = ag_pointer_map_find(&symbolizer->images, id);
    ag_symbolizer_open_image(symbolizer, id);
    return image != NULL &&
           ag_image_file_stores_type(image->file, pc - image->bias, number, size_of_object);
}

size_t ag_symbolizer_problems(const struct ag_symbolizer *symbolizer,
                              const char *const **ret_lines) {
    *ret_lines = symbolizer->problems;
    return symbolizer->n_problems;
}
