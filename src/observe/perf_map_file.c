/* perf_map_file.c: `--perf-map`: writes a list of the functions that the target (the observed
 * process) generated at run time. `perf report` and `perf script` read their names from this file.
 *
 * Any user can create files in /tmp. So the file /tmp/perf-PID.map is always created anew, and no
 * link is followed. If another user's file has this name, it is not replaced, and an error is
 * returned. The target's user becomes the owner, since perf ignores files of other users. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observation_state.h"

struct map_file {
    FILE *out;
    size_t n;
};

static bool write_line(void *context, uint64_t address, uint64_t n_bytes, const char *name) {
    struct map_file *file = context;
    file->n++;
    return fprintf(file->out, "%llx %llx %s\n", (unsigned long long)address,
                   (unsigned long long)n_bytes, name) > 0;
}

/* Creates the file; a file from an earlier run of allogram or of the target is replaced. Returns
 * the file's descriptor, or a negative errno. */
static int create_map(const char *path, const struct ag_remote_process *process) {
    struct stat facts;
    if (lstat(path, &facts) == 0) {
        if (!S_ISREG(facts.st_mode) ||
            (facts.st_uid != process->user && facts.st_uid != geteuid())) {
            return -EEXIST;
        }
        if (unlink(path) != 0) {
            return -errno;
        }
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && process->user != geteuid()) {
        /* only root can change the owner; without root, this user stays the owner */
        (void)fchown(fd, process->user, (gid_t)-1);
    }
    return fd < 0 ? -errno : fd;
}

static void write_code(struct ag_observation *observation, struct map_file *file) {
    for (size_t i = 0; i < observation->n_inspections; i++) {
        const struct ag_inspection *inspection = &observation->inspections[i];
        if (inspection->inspector->code != NULL) {
            (void)inspection->inspector->code(inspection->state, write_line, file);
        }
    }
    for (size_t i = 0; i < observation->generated.n; i++) {
        const struct ag_generated_function *item = &observation->generated.items[i];
        (void)write_line(file, item->low, item->high - item->low, item->name);
    }
}

int ag_observation_write_perf_map(struct ag_observation *observation, char ret_path[4096],
                                  size_t *ret_functions, char ret_message[512]) {
    (void)snprintf(ret_path, 4096, "/tmp/perf-%d.map", observation->process.pid);
    if (observation->n_inspections == 0 && observation->generated.n == 0) {
        (void)snprintf(ret_message, 512,
                       "--perf-map: %d (%s) has no generated code that can be read",
                       observation->process.pid, observation->process.name);
        return -ENOENT;
    }
    const int fd = create_map(ret_path, &observation->process);
    struct map_file file = {fd >= 0 ? fdopen(fd, "we") : NULL, 0};
    if (file.out == NULL) {
        const int error = fd < 0 ? -fd : errno;
        (void)snprintf(ret_message, 512, "--perf-map: cannot create %s: %s", ret_path,
                       error == EEXIST
                           ? "it is not a regular file or belongs to another user; remove it"
                           : strerror(error));
        if (fd >= 0) {
            close(fd);
        }
        return -error;
    }
    write_code(observation, &file);
    if (fclose(file.out) != 0) {
        (void)snprintf(ret_message, 512, "--perf-map: cannot write %s: %s", ret_path,
                       strerror(errno));
        return -EIO;
    }
    *ret_functions = file.n;
    return 0;
}
