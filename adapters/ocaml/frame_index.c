/* frame_index.c: reads the frame tables in the file of an OCaml program, for reports: finds the
 * debug information of a return address.
 *
 * caml_frametable is a list of addresses, one per module, with 0 at its end. Each address is that
 * of a table: the number of descriptors (64 bits), then the descriptors, which begin at multiples
 * of 8 bytes (OCaml 4.11 to 4.14 and 5.0 to 5.3, asmcomp/emitaux.ml):
 *
 *     return address u64 | frame size u16 | number of live values u16 | u16 for each live value
 *     frame size & 2: number of combined allocations u8, u8 for each allocation
 *     frame size & 1: padding to a multiple of 4, then u32 offsets from their own position to debug
 *                     information: one, or one for each allocation; 0: none
 *
 * A frame size of 65535 is that of caml_start_program, whose descriptor has neither of the two
 * optional parts. */
#include "frame_index.h"

#include <stdlib.h>

#include "base/little_endian.h"

enum { NO_FRAME = 0xffff, HAS_DEBUG = 1, HAS_ALLOCATIONS = 2, HEAD_BYTES = 12 };

static bool frame_index_add(struct ag_ocaml_frame_index *index, uint64_t return_address,
                            uint64_t debug_info) {
    if (index->n_entries == index->capacity) {
        const size_t capacity = index->capacity == 0 ? 4096 : 2 * index->capacity;
        void *entries = reallocarray(index->entries, capacity, sizeof(*index->entries));
        if (entries == NULL) {
            return false;
        }
        index->entries = entries;
        index->capacity = capacity;
    }
    index->entries[index->n_entries++] =
        (struct ag_ocaml_frame_entry){.return_address = return_address, .debug_info = debug_info};
    return true;
}

/* The first debug information of the offsets at place AT of a descriptor that begins at ADDRESS. */
static uint64_t first_debug_info(const unsigned char *bytes, uint64_t address, size_t at,
                                 unsigned n_offsets) {
    for (unsigned i = 0; i < n_offsets; i++) {
        const uint32_t offset = ag_get_32(bytes + at + 4 * (size_t)i);
        if (offset != 0) {
            return address + at + 4 * (size_t)i + offset;
        }
    }
    return 0;
}

/* Reads one descriptor. Returns its length with padding; 0: damaged, or out of memory. */
static size_t read_descriptor(struct ag_ocaml_frame_index *index, struct ag_decoder_file *file,
                              uint64_t address) {
    size_t n_bytes = 0;
    uint64_t return_address = 0, debug_info = 0;
    const unsigned char *bytes = ag_decoder_bytes(file, address, &n_bytes);
    if (bytes == NULL || n_bytes < HEAD_BYTES || !ag_decoder_word(file, address, &return_address)) {
        return 0;
    }
    const unsigned size = ag_get_16(bytes + 8), n_live = ag_get_16(bytes + 10);
    const unsigned flags = size == NO_FRAME ? 0 : size & (HAS_DEBUG | HAS_ALLOCATIONS);
    size_t at = HEAD_BYTES + 2 * (size_t)n_live;
    unsigned n_offsets = 1;
    if (flags & HAS_ALLOCATIONS) {
        if (at >= n_bytes) {
            return 0;
        }
        n_offsets = bytes[at];
        at += 1 + (size_t)n_offsets;
    }
    if (flags & HAS_DEBUG) {
        at = (at + 3) & ~(size_t)3;
        if (at > n_bytes || n_bytes - at < 4 * (size_t)n_offsets) {
            return 0;
        }
        debug_info = first_debug_info(bytes, address, at, n_offsets);
        at += 4 * (size_t)n_offsets;
    }
    return frame_index_add(index, return_address, debug_info) ? (at + 7) & ~(size_t)7 : 0;
}

static int frame_index_compare(const void *left, const void *right) {
    const struct ag_ocaml_frame_entry *a = left, *b = right;
    return (a->return_address > b->return_address) - (a->return_address < b->return_address);
}

void ag_ocaml_frame_index_read(struct ag_ocaml_frame_index *index, struct ag_decoder_file *file,
                               uint64_t tables) {
    /* LEFT bounds the work: tables do not overlap, but a damaged list may repeat a table. */
    uint64_t table = 0, n_descriptors = 0, left = ag_decoder_file_bytes(file);
    for (; left > 0 && ag_decoder_word(file, tables, &table) && table != 0;
         tables += sizeof(table)) {
        if (!ag_decoder_word(file, table, &n_descriptors)) {
            continue;
        }
        uint64_t at = table + sizeof(n_descriptors);
        left -= left < sizeof(table) ? left : sizeof(table);
        for (uint64_t i = 0; i < n_descriptors && left > 0; i++) {
            const size_t length = read_descriptor(index, file, at);
            if (length == 0) {
                break;
            }
            at += length;
            left -= left < length ? left : length;
        }
    }
    if (index->n_entries > 0) {
        qsort(index->entries, index->n_entries, sizeof(index->entries[0]), frame_index_compare);
    }
}

uint64_t ag_ocaml_frame_index_find(const struct ag_ocaml_frame_index *index,
                                   uint64_t return_address) {
    const struct ag_ocaml_frame_entry key = {.return_address = return_address};
    const struct ag_ocaml_frame_entry *found =
        index->n_entries > 0
            ? bsearch(&key, index->entries, index->n_entries, sizeof(key), frame_index_compare)
            : NULL;
    return found != NULL ? found->debug_info : 0;
}

void ag_ocaml_frame_index_clear(struct ag_ocaml_frame_index *index) {
    free(index->entries);
    *index = (struct ag_ocaml_frame_index){0};
}
