/* attachable.c: checks, for `attach`, whether the agent (the shared library that records
 * allocations) can be loaded into a process. The checks use /proc, the files that the process has
 * mapped, and the functions of its libc. */
#include "attachable.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error_message.h"
#include "remote/foreign_file.h"

enum { STATUS_BYTES = 4096 };
/* __RTLD_DLOPEN: passed by callers of __libc_dlopen_mode */
#define LIBC_DLOPEN_FLAG UINT64_C(0x80000000)

/* ---- what /proc shows ---- */

/* Whether the process has ended or is ending: it loses its memory and its files before it becomes a
 * zombie. */
static bool is_over(const struct ag_remote_process *process) {
    char path[64];
    struct stat root;
    (void)snprintf(path, sizeof path, "/proc/%d/root/.", process->pid);
    return !ag_remote_process_is_alive(process) || stat(path, &root) < 0;
}

/* Returns the value after "\nNAME:\t"; NULL: STATUS has no such line. */
static const char *status_field(const char *status, const char *name) {
    char key[32];
    (void)snprintf(key, sizeof key, "\n%s:\t", name);
    const char *at = strstr(status, key);
    return at != NULL ? at + strlen(key) : NULL;
}

static long status_number(const char *status, const char *name) {
    const char *value = status_field(status, name);
    return value != NULL ? strtol(value, NULL, 10) : 0;
}

static bool status_ignores(const char *status, int signal_number) {
    const char *ignored = status_field(status, "SigIgn");
    return ignored != NULL && (strtoull(ignored, NULL, 16) >> (signal_number - 1) & 1) != 0;
}

static int check_status(const struct ag_remote_process *process, const char *status,
                        char message[512]) {
    const pid_t pid = process->pid;
    const char *name = process->name, *state = status_field(status, "State");
    const char *features = status_field(status, "x86_Thread_features");
    const long tracer = status_number(status, "TracerPid"),
               seccomp = status_number(status, "Seccomp");
    if (tracer != 0) {
        return ag_error_message(
            message, -EBUSY,
            "%d (%s): is traced by process %ld (gdb, strace or the like); detach that process first",
            pid, name, tracer);
    }
    if (state != NULL && (*state == 'T' || *state == 't')) {
        return ag_error_message(message, -EBUSY,
                                "%d (%s): is stopped; resume it (kill -CONT %d) and attach again",
                                pid, name, pid);
    }
    if (seccomp == SECCOMP_MODE_STRICT) {
        return ag_error_message(
            message, -EPERM,
            "%d (%s): a seccomp sandbox restricts the system calls of the process, and would kill "
            "the process for a system call of the agent; use allogram observe %d instead",
            pid, name, pid);
    }
    if (status_ignores(status, SIGTRAP) && status_ignores(status, SIGSEGV)) {
        return ag_error_message(
            message, -ENOTSUP,
            "%d (%s): ignores SIGTRAP and SIGSEGV, so the end of a call could not be detected; "
            "use allogram observe %d instead",
            pid, name, pid);
    }
    if (features != NULL && strncmp(features, "shstk", 5) == 0) {
        return ag_error_message(
            message, -ENOTSUP,
            "%d (%s): runs with a shadow stack, which prevents calls from outside; start "
            "it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off, or use allogram observe %d",
            pid, name, pid);
    }
    return 0;
}

/* A program with a userfaultfd handles page faults itself. While its threads are stopped, a read of
 * its memory could wait for one of these threads for ever. */
