/* elf_file.h: opens an ELF file whose path comes from outside, and verifies that it is the recorded
 * one.
 *
 * The path comes from a trace or from another ELF file, so it may name a pipe that never answers, a
 * device, or a file that was replaced since. Only regular files are opened; the build id decides
 * whether it is the right one. */
#ifndef AG_ELF_FILE_H
#define AG_ELF_FILE_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_BUILD_ID_BYTES = 64 }; /* SHA-1 has 20; longer ones are truncated */

struct ag_build_id {
    size_t n_bytes; /* 0: none */
    uint8_t bytes[AG_BUILD_ID_BYTES];
};
struct ag_elf_file { /* all zero: closed */
    Elf *elf;
    char *path;
    int fd;                /* open as long as elf is */
    uint64_t stored_bytes; /* bytes that the file occupies */
    struct ag_build_id build_id;
};

struct ag_build_id ag_build_id_from(const void *bytes, size_t n_bytes);
bool ag_build_id_equals(const struct ag_build_id *a, const struct ag_build_id *b);
enum { AG_BUILD_ID_TEXT_BYTES = 2 * AG_BUILD_ID_BYTES + 1 };
void ag_build_id_format(const struct ag_build_id *id, char ret_text[AG_BUILD_ID_TEXT_BYTES]);

/* Opens PATH. WANTED of 0 bytes: any build id. Returns 0; -ESTALE: another build id (in *ret_found,
 * unless NULL); -ENOEXEC: not a 64-bit ELF file; -EINVAL: not a regular file; -EFBIG:
 * mostly holes; else the errno of open. */
int ag_elf_file_open(const char *path, const struct ag_build_id *wanted,
                     struct ag_build_id *ret_found, struct ag_elf_file *ret_file);
/* The same for a descriptor of a regular file. Takes ownership of it, also on failure. */
int ag_elf_file_adopt(int fd, const char *path, const struct ag_build_id *wanted,
                      struct ag_build_id *ret_found, struct ag_elf_file *ret_file);
/* The vdso of this process, if it has the wanted build id: the kernel provides it in memory
 * only. */
int ag_elf_file_open_vdso(const struct ag_build_id *wanted, struct ag_elf_file *ret_file);
void ag_elf_file_close(struct ag_elf_file *file);

/* Limit for the size of decompressed sections, in sizes of their file: debug information has three
 * to ten, a section of zeros a thousand. */
enum { AG_ELF_GROWTH = 12 };

/* The size of all compressed sections after decompression, by their own headers. */
uint64_t ag_elf_file_decompressed_bytes(const struct ag_elf_file *file);
/* The first section of this name with contents, or NULL; the data is decompressed and owned by the
 * ELF file. A section that would grow to more than AG_ELF_GROWTH times the file is not returned. */
Elf_Data *ag_elf_file_section(const struct ag_elf_file *file, const char *name);

#endif
