/* symbol.h: resolves addresses of a recorded process to functions, files, lines and inlined frames,
 * from files, without the process.
 *
 * elfutils (libelf, libdw) reads the files. The file of an image (a loaded program or library) is
 * used only if it is a regular file with the recorded build id. (If no build id was recorded, any
 * file is used, and the list of problems says so.) Separate debug files are searched as gdb does:
 * --debug-dir, DIR/.build-id, .gnu_debuglink, /usr/lib/debug; debuginfod is used only if that is
 * allowed. If there is no DWARF, the ELF symbol table is used; if there is none either, a frame has
 * only the address of its function (from .eh_frame, which stripped files have, too) and the name of
 * the image.
 *
 * The cost of reading an image is limited in proportion to the bytes that its files occupy
 * (work_meter.h). If the limit is reached, the list of problems says so, and only the symbol table
 * is used.
 *
 * Threads: a symbolizer may be used by one thread at a time; different symbolizers may be used
 * concurrently, unless they share files (ag_symbol_files_new). Names are demangled (C++, Rust, D);
 * they are valid until the symbolizer, or the files that it shares, are freed. */
#ifndef AG_SYMBOL_H
#define AG_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_runtime;
struct ag_symbol_files;

struct ag_symbol_options {
    size_t size;                   /* sizeof(struct ag_symbol_options) */
    const char *sysroot;           /* folder that is prepended to each recorded path; NULL: none */
    const char *const *debug_dirs; /* additional folders with separate debug files */
    size_t n_debug_dirs;
    /* allows network access; set only if the user requested it with --debuginfod */
    bool allow_debuginfod;
    bool (*is_hurried)(void); /* returns true if no more debug information is to be read, because
                               * time is short; may be NULL */
    /* the runtimes (virtual machines, base/runtimes.h) whose decoders are used; NULL: none */
    const struct ag_runtime *runtimes;
    /* opened files that several symbolizers share, made from the same options; NULL: the symbolizer
     * has files of its own */
    struct ag_symbol_files *files;
};
/* Makes an empty set of files for the symbolizers of several traces. Each file is opened once, and
 * each address is looked up once. The set must be freed after the symbolizers that share it. NULL:
 * out of memory. */
struct ag_symbol_files *ag_symbol_files_new(const struct ag_symbol_options *options);
struct ag_symbol_files *ag_symbol_files_free(struct ag_symbol_files *files);
struct ag_symbol_frame { /* a function at an address; an address has several frames if functions
                           * are inlined there */
    /* demangled name, or a text such as "0x1234 [libx.so]" if it is unknown; never NULL */
    const char *function;
    const char *linkage; /* name in the symbol table, or NULL */
    /* path of the source file on the compiling machine, absolute if known, without ".."; or NULL */
    const char *file;
    uint32_t line; /* 0: unknown */
    /* the characters of the line from `column` up to, but without, `end_column`, counted from 0;
     * end_column 0: unknown. Only decoders know columns (symbol/decoder.h). */
    uint32_t column, end_column;
    bool is_inlined;     /* the function is inlined into that of the next frame */
    bool is_known;       /* `function` is a name, not an address */
    const char *runtime; /* the runtime of the function, if a decoder recognized it; NULL: native */
    /* the function only forwards calls to the runtime's allocator (AG_PLACE_SHIM in decoder.h) */
    bool is_shim;
};
struct ag_symbolizer;
struct ag_symbolizer *ag_symbolizer_new(
    const struct ag_symbol_options *options); /* NULL: out of memory */
struct ag_symbolizer *ag_symbolizer_free(struct ag_symbolizer *symbolizer);

/* Sets a folder below which the files of images that are added later are searched, if they are not
 * at their paths: the root folder of the recorded process, /proc/PID/root. Only files with the
 * recorded build id are used. Has no effect with a sysroot. Returns 0 or -ENOMEM. */
int ag_symbolizer_set_root(struct ag_symbolizer *symbolizer, const char *root);
/* Adds an image of the trace. IMAGE: its number. BIAS: its address in memory minus its address in
 * the file. LOW: its first address in memory; HIGH: the address after its last one; 0: unknown. The
 * files of the image are opened at the first look-up, or by ag_symbolizer_open_image. Returns 0 or
 * -ENOMEM. */
int ag_symbolizer_image(struct ag_symbolizer *symbolizer, uint32_t image, const char *path,
                        const void *build_id, size_t build_id_bytes, uint64_t bias, uint64_t low,
                        uint64_t high);
/* Looks up PC in IMAGE. If return_address, looks up the call before PC, at PC - 1. Results are
 * cached. Returns the number of frames, at least 1; *ret_frames are the frames, innermost first,
 * valid until the symbolizer is freed. */
size_t ag_symbolizer_frames(struct ag_symbolizer *symbolizer, uint32_t image, uint64_t pc,
                            bool return_address, const struct ag_symbol_frame **ret_frames);
/* Whether the code of IMAGE at the return address PC makes an object of SIZE_OF_OBJECT bytes (0:
 * any size) with the type number NUMBER, according to the image's decoder (symbol/decoder.h). */
bool ag_symbolizer_stores_type(struct ag_symbolizer *symbolizer, uint32_t image, uint64_t pc,
                               uint32_t number, uint64_t size_of_object);
/* Opens the files of an image, if they are not open. Called so that problems with these files are
 * known, or so that a later look-up need not wait (decompressing debug information takes tens of
 * milliseconds). */
void ag_symbolizer_open_image(struct ag_symbolizer *symbolizer, uint32_t image);
/* Returns the problems found so far, for reports: what could not be resolved and why, one line
 * each, such as "libfoo.so: build id differs". */
size_t ag_symbolizer_problems(const struct ag_symbolizer *symbolizer,
                              const char *const **ret_lines);

/* Demangles NAME (C++, Rust legacy and v0, D). Returns a malloc'ed text, or NULL if NAME is not a
 * mangled name. */
char *ag_demangle(const char *name);
/* Returns the length of NAME, which has LENGTH bytes, without the suffixes that linkers and
 * compilers append: versions (@GLIBC_2.17), and marks of copies (.cold, .part.0). The result is at
 * least 1 if LENGTH is at least 1. */
size_t ag_name_stem_bytes(const char *name, size_t length);

#endif
