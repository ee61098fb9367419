/* image_cfi.c: copies the unwind tables of one file that the observed process has mapped, and finds
 * rows in the copy, for the unwinder of `observe` (frame_walk.c).
 *
 * .eh_frame gives positions of code relative to itself, so a copy at another address can be used
 * unchanged: the addresses that the copy gives are shifted by the distance between copy and
 * original. .debug_frame has absolute addresses of the file. */
#include "image_cfi.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "remote/remote_elf.h"
#include "table/array.h"
#include "unwind/eh_frame.h"

enum { MOST_BYTES = 512 << 20 };

struct fde_place {
    uintptr_t first_pc, end_pc, fde;
};
struct cfi_copy {
    uint8_t *bytes; /* NULL: the file has no such section */
    struct ag_cfi_tables tables;
    uintptr_t shift;          /* pc in the tables = the file's address + shift */
    struct fde_place *places; /* sorted; NULL: the tables have a sorted header */
    size_t n_places;
};
struct ag_image_cfi {
    struct cfi_copy copies[2]; /* .eh_frame, .debug_frame */
};

static void add_place(void *context, uintptr_t fde, uintptr_t first_pc, uintptr_t code_bytes) {
    struct cfi_copy *copy = context;
    const struct fde_place place = {first_pc, first_pc + code_bytes, fde};
    /* out of memory: what was read so far is used */
    (void)AG_ARRAY_ADD(copy->places, copy->n_places, place);
}

static int by_first_pc(const void *a, const void *b) {
    const struct fde_place *first = a, *second = b;
    return first->first_pc < second->first_pc ? -1 : first->first_pc > second->first_pc;
}

static void index_places(struct cfi_copy *copy, uintptr_t section, size_t n_bytes) {
    ag_eh_frame_walk(&copy->tables, section, n_bytes, add_place, copy);
    if (copy->n_places != 0) {
        qsort(copy->places, copy->n_places, sizeof copy->places[0], by_first_pc);
    }
}

/* For a file with the linker's sorted header (.eh_frame_hdr): copies the end of the header's
 * segment. The copy starts at the header or at .eh_frame, whichever comes first. If the file names
 * no section .eh_frame, the whole segment is copied. */
static void open_sorted(struct cfi_copy *copy, const struct ag_remote_elf *elf,
                        const Elf64_Phdr *header) {
    const Elf64_Phdr *segment = ag_remote_elf_loaded(elf, header->p_vaddr);
    if (segment == NULL) {
        return;
    }
    uint64_t low = header->p_vaddr, eh_frame = 0;
    if (!ag_remote_elf_section(elf, ".eh_frame", &eh_frame)) {
        low = segment->p_vaddr;
    } else if (eh_frame < low && eh_frame >= segment->p_vaddr) {
        low = eh_frame;
    }
    const uint64_t n_bytes = segment->p_vaddr + segment->p_filesz - low;
    uint8_t *bytes = n_bytes <= MOST_BYTES ? malloc(n_bytes) : NULL;
    if (bytes == NULL ||
        !ag_remote_elf_read(elf, segment->p_offset + (low - segment->p_vaddr), bytes, n_bytes)) {
        free(bytes);
        return;
    }
    copy->bytes = bytes;
    copy->shift = (uintptr_t)bytes - low;
    copy->tables = (struct ag_cfi_tables){
        .eh_frame_hdr = header->p_vaddr + copy->shift,
        .low = (uintptr_t)bytes,
        .high = (uintptr_t)bytes + n_bytes,
    };
}

static void open_section(struct cfi_copy *copy, const struct ag_remote_elf *elf, const char *name) {
    uint64_t address = 0;
    size_t n_bytes = 0;
    uint8_t *bytes = ag_remote_elf_section(elf, name, &address)
                         ? ag_remote_elf_contents(elf, name, MOST_BYTES, &n_bytes)
                         : NULL;
    if (bytes == NULL) {
        return;
    }
    const uintptr_t start = (uintptr_t)bytes;
    const bool is_debug = strcmp(name, ".debug_frame") == 0;
    copy->bytes = bytes;
    copy->shift = is_debug ? 0 : start - address;
    copy->tables = (struct ag_cfi_tables){
        .low = start, .high = start + n_bytes, .debug_frame = is_debug ? start : 0};
    index_places(copy, start, n_bytes);
}

struct ag_image_cfi *ag_image_cfi_new(const struct ag_remote_elf *elf) {
    struct ag_image_cfi *cfi = calloc(1, sizeof *cfi);
    if (cfi == NULL) {
        return NULL;
    }
    const Elf64_Phdr *header = ag_remote_elf_segment(elf, PT_GNU_EH_FRAME);
    if (header != NULL) {
        open_sorted(&cfi->copies[0], elf, header);
    }
    if (cfi->copies[0].bytes == NULL) {
        open_section(&cfi->copies[0], elf, ".eh_frame");
    }
    open_section(&cfi->copies[1], elf, ".debug_frame");
    const bool has_any = cfi->copies[0].bytes != NULL || cfi->copies[1].bytes != NULL;
    return has_any ? cfi : ag_image_cfi_free(cfi);
}

struct ag_image_cfi *ag_image_cfi_free(struct ag_image_cfi *cfi) {
    for (size_t i = 0; cfi != NULL && i < 2; i++) {
        free(cfi->copies[i].places);
        free(cfi->copies[i].bytes);
    }
    free(cfi);
    return NULL;
}

static int find_in_copy(const struct cfi_copy *copy, uintptr_t pc, uint32_t wanted,
                        struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry) {
    if (copy->tables.eh_frame_hdr != 0) {
        return ag_eh_frame_find(&copy->tables, pc, wanted, ret_row, ret_entry);
    }
    const size_t after = AG_SORTED_UNTIL(copy->places, copy->n_places, first_pc, pc);
    return after == 0 || pc >= copy->places[after - 1].end_pc
               ? -ENOENT
               : ag_eh_frame_read(&copy->tables, copy->places[after - 1].fde, pc, wanted, ret_row,
                                  ret_entry);
}

int ag_image_cfi_find(const struct ag_image_cfi *cfi, uint64_t address, uint32_t wanted,
                      struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry) {
    int r = -ENOENT;
    for (size_t i = 0; cfi != NULL && i < 2 && r != 0; i++) {
        const struct cfi_copy *copy = &cfi->copies[i];
        if (copy->bytes != NULL) {
            r = find_in_copy(copy, address + copy->shift, wanted, ret_row, ret_entry);
        }
    }
    return r;
}

uint64_t ag_image_cfi_function(const struct ag_image_cfi *cfi, uint64_t address) {
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    for (size_t i = 0; cfi != NULL && i < 2; i++) {
        const struct cfi_copy *copy = &cfi->copies[i];
        if (copy->bytes != NULL &&
            find_in_copy(copy, address + copy->shift, /* wanted= */ 0, &row, &entry) == 0 &&
            entry.function - copy->shift <= address) {
            return entry.function - copy->shift;
        }
    }
    return 0;
}
