/* elf_functions.c: sorts all function symbols of a file, and keeps one of the names (aliases) at
 * each address.
 *
 * The kept name does not depend on the order of the tables. A name in .symtab is preferred to one
 * in .dynsym; then a function to an untyped label; then a global symbol to a weak one, and a weak
 * one to a local one; then the name with fewer leading underscores (malloc, not __libc_malloc);
 * then the shorter name; then the alphabetically first name. */
#include "elf_functions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "table/array.h"

enum {
    NAME_BYTES = 2048, /* the most bytes of a name that are compared with its aliases */
    /* Parts of a rank; the name with the lowest rank is kept. The parts are, with rising weights:
     * the number of leading underscores (1), the binding (BINDING_RANK), LABEL_RANK and
     * DYNAMIC_RANK. Each weight is greater than the sum of all smaller parts. .dynsym has the
     * highest weight because names in it lack the part after "@", which linkers interpret as a
     * version. */
    BINDING_RANK = 16,
    LABEL_RANK = 64, /* an untyped label */
    DYNAMIC_RANK = 128,
};

static unsigned rank(const GElf_Sym *symbol, const char *name, bool is_dynamic) {
    const bool is_function = GELF_ST_TYPE(symbol->st_info) != STT_NOTYPE;
    const unsigned bind = GELF_ST_BIND(symbol->st_info);
    const unsigned binding = bind == STB_GLOBAL || bind == STB_GNU_UNIQUE ? 0
                             : bind == STB_WEAK                           ? 1
                                                                          : 2;
    const size_t underscores = strspn(name, "_");
    return (is_dynamic ? DYNAMIC_RANK : 0u) + (is_function ? 0u : LABEL_RANK) +
           binding * BINDING_RANK +
           (unsigned)(underscores < BINDING_RANK ? underscores : BINDING_RANK - 1);
}

/* Gets the header of section INDEX. Returns false if the section does not contain code. (A separate
 * debug file has the headers of code sections, but not their contents.) */
static bool code_section(Elf *elf, size_t index, GElf_Shdr *ret_header) {
    Elf_Scn *section = index == SHN_UNDEF || index >= SHN_LORESERVE ? NULL : elf_getscn(elf, index);
    return section != NULL && gelf_getshdr(section, ret_header) != NULL &&
           (ret_header->sh_flags & SHF_EXECINSTR) != 0;
}

static int add_table(struct ag_elf_functions *functions, Elf *elf, Elf_Scn *section,
                     const GElf_Shdr *header) {
    Elf_Scn *strings_section = elf_getscn(elf, header->sh_link);
    Elf_Data *symbols = elf_getdata(section, NULL);
    Elf_Data *strings = strings_section != NULL ? elf_getdata(strings_section, NULL) : NULL;
    if (symbols == NULL || strings == NULL || strings->d_buf == NULL || strings->d_size == 0) {
        return 0;
    }
    const char *text = strings->d_buf;
    if (text[strings->d_size - 1] != '\0') {
        return 0; /* the last name would not be terminated */
    }
    size_t code_index = SHN_UNDEF;
    GElf_Shdr code = {0};
    const size_t n = symbols->d_size / sizeof(Elf64_Sym);
    for (size_t i = 1; i < n && i <= INT32_MAX; i++) {
        GElf_Sym symbol;
        if (gelf_getsym(symbols, (int)i, &symbol) == NULL) {
            break;
        }
        const unsigned type = GELF_ST_TYPE(symbol.st_info);
        const bool may_be_function =
            type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
        if (!may_be_function || symbol.st_name == 0 || symbol.st_name >= strings->d_size) {
            continue;
        }
        if (symbol.st_shndx != code_index) {
            if (!code_section(elf, symbol.st_shndx, &code)) {
                code_index = SHN_UNDEF;
                continue;
            }
            code_index = symbol.st_shndx;
        }
        const uint64_t limit = code.sh_addr + code.sh_size;
        if (text[symbol.st_name] == '\0' || symbol.st_value < code.sh_addr ||
            symbol.st_value >= limit) {
            continue;
        }
        const struct ag_elf_function function = {
            .address = symbol.st_value,
            .size_bytes = symbol.st_size,
            .name = text + symbol.st_name,
            .name_bytes = (uint32_t)strnlen(text + symbol.st_name, NAME_BYTES),
            .limit = limit,
            .rank = rank(&symbol, text + symbol.st_name, header->sh_type == SHT_DYNSYM),
        };
        const int r = AG_ARRAY_ADD(functions->items, functions->n, function);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int ag_elf_functions_add(struct ag_elf_functions *functions, const struct ag_elf_file *file) {
    size_t n_bytes = 0;
    (void)elf_rawfile(file->elf, &n_bytes); /* gets the size of the file */
    functions->table_bytes = 0;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) != NULL;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == NULL) {
            continue;
        }
        if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM) {
            if (header.sh_size > n_bytes - functions->table_bytes) {
                continue;
            }
            functions->table_bytes += header.sh_size;
            const int r = add_table(functions, file->elf, section, &header);
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

static int elf_functions_compare(const void *left, const void *right) {
    const struct ag_elf_function *a = left, *b = right;
    if (a->address != b->address) {
        return a->address < b->address ? -1 : 1;
    }
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    if (a->name_bytes != b->name_bytes) {
        return a->name_bytes < b->name_bytes ? -1 : 1;
    }
    return memcmp(a->name, b->name, a->name_bytes);
}

static bool is_label(const struct ag_elf_function *function) {
    return (function->rank & LABEL_RANK) != 0 && function->size_bytes == 0;
}

void ag_elf_functions_sort(struct ag_elf_functions *functions) {
    if (functions->n == 0) {
        return;
    }
    struct ag_elf_function *items = functions->items;
    qsort(items, functions->n, sizeof(items[0]), elf_functions_compare);
    /* number of kept symbols: the first one at each address, with the greatest size of all symbols
     * at this address */
    size_t n = 0;
    /* the greatest end of the functions so far; a label below this address is inside of a function,
     * and is not kept */
    uint64_t covered = 0;
    for (size_t i = 0; i < functions->n; i++) {
        if (n > 0 && items[n - 1].address == items[i].address) {
            if (items[n - 1].size_bytes < items[i].size_bytes) {
                items[n - 1].size_bytes = items[i].size_bytes;
            }
            continue;
        }
        if (is_label(&items[i]) && items[i].address < covered) {
            continue;
        }
        const uint64_t end = items[i].address + items[i].size_bytes;
        covered = end > covered ? end : covered;
        items[n++] = items[i];
    }
    functions->n = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t end = items[i].limit;
        if (items[i].size_bytes > 0 && items[i].size_bytes < end - items[i].address) {
            end = items[i].address + items[i].size_bytes;
        } else if (items[i].size_bytes == 0 && i + 1 < n && items[i + 1].address < end) {
            end = items[i + 1].address;
        }
        if (ag_address_ranges_add(&functions->ranges, items[i].address, end, i) < 0) {
            break; /* if out of memory, the symbols added so far are used */
        }
    }
    ag_address_ranges_sort(&functions->ranges);
}

const struct ag_elf_function *ag_elf_functions_find(const struct ag_elf_functions *functions,
                                                    uint64_t address) {
    const struct ag_address_range *range = ag_address_ranges_find(&functions->ranges, address);
    return range != NULL ? &functions->items[range->value] : NULL;
}

void ag_elf_functions_clear(struct ag_elf_functions *functions) {
    free(functions->items);
    ag_address_ranges_clear(&functions->ranges);
    *functions = (struct ag_elf_functions){0};
}
