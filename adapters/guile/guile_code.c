/* guile_code.c: finds the Scheme procedure and the line of an address in Guile's bytecode.
 *
 * 1. Images. Guile's compiler makes ELF images, also in memory (`eval`, `compile`). A compiled file
 * is mapped as a whole; another image is copied into memory of malloc. So all sections are in
 * memory, in the order of the file, and the ELF header is at the lowest address. Guile never
 * removes an image. Guile has a list of all images, but exports neither the list nor its lock. So
 * this file searches for the header from the address downward, once per image. Each page is checked
 * before it is read, and an image is only accepted if its section .rtl-text, which has the
 * bytecode, contains the address.
 *
 * 2. Names. The section .symtab has all procedures, sorted by address, relative to .rtl-text. A
 * procedure without a name is called `lambda`, and the body of a file or of an expression
 * `top level`. Line numbers are in .debug_line, in the format of DWARF 2, as one program for the
 * whole image. The program is run once, and its rows are kept.
 *
 * 3. Files. Guile names a source file by its path in a folder of its load path. Whether an image
 * belongs to Guile's own library is known from the compiled file that is mapped: those of Guile are
 * in the folder guile/3.0/ccache of its installation (guile_files.h).
 *
 * 4. Addresses outside of all images are in the code that Guile makes for primitives, procedures
 * that are functions of C. These are not reported, because the native frame of the function is in
 * the stack.
 *
 * 5. Tables. The table of places (each is a pc with its procedure and line) and the list of images
 * only grow. An element is complete before it is published, so readers take no lock. Two threads
 * may find the same image at the same time; then it is in the list twice, which does no harm. */
#include "guile_code.h"

#include <elf.h>
#include <stdatomic.h>
#include <string.h>

#include "allogram/allogram.h"
#include "base/join_text.h"
#include "base/pages.h"
#include "guile_files.h"
#include "guile_runtime.h"
#include "hook/process_map.h"
#include "unwind/readable_range.h"

enum {
    PLACES = 1 << 18,
    PLACES_MOST = PLACES / 4 * 3,
    PLACE_BUSY = 2, /* no pc: a pc is a multiple of 4, or one less */
    IMAGES_MOST = 1 << 14,
    SEARCHED_PAGES = 1 << 12, /* 16 MiB; the largest file of Guile 3.0.8 has 2 MiB of code */
    SECTIONS_MOST = 64,
    ELF_ABI = 255,      /* ELFOSABI_STANDALONE */
    ENTRY = 0x37146002, /* DT_GUILE_ENTRY: the procedure of the body */
    DYNAMIC_MOST = 32,
    PATH_BYTES = 512,
};

struct row {
    uint32_t offset; /* in the image */
    uint32_t line;
    uint32_t file; /* number of the source file, from 1 */
};
struct image {
    uintptr_t text_low, text_high; /* the bytecode */
    uintptr_t start;
    uintptr_t entry; /* where the body's procedure begins; 0: unknown */
    const Elf64_Sym *symbols;
    size_t n_symbols;
    const char *names;
    size_t names_bytes;
    const uint8_t *lines; /* .debug_line */
    size_t lines_bytes;
    const struct row *rows;
    size_t n_rows;
    bool is_library;       /* the image is a compiled file of Guile's own */
    _Atomic bool is_ready; /* the other fields are written */
};
struct place {
    _Atomic uintptr_t pc; /* 0: free */
    struct ag_guile_place found;
};

static struct place *places;
static struct image *images;
static _Atomic uint32_t n_places, n_taken_images, n_images;

bool ag_guile_code_start(void) {
    places = ag_pages_map(PLACES * sizeof(*places));
    images = ag_pages_map(IMAGES_MOST * sizeof(*images));
    return places && images;
}

/* ---- the line program ---- */

struct reader {
    const uint8_t *at, *end;
};

static uint64_t read_number(struct reader *reader, size_t bytes) {
    uint64_t number = 0;
    if ((size_t)(reader->end - reader->at) < bytes) {
        reader->at = reader->end;
        return 0;
    }
    memcpy(&number, reader->at, bytes);
    reader->at += bytes;
    return number;
}

