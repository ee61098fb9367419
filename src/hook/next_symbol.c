/* next_symbol.c: walks the loader's objects in load order and asks each one's hash table for a
 * name.
 *
 * Load order is the global scope's order for everything loaded at start; an object that came by
 * dlopen stands later, which is right for "any other object's definition" too (libstdc++ may first
 * arrive with a plugin). Versions are not compared: the default version is the first non-hidden
 * one, and of the functions we ask for no object has two. */
#include "next_symbol.h"

#include <elf.h>
#include <link.h>
#include <string.h>

struct dynamic_tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    const ElfW(Half) * versions;
};

struct search {
    const char *name;
    uint32_t gnu_hash, sysv_hash;
    enum ag_symbol_scope scope;
    uintptr_t self;
    bool is_past_self, has_answer, has_fallback;
    bool is_first_object;
    struct ag_symbol_place answer, fallback;
};

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

static bool is_wanted_type(enum ag_symbol_scope scope, int type) {
    switch (scope) {
    case AG_SYMBOL_FIRST_DATA:
        return type == STT_OBJECT;
    case AG_SYMBOL_FIRST_TLS:
        return type == STT_TLS;
    case AG_SYMBOL_FIRST:
    case AG_SYMBOL_NEXT:
        return type == STT_FUNC || type == STT_NOTYPE;
    }
    return false;
}

static bool is_match(const struct dynamic_tables *tables, uint32_t index,
                     const struct search *search) {
    enum { VERSION_HIDDEN = 0x8000 };
    const ElfW(Sym) *symbol = &tables->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF ||
        !is_wanted_type(search->scope, ELF64_ST_TYPE(symbol->st_info))) {
        return false;
    }
    if (tables->versions && (tables->versions[index] & VERSION_HIDDEN)) {
        return false;
    }
    return strcmp(tables->strings + symbol->st_name, search->name) == 0;
}

/* DT_GNU_HASH: | n_buckets | first symbol | bloom words | bloom shift | bloom[] | buckets[] |
 * chains[] | */
static uint32_t find_by_gnu_hash(const struct dynamic_tables *tables, const struct search *search) {
    const uint32_t n_buckets = tables->gnu_hash[0], first = tables->gnu_hash[1];
    const uint32_t bloom_words = tables->gnu_hash[2];
    const uint32_t *buckets = tables->gnu_hash + 4 + (size_t)bloom_words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chains = buckets + n_buckets;
    if (n_buckets == 0) {
        return 0;
    }
    uint32_t index = buckets[search->gnu_hash % n_buckets];
    if (index < first) {
        return 0;
    }
    for (;; index++) {
        const uint32_t hash = chains[index - first];
        if ((hash | 1) == (search->gnu_hash | 1) && is_match(tables, index, search)) {
            return index;
        }
        if (hash & 1) {
            return 0;
        }
    }
}

static uint32_t find_by_sysv_hash(const struct dynamic_tables *tables,
                                  const struct search *search) {
    const uint32_t n_buckets = tables->sysv_hash[0];
    const uint32_t *buckets = tables->sysv_hash + 2, *chains = buckets + n_buckets;
    if (n_buckets == 0) {
        return 0;
    }
    for (uint32_t index = buckets[search->sysv_hash % n_buckets]; index; index = chains[index]) {
        if (is_match(tables, index, search)) {
            return index;
        }
    }
    return 0;
}

/* The loader has added the bias to the pointers of most objects' dynamic sections, but not of the
 * vdso's. */
static const void *dynamic_pointer(const struct dl_phdr_info *info, uintptr_t value) {
    return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
}

static bool read_tables(const struct dl_phdr_info *info, struct dynamic_tables *ret_tables) {
    const ElfW(Dyn) *entry = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    struct dynamic_tables tables = {0};
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        const void *pointer = dynamic_pointer(info, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables.symbols = pointer;
            break;
        case DT_STRTAB:
            tables.strings = pointer;
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
        default: /* an ELF tag, not an enum of ours */
            break;
        }
    }
    *ret_tables = tables;
    return tables.symbols && tables.strings && (tables.gnu_hash || tables.sysv_hash);
}

static bool object_contains(const struct dl_phdr_info *info, uintptr_t address) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD &&
            address - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz) {
            return true;
        }
    }
    return false;
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size; /* only fields that every glibc since 2.4 has are read */
    struct search *search = context;
    const bool is_executable = search->is_first_object;
    search->is_first_object = false;
    if (object_contains(info, search->self)) {
        search->is_past_self = true;
        if (search->scope == AG_SYMBOL_NEXT) {
            return 0;
        }
    }
    struct dynamic_tables tables;
    if (!read_tables(info, &tables)) {
        return 0;
    }
    const uint32_t index =
        tables.gnu_hash ? find_by_gnu_hash(&tables, search) : find_by_sysv_hash(&tables, search);
    if (index == 0) {
        return 0;
    }
    const uintptr_t base =
        search->scope == AG_SYMBOL_FIRST_TLS ? (uintptr_t)info->dlpi_tls_data : info->dlpi_addr;
    if (base == 0 && search->scope == AG_SYMBOL_FIRST_TLS) {
        return 0; /* this thread has none yet */
    }
    struct ag_symbol_place place = {
        .address = (void *)(base + tables.symbols[index].st_value),
        .bytes = tables.symbols[index].st_size,
        .bias = info->dlpi_addr,
        .is_behind_self = search->is_past_self,
        .in_executable = is_executable,
    };
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    for (size_t i = 0; name[i] && i + 1 < sizeof(place.image_name); i++) {
        place.image_name[i] = name[i];
    }
    if (search->scope != AG_SYMBOL_NEXT || search->is_past_self) {
        search->answer = place;
        search->has_answer = true;
        return 1;
    }
    if (!search->has_fallback) {
        search->fallback = place;
        search->has_fallback = true;
    }
    return 0;
}

bool ag_symbol_find(const char *name, enum ag_symbol_scope scope, const void *self,
                    struct ag_symbol_place *ret_place) {
    struct search search = {
        .name = name,
        .gnu_hash = gnu_hash_of(name),
        .sysv_hash = sysv_hash_of(name),
        .scope = scope,
        .self = (uintptr_t)self,
        .is_first_object = true,
    };
    (void)dl_iterate_phdr(visit_object,
                          &search); /* its result is ours: found or not stands in the search */
    if (!search.has_answer && !search.has_fallback) {
        return false;
    }
    *ret_place = search.has_answer ? search.answer : search.fallback;
    return true;
}
