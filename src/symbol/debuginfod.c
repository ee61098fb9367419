/* debuginfod.c: loads elfutils' libdebuginfod when it is wanted, so that allogram does not depend
 * on an HTTP client. */
#include "debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include <elfutils/debuginfod.h>

typedef debuginfod_client *begin_fn(void);
typedef void end_fn(debuginfod_client *client);
typedef int find_fn(debuginfod_client *client, const unsigned char *build_id, int build_id_bytes,
                    char **ret_path);

int ag_debuginfod_open(const struct ag_build_id *id, enum ag_debuginfod_kind kind,
                       struct ag_elf_file *ret_file) {
    static const char *const find_names[] = {
        [AG_DEBUGINFOD_DEBUG] = "debuginfod_find_debuginfo",
        [AG_DEBUGINFOD_EXECUTABLE] = "debuginfod_find_executable",
    };
    if (id->n_bytes == 0) {
        return -ENOENT;
    }
    /* Never unloaded: the HTTP client below it leaves threads and exit handlers behind. */
    void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        return -ENOENT;
    }
    begin_fn *begin = (begin_fn *)dlsym(library, "debuginfod_begin");
    end_fn *end = (end_fn *)dlsym(library, "debuginfod_end");
    find_fn *find = (find_fn *)dlsym(library, find_names[kind]);
    int r = -ENOENT;
    debuginfod_client *client = begin != NULL && end != NULL && find != NULL ? begin() : NULL;
    if (client != NULL) {
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