static int check_page_faults(const struct ag_remote_process *process, char message[512]) {
    char path[64], target[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", process->pid);
    DIR *folder = opendir(path);
    bool has_handler = false;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        has_handler |= strstr(target, "[userfaultfd]") != NULL;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return has_handler
               ? ag_error_message(message, -ENOTSUP,
                                  "%d (%s): handles page faults itself (userfaultfd), so it must "
                                  "not be stopped; use allogram observe %d instead",
                                  process->pid, process->name, process->pid)
               : 0;
}

/* ---- what is mapped ---- */

struct ag_observed_image *ag_attachable_agent(const struct ag_observed_images *images) {
    for (size_t i = 0; i < images->n_sorted; i++) {
        struct ag_observed_image *image = images->sorted[i];
        if (image->is_open && strncmp(basename(image->path), "liballogram-attached", 20) == 0) {
            return image;
        }
    }
    return NULL;
}

int ag_attachable_check_not_recorded(const struct ag_remote_process *process,
                                     const struct ag_observed_images *images, char message[512]) {
    for (size_t i = 0; i < images->maps.n; i++) {
        const char *path = images->maps.items[i].path;
        if (strncmp(basename(path), "liballogram-", 12) == 0 || strstr(path, "/.allogram-live.")) {
            return ag_error_message(
                message, -EALREADY,
                "%d (%s): is recorded by allogram already; end that recording first", process->pid,
                process->name);
        }
    }
    return 0;
}

static struct ag_observed_image *find_libc(const struct ag_observed_images *images) {
    for (size_t i = 0; i < images->n_sorted; i++) {
        struct ag_observed_image *image = images->sorted[i];
        if (image->is_open && strncmp(basename(image->path), "libc", 4) == 0 &&
            ag_remote_elf_symbol(image->elf, "gnu_get_libc_version") != NULL) {
            return image;
        }
    }
    return NULL;
}

static bool is_static(const struct ag_observed_images *images) {
    for (size_t i = 0; i < images->n_sorted; i++) {
        const struct ag_observed_image *image = images->sorted[i];
        if (image->is_open && image->is_program) {
            return ag_remote_elf_segment(image->elf, PT_INTERP) == NULL;
        }
    }
    return false;
}

static uint64_t address_in(struct ag_observed_image *image, const char *name) {
    const struct ag_remote_symbol *symbol = ag_remote_elf_symbol(image->elf, name);
    return symbol != NULL && symbol->is_function ? symbol->address + image->bias : 0;
}

/* Returns the address of a byte 0xcc (int3) in the code of the image; 0: there is none. The byte
 * may be a part of any instruction. */
static uint64_t find_trap(const struct ag_observed_image *image) {
    enum { PIECE_BYTES = 4096, TRAP = 0xcc };
    uint8_t piece[PIECE_BYTES];
    for (size_t i = 0; i < image->elf->n_segments; i++) {
        const Elf64_Phdr *segment = &image->elf->segments[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0) {
            continue;
        }
        for (uint64_t at = 0; at + PIECE_BYTES <= segment->p_filesz; at += PIECE_BYTES) {
            if (!ag_remote_elf_read(image->elf, segment->p_offset + at, piece, sizeof piece)) {
                break;
            }
            const uint8_t *trap = memchr(piece, TRAP, sizeof piece);
            if (trap != NULL) {
                return image->bias + segment->p_vaddr + at + (uint64_t)(trap - piece);
            }
        }
    }
    return 0;
}

static int find_functions(const struct ag_remote_process *process, struct ag_attachable *attachable,
                          bool ignores_traps, char message[512]) {
    struct ag_observed_image *libc = attachable->libc;
    attachable->dlopen = address_in(libc, "dlopen"); /* since glibc 2.34 in libc.so.6 */
    attachable->dlclose = address_in(libc, "dlclose");
    attachable->dlopen_flags = RTLD_NOW | RTLD_LOCAL;
    if (attachable->dlopen == 0 || attachable->dlclose == 0) {
        attachable->dlopen = address_in(libc, "__libc_dlopen_mode"); /* until 2.33 */
        attachable->dlclose = address_in(libc, "__libc_dlclose");
        attachable->dlopen_flags |= LIBC_DLOPEN_FLAG;
    } else {
        attachable->dlerror = address_in(libc, "dlerror");
    }
    attachable->functions =
        (struct ag_remote_libc){.errno_location = address_in(libc, "__errno_location"),
                                .mmap = address_in(libc, "mmap"),
                                .munmap = address_in(libc, "munmap")};
    attachable->system_call = address_in(libc, "syscall");
    attachable->trap = ignores_traps ? 0 : find_trap(libc);
    const char *missing = attachable->dlopen == 0 || attachable->dlclose == 0 ? "dlopen or dlclose"
                          : attachable->functions.errno_location == 0         ? "__errno_location"
                          : attachable->functions.mmap == 0                   ? "mmap"
                          : attachable->functions.munmap == 0                 ? "munmap"
                          : attachable->trap == 0 && !ignores_traps ? "byte 0xcc in its code"
                                                                    : NULL;
    if (missing != NULL) {
        return ag_error_message(
            message, -ENOTSUP,
            "%d (%s): its libc (%.200s) has no %s, which attach needs; start it under allogram run",
            process->pid, process->name, libc->path, missing);
    }
    return 0;
}

int ag_attachable_check(const struct ag_remote_process *process, struct ag_observed_images *images,
                        struct ag_attachable *ret_attachable, char ret_message[512]) {
    char status[STATUS_BYTES];
    if (ag_remote_process_file(process->pid, 0, "status", status, STATUS_BYTES) <= 0) {
        return ag_error_message(ret_message, -ESRCH, "%d (%s): ended while it was being examined",
                                process->pid, process->name);
    }
    int r = check_status(process, status, ret_message);
    r = r == 0 ? check_page_faults(process, ret_message) : r;
    if (r < 0) {
        return r;
    }
    if (is_static(images)) {
        return ag_error_message(
            ret_message, -ENOTSUP,
            "%d (%s): is statically linked, so nothing can be loaded into it; to observe it "
            "from outside: allogram observe %d",
            process->pid, process->name, process->pid);
    }
    struct ag_attachable attachable = {.libc = find_libc(images),
                                       .has_filter =
                                           status_number(status, "Seccomp") == SECCOMP_MODE_FILTER};
    if (attachable.libc == NULL && is_over(process)) {
        return ag_remote_process_ended_error(process, ret_message);
    }
    if (attachable.libc == NULL) {
        return ag_error_message(
            ret_message, -ENOTSUP,
            "%d (%s): its C library is not glibc or cannot be read, and no other is supported; use allogram observe %d instead",
            process->pid, process->name, process->pid);
    }
    r = find_functions(process, &attachable, status_ignores(status, SIGTRAP), ret_message);
    if (r == 0) {
        *ret_attachable = attachable;
    }
    return r;
}

bool ag_attachable_sees(const struct ag_remote_process *process, const char *path) {
    char seen[4096 + 64];
    struct stat ours, theirs;
    (void)snprintf(seen, sizeof seen, "/proc/%d/root%s", process->pid, path);
    return stat(path, &ours) == 0 && ag_foreign_file_look(seen, &theirs) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* Whether the process has a /proc, according to the folder of one of its pids there: the process
 * has a pid in each PID namespace from ours to its own. */
static bool has_proc(const struct ag_remote_process *process, const char *status) {
    const char *pids = status_field(status, "NSpid");
    bool has = pids == NULL; /* a kernel before 4.1: the loader will say */
    while (pids != NULL && !has) {
        char *end, path[128];
        struct stat facts;
        const long pid = strtol(pids, &end, 10);
        if (end == pids) {
            break;
        }
        (void)snprintf(path, sizeof path, "/proc/%d/root/proc/%ld/fd", process->pid, pid);
        has = ag_foreign_file_look(path, &facts) == 0 && S_ISDIR(facts.st_mode);
        pids = *end == '\t' ? end : NULL;
    }
    return has;
}

int ag_attachable_check_passing(const struct ag_remote_process *process,
                                const struct ag_attachable *attachable, char ret_message[512]) {
    char status[STATUS_BYTES];
    if (ag_remote_process_file(process->pid, 0, "status", status, STATUS_BYTES) <= 0 ||
        is_over(process)) {
        return ag_remote_process_ended_error(process, ret_message);
    }
    const char *missing = attachable->system_call == 0 ? "function syscall in its libc"
                          : !has_proc(process, status) ? "/proc that shows it"
                                                       : NULL;
    return missing == NULL
               ? 0
               : ag_error_message(ret_message, -ENOTSUP,
                                  "%d (%s): is in another mount namespace and has no %s, through "
                                  "which attach loads the agent; use allogram observe %d instead",
                                  process->pid, process->name, missing, process->pid);
}
