/* debuginfod.c: loads elfutils' libdebuginfod on first use, so that allogram does not depend on an
 * HTTP client. A file from a server is treated like any other: its build id is compared, and its
 * size determines the work that may be spent on it. The library stores all of the answer first, so
 * its size has a bound, too. */
#include "debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include <elfutils/debuginfod.h>

typedef debuginfod_client *begin_fn(void);
typedef void end_fn(debuginfod_client *client);
typedef int find_fn(debuginfod_client *client, const unsigned char *build_id, int build_id_bytes,
                    char **ret_path);
typedef int progress_fn(debuginfod_client *client, long done_bytes, long all_bytes);
typedef void set_progress_fn(debuginfod_client *client, progress_fn *progress);

/* The debug information of the largest browsers has 3 GiB. */
static const int64_t answer_most_bytes = INT64_C(8) << 30;

/* Called while an answer arrives. ALL_BYTES: its announced size, or 0. A result other than 0 ends
 * the transfer. */
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
    /* Never unloaded: its HTTP client leaves threads and exit handlers behind. */
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
