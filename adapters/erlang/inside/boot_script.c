/* boot_script.c: inserts a call into the boot script of an Erlang node, so that the tracer begins
 * before the first application and not after the last one.
 *
 * A node boots by a script: a file whose name ends in .boot. Its instructions load modules, start
 * the processes of the kernel, and start the applications. All other ways by which a command line
 * can name a function (-eval, -s, -run) act when the script has ended. So the emulator's call of
 * open is replaced. For the first file whose name ends in .boot, the call returns the descriptor of
 * a changed copy, which is only in memory. init:restart() boots the node again by the same file,
 * which is then changed again. No file is written, and it does not matter by which of the several
 * options and rules the emulator found the name.
 *
 * The file has Erlang's external term format, {script, {Name, Version}, [Instruction]}:
 *
 *     131 104 3  atom script  term {Name, Version}  108 n:32  instruction * n  106
 *
 * The two new instructions are inserted before the first {kernelProcess, ...}. At this place the
 * modules of a release that boots in embedded mode are loaded, and nothing is started:
 *
 *     {apply, {erlang, load_module, [allogram_boot, Binary]}}
 *     {apply, {allogram_boot, start, [Folder]}}
 *
 * Lengths in the file are checked, and a script of another form (or a compressed one) is left as it
 * is. In that case the counting begins when the script has ended (erlexec.c). */
#include "boot_script.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/join_text.h"
#include "base/pages.h"
#include "base/raw_syscall.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"

enum {
    VERSION = 131,
    FLOAT = 70,
    SMALL_INTEGER = 97,
    INTEGER = 98,
    OLD_FLOAT = 99,
    OLD_ATOM = 100,
    SMALL_TUPLE = 104,
    TUPLE = 105,
    NIL = 106,
    STRING = 107,
    LIST = 108,
    BINARY = 109,
    SMALL_BIG = 110,
    OLD_SMALL_ATOM = 115,
    MAP = 116,
    ATOM = 118,
    SMALL_ATOM = 119,
    OLD_FLOAT_BYTES = 31,
    PATH_BYTES = 4096,
};

/* ---- reading terms ---- */

struct reader {
    const uint8_t *at, *end;
    bool is_wrong;
};

static uint32_t read_number(struct reader *reader, unsigned n_bytes) {
    uint32_t number = 0;
    if ((size_t)(reader->end - reader->at) < n_bytes) {
        reader->is_wrong = true;
        return 0;
    }
    for (unsigned i = 0; i < n_bytes; i++) {
        number = number << 8 | *reader->at++;
    }
    return number;
}

static void skip_bytes(struct reader *reader, uint64_t n) {
    if ((uint64_t)(reader->end - reader->at) < n) {
        reader->is_wrong = true;
    } else {
        reader->at += n;
    }
}

/* Skips the head of a term. Returns the number of terms that the term contains and that follow. */
static uint64_t skip_head(struct reader *reader) {
    uint64_t n;
    switch (read_number(reader, 1)) {
    case NIL:
        return 0;
    case SMALL_INTEGER:
        skip_bytes(reader, 1);
        return 0;
    case INTEGER:
        skip_bytes(reader, 4);
        return 0;
    case FLOAT:
        skip_bytes(reader, 8);
        return 0;
    case OLD_FLOAT:
        skip_bytes(reader, OLD_FLOAT_BYTES);
        return 0;
    case SMALL_ATOM:
    case OLD_SMALL_ATOM:
        skip_bytes(reader, read_number(reader, 1));
        return 0;
    case SMALL_BIG:
        n = read_number(reader, 1);
        skip_bytes(reader, n + 1);
        return 0;
    case ATOM:
    case OLD_ATOM:
    case STRING:
        skip_bytes(reader, read_number(reader, 2));
        return 0;
    case BINARY:
        skip_bytes(reader, read_number(reader, 4));
        return 0;
    case SMALL_TUPLE:
        return read_number(reader, 1);
    case TUPLE:
        return read_number(reader, 4);
    case LIST:
        return (uint64_t)read_number(reader, 4) + 1;
    case MAP:
        return (uint64_t)read_number(reader, 4) * 2;
    }
    reader->is_wrong = true;
    return 0;
}

static void skip_term(struct reader *reader) {
    for (uint64_t n = 1; n > 0 && !reader->is_wrong; n--) {
        n += skip_head(reader);
    }
}

