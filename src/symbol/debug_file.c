/* debug_file.c: finds separate debug files: composes the paths to try; elf_file.c checks whether a
 * file is safe to open and is the right file. */
#include "debug_file.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- debuginfod ---- */

/* Loads libdebuginfod of elfutils when it is first needed, so that allogram does not depend on an
 * HTTP client. A file from a server is treated as any other file: its build id is compared, and its
 * size limits the work of reading it. The library stores the whole file before it returns, so the
 * size of the file is limited, too. */

typedef debuginfod_client *begin_fn(void);
typedef void end_fn(debuginfod_client *client);
typedef int find_fn(debuginfod_client *client, const unsigned char *build_id, int build_id_bytes,
                    char **ret_path);
typedef int progress_fn(debuginfod_client *client, long done_bytes, long all_bytes);
typedef void set_progress_fn(debuginfod_client *client, progress_fn *progress);

/* Largest file that is accepted. The debug information of the largest browsers has 3 GiB. */
static const int64_t answer_most_bytes = INT64_C(8) << 30;

/* Called while a file is received. ALL_BYTES: the announced size of the file, or 0. A result other
 * than 0 ends the transfer. */
static int refuse_too_much(debuginfod_client *client, long done_bytes, long all_bytes) {
    (void)client;
    return done_bytes > answer_most_bytes || all_bytes > answer_most_bytes;
}

int ag_debuginfod_open(const struct ag_build_id *id, enum ag_debuginfod_kind kind,
                       struct ag_elf_file *ret_file) {
    static const char *const find_names[] = {
        [AG_DEBUGINFOD_DEBUG] = "debuginfod_find_debuginfo",
        [AG_DEBUGINFOD_EXECUTABLE] = "debuginfod_find_executable",
    };
    if (id->n_bytes == 0) {
        return -ENOENT;
    }
    /* RTLD_NODELETE: the library is never unloaded, because its HTTP client leaves threads and exit
     * handlers. */
    void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        return -ENOENT;
    }
    begin_fn *begin = (begin_fn *)dlsym(library, "debuginfod_begin");
    end_fn *end = (end_fn *)dlsym(library, "debuginfod_end");
    find_fn *find = (find_fn *)dlsym(library, find_names[kind]);
    set_progress_fn *set_progress = (set_progress_fn *)dlsym(library, "debuginfod_set_progressfn");
    int r = -ENOENT;
    debuginfod_client *client =
        begin != NULL && end != NULL && find != NULL && set_progress != NULL ? begin() : NULL;
    if (client != NULL) {
        set_progress(client, refuse_too_much);
        char *path = NULL;
        const int fd = find(client, id->bytes, (int)id->n_bytes, &path);
        if (fd >= 0) {
            r = ag_elf_file_adopt(fd, path != NULL ? path : "[debuginfod]", id, NULL, ret_file);
        }
        free(path);
        end(client);
    }
    dlclose(library);
    return r < 0 ? -ENOENT : 0;
}

int ag_debug_file_by_build_id(const struct ag_debug_places *places, const struct ag_build_id *id,
                              const char *suffix, struct ag_elf_file *ret_file) {
    if (id->n_bytes < 2) {
        return -ENOENT;
    }
    char hex[AG_BUILD_ID_TEXT_BYTES];
    ag_build_id_format(id, hex);
    for (size_t i = 0; i < places->n_folders; i++) {
        char *path;
        if (asprintf(&path, "%s/.build-id/%.2s/%s%s", places->folders[i], hex, hex + 2, suffix) <
            0) {
            return -ENOENT;
        }
        const int r = ag_elf_file_open(path, id, NULL, ret_file);
        free(path);
        if (r == 0) {
            return 0;
        }
    }
    return -ENOENT;
}

/* Computes the checksum that .gnu_debuglink contains: zlib's crc32, bit by bit, with the reflected
 * polynomial. */
static uint32_t checksum_add(uint32_t checksum, const uint8_t *bytes, size_t n_bytes) {
    checksum = ~checksum;
    for (size_t i = 0; i < n_bytes; i++) {
        checksum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            checksum = (checksum >> 1) ^ (UINT32_C(0xedb88320) & (0 - (checksum & 1)));
        }
    }
    return ~checksum;
}

static bool has_checksum(int fd, uint32_t wanted) {
    uint32_t checksum = 0;
    uint8_t bytes[16384];
    off_t offset = 0;
    for (ssize_t n; (n = pread(fd, bytes, sizeof(bytes), offset)) > 0; offset += n) {
        checksum = checksum_add(checksum, bytes, (size_t)n);
    }
    return checksum == wanted;
}

/* Opens the debug file that .gnu_debuglink of MAIN names. The file must have the build id of MAIN;
 * if MAIN has none, the file must have the CHECKSUM of .gnu_debuglink. */
static int open_linked(const char *path, const struct ag_elf_file *main, uint32_t checksum,
                       struct ag_elf_file *ret_file) {
    struct ag_elf_file file;
    int r = ag_elf_file_open(path, &main->build_id, NULL, &file);
    if (r < 0) {
        return r;
    }
    if (main->build_id.n_bytes == 0 && !has_checksum(file.fd, checksum)) {
        ag_elf_file_close(&file);
        return -ESTALE;
    }
    *ret_file = file;
    return 0;
}

