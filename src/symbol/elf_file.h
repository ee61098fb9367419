/* elf_file.h: opens an ELF file whose path is not trusted, and verifies that the file is the
 * recorded one.
 *
 * The path comes from a trace or from another ELF file, so it may name a pipe that never answers, a
 * device, or a file that was replaced after the recording. Only regular files are opened; the build
 * id shows whether a file is the recorded one. */
#ifndef AG_ELF_FILE_H
#define AG_ELF_FILE_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_BUILD_ID_BYTES = 64 }; /* SHA-1 has 20 bytes; longer build ids are truncated */

struct ag_build_id {
    size_t n_bytes; /* 0: there is no build id */
    uint8_t bytes[AG_BUILD_ID_BYTES];
};
struct ag_elf_file { /* all zero: closed */
    Elf *elf;
    char *path;
    int fd;                /* open as long as `elf` is open */
    uint64_t stored_bytes; /* bytes that the file occupies on disk */
    struct ag_build_id build_id;
};

struct ag_build_id ag_build_id_from(const void *bytes, size_t n_bytes);
bool ag_build_id_equals(const struct ag_build_id *a, const struct ag_build_id *b);
enum { AG_BUILD_ID_TEXT_BYTES = 2 * AG_BUILD_ID_BYTES + 1 };
void ag_build_id_format(const struct ag_build_id *id, char ret_text[AG_BUILD_ID_TEXT_BYTES]);

/* Opens PATH. WANTED: the build id that the file must have; with 0 bytes, any. Returns 0 or a
 * negative errno. -ESTALE: the file has another build id (*ret_found gets it, unless ret_found is
 * NULL); -ENOEXEC: not a 64-bit ELF file; -EINVAL: not a regular file; -EFBIG: most of the file is
 * holes; others are errors of open. */
int ag_elf_file_open(const char *path, const struct ag_build_id *wanted,
                     struct ag_build_id *ret_found, struct ag_elf_file *ret_file);
/* As ag_elf_file_open, but for FD, a descriptor of a regular file. Takes ownership of FD, also on
 * failure. */
int ag_elf_file_adopt(int fd, const char *path, const struct ag_build_id *wanted,
                      struct ag_build_id *ret_found, struct ag_elf_file *ret_file);
/* Opens the vdso of this process, if it has the wanted build id. The vdso is an ELF file that the
 * kernel provides only in memory. */
int ag_elf_file_open_vdso(const struct ag_build_id *wanted, struct ag_elf_file *ret_file);
void ag_elf_file_close(struct ag_elf_file *file);

/* Limit for the size of decompressed sections, as a multiple of the size of their file. Debug
 * information grows three to tenfold, a section of zeros a thousandfold. */
enum { AG_ELF_GROWTH = 12 };

/* Returns the size of all compressed sections after decompression, according to their headers. */
uint64_t ag_elf_file_decompressed_bytes(const struct ag_elf_file *file);
/* Returns the decompressed data of the first section with this name and with contents, or NULL.
 * FILE owns the data. Sections whose decompressed size exceeds AG_ELF_GROWTH times that of the file
 * are not returned. */
Elf_Data *ag_elf_file_section(const struct ag_elf_file *file, const char *name);

#endif