static uint64_t read_leb(struct reader *reader, bool is_signed) {
    uint64_t number = 0;
    uint32_t shift = 0;
    uint8_t byte = 0x80;
    while ((byte & 0x80) != 0 && reader->at < reader->end && shift < 64) {
        byte = *reader->at++;
        number |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    }
    if (is_signed && shift < 64 && (byte & 0x40) != 0) {
        number |= ~(uint64_t)0 << shift;
    }
    return number;
}

/* The text at AT, if it ends before END; otherwise "". */
static const char *text_at(const char *at, const char *end) {
    const char *last = at;
    while (last < end && *last != '\0') {
        last++;
    }
    return last < end ? at : "";
}

static const char *read_text(struct reader *reader) {
    const char *text = text_at((const char *)reader->at, (const char *)reader->end);
    const size_t left = (size_t)(reader->end - reader->at);
    reader->at += left > 0 ? strlen(text) + 1 : 0;
    return text;
}

enum { STANDARD_OPCODES = 16 };
struct line_header {
    struct reader program, files;
    uint8_t minimum, range, first_special, n_arguments[STANDARD_OPCODES];
    int8_t base;
};

static bool read_line_header(const struct image *image, struct line_header *ret_header) {
    enum { VERSION = 2 };
    struct reader reader = {image->lines, image->lines + image->lines_bytes};
    struct line_header header = {.minimum = 0};
    const uint64_t bytes = read_number(&reader, 4);
    if (bytes > (uint64_t)(reader.end - reader.at)) {
        return false;
    }
    reader.end = reader.at + bytes;
    const uint64_t version = read_number(&reader, 2), header_bytes = read_number(&reader, 4);
    if (version != VERSION || header_bytes > (uint64_t)(reader.end - reader.at)) {
        return false;
    }
    header.program = (struct reader){reader.at + header_bytes, reader.end};
    reader.end = header.program.at;
    header.minimum = (uint8_t)read_number(&reader, 1);
    (void)read_number(&reader, 1); /* whether a row is a statement by default */
    header.base = (int8_t)read_number(&reader, 1);
    header.range = (uint8_t)read_number(&reader, 1);
    header.first_special = (uint8_t)read_number(&reader, 1);
    if (header.range == 0 || header.first_special == 0 || header.first_special > STANDARD_OPCODES) {
        return false;
    }
    for (uint32_t i = 1; i < header.first_special; i++) {
        header.n_arguments[i] = (uint8_t)read_number(&reader, 1);
    }
    while (reader.at < reader.end && *read_text(&reader) != '\0') {
        /* the directories: Guile writes none */
    }
    header.files = reader;
    *ret_header = header;
    return true;
}

/* The name of the file with this number, from 1; NULL: unknown. */
static const char *file_of(const struct image *image, uint32_t number) {
    struct line_header header;
    if (number == 0 || !image->lines || !read_line_header(image, &header)) {
        return NULL;
    }
    struct reader *files = &header.files;
    while (files->at < files->end) {
        const char *name = read_text(files);
        if (*name == '\0' || --number == 0) {
            return *name != '\0' ? name : NULL;
        }
        for (int i = 0; i < 3; i++) { /* directory, time, size */
            (void)read_leb(files, false);
        }
    }
    return NULL;
}

/* Runs the line program. Returns the number of its rows; stores them if ret_rows is not NULL. */
static size_t run_lines(struct line_header header, struct row *ret_rows) {
    enum { COPY = 1, ADVANCE_PC, ADVANCE_LINE, SET_FILE, CONST_ADD_PC = 8, FIXED_ADVANCE_PC = 9 };
    enum { END_SEQUENCE = 1, SET_ADDRESS = 2, LAST_OPCODE = 255 };
    struct reader *reader = &header.program;
    struct row row = {.offset = 0, .line = 1, .file = 1};
    size_t n = 0;
    while (reader->at < reader->end) {
        const uint8_t opcode = *reader->at++;
        bool is_row = opcode == COPY;
        if (opcode >= header.first_special) {
            const uint32_t adjusted = (uint32_t)opcode - header.first_special;
            row.offset += adjusted / header.range * header.minimum;
            row.line += (uint32_t)(header.base + (int32_t)(adjusted % header.range));
            is_row = true;
        } else if (opcode == 0) {
            const uint64_t bytes = read_leb(reader, false);
            const uint8_t *next =
                bytes <= (uint64_t)(reader->end - reader->at) ? reader->at + bytes : reader->end;
            const uint64_t extended = read_number(reader, 1);
            if (extended == SET_ADDRESS) {
                row.offset = (uint32_t)read_number(reader, sizeof(uint64_t));
            } else if (extended == END_SEQUENCE) {
                return n;
            }
            reader->at = next;
        } else if (opcode == ADVANCE_PC) {
            row.offset += (uint32_t)read_leb(reader, false) * header.minimum;
        } else if (opcode == ADVANCE_LINE) {
            row.line += (uint32_t)read_leb(reader, true);
        } else if (opcode == SET_FILE) {
            row.file = (uint32_t)read_leb(reader, false);
        } else if (opcode == CONST_ADD_PC) {
            row.offset +=
                (uint32_t)(LAST_OPCODE - header.first_special) / header.range * header.minimum;
        } else if (opcode == FIXED_ADVANCE_PC) {
            row.offset += (uint32_t)read_number(reader, 2);
        } else {
            for (uint32_t i = 0; i < header.n_arguments[opcode]; i++) {
                (void)read_leb(reader, false);
            }
        }
        if (is_row) {
            if (ret_rows) {
                ret_rows[n] = row;
            }
            n++;
        }
    }
    return n;
}