/* The contents of .gnu_debuglink are a file name, zeros up to a multiple of 4, and the checksum. */
static int find_linked(const struct ag_debug_places *places, const struct ag_elf_file *main,
                       struct ag_elf_file *ret_file) {
    const Elf_Data *link = ag_elf_file_section(main, ".gnu_debuglink");
    if (link == NULL) {
        return -ENOENT;
    }
    const char *name = link->d_buf;
    const size_t length = strnlen(name, link->d_size);
    const size_t checksum_offset = (length + 4) & ~(size_t)3;
    if (length == 0 || checksum_offset + 4 > link->d_size || strchr(name, '/') != NULL) {
        return -ENOENT;
    }
    uint32_t checksum;
    memcpy(&checksum, (const char *)link->d_buf + checksum_offset, sizeof(checksum));

    const char *slash = strrchr(main->path, '/');
    const int folder_bytes = slash != NULL ? (int)(slash - main->path) : 0;
    /* in the folder of MAIN, in its subfolder .debug, at the path of MAIN below each of
     * places->folders, and directly in each of them */
    const size_t n_candidates = 2 + 2 * places->n_folders;
    for (size_t i = 0; i < n_candidates; i++) {
        char *path;
        const bool is_directly = i >= 2 + places->n_folders;
        const char *before = i < 2 ? "" : places->folders[(i - 2) % places->n_folders];
        if (asprintf(&path, "%s%.*s%s/%s", before, is_directly ? 0 : folder_bytes, main->path,
                     i == 1 ? "/.debug" : "", name) < 0) {
            return -ENOENT;
        }
        const int r = open_linked(path, main, checksum, ret_file);
        free(path);
        if (r == 0) {
            return 0;
        }
    }
    return -ENOENT;
}

/* Opens the debug file, or a copy of MAIN that is not stripped, directly in one of places->folders:
 * the file has the name of MAIN, with or without ".debug", and its build id. */
static int find_by_name(const struct ag_debug_places *places, const struct ag_elf_file *main,
                        struct ag_elf_file *ret_file) {
    if (main->path == NULL || main->build_id.n_bytes == 0) { /* not open, or without a build id */
        return -ENOENT;
    }
    const char *slash = strrchr(main->path, '/');
    const char *name = slash != NULL ? slash + 1 : main->path;
    for (size_t i = 0; i < 2 * places->n_folders; i++) {
        char *path;
        if (asprintf(&path, "%s/%s%s", places->folders[i / 2], name, i % 2 == 0 ? ".debug" : "") <
            0) {
            return -ENOENT;
        }
        const int r = ag_elf_file_open(path, &main->build_id, NULL, ret_file);
        free(path);
        if (r == 0 && ag_elf_file_section(ret_file, ".symtab") != NULL) {
            return 0;
        } else if (r == 0) {
            ag_elf_file_close(ret_file); /* stripped, too, or MAIN itself */
        }
    }
    return -ENOENT;
}

int ag_debug_file_find(const struct ag_debug_places *places, const struct ag_elf_file *main,
                       struct ag_elf_file *ret_file) {
    if (ag_debug_file_by_build_id(places, &main->build_id, ".debug", ret_file) == 0 ||
        find_linked(places, main, ret_file) == 0 || find_by_name(places, main, ret_file) == 0) {
        return 0;
    }
    return places->allow_debuginfod
               ? ag_debuginfod_open(&main->build_id, AG_DEBUGINFOD_DEBUG, ret_file)
               : -ENOENT;
}

/* The contents of .gnu_debugaltlink are a path (absolute, or relative to the folder of the debug
 * file), a zero byte, and the build id. */
int ag_debug_file_find_shared(const struct ag_debug_places *places, const struct ag_elf_file *debug,
                              struct ag_elf_file *ret_file) {
    const Elf_Data *link = ag_elf_file_section(debug, ".gnu_debugaltlink");
    if (link == NULL) {
        return -ENODATA;
    }
    const char *name = link->d_buf;
    const size_t length = strnlen(name, link->d_size);
    if (length == 0 || length + 1 >= link->d_size) {
        return -ENOENT;
    }
    const struct ag_build_id id = ag_build_id_from(name + length + 1, link->d_size - length - 1);
    if (ag_debug_file_by_build_id(places, &id, ".debug", ret_file) == 0) {
        return 0;
    }
    const char *slash = strrchr(debug->path, '/');
    const int folder_bytes = name[0] != '/' && slash != NULL ? (int)(slash + 1 - debug->path) : 0;
    char *path;
    if (asprintf(&path, "%.*s%s", folder_bytes, debug->path, name) < 0) {
        return -ENOENT;
    }
    const int r = ag_elf_file_open(path, &id, NULL, ret_file);
    free(path);
    if (r < 0 && places->allow_debuginfod) {
        return ag_debuginfod_open(&id, AG_DEBUGINFOD_DEBUG, ret_file);
    }
    return r < 0 ? -ENOENT : 0;
}
