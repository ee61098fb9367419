/* remote_elf.c: an ELF64 reader of our own, since only four tables are needed, see remote_elf.h.
 *
 * Bounds: a file states how many segments, sections and symbols it has; each count is compared with
 * the file's size before anything is allocated. That alone does not bound the sum: a thousand
 * section headers may refer to the same table. So all symbol tables together may have at most as
 * many bytes as the file, and so may their string tables; a shared one is read once. Names are
 * looked up in copies that are terminated by us. */
#include "remote_elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "foreign_file.h"

enum {
    MOST_TABLE_BYTES = 1 << 30, /* the largest browsers have 200 MiB of symbols */
    NOTE_BYTES = 1 << 16,
    MOST_COMPRESSION = 32, /* ratio; debug information reaches 10, zlib at most 1032 */
};

bool ag_remote_elf_read(const struct ag_remote_elf *elf, uint64_t offset, void *ret_bytes,
                        size_t n_bytes) {
    if (offset > elf->file_bytes || n_bytes > elf->file_bytes - offset) {
        return false;
    }
    if (elf->memory != NULL) {
        memcpy(ret_bytes, elf->memory + offset, n_bytes);
        return true;
    }
    for (size_t filled = 0; filled < n_bytes;) {
        const ssize_t n = pread(elf->fd, (uint8_t *)ret_bytes + filled, n_bytes - filled,
                                (off_t)(offset + filled));
        if (n <= 0) {
            return false;
        }
        filled += (size_t)n;
    }
    return true;
}

/* A copy of n bytes of the file, followed by a zero; NULL: not in the file, or no memory. */
static void *elf_copy(const struct ag_remote_elf *elf, uint64_t offset, uint64_t n_bytes) {
    if (n_bytes > MOST_TABLE_BYTES || offset > elf->file_bytes ||
        n_bytes > elf->file_bytes - offset) {
        return NULL;
    }
    uint8_t *bytes = malloc(n_bytes + 1);
    if (bytes == NULL || !ag_remote_elf_read(elf, offset, bytes, n_bytes)) {
        free(bytes);
        return NULL;
    }
    bytes[n_bytes] = 0;
    return bytes;
}

/* ---- opening --------------------------------------------------------------- */

static void read_sections(struct ag_remote_elf *elf, const Elf64_Ehdr *header) {
    if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum == 0) {
        return; /* a file may have none */
    }
    elf->sections = elf_copy(elf, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr));
    elf->n_sections = elf->sections != NULL ? header->e_shnum : 0;
    if (header->e_shstrndx < elf->n_sections) {
        const Elf64_Shdr *names = &elf->sections[header->e_shstrndx];
        elf->section_names = elf_copy(elf, names->sh_offset, names->sh_size);
        elf->section_names_bytes = elf->section_names != NULL ? names->sh_size : 0;
    }
}

static void read_build_id(struct ag_remote_elf *elf) {
    for (size_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        uint8_t *notes = segment->p_type == PT_NOTE && segment->p_filesz <= NOTE_BYTES
                             ? elf_copy(elf, segment->p_offset, segment->p_filesz)
                             : NULL;
        for (size_t at = 0; notes != NULL && at + sizeof(Elf64_Nhdr) <= segment->p_filesz;) {
            Elf64_Nhdr note;
            memcpy(&note, notes + at, sizeof note);
            const uint64_t name = at + sizeof note;
            const uint64_t text = name + ((uint64_t)note.n_namesz + 3) / 4 * 4;
            const uint64_t end = text + note.n_descsz;
            if (end > segment->p_filesz) {
                break;
            }
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                memcmp(notes + name, "GNU", 4) == 0 && note.n_descsz <= sizeof elf->build_id) {
                memcpy(elf->build_id, notes + text, note.n_descsz);
                elf->build_id_bytes = note.n_descsz;
            }
            at = (end + 3) / 4 * 4;
        }
        free(notes);
    }
}

static int read_header(struct ag_remote_elf *elf) {
    Elf64_Ehdr header;
    if (!ag_remote_elf_read(elf, 0, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB ||
        (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))) {
        return -ENOEXEC;
    }
    elf->segments = elf_copy(elf, header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr));
    if (elf->segments == NULL) {
        return -ENOEXEC;
    }
    elf->n_segments = header.e_phnum;
    elf->entry = header.e_entry;
    elf->is_object = header.e_type == ET_REL;
    read_sections(elf, &header);
    read_build_id(elf);
    return 0;
}

