/* remote_elf.c: reads the headers, sections and symbols of an ELF file, for the code that examines
 * another process. libelf finds the tables, and this file copies them.
 *
 * Bounds. libelf compares each offset and count with the file's size, and reads without a mapping
 * (ELF_C_READ). These checks do not limit the sum of all reads: a thousand section headers may
 * refer to the same table. So only the first symbol table of each kind is read; the ELF
 * specification (gABI, sh_type) allows only one of each kind. Tables are copied here, because
 * libelf keeps all that it reads until the file is closed. The copied tables of names get a
 * terminating NUL here, because libelf would check the end of the table again for each name. */
#include "remote_elf.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sorted.h"
#include "foreign_file.h"

enum {
    MOST_TABLE_BYTES = 1 << 30, /* the largest browsers have 200 MiB of symbols */
    NOTE_BYTES = 1 << 16,
    MOST_NOTES = 16, /* segments of notes that are read; linkers make three */
    /* most decompressed bytes for a compressed byte; debug information reaches 10, and zlib can
     * reach 1032 */
    MOST_COMPRESSION = 32,
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

/* Returns a copy of n bytes of the file, followed by a zero; NULL: the bytes are not in the file,
 * or there is no memory. */
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

static void read_section_names(struct ag_remote_elf *elf) {
    size_t index = 0;
    Elf64_Shdr names;
    if (elf_getshdrstrndx(elf->elf, &index) == 0 &&
        gelf_getshdr(elf_getscn(elf->elf, index), &names) != NULL) {
        elf->section_names = elf_copy(elf, names.sh_offset, names.sh_size);
        elf->section_names_bytes = elf->section_names != NULL ? names.sh_size : 0;
    }
}

/* Reads the build id from a segment of notes. Returns false if the segment has none. */
static bool read_notes(struct ag_remote_elf *elf, const Elf64_Phdr *segment) {
    Elf_Data *notes =
        elf_getdata_rawchunk(elf->elf, (int64_t)segment->p_offset, segment->p_filesz, ELF_T_NHDR);
    GElf_Nhdr note;
    size_t name, text;
    for (size_t at = 0; notes != NULL && (at = gelf_getnote(notes, at, &note, &name, &text)) > 0;) {
        const uint8_t *bytes = notes->d_buf;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(bytes + name, "GNU", 4) == 0 && note.n_descsz <= sizeof elf->build_id) {
            memcpy(elf->build_id, bytes + text, note.n_descsz);
            elf->build_id_bytes = note.n_descsz;
            return true;
        }
    }
    return false;
}

static void read_build_id(struct ag_remote_elf *elf) {
    size_t n_looked_at = 0;
    for (size_t i = 0; i < elf->n_segments && n_looked_at < MOST_NOTES; i++) {
        const Elf64_Phdr *segment = &elf->segments[i];
        if (segment->p_type == PT_NOTE && segment->p_filesz <= NOTE_BYTES) {
            n_looked_at++;
            if (read_notes(elf, segment)) {
                return;
            }
        }
    }
}

static int read_header(struct ag_remote_elf *elf) {
    GElf_Ehdr header;
    size_t n_segments = 0;
    if (gelf_getclass(elf->elf) != ELFCLASS64 || gelf_getehdr(elf->elf, &header) == NULL ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || elf_getphdrnum(elf->elf, &n_segments) < 0 ||
        n_segments > elf->file_bytes / sizeof(Elf64_Phdr)) {
        return -ENOEXEC;
    }
    elf->segments = calloc(n_segments + 1, sizeof *elf->segments);
    while (elf->segments != NULL && elf->n_segments < n_segments &&
           gelf_getphdr(elf->elf, (int)elf->n_segments, &elf->segments[elf->n_segments]) != NULL) {
        elf->n_segments++;
    }
    if (elf->n_segments < n_segments) {
        return -ENOEXEC;
    }
    elf->entry = header.e_entry;
    elf->is_object = header.e_type == ET_REL;
    read_section_names(elf);
    read_build_id(elf);
    return 0;
}

/* Reads the header after libelf was started. Closes the file if the header cannot be read. */
static int finish_open(struct ag_remote_elf *elf, struct ag_remote_elf *ret_elf) {
    const int r = read_header(elf);
    if (r < 0) {
        ag_remote_elf_close(elf);
        return r;
    }
    *ret_elf = *elf;
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
    if (!ag_foreign_file_is_sparse(&facts) && elf_version(EV_CURRENT) != EV_NONE) {
        elf.elf = elf_begin(fd, ELF_C_READ, NULL);
    }
    return finish_open(&elf, ret_elf);
}

/* A copy of what is loaded of a file (the vDSO) may lack the section headers, which are at the end
 * of the file. libelf refuses a file whose header refers to missing section headers, so the
 * reference is removed. */
static void forget_missing_sections(uint8_t *memory, size_t n_bytes) {
    Elf64_Ehdr header;
    if (n_bytes < sizeof header) {
        return;
    }
    memcpy(&header, memory, sizeof header);
    if (header.e_shoff > n_bytes ||
        n_bytes - header.e_shoff < (uint64_t)header.e_shnum * sizeof(Elf64_Shdr)) {
        header.e_shoff = 0;
        header.e_shnum = header.e_shstrndx = 0;
        memcpy(memory, &header, sizeof header);
    }
}

int ag_remote_elf_adopt(uint8_t *memory, size_t n_bytes, struct ag_remote_elf *ret_elf) {
    struct ag_remote_elf elf = {
        .fd = -1, .memory = memory, .file_bytes = n_bytes, .stored_bytes = n_bytes};
    if (elf_version(EV_CURRENT) != EV_NONE) {
        forget_missing_sections(memory, n_bytes);
        elf.elf = elf_memory((char *)memory, n_bytes);
    }
    return finish_open(&elf, ret_elf);
}

