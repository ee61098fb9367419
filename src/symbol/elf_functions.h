/* elf_functions.h: finds functions by address in ELF symbol tables, for code without DWARF. */
#ifndef AG_ELF_FUNCTIONS_H
#define AG_ELF_FUNCTIONS_H

#include "address_ranges.h"
#include "elf_file.h"

struct ag_elf_function {
    uint64_t address, size_bytes; /* size 0: up to the next symbol or the end of the section */
    const char *name;             /* in the ELF file's string table, terminated there */
    uint64_t limit;               /* end of its section */
    unsigned rank;                /* of the names at one address, the lowest is shown */
    uint32_t name_bytes;          /* how many bytes of the name are compared */
};
struct ag_elf_functions { /* all zero: empty */
    struct ag_elf_function *items;
    size_t n;
    struct ag_address_ranges ranges;
    uint64_t table_bytes; /* of the symbol tables of the current file so far */
};

/* Collects the functions of .symtab and .dynsym of FILE, which must stay open. Tables beyond the
 * size of the file are skipped, because many headers may name the same table. */
int ag_elf_functions_add(struct ag_elf_functions *functions, const struct ag_elf_file *file);
void ag_elf_functions_sort(struct ag_elf_functions *functions);
/* The function that contains ADDRESS (an address of the ELF file), or NULL. */
const struct ag_elf_function *ag_elf_functions_find(const struct ag_elf_functions *functions,
                                                    uint64_t address);
void ag_elf_functions_clear(struct ag_elf_functions *functions);

#endif
