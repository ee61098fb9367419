/* symbolizer.c: implements the symbolizer of symbol.h: its images, the cache of results, and the
 * list of problems for reports.
 *
 * A result of a look-up is one allocation, a count followed by an array of frames. Results are kept
 * in a map for each file, by address. Several symbolizers can share the files (struct
 * ag_symbol_files) and thereby the results. What each of them has already reported about a file is
 * in its own struct used_file, so that it lists the same problems as a symbolizer with files of its
 * own. */
#include "symbol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image_file.h"

/* most problems that are kept, because a trace can name any number of files */
enum { PROBLEMS = 1000 };

struct used_file { /* a file that an image of the symbolizer has */
    struct ag_image_file *file;
    bool is_noted;      /* the file was opened, and its problem is in the list of problems */
    bool has_shortfall; /* the result of ag_image_file_shortfall is in the list of problems */
    bool has_gap;       /* a reason why some addresses have no names is in the list of problems */
};
struct image {
    struct used_file *used;
    uint64_t bias, low, high;
};
struct answer {
    size_t n;
    bool is_unnamed; /* no table contains the name of the outermost function */
    struct ag_symbol_frame frames[];
};
struct ag_symbol_files {
    char *sysroot;
    char **folders; /* folders with separate debug files; places.folders points to them */
    struct ag_debug_places places;
    const struct ag_runtime *runtimes;
    struct ag_names names;
    struct ag_work_reserve reserve;
    struct ag_pointer_map files; /* hash of path and build id -> list of struct ag_image_file */
};
struct ag_symbolizer {
    struct ag_symbol_files *files;
    bool owns_files;
    char *root;                    /* see ag_symbolizer_set_root */
    struct ag_pointer_map images;  /* id of an image -> struct image */
    struct ag_pointer_map outside; /* address outside of all images -> struct answer */
    struct ag_pointer_map used;    /* address of a struct ag_image_file -> struct used_file */
    /* lines for reports; stored in files->names, because they contain untrusted paths from the
     * trace */
    const char **problems;
    size_t n_problems;
    bool has_remedy; /* a problem says where missing names can come from; other problems do not
                      * repeat this */
    struct ag_symbol_frame out_of_memory; /* the result if memory is exhausted */
};

static const char system_debug_folder[] = "/usr/lib/debug";

/* Copies the folders with debug files: first those of the user, then /usr/lib/debug below the
 * sysroot, then /usr/lib/debug. */