static void read_rows(struct image *image) {
    struct line_header header;
    const size_t n = image->lines && read_line_header(image, &header) ? run_lines(header, NULL) : 0;
    struct row *rows = n > 0 ? ag_pages_map(n * sizeof(*rows)) : NULL;
    if (rows) {
        image->n_rows = run_lines(header, rows);
        image->rows = rows;
    }
}

/* The last row at or before the offset; NULL: none. The rows are sorted by offset. */
static const struct row *row_at(const struct image *image, uint32_t offset) {
    size_t low = 0, high = image->n_rows; /* the rows before `low` are at or before the offset */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (image->rows[middle].offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? &image->rows[low - 1] : NULL;
}

/* The first row of the procedure [low, high). A procedure without rows of its own has the last row
 * before it, as in Guile's backtraces. NULL: there is none. */
static const struct row *first_row(const struct image *image, uint32_t low, uint32_t high) {
    const struct row *row = row_at(image, low);
    if (row && row->offset == low) {
        return row;
    }
    const size_t next = row ? (size_t)(row - image->rows) + 1 : 0;
    return next < image->n_rows && image->rows[next].offset < high ? &image->rows[next] : row;
}

/* ---- images ---- */

static bool is_readable(uintptr_t low, size_t bytes) {
    if (low + bytes < low) {
        return false;
    }
    for (uintptr_t page = ag_page_of(low); page < low + bytes; page += AG_PAGE_BYTES) {
        if (!ag_readable_word(page)) {
            return false;
        }
    }
    return true;
}

static bool is_header(const Elf64_Ehdr *header) {
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
           header->e_ident[EI_OSABI] == ELF_ABI && header->e_type == ET_DYN &&
           header->e_machine == EM_NONE && header->e_ehsize == sizeof(*header) &&
           header->e_shentsize == sizeof(Elf64_Shdr) && header->e_shnum <= SECTIONS_MOST &&
           header->e_shstrndx < header->e_shnum;
}

static uintptr_t read_entry(uintptr_t start, uintptr_t dynamic, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof(Elf64_Dyn) && i < DYNAMIC_MOST; i++) {
        Elf64_Dyn tag;
        memcpy(&tag, (const void *)(dynamic + i * sizeof(tag)), sizeof(tag));
        if (tag.d_tag == ENTRY) {
            return start + tag.d_un.d_val;
        }
    }
    return 0;
}

