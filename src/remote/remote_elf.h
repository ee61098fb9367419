/* remote_elf.h: what the ELF file of a mapped image says: segments, sections, symbols.
 *
 * The file belongs to somebody else, and may be changed or cut while it is read: it is copied,
 * never mapped, and each offset and length is checked against the file. Addresses are the file's
 * own. */
#ifndef AG_REMOTE_ELF_H
#define AG_REMOTE_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_remote_symbol {
    uint64_t address, n_bytes; /* 0: unknown size */
    const char *name;
    bool is_function;
    uint16_t section; /* of an object file (is_object) the address is within it */
};
struct ag_remote_elf { /* all zero: closed */
    int fd;            /* -1: of `memory` */
    uint8_t *memory;   /* the whole file, when there is no descriptor; owned */
    uint64_t file_bytes;
    uint64_t stored_bytes; /* that it occupies; less where it has holes */
    uint64_t entry;        /* where the program starts; 0: a library */
    bool is_object;        /* not linked: no segments, addresses are within sections */
    Elf64_Phdr *segments;
    Elf64_Shdr *sections;
    char *section_names;
    size_t n_segments, n_sections, section_names_bytes;
    uint8_t build_id[64];
    size_t build_id_bytes;
    /* read at the first look-up; by address, then by size */
    bool has_symbols;
    struct ag_remote_symbol *symbols;
    struct ag_remote_strings {
        uint64_t offset, n_bytes;
        char *text;
    } * string_tables;
    size_t n_symbols, n_string_tables;
    uint64_t table_bytes, string_bytes; /* read so far; each at most the file's */
};

/* Opens PATH when it is a regular file. 0; -ENOEXEC: no 64-bit ELF file, or a damaged one;
 * -EINVAL: no regular file; else the negative errno of open. */
int ag_remote_elf_open(const char *path, struct ag_remote_elf *ret_elf);
/* The same for a file that was copied to memory, which it owns from now on, also on failure. */
int ag_remote_elf_adopt(uint8_t *memory, size_t n_bytes, struct ag_remote_elf *ret_elf);
void ag_remote_elf_close(struct ag_remote_elf *elf);

/* The segment of this type, or NULL. */
const Elf64_Phdr *ag_remote_elf_segment(const struct ag_remote_elf *elf, uint32_t type);
/* The loaded segment that holds ADDRESS, or NULL. */
const Elf64_Phdr *ag_remote_elf_loaded(const struct ag_remote_elf *elf, uint64_t address);
/* The loaded segment that the file's page at OFFSET is mapped for with this protection bit (PF_X
 * ...), or NULL. */
const Elf64_Phdr *ag_remote_elf_segment_at(const struct ag_remote_elf *elf, uint64_t offset,
                                           uint32_t flag);
/* The section of this name, or NULL. */
const Elf64_Shdr *ag_remote_elf_section(const struct ag_remote_elf *elf, const char *name);
/* Its bytes, decompressed, at most LIMIT; the caller frees. NULL: none, too many, or damaged. */
uint8_t *ag_remote_elf_contents(const struct ag_remote_elf *elf, const Elf64_Shdr *section,
                                size_t limit, size_t *ret_bytes);
/* Copies bytes of the file; false: they are not all there. */
bool ag_remote_elf_read(const struct ag_remote_elf *elf, uint64_t offset, void *ret_bytes,
                        size_t n_bytes);

/* By name, a function or an object; NULL: not defined here. Linear in the number of symbols. */
const struct ag_remote_symbol *ag_remote_elf_symbol(struct ag_remote_elf *elf, const char *name);
/* The function that holds ADDRESS, by the sizes that the symbols state; NULL: none does. */
const struct ag_remote_symbol *ag_remote_elf_function(struct ag_remote_elf *elf, uint64_t address);

#endif