static int copy_folders(struct ag_symbol_files *files, const struct ag_symbol_options *options) {
    files->folders = calloc(options->n_debug_dirs + 2, sizeof(char *));
    if (files->folders == NULL) {
        return -ENOMEM;
    }
    size_t n = 0;
    for (size_t i = 0; i < options->n_debug_dirs; i++) {
        files->folders[n++] = strdup(options->debug_dirs[i]);
    }
    if (options->sysroot != NULL) {
        char *path;
        files->folders[n++] =
            asprintf(&path, "%s%s", options->sysroot, system_debug_folder) < 0 ? NULL : path;
    }
    files->folders[n++] = strdup(system_debug_folder);
    files->places.folders = (const char *const *)files->folders;
    files->places.n_folders = n;
    files->places.allow_debuginfod = options->allow_debuginfod;
    for (size_t i = 0; i < n; i++) {
        if (files->folders[i] == NULL) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* OPTIONS->size is smaller if the caller was compiled with an older struct; the members that are
 * missing keep their defaults. */
static struct ag_symbol_options known_options(const struct ag_symbol_options *options) {
    struct ag_symbol_options known = {0};
    if (options != NULL) {
        memcpy(&known, options, options->size < sizeof(known) ? options->size : sizeof(known));
    }
    return known;
}

struct ag_symbol_files *ag_symbol_files_new(const struct ag_symbol_options *options) {
    const struct ag_symbol_options known = known_options(options);
    struct ag_symbol_files *files = calloc(1, sizeof(*files));
    if (files == NULL) {
        return NULL;
    }
    files->sysroot = known.sysroot != NULL ? strdup(known.sysroot) : NULL;
    files->runtimes = known.runtimes;
    ag_work_reserve_init(&files->reserve);
    files->reserve.is_hurried = known.is_hurried;
    if ((known.sysroot != NULL && files->sysroot == NULL) || copy_folders(files, &known) < 0) {
        return ag_symbol_files_free(files);
    }
    return files;
}

static void free_files(void *list) {
    for (struct ag_image_file *file = list, *next; file != NULL; file = next) {
        next = file->next;
        ag_image_file_free(file);
    }
}

struct ag_symbol_files *ag_symbol_files_free(struct ag_symbol_files *files) {
    if (files == NULL) {
        return NULL;
    }
    ag_pointer_map_done(&files->files, free_files);
    for (size_t i = 0; i < files->places.n_folders; i++) {
        free(files->folders[i]);
    }
    free(files->folders);
    ag_names_clear(&files->names);
    free(files->sysroot);
    free(files);
    return NULL;
}

struct ag_symbolizer *ag_symbolizer_new(const struct ag_symbol_options *options) {
    const struct ag_symbol_options known = known_options(options);
    struct ag_symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));
    if (symbolizer == NULL) {
        return NULL;
    }
    symbolizer->out_of_memory.function = "[no memory]";
    symbolizer->owns_files = known.files == NULL;
    symbolizer->files = known.files != NULL ? known.files : ag_symbol_files_new(options);
    symbolizer->problems = calloc(PROBLEMS, sizeof(char *));
    if (symbolizer->files == NULL || symbolizer->problems == NULL) {
        return ag_symbolizer_free(symbolizer);
    }
    if (!symbolizer->owns_files) { /* each trace may cost as much as if it were the only one */
        ag_work_reserve_init(&symbolizer->files->reserve);
        symbolizer->files->reserve.is_hurried = known.is_hurried;
    }
    return symbolizer;
}

struct ag_symbolizer *ag_symbolizer_free(struct ag_symbolizer *symbolizer) {
    if (symbolizer == NULL) {
        return NULL;
    }
    ag_pointer_map_done(&symbolizer->images, free);
    ag_pointer_map_done(&symbolizer->outside, free);
    ag_pointer_map_done(&symbolizer->used, free);
    free(symbolizer->problems);
    if (symbolizer->owns_files) {
        ag_symbol_files_free(symbolizer->files);
    }
    free(symbolizer->root);
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
    const char *kept = ag_names_keep(&symbolizer->files->names, line);
    free(line);
    if (kept != NULL) {
        symbolizer->problems[symbolizer->n_problems++] = kept;
    }
}

/* Returns the struct for the file with PATH and BUILD_ID, which all images of this file share.
 * NULL: out of memory. */
static struct ag_image_file *file_of(struct ag_symbol_files *files, const char *path,
                                     const struct ag_build_id *build_id) {
    const uint64_t key = ag_image_file_hash(path, build_id);
    struct ag_image_file *first = ag_pointer_map_find(&files->files, key);
    for (struct ag_image_file *file = first; file != NULL; file = file->next) {
        if (ag_image_file_is(file, path, build_id)) {
            return file;
        }
    }
    struct ag_image_file *file = ag_image_file_new(path, build_id, &files->reserve);
    if (file == NULL || ag_pointer_map_put(&files->files, key, file) < 0) {
        return ag_image_file_free(file);
    }
    file->next = first;
    return file;
}

/* Returns what the symbolizer knows about the file. NULL: out of memory. */
static struct used_file *used_file_of(struct ag_symbolizer *symbolizer,
                                      struct ag_image_file *file) {
    struct used_file *used =
        file != NULL ? ag_pointer_map_find(&symbolizer->used, (uintptr_t)file) : NULL;
    if (used != NULL || file == NULL) {
        return used;
    }
    used = calloc(1, sizeof(*used));
    if (used == NULL || ag_pointer_map_put(&symbolizer->used, (uintptr_t)file, used) < 0) {
        free(used);
        return NULL;
    }
    used->file = file;
    return used;
}

