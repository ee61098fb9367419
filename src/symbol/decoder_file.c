/* decoder_file.c: reads an image's file for a decoder (decoder.h). The file is the program or
 * library itself, never its separate debug file, because the tables of a runtime (frame tables,
 * type names) are part of the program.
 *
 * In a position-independent file, a word that the loader will set to an address is zero; the
 * address is in the relative relocations of the file. */
#include "decoder_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "table/array.h"

int ag_decoder_file_open(const struct ag_elf_file *file, struct ag_work_meter *meter,
                         struct ag_decoder_file *ret_file) {
    size_t n_headers = 0;
    *ret_file = (struct ag_decoder_file){.elf = file->elf, .meter = meter};
    if (file->elf == NULL || elf_getphdrnum(file->elf, &n_headers) != 0 || n_headers == 0 ||
        n_headers > UINT16_MAX) {
        return -ENOEXEC;
    }
    ret_file->segments = calloc(n_headers, sizeof(*ret_file->segments));
    if (ret_file->segments == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n_headers; i++) {
        GElf_Phdr header;
        if (gelf_getphdr(file->elf, (int)i, &header) == NULL || header.p_type != PT_LOAD ||
            header.p_filesz == 0 || header.p_vaddr + header.p_filesz < header.p_vaddr) {
            continue;
        }
        ret_file->segments[ret_file->n_segments++] =
            (struct ag_decoder_segment){.low = header.p_vaddr,
                                        .high = header.p_vaddr + header.p_filesz,
                                        .offset = header.p_offset,
                                        .is_code = header.p_flags & PF_X};
    }
    return 0;
}

void ag_decoder_file_close(struct ag_decoder_file *file) {
    free(file->segments);
    free(file->relocations);
    *file = (struct ag_decoder_file){0};
}

static const struct ag_decoder_segment *segment_at(const struct ag_decoder_file *file,
                                                   uint64_t address) {
    for (size_t i = 0; i < file->n_segments; i++) {
        const struct ag_decoder_segment *segment = &file->segments[i];
        if (segment->low <= address && address < segment->high) {
            return segment;
        }
    }
    return NULL;
}

size_t ag_decoder_file_bytes(struct ag_decoder_file *file) {
    if (file->bytes == NULL) {
        file->bytes = (const unsigned char *)elf_rawfile(file->elf, &file->n_bytes);
    }
    return file->n_bytes;
}

const unsigned char *ag_decoder_bytes(struct ag_decoder_file *file, uint64_t address,
                                      size_t *ret_bytes) {
    if (!ag_work_meter_step(file->meter)) {
        return NULL;
    }
    const struct ag_decoder_segment *segment = segment_at(file, address);
    /* maps the file, if it is not mapped yet */
    (void)ag_decoder_file_bytes(file);
    if (segment == NULL || file->bytes == NULL || segment->offset > file->n_bytes ||
        address - segment->low >= file->n_bytes - segment->offset) {
        return NULL;
    }
    const uint64_t offset = segment->offset + (address - segment->low);
    const uint64_t in_segment = segment->high - address, in_file = file->n_bytes - offset;
    *ret_bytes = in_segment < in_file ? in_segment : in_file;
    return file->bytes + offset;
}

bool ag_decoder_is_code(struct ag_decoder_file *file, uint64_t address) {
    const struct ag_decoder_segment *segment = segment_at(file, address);
    return segment != NULL && segment->is_code;
}

/* ---- relocations ---- */

static unsigned relative_type(Elf *elf) {
    GElf_Ehdr header;
    const unsigned machine = gelf_getehdr(elf, &header) != NULL ? header.e_machine : EM_NONE;
    return machine == EM_X86_64    ? R_X86_64_RELATIVE
           : machine == EM_AARCH64 ? R_AARCH64_RELATIVE
                                   : 0;
}

