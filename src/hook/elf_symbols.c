/* elf_symbols.c: looks up names in .symtab in one pass over the symbols, for adapters (the code for
 * one runtime or allocator each). A small hash table of the wanted names rejects nearly every
 * symbol quickly. The file is the running program, but its tables may be malformed, so every offset
 * is checked. */
#include "elf_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/pages.h"
#include "base/raw_syscall.h"

enum {
    SLOTS = 2 * AG_ELF_NAMES, /* a power of two; at most half of the slots are used */
    NAME_BYTES = 256,         /* longer names are not looked up */
};
enum strength { STRENGTH_NONE, STRENGTH_LOCAL, STRENGTH_WEAK, STRENGTH_GLOBAL };

static bool is_inside(const struct ag_elf_symbols *symbols, uint64_t offset, uint64_t n_bytes) {
    return offset <= symbols->file_bytes && n_bytes <= symbols->file_bytes - offset;
}

static int find_table(struct ag_elf_symbols *symbols) {
    Elf64_Ehdr header;
    if (symbols->file_bytes < sizeof(header)) {
        return -ENOEXEC;
    }
    memcpy(&header, symbols->file, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB) {
        return -ENOEXEC;
    }
    if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) {
        return -ENODATA;
    }
    if (header.e_shoff % _Alignof(Elf64_Shdr) != 0 ||
        !is_inside(symbols, header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr))) {
        return -ENOEXEC;
    }
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(symbols->file + header.e_shoff);
    for (size_t i = 0; i < header.e_shnum; i++) {
        const Elf64_Shdr *table = &sections[i];
        if (table->sh_type != SHT_SYMTAB) {
            continue;
        }
        if (table->sh_link >= header.e_shnum || table->sh_offset % _Alignof(Elf64_Sym) != 0 ||
            !is_inside(symbols, table->sh_offset, table->sh_size)) {
            return -ENOEXEC;
        }
        const Elf64_Shdr *names = &sections[table->sh_link];
        if (names->sh_size == 0 || !is_inside(symbols, names->sh_offset, names->sh_size) ||
            symbols->file[names->sh_offset + names->sh_size - 1] != '\0') {
            return -ENOEXEC;
        }
        symbols->symbols = (const Elf64_Sym *)(symbols->file + table->sh_offset);
        symbols->n_symbols = table->sh_size / sizeof(Elf64_Sym);
        symbols->names = (const char *)symbols->file + names->sh_offset;
        symbols->names_bytes = names->sh_size;
        return 0;
    }
    return -ENODATA;
}

int ag_elf_symbols_open(const char *path, struct ag_elf_symbols *ret_symbols) {
    const long fd =
        ag_syscall6(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
    if (ag_syscall_failed(fd)) {
        return (int)fd;
    }
    struct stat status;
    long r = ag_syscall2(SYS_fstat, fd, (long)&status);
    if (!ag_syscall_failed(r) && (!S_ISREG(status.st_mode) || status.st_size == 0)) {
        r = -ENOEXEC;
    }
    if (!ag_syscall_failed(r)) {
        r = ag_syscall6(SYS_mmap, 0, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    (void)ag_syscall1(SYS_close, fd); /* opened for reading only */
    if (ag_syscall_failed(r)) {
        return (int)r;
    }
    struct ag_elf_symbols symbols = {.file = (const uint8_t *)r,
                                     .file_bytes = (size_t)status.st_size};
    const int error = find_table(&symbols);
    if (error < 0) {
        ag_elf_symbols_close(&symbols);
        return error;
    }
    *ret_symbols = symbols;
    return 0;
}

void ag_elf_symbols_close(struct ag_elf_symbols *symbols) {
    ag_pages_unmap(symbols->file, symbols->file_bytes);
    *symbols = (struct ag_elf_symbols){0};
}

/* The wanted names: slots hold index + 1; 0 is free. */
struct wanted {
    const char *const *names;
    uint16_t slots[SLOTS];
};

/* Returns the hash of a name (FNV-1a) and, in *ret_bytes, the length of the name, or 0 if the
 * length is at least NAME_BYTES. */
static uint32_t hash(const char *name, size_t *ret_bytes) {
    uint32_t value = UINT32_C(0x811c9dc5);
    size_t n = 0;
    for (; name[n] != '\0' && n < NAME_BYTES; n++) {
        value = (value ^ (unsigned char)name[n]) * UINT32_C(0x01000193);
    }
    *ret_bytes = n < NAME_BYTES ? n : 0;
    return value;
}

/* The slot of NAME; if NAME is not in the table, the free slot in which to insert it. */
static size_t slot_of(const struct wanted *wanted, const char *name, uint32_t name_hash) {
    size_t slot = name_hash % SLOTS;
    while (wanted->slots[slot] != 0 && strcmp(wanted->names[wanted->slots[slot] - 1], name) != 0) {
        slot = (slot + 1) % SLOTS;
    }
    return slot;
}

static enum strength strength_of(const Elf64_Sym *symbol) {
    const unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (type != STT_FUNC || symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0) {
        /* also for STT_GNU_IFUNC, whose st_value is the address of its resolver, not of the
         * function */
        return STRENGTH_NONE;
    }
    switch (ELF64_ST_BIND(symbol->st_info)) {
    case STB_GLOBAL:
        return STRENGTH_GLOBAL;
    case STB_WEAK:
        return STRENGTH_WEAK;
    default:
        return STRENGTH_LOCAL;
    }
}

size_t ag_elf_symbols_find(const struct ag_elf_symbols *symbols, const char *const *names,
                           size_t n_names, struct ag_elf_symbol *ret_found) {
    struct wanted wanted = {.names = names};
    uint8_t strengths[AG_ELF_NAMES];
    n_names = n_names < AG_ELF_NAMES ? n_names : AG_ELF_NAMES;
    for (size_t i = 0; i < n_names; i++) {
        size_t name_bytes;
        const uint32_t name_hash = hash(names[i], &name_bytes);
        wanted.slots[slot_of(&wanted, names[i], name_hash)] = (uint16_t)(i + 1);
        strengths[i] = STRENGTH_NONE;
        ret_found[i] = (struct ag_elf_symbol){0};
    }
    for (size_t i = 0; i < symbols->n_symbols; i++) {
        const Elf64_Sym *symbol = &symbols->symbols[i];
        const enum strength strength = strength_of(symbol);
        if (strength == STRENGTH_NONE || symbol->st_name >= symbols->names_bytes) {
            continue;
        }
        const char *name = symbols->names + symbol->st_name;
        size_t name_bytes;
        const uint32_t name_hash = hash(name, &name_bytes);
        if (wanted.slots[name_hash % SLOTS] == 0 || name_bytes == 0) {
            continue;
        }
        const size_t slot = slot_of(&wanted, name, name_hash);
        if (wanted.slots[slot] == 0) {
            continue;
        }
        const size_t index = wanted.slots[slot] - 1u;
        struct ag_elf_symbol *found = &ret_found[index];
        if (strength > strengths[index]) {
            *found = (struct ag_elf_symbol){.address = symbol->st_value,
                                            .size_bytes = symbol->st_size,
                                            .is_local = strength == STRENGTH_LOCAL};
            strengths[index] = (uint8_t)strength;
        } else if (strength == STRENGTH_LOCAL && strengths[index] == STRENGTH_LOCAL &&
                   found->address != symbol->st_value) {
            *found = (struct ag_elf_symbol){0}; /* ambiguous: several local functions */
        }
    }
    size_t n_found = 0;
    for (size_t i = 0; i < n_names; i++) {
        n_found += ret_found[i].address != 0;
    }
    return n_found;
}
