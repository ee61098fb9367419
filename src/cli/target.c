/* target.c: examines a program before it runs. `run` preloads the agent, the library that records,
 * into the program with LD_PRELOAD. In some programs LD_PRELOAD has no effect, and no error is
 * reported: the dynamic loader of another architecture only prints a warning, a static program
 * ignores the variable, and the loader ignores the agent for a setuid program. This file rejects
 * programs that cannot be recorded, with a reason. */
#include "cli/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "remote/remote_elf.h"

enum {
    /* the kernel follows this many #! lines, if interpreters are scripts themselves */
    MAX_SCRIPTS = 5,
    HEAD_BYTES = 4096,
    SCRIPT_LINE_BYTES = 255,
    MAX_PROGRAM_HEADERS = 512,
};
/* the shell with which execvp executes a file that is not ELF and has no #! line */
#define SHELL "/bin/sh"

/* ---- finding the file ---- */

/* Returns 0, ENOENT or EACCES. */
static int check_file(const char *path) {
    struct stat status;
    if (stat(path, &status) < 0) {
        return errno == EACCES ? EACCES : ENOENT;
    }
    return S_ISREG(status.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

static int search_path(const char *command, char ret_path[4096]) {
    const char *folders = getenv("PATH");
    int result = ENOENT;
    for (const char *at = folders ? folders : "/bin:/usr/bin"; at; at = *at ? at + 1 : NULL) {
        const size_t length = strcspn(at, ":");
        char path[PATH_MAX];
        const int n = length == 0
                          ? snprintf(path, sizeof(path), "./%s", command)
                          : snprintf(path, sizeof(path), "%.*s/%s", (int)length, at, command);
        const int found = n < (int)sizeof(path) ? check_file(path) : ENOENT;
        if (found == 0) {
            memcpy(ret_path, path, (size_t)n + 1);
            return 0;
        }
        result = found == EACCES ? EACCES : result;
        at += length;
    }
    return result;
}

static int locate_program(const char *command, struct ag_target *target) {
    if (!strchr(command, '/')) {
        return search_path(command, target->path);
    }
    if ((size_t)snprintf(target->path, sizeof(target->path), "%s", command) >=
        sizeof(target->path)) {
        return ENOENT;
    }
    return check_file(target->path);
}

/* ---- examining the file ---- */

/* Reads the interpreter's path from a #! line. Returns false if the file does not begin with a #!
 * line, or if the line has no path. */
static bool read_script_line(const char *head, size_t bytes, char ret_interpreter[4096]) {
    if (bytes < 3 || head[0] != '#' || head[1] != '!') {
        return false;
    }
    size_t at = 2, length = 0;
    const size_t end = bytes < SCRIPT_LINE_BYTES ? bytes : SCRIPT_LINE_BYTES;
    while (at < end && (head[at] == ' ' || head[at] == '\t')) {
        at++;
    }
    while (at + length < end && !strchr(" \t\n", head[at + length])) {
        length++;
    }
    memcpy(ret_interpreter, head + at, length);
    ret_interpreter[length] = '\0';
    return length > 0;
}

static bool raises_rights(int fd) {
    struct stat status;
    char capabilities[64];
    return (fstat(fd, &status) == 0 && status.st_mode & (S_ISUID | S_ISGID)) ||
           fgetxattr(fd, "security.capability", capabilities, sizeof(capabilities)) > 0;
}

/* Whether the name of the file, which has no PT_INTERP, is that of a dynamic loader. A loader that
 * is executed with a program as its argument preloads the agent into that program. */
static bool is_loader(const Elf64_Ehdr *elf, const char *path) {
    static const char *const names[] = {"ld-linux", "ld-musl", "ld-2.", "ld.so"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < AG_ARRAY_SIZE(names); i++) {
        if (elf->e_type == ET_DYN && strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the reason why an ELF file cannot be recorded; NULL: the file can be recorded. */
static const char *elf_obstacle(int fd, const char *path, const char *head, size_t bytes) {
    Elf64_Ehdr elf;
    if (bytes < sizeof(elf)) {
        return "the file is truncated";
    }
    memcpy(&elf, head, sizeof(elf));
    if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB ||
        elf.e_machine != EM_X86_64) {
        return "it is not an x86-64 program, and allogram records no others";
    }
    if (elf.e_phentsize != sizeof(Elf64_Phdr) || elf.e_phnum > MAX_PROGRAM_HEADERS) {
        return "its program headers are damaged";
    }
    for (unsigned i = 0; i < elf.e_phnum; i++) {
        Elf64_Phdr segment;
        if (pread(fd, &segment, sizeof(segment), (off_t)(elf.e_phoff + i * sizeof(segment))) !=
            sizeof(segment)) {
            return "its program headers are damaged";
        }
        if (segment.p_type == PT_INTERP) {
            return NULL;
        }
    }
    if (is_loader(&elf, path)) {
        return NULL;
    }
    return "it is statically linked, so the agent cannot be preloaded; to observe it from outside: allogram observe PID";
}

/* Examines target->image. If it is a script, replaces target->image by the path of the script's
 * interpreter and returns true. *ret_obstacle: the reason why the file cannot be recorded; NULL:
 * none was found. */
static bool inspect_program(struct ag_target *target, const char **ret_obstacle) {
    char head[HEAD_BYTES];
    *ret_obstacle = NULL;
    const int fd = open(target->image, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        /* the file is executable but not readable; the kernel can execute it nevertheless */
        return false;
    }
    const ssize_t n = pread(fd, head, sizeof(head), 0);
    const size_t bytes = n > 0 ? (size_t)n : 0;
    bool is_script = false;
    if (bytes >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0) {
        *ret_obstacle =
            raises_rights(fd)
                ? "it is setuid, setgid or has file capabilities, so the agent cannot be preloaded"
                : elf_obstacle(fd, target->image, head, bytes);
    } else if (read_script_line(head, bytes, target->image)) {
        is_script = true;
    } else {
        memcpy(target->image, SHELL, sizeof(SHELL));
        is_script = true;
    }
    (void)close(fd); /* nothing was written */
    return is_script;
}

int ag_target_find(const char *command, struct ag_target *ret_target, char ret_message[512]) {
    const int error = locate_program(command, ret_target);
    if (error != 0) {
        (void)snprintf(ret_message, 512, "%.400s: %s", command,
                       error == ENOENT ? "command not found" : "not executable");
        return error == ENOENT ? AG_EXIT_NOT_FOUND : AG_EXIT_NOT_EXECUTABLE;
    }
    memcpy(ret_target->image, ret_target->path, sizeof(ret_target->image));
    const char *obstacle = NULL;
    for (int i = 0; i < MAX_SCRIPTS && inspect_program(ret_target, &obstacle); i++) {
    }
    if (obstacle) {
        (void)snprintf(ret_message, 512, "%.300s cannot be recorded: %s", ret_target->image,
                       obstacle);
        return AG_EXIT_OWN_FAILURE;
    }
    return 0;
}

/* Whether NAMES contains the name of the AddressSanitizer library of gcc or clang. NAMES is the
 * section .dynstr of a program, which contains the names of the libraries that the program
 * loads. */
static bool names_address_sanitizer(const char *names, size_t bytes) {
    static const char *const libraries[] = {"libasan.so", "libclang_rt.asan"};
    for (size_t at = 0; at < bytes; at += strnlen(names + at, bytes - at) + 1) {
        for (size_t i = 0; i < AG_ARRAY_SIZE(libraries); i++) {
            const size_t length = strlen(libraries[i]);
            if (bytes - at > length && memcmp(names + at, libraries[i], length) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool ag_target_refuses_preload(const char *path) {
    enum { NAMES_MOST_BYTES = 64 << 20 };
    const char *options = getenv("ASAN_OPTIONS");
    struct ag_remote_elf elf;
    if ((options && strstr(options, "verify_asan_link_order")) ||
        ag_remote_elf_open(path, &elf) < 0) {
        return false;
    }
    size_t bytes = 0;
    uint8_t *names = ag_remote_elf_contents(&elf, ".dynstr", NAMES_MOST_BYTES, &bytes);
    const bool refuses = names && names_address_sanitizer((const char *)names, bytes);
    free(names);
    ag_remote_elf_close(&elf);
    return refuses;
}