int ag_remote_elf_open(const char *path, struct ag_remote_elf *ret_elf) {
    struct stat facts;
    const int fd = ag_foreign_file_open(path, AG_LINKS_FOLLOWED, &facts);
    if (fd < 0) {
        return fd;
    }
    struct ag_remote_elf elf = {.fd = fd,
                                .file_bytes = (uint64_t)facts.st_size,
                                .stored_bytes = ag_foreign_file_stored_bytes(&facts)};
    const int r = ag_foreign_file_is_sparse(&facts) ? -ENOEXEC : read_header(&elf);
    if (r < 0) {
        ag_remote_elf_close(&elf);
        return r;
    }
    *ret_elf = elf;
    return 0;
}

int ag_remote_elf_adopt(uint8_t *memory, size_t n_bytes, struct ag_remote_elf *ret_elf) {
    struct ag_remote_elf elf = {
        .fd = -1, .memory = memory, .file_bytes = n_bytes, .stored_bytes = n_bytes};
    const int r = read_header(&elf);
    if (r < 0) {
        ag_remote_elf_close(&elf);
        return r;
    }
    *ret_elf = elf;
    return 0;
}

void ag_remote_elf_close(struct ag_remote_elf *elf) {
    if (elf->fd > 0) {
        close(elf->fd);
    }
    for (size_t i = 0; i < elf->n_string_tables; i++) {
        free(elf->string_tables[i].text);
    }
    free(elf->string_tables);
    free(elf->symbols);
    free(elf->section_names);
    free(elf->sections);
    free(elf->segments);
    free(elf->memory);
    *elf = (struct ag_remote_elf){0};
}

/* ---- segments and sections --------------------------------------------------- */

const Elf64_Phdr *ag_remote_elf_segment(const struct ag_remote_elf *elf, uint32_t type) {
    for (size_t i = 0; i < elf->n_segments; i++) {
        if (elf->segments[i].p_type == type) {
            return &elf->segments[i];
        }
    }
    return NULL;
}

const Elf64_Phdr *ag_remote_elf_loaded(const struct ag_remote_elf *elf, uint64_t address) {
    for (size_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            address - segment->p_vaddr < segment->p_filesz) {
            return segment;
        }
    }
    return NULL;
}

const Elf64_Phdr *ag_remote_elf_segment_at(const struct ag_remote_elf *elf, uint64_t offset,
                                           uint32_t flag) {
    enum { PAGE_BYTES = 4096 };
    for (size_t i = 0; i < elf->n_segments; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        const uint64_t first = segment->p_offset / PAGE_BYTES * PAGE_BYTES;
        if (segment->p_type == PT_LOAD && (segment->p_flags & flag) != 0 && offset >= first &&
            offset - first < segment->p_filesz + PAGE_BYTES) {
            return segment;
        }
    }
    return NULL;
}

const Elf64_Shdr *ag_remote_elf_section(const struct ag_remote_elf *elf, const char *name) {
    for (size_t i = 0; i < elf->n_sections; i++) {
        const uint32_t at = elf->sections[i].sh_name;
        if (at < elf->section_names_bytes && strcmp(elf->section_names + at, name) == 0) {
            return &elf->sections[i];
        }
    }
    return NULL;
}

uint8_t *ag_remote_elf_contents(const struct ag_remote_elf *elf, const Elf64_Shdr *section,
                                size_t limit, size_t *ret_bytes) {
    if (section->sh_type == SHT_NOBITS || section->sh_size > limit) {
        return NULL;
    }
    uint8_t *stored = elf_copy(elf, section->sh_offset, section->sh_size);
    if (stored == NULL || (section->sh_flags & SHF_COMPRESSED) == 0) {
        *ret_bytes = section->sh_size;
        return stored;
    }
    Elf64_Chdr header;
    uint8_t *bytes = NULL;
    if (section->sh_size > sizeof header) {
        memcpy(&header, stored, sizeof header);
        const bool is_bomb = header.ch_size / MOST_COMPRESSION > section->sh_size;
        bytes = header.ch_type == ELFCOMPRESS_ZLIB && header.ch_size <= limit && !is_bomb
                    ? malloc(header.ch_size + 1)
                    : NULL;
    }
    if (bytes != NULL) {
        uLongf n = header.ch_size;
        if (uncompress(bytes, &n, stored + sizeof header, section->sh_size - sizeof header) !=
                Z_OK ||
            n != header.ch_size) {
            free(bytes);
            bytes = NULL;
        }
        *ret_bytes = n;
    }
    free(stored);
    return bytes;
}