void ag_remote_elf_close(struct ag_remote_elf *elf) {
    (void)elf_end(elf->elf); /* NULL is allowed */
    if (elf->fd > 0) {
        close(elf->fd);
    }
    free(elf->strings[0]);
    free(elf->strings[1]);
    free(elf->symbols);
    free(elf->section_names);
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

static Elf_Scn *find_section(const struct ag_remote_elf *elf, const char *name,
                             Elf64_Shdr *ret_header) {
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section)) != NULL;) {
        if (gelf_getshdr(section, ret_header) != NULL &&
            ret_header->sh_name < elf->section_names_bytes &&
            strcmp(elf->section_names + ret_header->sh_name, name) == 0) {
            return section;
        }
    }
    return NULL;
}

bool ag_remote_elf_section(const struct ag_remote_elf *elf, const char *name,
                           uint64_t *ret_address) {
    Elf64_Shdr header;
    const bool is_found = find_section(elf, name, &header) != NULL;
    *ret_address = is_found ? header.sh_addr : 0;
    return is_found;
}

uint64_t ag_remote_elf_section_address(const struct ag_remote_elf *elf, uint16_t index) {
    Elf64_Shdr header;
    return gelf_getshdr(elf_getscn(elf->elf, index), &header) != NULL ? header.sh_addr : 0;
}

/* Returns a copy of the section's decompressed bytes. NULL: the section is damaged, or larger than
 * LIMIT. */
static uint8_t *decompress(Elf_Scn *section, uint64_t stored_bytes, size_t limit,
                           size_t *ret_bytes) {
    GElf_Chdr header;
    if (gelf_getchdr(section, &header) == NULL || header.ch_size > limit ||
        header.ch_size / MOST_COMPRESSION > stored_bytes || elf_compress(section, 0, 0) < 0) {
        return NULL;
    }
    const Elf_Data *data = elf_getdata(section, NULL);
    uint8_t *bytes = data != NULL && data->d_buf != NULL ? malloc(data->d_size + 1) : NULL;
    if (bytes != NULL) {
        memcpy(bytes, data->d_buf, data->d_size);
        *ret_bytes = data->d_size;
    }
    return bytes;
}

uint8_t *ag_remote_elf_contents(const struct ag_remote_elf *elf, const char *name, size_t limit,
                                size_t *ret_bytes) {
    Elf64_Shdr header;
    Elf_Scn *section = find_section(elf, name, &header);
    if (section == NULL || header.sh_type == SHT_NOBITS || header.sh_size > limit) {
        return NULL;
    }
    if ((header.sh_flags & SHF_COMPRESSED) != 0) {
        return decompress(section, header.sh_size, limit, ret_bytes);
    }
    *ret_bytes = header.sh_size;
    return elf_copy(elf, header.sh_offset, header.sh_size);
}

/* ---- symbols ----------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
    const struct ag_remote_symbol *first = a, *second = b;
    if (first->address != second->address) {
        return first->address < second->address ? -1 : 1;
    }
    return first->n_bytes < second->n_bytes ? -1 : first->n_bytes > second->n_bytes;
}

/* Adds the symbols of a table. Their names are copied to *ret_names, which is valid until the file
 * is closed. */
static void add_table(struct ag_remote_elf *elf, const Elf64_Shdr *header, char **ret_names) {
    Elf64_Shdr strings;
    if (header->sh_entsize != sizeof(Elf64_Sym) ||
        gelf_getshdr(elf_getscn(elf->elf, header->sh_link), &strings) == NULL) {
        return;
    }
    const size_t n = header->sh_size / sizeof(Elf64_Sym);
    char *names = elf_copy(elf, strings.sh_offset, strings.sh_size);
    Elf64_Sym *table = names != NULL ? elf_copy(elf, header->sh_offset, header->sh_size) : NULL;
    struct ag_remote_symbol *symbols =
        table != NULL ? reallocarray(elf->symbols, elf->n_symbols + n + 1, sizeof *symbols) : NULL;
    *ret_names = names;
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
            table[i].st_name < strings.sh_size && names[table[i].st_name] != '\0') {
            elf->symbols[elf->n_symbols++] =
                (struct ag_remote_symbol){table[i].st_value, table[i].st_size,
                                          names + table[i].st_name, is_function, table[i].st_shndx};
        }
    }
    free(table);
}

static void read_symbols(struct ag_remote_elf *elf) {
    bool is_read[2] = {false, false}; /* SHT_SYMTAB, SHT_DYNSYM */
    if (elf->has_symbols) {
        return;
    }
    elf->has_symbols = true;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section)) != NULL;) {
        Elf64_Shdr header;
        if (gelf_getshdr(section, &header) == NULL) {
            continue;
        }
        const int kind = header.sh_type == SHT_DYNSYM;
        if ((kind == 1 || header.sh_type == SHT_SYMTAB) && !is_read[kind]) {
            is_read[kind] = true;
            add_table(elf, &header, &elf->strings[kind]);
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
    enum { LOOK_BACK = 64 }; /* most symbols from the function's start to ADDRESS that are read */
    read_symbols(elf);
    const size_t after = AG_SORTED_UNTIL(elf->symbols, elf->n_symbols, address, address);
    for (size_t i = after; i-- > 0 && after - i <= LOOK_BACK;) {
        const struct ag_remote_symbol *symbol = &elf->symbols[i];
        if (symbol->is_function && address - symbol->address < symbol->n_bytes) {
            return symbol;
        }
    }
    return NULL;
}
