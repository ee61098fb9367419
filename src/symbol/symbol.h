/* symbol.h: resolves addresses of a recorded process to functions, files, lines and inlined frames,
 * offline.
 *
 * elfutils (libelf, libdw) reads the files. An image's file is used only if it is a regular file
 * with the recorded build id (if none was recorded, any file is used, and the problems say so).
 * Separate debug files are searched as gdb does: --debug-dir, DIR/.build-id, .gnu_debuglink,
 * /usr/lib/debug; debuginfod only if allowed. Without DWARF the ELF symbol table is used; without
 * that, a frame has only an address and the image's name.
 *
 * The cost of reading an image is limited in proportion to the bytes that its files occupy
 * (work_meter.h). If the limit is reached, the problems say so, and the symbol table is used.
 *
 * Threads: a symbolizer may be used by one thread at a time; several symbolizers may be used at
 * once. Names are demangled (C++, Rust, D) and owned by the symbolizer until it is freed. */
#ifndef AG_SYMBOL_H
#define AG_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_runtime;

struct ag_symbol_options {
    size_t size;                   /* sizeof(struct ag_symbol_options) */
    const char *sysroot;           /* put before each recorded path; NULL: none */
    const char *const *debug_dirs; /* more places for separate debug files */
    size_t n_debug_dirs;
    bool allow_debuginfod;    /* network: only when the user configured it and asked for it */
    bool (*is_hurried)(void); /* returns true when no more debug information is to be read; may be
                               * NULL */
    const struct ag_runtime *runtimes; /* base/runtimes.h: whose decoders to use; NULL: none */
};
struct ag_symbol_frame {  /* one function at an address; innermost (inlined) first */
    const char *function; /* demangled; never NULL: "0x1234 [libx.so]" style name when unknown */
    const char *linkage;  /* as in the symbol table, or NULL */
    const char *
        file; /* where the compiler found it, absolute where that is known, without ".."; or NULL */
    uint32_t line;       /* 0: unknown */
    bool is_inlined;     /* into the next frame */
    bool is_known;       /* a real name, not an address */
    const char *runtime; /* the runtime of the function, if a decoder recognized it; NULL: native */
    bool is_shim;        /* the runtime's binding to its allocator (decoder.h) */
};
struct ag_symbolizer;
struct ag_symbolizer *ag_symbolizer_new(
    const struct ag_symbol_options *options); /* NULL: out of memory */
struct ag_symbolizer *ag_symbolizer_free(struct ag_symbolizer *symbolizer);

/* Adds an image of the trace; opened at the first look-up, or by ag_symbolizer_open_image. */
int ag_symbolizer_image(struct ag_symbolizer *symbolizer, uint32_t image, const char *path,
                        const void *build_id, size_t build_id_bytes, uint64_t bias, uint64_t low,
                        uint64_t high);
/* Looks up a pc of an image. return_address: look up the call before pc (pc - 1). Results are
 * cached per (image, pc). Returns the number of frames (>= 1), innermost first; *ret_frames stays
 * valid until the symbolizer is freed. */
size_t ag_symbolizer_frames(struct ag_symbolizer *symbolizer, uint32_t image, uint64_t pc,
                            bool return_address, const struct ag_symbol_frame **ret_frames);
/* Opens the image's file, if it is not open yet, so that its problems are known, or so that a later
 * look-up does not wait for it (decompressing debug information takes tens of milliseconds). */
void ag_symbolizer_open_image(struct ag_symbolizer *symbolizer, uint32_t image);
/* For the report: what could not be resolved and why, one line each, such as "libfoo.so: build id
 * differs". */
size_t ag_symbolizer_problems(const struct ag_symbolizer *symbolizer,
                              const char *const **ret_lines);

/* Demangles NAME (C++, Rust legacy and v0, D); returns malloc'ed text or NULL if it is not
 * mangled. */
char *ag_demangle(const char *name);
/* The number of the first LENGTH bytes of NAME without the suffixes that linkers and compilers
 * append to it, versions (@GLIBC_2.17) and copies (.cold, .part.0): at least 1 if LENGTH is. */
size_t ag_name_stem_bytes(const char *name, size_t length);

#endif