/* The image at START, if its bytecode contains the pc. */
static bool read_image(uintptr_t start, uintptr_t pc, struct image *ret_image) {
    Elf64_Ehdr header;
    Elf64_Shdr sections[SECTIONS_MOST];
    if (!ag_readable_copy(&header, start, sizeof(header)) || !is_header(&header) ||
        !ag_readable_copy(sections, start + header.e_shoff, header.e_shnum * sizeof(sections[0]))) {
        return false;
    }
    struct image image = {.start = start};
    const Elf64_Shdr *titles = &sections[header.e_shstrndx];
    for (size_t i = 0; i < header.e_shnum; i++) {
        const Elf64_Shdr *section = &sections[i];
        const uintptr_t at = start + section->sh_offset;
        char name[16] = {0};
        if (section->sh_name >= titles->sh_size ||
            !ag_readable_copy(name, start + titles->sh_offset + section->sh_name,
                              sizeof(name) - 1) ||
            !is_readable(at, section->sh_size)) {
            continue;
        }
        if (strcmp(name, ".rtl-text") == 0) {
            image.text_low = start + section->sh_addr;
            image.text_high = image.text_low + section->sh_size;
        } else if (strcmp(name, ".symtab") == 0 && section->sh_link < header.e_shnum) {
            const Elf64_Shdr *names = &sections[section->sh_link];
            if (is_readable(start + names->sh_offset, names->sh_size)) {
                image.symbols = (const Elf64_Sym *)at; // NOLINT(performance-no-int-to-ptr)
                image.n_symbols = section->sh_size / sizeof(Elf64_Sym);
                image.names = (const char *)(start + names->sh_offset);
                image.names_bytes = names->sh_size;
            }
        } else if (strcmp(name, ".debug_line") == 0) {
            image.lines = (const uint8_t *)at; // NOLINT(performance-no-int-to-ptr)
            image.lines_bytes = section->sh_size;
        } else if (strcmp(name, ".dynamic") == 0) {
            image.entry = read_entry(start, at, section->sh_size);
        }
    }
    if (pc - image.text_low >= image.text_high - image.text_low) {
        return false;
    }
    *ret_image = image;
    return true;
}

static bool search_page(uintptr_t page, uintptr_t pc, struct image *ret_image) {
    enum { ALIGNMENT = 8 };
    unsigned char bytes[AG_PAGE_BYTES];
    memcpy(bytes, (const void *)page, sizeof(bytes)); // NOLINT(performance-no-int-to-ptr)
    for (size_t i = AG_PAGE_BYTES; i > 0; i -= ALIGNMENT) {
        const size_t at = i - ALIGNMENT;
        if (memcmp(bytes + at, ELFMAG, SELFMAG) == 0 && page + at < pc &&
            read_image(page + at, pc, ret_image)) {
            return true;
        }
    }
    return false;
}

/* The header of a mapped file is at the start of a page. */
static bool is_of_library(const struct image *image) {
    char path[PATH_BYTES];
    return image->start == ag_page_of(image->start) &&
           ag_process_map_path(image->start, path, sizeof(path)) == 0 &&
           strstr(path, "/" AG_GUILE_LIBRARY "ccache/") != NULL;
}

static const struct image *keep_image(struct image *image) {
    static const uint32_t most = IMAGES_MOST;
    const uint32_t at = atomic_fetch_add_explicit(&n_taken_images, 1, memory_order_relaxed);
    if (at >= most) {
        atomic_fetch_sub_explicit(&n_taken_images, 1, memory_order_relaxed);
        return NULL;
    }
    read_rows(image);
    image->is_library = is_of_library(image);
    images[at] = *image;
    /* release: pairs with the acquire in find_image */
    atomic_store_explicit(&images[at].is_ready, true, memory_order_release);
    uint32_t n = atomic_load_explicit(&n_images, memory_order_relaxed);
    while (n <= at && !atomic_compare_exchange_weak_explicit(
                          &n_images, &n, at + 1, memory_order_relaxed, memory_order_relaxed)) {
    }
    return &images[at];
}

static const struct image *find_image(uintptr_t pc) {
    for (uint32_t i = atomic_load_explicit(&n_images, memory_order_relaxed); i-- > 0;) {
        if (atomic_load_explicit(&images[i].is_ready, memory_order_acquire) &&
            pc - images[i].text_low < images[i].text_high - images[i].text_low) {
            return &images[i];
        }
    }
    struct image found;
    uintptr_t page = ag_page_of(pc);
    for (uint32_t i = 0; i < SEARCHED_PAGES && ag_readable_word(page); i++) {
        if (search_page(page, pc, &found)) {
            return keep_image(&found);
        }
        page -= AG_PAGE_BYTES;
    }
    return NULL;
}

/* ---- places ---- */

static const Elf64_Sym *symbol_at(const struct image *image, uintptr_t offset) {
    size_t low = 0, high = image->n_symbols;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const Elf64_Sym *symbol = &image->symbols[middle];
        if (offset < symbol->st_value) {
            high = middle;
        } else if (offset - symbol->st_value >= symbol->st_size) {
            low = middle + 1;
        } else {
            return symbol;
        }
    }
    return NULL;
}

