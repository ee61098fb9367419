/* elf_symbols.h: looks up functions of an ELF file by name, in its .symtab on disk.
 *
 * A program that contains its own allocator need not export malloc. Then the loader's tables (see
 * next_symbol.h) do not contain malloc. Only the full symbol table .symtab contains it, unless the
 * file was stripped. */
#ifndef AG_ELF_SYMBOLS_H
#define AG_ELF_SYMBOLS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_elf_symbols {  /* all zero: closed */
    const uint8_t *file; /* the mapped file */
    size_t file_bytes;
    const Elf64_Sym *symbols; /* points into `file`; NULL: there is no .symtab */
    size_t n_symbols;
    const char *names; /* the string table in `file`; its last byte is 0 */
    size_t names_bytes;
};
struct ag_elf_symbol {
    /* as in the file, without the load bias. 0: not found, or there are several local functions
     * with this name */
    uint64_t address;
    uint64_t size_bytes; /* 0: unknown */
    bool is_local;       /* only code of the same source file calls it by this name */
};
enum { AG_ELF_NAMES = 512 }; /* maximum number of names per lookup */

/* Opens the file at PATH, "/proc/self/exe" for the program itself. Returns 0; -ENODATA: an ELF file
 * without .symtab; -ENOEXEC: not a 64-bit ELF file, or a damaged one; else the negative errno of
 * opening or mapping. The only memory that it allocates is the mapping. */
int ag_elf_symbols_open(const char *path, struct ag_elf_symbols *ret_symbols);
void ag_elf_symbols_close(struct ag_elf_symbols *symbols);

/* Looks up N_NAMES (at most AG_ELF_NAMES) different names in one pass: ret_found[i] belongs to
 * names[i]. A global function takes precedence over a weak function, and a weak function over a
 * local one. Returns the number of names found. About 10 ns per symbol of the file. */
size_t ag_elf_symbols_find(const struct ag_elf_symbols *symbols, const char *const *names,
                           size_t n_names, struct ag_elf_symbol *ret_found);

#endif