/* Whether the next term is the atom NAME; skips it. */
static bool read_atom(struct reader *reader, const char *name) {
    const uint32_t tag = read_number(reader, 1);
    const bool is_small = tag == SMALL_ATOM || tag == OLD_SMALL_ATOM;
    if (!is_small && tag != ATOM && tag != OLD_ATOM) {
        return false;
    }
    const uint32_t length = read_number(reader, is_small ? 1 : 2);
    const uint8_t *text = reader->at;
    skip_bytes(reader, length);
    return !reader->is_wrong && length == strlen(name) && memcmp(text, name, length) == 0;
}

static bool is_kernel_process(struct reader reader) { /* a copy: nothing is skipped */
    return read_number(&reader, 1) == SMALL_TUPLE && read_number(&reader, 1) == 3 &&
           read_atom(&reader, "kernelProcess");
}

/* ---- writing terms ---- */

static uint8_t *put_number(uint8_t *at, uint64_t number, unsigned n_bytes) {
    for (unsigned i = n_bytes; i > 0; i--) {
        *at++ = (uint8_t)(number >> 8 * (i - 1));
    }
    return at;
}

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t n) {
    memcpy(at, bytes, n);
    return at + n;
}

static uint8_t *put_atom(uint8_t *at, const char *name) {
    *at++ = SMALL_ATOM;
    at = put_number(at, strlen(name), 1);
    return put_bytes(at, name, strlen(name));
}

/* Writes the beginning of {apply, {MODULE, FUNCTION, [...]}}, up to the number of arguments. The
 * caller writes the arguments. */
static uint8_t *put_apply(uint8_t *at, const char *module, const char *function,
                          uint32_t n_arguments) {
    *at++ = SMALL_TUPLE;
    *at++ = 2;
    at = put_atom(at, "apply");
    *at++ = SMALL_TUPLE;
    *at++ = 3;
    at = put_atom(at, module);
    at = put_atom(at, function);
    *at++ = LIST;
    return put_number(at, n_arguments, 4);
}

static uint8_t *put_instructions(uint8_t *at, const uint8_t *module, size_t module_bytes,
                                 const char *folder) {
    at = put_apply(at, "erlang", "load_module", 2);
    at = put_atom(at, "allogram_boot");
    *at++ = BINARY;
    at = put_number(at, module_bytes, 4);
    at = put_bytes(at, module, module_bytes);
    *at++ = NIL;
    at = put_apply(at, "allogram_boot", "start", 1);
    *at++ = STRING;
    at = put_number(at, strlen(folder), 2);
    at = put_bytes(at, folder, strlen(folder));
    *at++ = NIL;
    return at;
}

size_t ag_boot_script_extend(const uint8_t *script, size_t n, const uint8_t *module,
                             size_t module_bytes, const char *folder, uint8_t *ret) {
    struct reader reader = {.at = script, .end = script + n};
    if (strlen(folder) >= PATH_BYTES || read_number(&reader, 1) != VERSION ||
        read_number(&reader, 1) != SMALL_TUPLE || read_number(&reader, 1) != 3 ||
        !read_atom(&reader, "script")) {
        return 0;
    }
    skip_term(&reader);
    if (read_number(&reader, 1) != LIST) {
        return 0;
    }
    const size_t n_at = (size_t)(reader.at - script);
    const uint32_t n_instructions = read_number(&reader, 4);
    for (uint32_t i = 0; i < n_instructions && !reader.is_wrong; i++) {
        if (is_kernel_process(reader)) {
            const size_t before = (size_t)(reader.at - script);
            uint8_t *at = put_bytes(ret, script, n_at);
            at = put_number(at, (uint64_t)n_instructions + 2, 4);
            at = put_bytes(at, script + n_at + 4, before - n_at - 4);
            at = put_instructions(at, module, module_bytes, folder);
            at = put_bytes(at, script + before, n - before);
            return (size_t)(at - ret);
        }
        skip_term(&reader);
    }
    return 0;
}

/* ---- the emulator's file ---- */

typedef int open_fn(const char *path, int flags, ...);
static struct {
    open_fn *open;
    const char *folder;
    atomic_flag is_found;  /* a boot script was opened */
    _Atomic bool is_known; /* path is complete */
    char path[PATH_BYTES]; /* of that boot script */
} watch = {.is_found = ATOMIC_FLAG_INIT};

/* A file's contents, in memory that was mapped for them. */
struct contents {
    uint8_t *bytes;
    size_t n_bytes;
};

