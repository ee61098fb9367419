/* image_tables.c: finds the unwind tables of a loaded object.
 *
 * Linkers usually write a sorted table (.eh_frame_hdr), and a program header that leads to the
 * table. Without the option --eh-frame-hdr, which musl-gcc and `gcc -static` do not pass, a linker
 * writes neither. Then .eh_frame is in memory, but only a section header in the file leads to it.
 * The file is read once, when the image is first seen, and an index of its functions is made, of 8
 * bytes for each. (Alternatives: A search of the memory for something that looks like .eh_frame
 * would make all pages of read-only data resident. gcc's __register_frame_info, by which such
 * programs register their tables, is called in no program of musl.)
 *
 * The file may have been replaced, and its section headers may be wrong. So the section must lie in
 * a loaded segment, each of its pages is tested before it is read, and the entries are checked as
 * those of any other table. An image for which no usable index can be made has no tables. */
#include "image_tables.h"

#include "base/pages.h"
#include "hook/file_section.h"
#include "hook/loaded_objects.h"
#include "unwind/eh_frame.h"
#include "unwind/readable_range.h"

enum {
    /* Most bytes of a section, and most functions, that are indexed. The index of a million
     * functions takes 8 MiB, and 0.1 to 0.3 s once. */
    TABLE_BYTES_MOST = 128 << 20,
    PLACES_MOST = 1 << 20,
};

static bool is_sorted(uintptr_t eh_frame_hdr) {
    uint8_t header[AG_EH_FRAME_HEADER_BYTES];
    return ag_readable_copy(header, eh_frame_hdr, sizeof(header)) && ag_eh_frame_is_sorted(header);
}

static bool is_readable(uintptr_t low, uintptr_t high) {
    for (uintptr_t page = ag_page_of(low); page < high; page += AG_PAGE_BYTES) {
        if (!ag_readable_word(page)) {
            return false;
        }
    }
    return true;
}

/* Fills *ret_tables with the addresses of .eh_frame in memory. Returns false if .eh_frame cannot be
 * found or read. */
static bool find_unsorted(const struct dl_phdr_info *object, const char *path,
                          struct ag_cfi_tables *ret_tables) {
    struct ag_file_section section;
    if (path[0] != '/' || ag_file_section_find(path, object, ".eh_frame", &section) < 0 ||
        section.n_bytes == 0 || section.n_bytes > TABLE_BYTES_MOST) {
        return false;
    }
    const uintptr_t low = object->dlpi_addr + section.address;
    const ElfW(Phdr) *segment = ag_object_segment(object, low);
    if (!segment || (segment->p_flags & PF_R) == 0 ||
        section.address - segment->p_vaddr > segment->p_filesz ||
        section.n_bytes > segment->p_filesz - (section.address - segment->p_vaddr) ||
        !is_readable(low, low + section.n_bytes)) {
        return false;
    }
    *ret_tables = (struct ag_cfi_tables){.low = low, .high = low + section.n_bytes};
    return true;
}

void ag_image_tables_find(const struct dl_phdr_info *object, const char *path,
                          struct ag_unwind_image *unwind) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const uintptr_t start = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
        if (object->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME && is_sorted(start)) {
            unwind->eh_frame_hdr = start;
        }
    }
    const ElfW(Phdr) *segment =
        unwind->eh_frame_hdr ? ag_object_segment(object, unwind->eh_frame_hdr) : NULL;
    if (segment) {
        unwind->tables_low = object->dlpi_addr + segment->p_vaddr;
        unwind->tables_high = unwind->tables_low + segment->p_memsz;
    }
    struct ag_cfi_tables tables;
    if (unwind->eh_frame_hdr || !find_unsorted(object, path, &tables)) {
        return;
    }
    tables.places_pc = unwind->low;
    const size_t n_bytes = tables.high - tables.low;
    size_t n = ag_eh_frame_count(&tables, tables.low, n_bytes);
    n = n < PLACES_MOST ? n : (size_t)PLACES_MOST;
    struct ag_cfi_place *places = n > 0 ? ag_pages_map(n * sizeof(*places)) : NULL;
    if (!places) {
        return;
    }
    unwind->n_places = ag_eh_frame_index(&tables, tables.low, n_bytes, places, n);
    const size_t used_bytes = ag_page_after(unwind->n_places * sizeof(*places));
    const size_t mapped_bytes = ag_page_after(n * sizeof(*places));
    if (used_bytes < mapped_bytes) {
        ag_pages_unmap((char *)places + used_bytes, mapped_bytes - used_bytes);
    }
    if (unwind->n_places > 0) {
        unwind->places = places;
        unwind->tables_low = tables.low;
        unwind->tables_high = tables.high;
    }
}

void ag_image_tables_release(struct ag_unwind_image *unwind) {
    ag_pages_unmap(unwind->places, unwind->n_places * sizeof(*unwind->places));
    unwind->places = NULL;
    unwind->n_places = 0;
}
