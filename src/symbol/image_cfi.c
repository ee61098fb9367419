/* image_cfi.c: copies the unwind tables of one file, and finds rows and functions in the copy: for
 * the unwinder of `observe` (frame_walk.c), and for names of functions without symbols.
 *
 * .eh_frame gives positions of code relative to itself, so a copy at another address can be used
 * unchanged: the addresses that the copy gives are shifted by the distance between copy and
 * original. .debug_frame has absolute addresses of the file. */
#include "image_cfi.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "remote/remote_elf.h"
#include "unwind/eh_frame.h"

enum {
    MOST_BYTES = 512 << 20,
    MOST_GROWTH = 12, /* limit of a decompressed section, as a multiple of the file's bytes */
};

struct cfi_copy {
    uint8_t *bytes; /* NULL: the file has no such section */
    struct ag_cfi_tables tables;
    uintptr_t shift;             /* pc in the tables = the file's address + shift */
    struct ag_cfi_place *places; /* NULL: the tables have a sorted header */
};
struct ag_image_cfi {
    struct cfi_copy copies[2]; /* .eh_frame, .debug_frame */
};

/* The lowest address of the file's code and data. */
static uint64_t lowest_address(const struct ag_remote_elf *elf) {
    uint64_t lowest = UINT64_MAX;
    for (size_t i = 0; i < elf->n_segments; i++) {
        if (elf->segments[i].p_type == PT_LOAD && elf->segments[i].p_vaddr < lowest) {
            lowest = elf->segments[i].p_vaddr;
        }
    }
    return lowest != UINT64_MAX ? lowest : 0;
}

/* For a file with the linker's sorted header (.eh_frame_hdr): copies the segment that contains the
 * header, from the header or from .eh_frame on, whichever comes first. If the file names no section
 * .eh_frame, the whole segment is copied. Copies nothing if the header has no table. */
static void open_sorted(struct cfi_copy *copy, const struct ag_remote_elf *elf,
                        const Elf64_Phdr *header) {
    const Elf64_Phdr *segment = ag_remote_elf_loaded(elf, header->p_vaddr);
    uint8_t head[AG_EH_FRAME_HEADER_BYTES];
    if (segment == NULL ||
        !ag_remote_elf_read(elf, segment->p_offset + (header->p_vaddr - segment->p_vaddr), head,
                            sizeof head) ||
        !ag_eh_frame_is_sorted(head)) {
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
    const size_t limit = elf->stored_bytes < MOST_BYTES / MOST_GROWTH
                             ? (size_t)elf->stored_bytes * MOST_GROWTH
                             : (size_t)MOST_BYTES;
    uint8_t *bytes = ag_remote_elf_section(elf, name, &address)
                         ? ag_remote_elf_contents(elf, name, limit, &n_bytes)
                         : NULL;
    if (bytes == NULL) {
        return;
    }
    const uintptr_t start = (uintptr_t)bytes;
    const bool is_debug = strcmp(name, ".debug_frame") == 0;
    copy->bytes = bytes;
    copy->shift = is_debug ? 0 : start - address;
    copy->tables = (struct ag_cfi_tables){.low = start,
                                          .high = start + n_bytes,
                                          .debug_frame = is_debug ? start : 0,
                                          .places_pc = lowest_address(elf) + copy->shift};
    const size_t n = ag_eh_frame_count(&copy->tables, start, n_bytes);
    copy->places = calloc(n + 1, sizeof copy->places[0]);
    if (copy->places != NULL) {
        copy->tables.n_places = ag_eh_frame_index(&copy->tables, start, n_bytes, copy->places, n);
        copy->tables.places = copy->places;
    }
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

/* Makes the addresses of an entry that was found (r is 0) those of the file. */
static void shift_back(const struct cfi_copy *copy, int r, struct ag_cfi_entry *entry) {
    if (r == 0) {
        entry->function -= copy->shift;
        entry->end -= copy->shift;
    }
}

int ag_image_cfi_find(const struct ag_image_cfi *cfi, uint64_t address, uint32_t wanted,
                      struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry) {
    int r = -ENOENT;
    for (size_t i = 0; cfi != NULL && i < 2 && r != 0; i++) {
        const struct cfi_copy *copy = &cfi->copies[i];
        if (copy->bytes != NULL) {
            r = ag_eh_frame_find(&copy->tables, address + copy->shift, wanted, ret_row, ret_entry);
            shift_back(copy, r, ret_entry);
        }
    }
    return r;
}

int ag_image_cfi_function(const struct ag_image_cfi *cfi, uint64_t address,
                          struct ag_cfi_entry *ret_entry) {
    int r = -ENOENT;
    for (size_t i = 0; cfi != NULL && i < 2 && r != 0; i++) {
        const struct cfi_copy *copy = &cfi->copies[i];
        if (copy->bytes != NULL) {
            r = ag_eh_frame_function(&copy->tables, address + copy->shift, ret_entry);
            shift_back(copy, r, ret_entry);
        }
    }
    return r;
}