static bool read_file(int fd, struct contents *ret) {
    const long size = ag_syscall3(SYS_lseek, fd, 0, SEEK_END);
    if (size <= 0 || size > AG_BOOT_SCRIPT_BYTES_MOST) {
        return false;
    }
    *ret = (struct contents){.n_bytes = (size_t)size};
    ret->bytes = ag_pages_map(ret->n_bytes);
    if (ret->bytes == NULL ||
        ag_syscall6(SYS_pread64, fd, (long)ret->bytes, size, 0, 0, 0) != size) {
        ag_pages_unmap(ret->bytes, ret->n_bytes);
        ret->bytes = NULL;
        return false;
    }
    return true;
}

static bool read_module(struct contents *ret) {
    char path[PATH_BYTES];
    ag_join_text(path, sizeof path,
                 (const char *const[]){watch.folder, "/allogram_boot.beam", NULL});
    const long fd = ag_syscall3(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC);
    if (ag_syscall_failed(fd)) {
        return false;
    }
    const bool is_read = read_file((int)fd, ret);
    (void)ag_syscall1(SYS_close, fd); /* nothing was written */
    return is_read;
}

/* Returns the descriptor of a new memfd with these contents, at offset 0; negative: failed. */
static long memory_file(const uint8_t *bytes, size_t n) {
    enum { CLOSE_ON_EXEC = 1 }; /* MFD_CLOEXEC */
    const long fd = ag_syscall2(SYS_memfd_create, (long)"boot", CLOSE_ON_EXEC);
    if (!ag_syscall_failed(fd) &&
        ag_syscall6(SYS_pwrite64, fd, (long)bytes, (long)n, 0, 0, 0) != (long)n) {
        (void)ag_syscall1(SYS_close, fd); /* it is not used */
        return -1;
    }
    return fd;
}

/* Makes FD refer to the changed copy of its file. */
static void replace_file(int fd) {
    struct contents module = {0}, script = {0};
    if (!read_module(&module) || !read_file(fd, &script)) {
        ag_pages_unmap(module.bytes, module.n_bytes);
        return;
    }
    const size_t room = script.n_bytes + module.n_bytes + AG_BOOT_EXTRA_BYTES;
    uint8_t *changed = ag_pages_map(room);
    const size_t n = changed != NULL
                         ? ag_boot_script_extend(script.bytes, script.n_bytes, module.bytes,
                                                 module.n_bytes, watch.folder, changed)
                         : 0;
    const long file = n > 0 ? memory_file(changed, n) : -1;
    if (!ag_syscall_failed(file)) {
        (void)ag_syscall3(SYS_dup3, file, fd, O_CLOEXEC); /* on failure, the file is unchanged */
        (void)ag_syscall1(SYS_close, file);
    }
    ag_pages_unmap(changed, room);
    ag_pages_unmap(script.bytes, script.n_bytes);
    ag_pages_unmap(module.bytes, module.n_bytes);
}

/* Whether PATH is the file by which the node boots, also when it is opened again. */
static bool is_boot_script(const char *path) {
    static const char extension[] = ".boot";
    const size_t length = strlen(path);
    if (length < sizeof extension || length >= PATH_BYTES ||
        strcmp(path + length - (sizeof extension - 1), extension) != 0) {
        return false;
    }
    if (!atomic_flag_test_and_set_explicit(&watch.is_found, memory_order_relaxed)) {
        memcpy(watch.path, path, length + 1);
        atomic_store_explicit(&watch.is_known, true, memory_order_release);
        return true;
    }
    return atomic_load_explicit(&watch.is_known, memory_order_acquire) &&
           strcmp(path, watch.path) == 0;
}

static int watched_open(const char *path, int flags, unsigned mode) {
    const int fd = watch.open(path, flags, mode);
    if (fd >= 0 && (flags & O_ACCMODE) == O_RDONLY && is_boot_script(path)) {
        replace_file(fd);
        (void)ag_syscall3(SYS_lseek, fd, 0, SEEK_SET);
    }
    return fd;
}

/* The emulator imports open or open64. Its import slot does not contain the function's address if
 * the loader binds it at the first call, so the function is looked up by name. */
void ag_boot_script_watch(const void *inside, const char *folder) {
    static const char *const names[] = {"open", "open64"};
    struct ag_symbol_place place;
    void *unused;
    watch.folder = folder;
    if (!ag_symbol_find(names[0], AG_SYMBOL_FIRST, (const void *)&watch, &place)) {
        return;
    }
    watch.open = (open_fn *)place.address;
    for (size_t i = 0; i < AG_ARRAY_SIZE(names); i++) {
        /* -ENOENT: the emulator does not use this name */
        (void)ag_import_replace(inside, names[i], (void *)watched_open, &unused);
    }
}