static const char *name_of(const struct image *image, const Elf64_Sym *symbol) {
    const char *end = image->names + image->names_bytes;
    const char *name =
        symbol->st_name < image->names_bytes ? text_at(image->names + symbol->st_name, end) : "";
    if (name[0] != '\0') {
        return name;
    }
    return image->text_low + symbol->st_value == image->entry ? "top level" : "lambda";
}

static struct ag_guile_place find_in_image(const struct image *image, uintptr_t pc) {
    const uintptr_t base = image->text_low - image->start;
    const Elf64_Sym *symbol = symbol_at(image, pc - image->text_low);
    const struct row *row = row_at(image, (uint32_t)(pc - image->start));
    const uint32_t low = symbol ? (uint32_t)(base + symbol->st_value) : 0;
    const struct row *first =
        symbol ? first_row(image, low, low + (uint32_t)symbol->st_size) : NULL;
    /* A line of another file belongs to a macro. In that case the line of the code before it is
     * used. */
    while (row && first && row > first && row->file != first->file) {
        row--;
    }
    if (row && row->offset < low) {
        row = first; /* the row belongs to the previous procedure */
    }
    const char *file = first ? file_of(image, first->file) : NULL;
    char library_file[PATH_BYTES];
    if (file && image->is_library) {
        ag_join_text(library_file, sizeof(library_file),
                     (const char *const[]){AG_GUILE_LIBRARY, file, NULL});
        file = library_file;
    }
    const struct allogram_function_options options = {
        .size = sizeof(options),
        .name = symbol ? name_of(image, symbol) : "lambda",
        .file = file,
        .runtime = "guile",
        .line = first ? first->line : 0,
    };
    return (struct ag_guile_place){.function = allogram_register_function(&options),
                                   .line = row ? row->line : 0};
}

static bool is_in_primitive(uintptr_t pc, uintptr_t frame) {
    enum { CODE_MOST = 64 }; /* bytes of code of a primitive */
    uintptr_t words[2];
    const uintptr_t procedure = ag_guile_word(frame - sizeof(uintptr_t));
    return procedure != 0 && procedure % sizeof(uintptr_t) == 0 &&
           ag_readable_copy(words, procedure, sizeof(words)) &&
           (words[0] & AG_GUILE_TYPE_MASK) == AG_GUILE_PROCEDURE &&
           (words[0] & AG_GUILE_IS_PRIMITIVE) != 0 && pc - words[1] < CODE_MOST;
}

AG_COLD static struct ag_guile_place find_place(uintptr_t pc, uintptr_t frame) {
    const struct image *image = is_in_primitive(pc, frame) ? NULL : find_image(pc);
    return image ? find_in_image(image, pc) : (struct ag_guile_place){.function = 0};
}

/* Stores the place. If the table is full, or another thread or the code that a signal handler
 * interrupted is storing into the same element, nothing is stored. */
static void remember(struct place *place, uintptr_t pc, struct ag_guile_place found) {
    uintptr_t was = 0;
    if (atomic_load_explicit(&n_places, memory_order_relaxed) < PLACES_MOST &&
        atomic_compare_exchange_strong_explicit(&place->pc, &was, PLACE_BUSY, memory_order_relaxed,
                                                memory_order_relaxed)) {
        atomic_fetch_add_explicit(&n_places, 1, memory_order_relaxed);
        place->found = found;
        /* release: pairs with the acquire in ag_guile_place_of */
        atomic_store_explicit(&place->pc, pc, memory_order_release);
    }
}

struct ag_guile_place ag_guile_place_of(uintptr_t pc, uintptr_t frame) {
    uint32_t at = (uint32_t)((pc * UINT64_C(0x9e3779b97f4a7c15)) >> 46); /* 64 - log2(PLACES) */
    for (;; at = (at + 1) % PLACES) {
        const uintptr_t known = atomic_load_explicit(&places[at].pc, memory_order_acquire);
        if (AG_LIKELY(known == pc)) {
            return places[at].found;
        }
        if (known == 0) {
            const struct ag_guile_place found = find_place(pc, frame);
            remember(&places[at], pc, found);
            return found;
        }
    }
}
