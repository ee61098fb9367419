/* remote_elf.h: reads segments, sections and symbols from an ELF file that a process has mapped.
 *
 * The file may belong to another user, and may be changed or truncated while it is read: it is
 * copied, never mapped, and each offset and length is checked against the file. Addresses are the
 * numbers in the file, not those at which the process has mapped it. */
#ifndef AG_REMOTE_ELF_H
#define AG_REMOTE_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_remote_symbol {
    uint64_t address, n_bytes; /* n_bytes 0: unknown size */
    const char *name;
    bool is_function;
    /* index of the symbol's section; in an object file (is_object) the address is relative to this
     * section */
    uint16_t section;
};
struct ag_remote_elf { /* all zero: closed */
    struct Elf *elf;   /* the handle of libelf */
    int fd;            /* -1: the file is in `memory` */
    uint8_t *memory;   /* the whole file, if there is no descriptor; owned */
    uint64_t file_bytes;
    uint64_t stored_bytes; /* bytes on disk; less than file_bytes if the file has holes */
    uint64_t entry;        /* the program's entry address; 0: a library */
    bool is_object;        /* an object file, which is not linked: it has no segments, and its
                            * addresses are relative to sections */
    Elf64_Phdr *segments;
    size_t n_segments;
    char *section_names;
    size_t section_names_bytes;
    uint8_t build_id[64];
    size_t build_id_bytes;
    /* read at the first lookup; sorted by address, then by size */
    bool has_symbols;
    struct ag_remote_symbol *symbols;
    size_t n_symbols;
    char *strings[2]; /* names of the symbols */
};

/* Opens PATH if it is a regular file. Returns 0; -ENOEXEC: not a 64-bit ELF file, or the file is
 * damaged or consists mostly of holes; -EINVAL: not a regular file; or the negative errno of
 * open. */
int ag_remote_elf_open(const char *path, struct ag_remote_elf *ret_elf);
/* Does what ag_remote_elf_open does, for a file that was copied to memory. Takes ownership of
 * MEMORY, also on failure. */
int ag_remote_elf_adopt(uint8_t *memory, size_t n_bytes, struct ag_remote_elf *ret_elf);
void ag_remote_elf_close(struct ag_remote_elf *elf);

/* The segment of this type, or NULL. */
const Elf64_Phdr *ag_remote_elf_segment(const struct ag_remote_elf *elf, uint32_t type);
/* The loaded segment that contains ADDRESS, or NULL. */
const Elf64_Phdr *ag_remote_elf_loaded(const struct ag_remote_elf *elf, uint64_t address);
/* The loaded segment that has this protection bit (PF_X ...) and contains the page of the file at
 * OFFSET; NULL: there is none. */
const Elf64_Phdr *ag_remote_elf_segment_at(const struct ag_remote_elf *elf, uint64_t offset,
                                           uint32_t flag);
/* Finds the section of this name, and its address. Returns false if there is none. */
bool ag_remote_elf_section(const struct ag_remote_elf *elf, const char *name,
                           uint64_t *ret_address);
/* The address of the section with this index; 0: there is none. */
uint64_t ag_remote_elf_section_address(const struct ag_remote_elf *elf, uint16_t index);
/* Returns a copy of the contents of the section of this name, decompressed; the caller frees it.
 * NULL: there is no such section, its contents have more than LIMIT bytes, or it is damaged. */
uint8_t *ag_remote_elf_contents(const struct ag_remote_elf *elf, const char *name, size_t limit,
                                size_t *ret_bytes);
/* Copies bytes of the file; false: not all of them are in the file. */
bool ag_remote_elf_read(const struct ag_remote_elf *elf, uint64_t offset, void *ret_bytes,
                        size_t n_bytes);

/* Finds a function or an object by name; NULL: not defined here. Linear in the number of
 * symbols. */
const struct ag_remote_symbol *ag_remote_elf_symbol(struct ag_remote_elf *elf, const char *name);
/* The function that contains ADDRESS, by the sizes of the symbols; NULL: none. */
const struct ag_remote_symbol *ag_remote_elf_function(struct ag_remote_elf *elf, uint64_t address);

#endif
