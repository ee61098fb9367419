/* elf_functions.h: finds functions by address in ELF symbol tables, for code without DWARF. */
#ifndef AG_ELF_FUNCTIONS_H
#define AG_ELF_FUNCTIONS_H

#include "address_ranges.h"
#include "elf_file.h"

struct ag_elf_function {
    /* size_bytes 0: the function ends at the next symbol or at the end of the section */
    uint64_t address, size_bytes;
    /* points into the string table of the ELF file, where it is terminated */
    const char *name;
    uint64_t limit; /* end of the section of the function */
    /* of the names at one address, the one with the lowest rank is shown */
    unsigned rank;
    /* length of the part of the name by which names at one address are compared */
    uint32_t name_bytes;
};
struct ag_elf_functions { /* all zero: empty */
    struct ag_elf_function *items;
    size_t n;
    struct ag_address_ranges ranges;
    /* sum of the sizes of the symbol tables that were read from the current file */
    uint64_t table_bytes;
};

/* Collects the functions of .symtab and .dynsym of FILE, which must stay open. If the sizes of the
 * tables add up to more than the size of the file, further tables are skipped, because many section
 * headers may refer to the same table. Returns 0 or -ENOMEM. */
int ag_elf_functions_add(struct ag_elf_functions *functions, const struct ag_elf_file *file);
void ag_elf_functions_sort(struct ag_elf_functions *functions);
/* Returns the function that contains ADDRESS, an address in the ELF file, or NULL. */
const struct ag_elf_function *ag_elf_functions_find(const struct ag_elf_functions *functions,
                                                    uint64_t address);
void ag_elf_functions_clear(struct ag_elf_functions *functions);

#endif