int ag_symbolizer_set_root(struct ag_symbolizer *symbolizer, const char *root) {
    free(symbolizer->root);
    symbolizer->root = strdup(root);
    return symbolizer->root != NULL ? 0 : -ENOMEM;
}

int ag_symbolizer_image(struct ag_symbolizer *symbolizer, uint32_t id, const char *path,
                        const void *build_id, size_t build_id_bytes, uint64_t bias, uint64_t low,
                        uint64_t high) {
    const struct ag_build_id wanted = ag_build_id_from(build_id, build_id_bytes);
    struct used_file *used = used_file_of(symbolizer, file_of(symbolizer->files, path, &wanted));
    if (used != NULL && !used->file->is_open && symbolizer->root != NULL) {
        free(used->file->root);
        used->file->root = strdup(symbolizer->root); /* out of memory: only `path` is tried */
    }
    struct image *image = used != NULL ? calloc(1, sizeof(*image)) : NULL;
    if (image == NULL) {
        return -ENOMEM;
    }
    *image = (struct image){.used = used, .bias = bias, .low = low, .high = high};
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
    const char *name = ag_names_keep(&symbolizer->files->names, text);
    free(text);
    return name;
}

static bool is_unknown(const struct ag_symbol_frame *frames, size_t n) {
    return n == 0 || frames[n - 1].function == NULL;
}

/* Makes a result from N frames. Frames without a function get a name that consists of ADDRESS and
 * the image. NULL: out of memory. */
static struct answer *make_answer(struct ag_symbolizer *symbolizer, struct ag_symbol_frame *frames,
                                  size_t n, uint64_t address, const char *image) {
    const bool is_unnamed = is_unknown(frames, n);
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
        answer->is_unnamed = is_unnamed;
        memcpy(answer->frames, frames, n * sizeof(frames[0]));
    }
    return answer;
}

/* Opens the file, if no other symbolizer has opened it, and lists its problem. */
static void use_file(struct ag_symbolizer *symbolizer, struct used_file *used) {
    struct ag_symbol_files *files = symbolizer->files;
    struct ag_image_file *file = used->file;
    if (!file->is_open) {
        char *problem = ag_image_file_open(file, &files->places, files->sysroot);
        file->problem = problem != NULL ? ag_names_keep(&files->names, problem) : NULL;
        free(problem);
        ag_image_file_choose_decoder(file, files->runtimes);
    }
    used->is_noted = true;
    if (file->problem != NULL) {
        add_problem(symbolizer, file, file->problem);
        used->has_gap = true; /* the problem also explains why addresses have no names */
    }
}

void ag_symbolizer_open_image(struct ag_symbolizer *symbolizer, uint32_t id) {
    const struct image *image = ag_pointer_map_find(&symbolizer->images, id);
    if (image != NULL && !image->used->is_noted) {
        use_file(symbolizer, image->used);
    }
}

/* Returns the address by which a function without a symbol is named: its start, so that all its
 * addresses have one name; or ADDRESS, if the start is unknown. */
static uint64_t naming_address(struct ag_image_file *file, uint64_t address, bool return_address) {
    const uint64_t start = ag_image_file_function(file, address - return_address);
    return start != 0 ? start : address;
}

/* Whether ADDRESS is outside of all functions, according to the unwind tables. If ADDRESS is the
 * byte before a return address, then no call instruction pushed the return address: it is the start
 * of a function, which makecontext stored for the first function of a coroutine. */
static bool is_in_no_function(struct ag_image_file *file, uint64_t address) {
    return ag_image_file_function(file, address) == 0 && file->cfi != NULL;
}