static int add_relocations(struct ag_decoder_file *file, Elf_Data *data, size_t n, unsigned type) {
    for (size_t i = 0; i < n && i <= INT32_MAX; i++) {
        GElf_Rela rela;
        if (gelf_getrela(data, (int)i, &rela) != NULL && GELF_R_TYPE(rela.r_info) == type) {
            const struct ag_decoder_relocation relocation = {.place = rela.r_offset,
                                                             .word = (uint64_t)rela.r_addend};
            if (AG_ARRAY_ADD(file->relocations, file->n_relocations, relocation) < 0) {
                return -ENOMEM;
            }
        }
    }
    return 0;
}

static int decoder_rows_compare(const void *left, const void *right) {
    const struct ag_decoder_relocation *a = left, *b = right;
    return (a->place > b->place) - (a->place < b->place);
}

/* If memory is exhausted, the relocations that were read so far are used. */
static void read_relocations(struct ag_decoder_file *file) {
    const unsigned type = relative_type(file->elf);
    /* bytes of tables that may still be read; a limit, because several section headers may refer to
     * the same table */
    size_t left = ag_decoder_file_bytes(file);
    file->has_relocations = true;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) != NULL;) {
        GElf_Shdr header;
        Elf_Data *data;
        if (type == 0 || gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_RELA ||
            !(header.sh_flags & SHF_ALLOC) || header.sh_size > left ||
            (data = elf_getdata(section, NULL)) == NULL) {
            continue;
        }
        left -= header.sh_size;
        if (add_relocations(file, data, data->d_size / sizeof(Elf64_Rela), type) < 0) {
            break;
        }
    }
    if (file->n_relocations > 0) {
        qsort(file->relocations, file->n_relocations, sizeof(file->relocations[0]),
              decoder_rows_compare);
    }
}

bool ag_decoder_word(struct ag_decoder_file *file, uint64_t address, uint64_t *ret_word) {
    size_t n_bytes = 0;
    const unsigned char *bytes = ag_decoder_bytes(file, address, &n_bytes);
    if (bytes == NULL || n_bytes < sizeof(*ret_word)) {
        return false;
    }
    if (!file->has_relocations) {
        read_relocations(file);
    }
    const struct ag_decoder_relocation key = {.place = address};
    const struct ag_decoder_relocation *found =
        file->n_relocations > 0 ? bsearch(&key, file->relocations, file->n_relocations, sizeof(key),
                                          decoder_rows_compare)
                                : NULL;
    if (found != NULL) {
        *ret_word = found->word;
    } else {
        memcpy(ret_word, bytes, sizeof(*ret_word));
    }
    return true;
}

/* ---- symbols ---- */

static bool find_in_table(struct ag_decoder_file *file, Elf_Scn *section, const GElf_Shdr *header,
                          const char *name, uint64_t *ret_address) {
    Elf_Scn *strings_section = elf_getscn(file->elf, header->sh_link);
    Elf_Data *symbols = elf_getdata(section, NULL);
    Elf_Data *strings = strings_section != NULL ? elf_getdata(strings_section, NULL) : NULL;
    const size_t name_bytes = strlen(name) + 1;
    if (symbols == NULL || strings == NULL || strings->d_buf == NULL) {
        return false;
    }
    const size_t n = symbols->d_size / sizeof(Elf64_Sym);
    for (size_t i = 1; i < n && i <= INT32_MAX && ag_work_meter_step(file->meter); i++) {
        GElf_Sym symbol;
        if (gelf_getsym(symbols, (int)i, &symbol) != NULL && symbol.st_shndx != SHN_UNDEF &&
            symbol.st_name < strings->d_size && strings->d_size - symbol.st_name >= name_bytes &&
            memcmp((const char *)strings->d_buf + symbol.st_name, name, name_bytes) == 0) {
            *ret_address = symbol.st_value;
            return true;
        }
    }
    return false;
}

bool ag_decoder_symbol(struct ag_decoder_file *file, const char *name, uint64_t *ret_address) {
    /* bytes of tables that may still be read; a limit, because several section headers may refer to
     * the same table */
    size_t left = ag_decoder_file_bytes(file);
    for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) != NULL;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == NULL || header.sh_size > left ||
            (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM)) {
            continue;
        }
        left -= header.sh_size;
        if (find_in_table(file, section, &header, name, ret_address)) {
            return true;
        }
    }
    return false;
}
