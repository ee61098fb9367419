/* symbol_tables.c: looks up a name in the hash table of a loaded object, for next_symbol.c and
 * loaded_objects.c. Symbol versions are not compared: the first version that is not hidden is taken
 * as the default version. For the names that allogram looks up, no object has two versions that are
 * not hidden. If an object has only hidden versions of a symbol, one of these is taken, because
 * references that name this version bind to it: all functions of glibc's libc_malloc_debug.so.0 are
 * hidden. */
#include "symbol_tables.h"

#include <elf.h>
#include <string.h>

static uint32_t gnu_hash_of(const char *name) {
    uint32_t hash = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = hash * 33 + *c;
    }
    return hash;
}

static uint32_t sysv_hash_of(const char *name) {
    uint32_t hash = 0;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = (hash << 4) + *c;
        const uint32_t high = hash & 0xf0000000;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

struct ag_symbol_name ag_symbol_name(const char *text, uint32_t types) {
    return (struct ag_symbol_name){text, gnu_hash_of(text), sysv_hash_of(text), types};
}

/* Whether the symbol is the default version of NAME. If it is a hidden version, stores its index in
 * *hidden. */
static bool is_match(const struct ag_symbol_tables *tables, uint32_t index,
                     const struct ag_symbol_name *name, uint32_t *hidden) {
    enum { VERSION_HIDDEN = 0x8000 };
    const ElfW(Sym) *symbol = &tables->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF || !(name->types >> ELF64_ST_TYPE(symbol->st_info) & 1) ||
        strcmp(tables->strings + symbol->st_name, name->text) != 0) {
        return false;
    }
    if (tables->versions && (tables->versions[index] & VERSION_HIDDEN)) {
        *hidden = index;
        return false;
    }
    return true;
}

/* Layout of DT_GNU_HASH: | n_buckets | first symbol | bloom words | bloom shift | bloom[] |
 * buckets[] | chains[] | */
static uint32_t find_by_gnu_hash(const struct ag_symbol_tables *tables,
                                 const struct ag_symbol_name *name) {
    const uint32_t n_buckets = tables->gnu_hash[0], first = tables->gnu_hash[1];
    const uint32_t bloom_words = tables->gnu_hash[2];
    const uint32_t *buckets = tables->gnu_hash + 4 + (size_t)bloom_words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chains = buckets + n_buckets;
    if (n_buckets == 0) {
        return 0;
    }
    uint32_t index = buckets[name->gnu_hash % n_buckets], hidden = 0;
    if (index < first) {
        return 0;
    }
    for (;; index++) {
        const uint32_t hash = chains[index - first];
        if ((hash | 1) == (name->gnu_hash | 1) && is_match(tables, index, name, &hidden)) {
            return index;
        }
        if (hash & 1) {
            return hidden;
        }
    }
}

static uint32_t find_by_sysv_hash(const struct ag_symbol_tables *tables,
                                  const struct ag_symbol_name *name) {
    const uint32_t n_buckets = tables->sysv_hash[0];
    const uint32_t *buckets = tables->sysv_hash + 2, *chains = buckets + n_buckets;
    uint32_t hidden = 0;
    if (n_buckets == 0) {
        return 0;
    }
    for (uint32_t index = buckets[name->sysv_hash % n_buckets]; index; index = chains[index]) {
        if (is_match(tables, index, name, &hidden)) {
            return index;
        }
    }
    return hidden;
}

const ElfW(Sym) * ag_symbol_tables_find(const struct ag_symbol_tables *tables,
                                        const struct ag_symbol_name *name) {
    const uint32_t index =
        tables->gnu_hash ? find_by_gnu_hash(tables, name) : find_by_sysv_hash(tables, name);
    return index != 0 ? &tables->symbols[index] : NULL;
}

/* The loader has added the load bias to the pointers in the dynamic sections of most objects, but
 * not to those of the vdso. */
static const void *dynamic_pointer(uintptr_t bias, uintptr_t value) {
    return (const void *)(value < bias ? value + bias : value);
}

bool ag_symbol_tables_read(const ElfW(Dyn) * dynamic, uintptr_t bias,
                           struct ag_symbol_tables *ret_tables) {
    struct ag_symbol_tables tables = {0};
    size_t own_name = 0;
    for (const ElfW(Dyn) *entry = dynamic; entry && entry->d_tag != DT_NULL; entry++) {
        const void *pointer = dynamic_pointer(bias, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables.symbols = pointer;
            break;
        case DT_STRTAB:
            tables.strings = pointer;
            break;
        case DT_SONAME:
            own_name = entry->d_un.d_val;
            break;
        case DT_GNU_HASH:
            tables.gnu_hash = pointer;
            break;
        case DT_HASH:
            tables.sysv_hash = pointer;
            break;
        case DT_VERSYM:
            tables.versions = pointer;
            break;
        default: /* other ELF tags are not needed */
            break;
        }
    }
    tables.own_name = own_name != 0 && tables.strings ? tables.strings + own_name : NULL;
    *ret_tables = tables;
    return tables.symbols && tables.strings && (tables.gnu_hash || tables.sysv_hash);
}