static struct answer *look_up(struct ag_symbolizer *symbolizer, struct ag_image_file *file,
                              uint64_t address, bool return_address) {
    struct ag_symbol_frame frames[AG_FRAMES_PER_ADDRESS];
    if (file == NULL) {
        return make_answer(symbolizer, frames, 0, address, NULL);
    }
    struct ag_names *names = &symbolizer->files->names;
    size_t n = ag_image_file_frames(file, address, return_address, names, frames);
    if (return_address && is_unknown(frames, n) && is_in_no_function(file, address - 1)) {
        return_address = false;
        n = ag_image_file_frames(file, address, return_address, names, frames);
    }
    const uint64_t named =
        is_unknown(frames, n) ? naming_address(file, address, return_address) : address;
    return make_answer(symbolizer, frames, n, named, ag_image_file_base_name(file));
}

/* Adds to the list of problems that functions of FILE have no names, and, once, the remedy. */
static void add_unnamed(struct ag_symbolizer *symbolizer, const struct ag_image_file *file) {
    static const char remedy[] = "; to see names, install its debug symbols, give their folder by "
                                 "--debug-dir, or fetch them by --debuginfod";
    char what[256];
    const bool is_stripped = file->dwarf == NULL && file->debug.elf == NULL;
    const bool has_remedy = is_stripped && !symbolizer->has_remedy;
    (void)snprintf(what, sizeof what, "%s%s",
                   file->functions.n == 0 ? "no symbol table and no debug information"
                                          : "some addresses belong to none of its symbols",
                   has_remedy ? remedy : "");
    add_problem(symbolizer, file, what);
    symbolizer->has_remedy |= has_remedy;
}

/* Adds to the list of problems why ANSWER, or another result from this file, is incomplete. */
static void note_gaps(struct ag_symbolizer *symbolizer, struct used_file *used,
                      const struct answer *answer) {
    const char *shortfall = used->has_shortfall ? NULL : ag_image_file_shortfall(used->file);
    if (shortfall != NULL) {
        used->has_shortfall = true;
        used->has_gap = true;
        add_problem(symbolizer, used->file, shortfall);
    }
    if (answer->is_unnamed && !used->has_gap) {
        used->has_gap = true;
        add_unnamed(symbolizer, used->file);
    }
}

size_t ag_symbolizer_frames(struct ag_symbolizer *symbolizer, uint32_t id, uint64_t pc,
                            bool return_address, const struct ag_symbol_frame **ret_frames) {
    const struct image *image = ag_pointer_map_find(&symbolizer->images, id);
    const bool is_inside =
        image != NULL && (image->high == 0 || (image->low <= pc && pc <= image->high));
    struct used_file *used = is_inside ? image->used : NULL;
    struct ag_pointer_map *answers = is_inside ? &used->file->answers : &symbolizer->outside;
    const uint64_t address = is_inside ? pc - image->bias : pc;
    /* no bit is lost, because user addresses have at most 56 bits */
    const uint64_t key = address << 1 | return_address;

    if (used != NULL && !used->is_noted) {
        use_file(symbolizer, used);
    }
    struct answer *answer = ag_pointer_map_find(answers, key);
    if (answer == NULL) {
        answer = look_up(symbolizer, used != NULL ? used->file : NULL, address, return_address);
        if (answer == NULL || ag_pointer_map_put(answers, key, answer) < 0) {
            free(answer);
            *ret_frames = &symbolizer->out_of_memory;
            return 1;
        }
    }
    if (used != NULL) {
        note_gaps(symbolizer, used, answer);
    }
    *ret_frames = answer->frames;
    return answer->n;
}

bool ag_symbolizer_stores_type(struct ag_symbolizer *symbolizer, uint32_t id, uint64_t pc,
                               uint32_t number, uint64_t size_of_object) {
    const struct image *image = ag_pointer_map_find(&symbolizer->images, id);
    ag_symbolizer_open_image(symbolizer, id);
    return image != NULL &&
           ag_image_file_stores_type(image->used->file, pc - image->bias, number, size_of_object);
}

size_t ag_symbolizer_problems(const struct ag_symbolizer *symbolizer,
                              const char *const **ret_lines) {
    *ret_lines = symbolizer->problems;
    return symbolizer->n_problems;
}