/* ---- symbols ----------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
    const struct ag_remote_symbol *first = a, *second = b;
    if (first->address != second->address) {
        return first->address < second->address ? -1 : 1;
    }
    return first->n_bytes < second->n_bytes ? -1 : first->n_bytes > second->n_bytes;
}

/* A copy of a table of names, kept until the file is closed. NULL: not in the file, no memory, or
 * over the bound. */
static const char *read_strings(struct ag_remote_elf *elf, const Elf64_Shdr *section) {
    for (size_t i = 0; i < elf->n_string_tables; i++) {
        const struct ag_remote_strings *known = &elf->string_tables[i];
        if (known->offset == section->sh_offset && known->n_bytes == section->sh_size) {
            return known->text;
        }
    }
    if (section->sh_size > elf->file_bytes - elf->string_bytes) {
        return NULL;
    }
    struct ag_remote_strings *tables =
        reallocarray(elf->string_tables, elf->n_string_tables + 1, sizeof *tables);
    if (tables == NULL) {
        return NULL;
    }
    elf->string_tables = tables;
    char *text = elf_copy(elf, section->sh_offset, section->sh_size);
    if (text != NULL) {
        elf->string_bytes += section->sh_size;
        tables[elf->n_string_tables++] =
            (struct ag_remote_strings){section->sh_offset, section->sh_size, text};
    }
    return text;
}

static void add_table(struct ag_remote_elf *elf, const Elf64_Shdr *section) {
    if (section->sh_entsize != sizeof(Elf64_Sym) || section->sh_link >= elf->n_sections ||
        section->sh_size > elf->file_bytes - elf->table_bytes) {
        return;
    }
    const Elf64_Shdr *strings = &elf->sections[section->sh_link];
    const size_t n = section->sh_size / sizeof(Elf64_Sym);
    elf->table_bytes += section->sh_size;
    const char *names = read_strings(elf, strings);
    Elf64_Sym *table = names != NULL ? elf_copy(elf, section->sh_offset, section->sh_size) : NULL;
    struct ag_remote_symbol *symbols =
        table != NULL ? reallocarray(elf->symbols, elf->n_symbols + n + 1, sizeof *symbols) : NULL;
    if (symbols == NULL) {
        free(table);
        return;
    }
    elf->symbols = symbols;
    for (size_t i = 0; i < n; i++) {
        const int type = ELF64_ST_TYPE(table[i].st_info);
        const bool is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
        if ((is_function || type == STT_OBJECT || type == STT_NOTYPE) &&
            table[i].st_shndx != SHN_UNDEF && (table[i].st_value != 0 || elf->is_object) &&
            table[i].st_name < strings->sh_size && names[table[i].st_name] != '\0') {
            elf->symbols[elf->n_symbols++] =
                (struct ag_remote_symbol){table[i].st_value, table[i].st_size,
                                          names + table[i].st_name, is_function, table[i].st_shndx};
        }
    }
    free(table);
}

static void read_symbols(struct ag_remote_elf *elf) {
    if (elf->has_symbols) {
        return;
    }
    elf->has_symbols = true;
    for (size_t i = 0; i < elf->n_sections; i++) {
        const uint32_t type = elf->sections[i].sh_type;
        if (type == SHT_SYMTAB || type == SHT_DYNSYM) {
            add_table(elf, &elf->sections[i]);
        }
    }
    if (elf->n_symbols != 0) {
        qsort(elf->symbols, elf->n_symbols, sizeof elf->symbols[0], by_address);
    }
}

const struct ag_remote_symbol *ag_remote_elf_symbol(struct ag_remote_elf *elf, const char *name) {
    read_symbols(elf);
    for (size_t i = 0; i < elf->n_symbols; i++) {
        if (strcmp(elf->symbols[i].name, name) == 0) {
            return &elf->symbols[i];
        }
    }
    return NULL;
}

const struct ag_remote_symbol *ag_remote_elf_function(struct ag_remote_elf *elf, uint64_t address) {
    enum { LOOK_BACK = 64 }; /* aliases and labels between a function's start and the address */
    read_symbols(elf);
    /* finds the first symbol that starts after the address */
    size_t low = 0, high = elf->n_symbols;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (elf->symbols[middle].address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (size_t i = low; i-- > 0 && low - i <= LOOK_BACK;) {
        const struct ag_remote_symbol *symbol = &elf->symbols[i];
        if (symbol->is_function && address - symbol->address < symbol->n_bytes) {
            return symbol;
        }
    }
    return NULL;
}
