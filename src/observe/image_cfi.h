/* image_cfi.h: a copy of the unwind tables of one mapped file: .eh_frame by its sorted header, or
 * without a header by an index that is built here (static programs), and .debug_frame (Go). */
#ifndef AG_IMAGE_CFI_H
#define AG_IMAGE_CFI_H

#include <stddef.h>
#include <stdint.h>

#include "remote/remote_elf.h"
#include "unwind/eh_frame.h"

struct ag_fde_place {
    uintptr_t first_pc, end_pc, fde;
};
struct ag_cfi_copy { /* all zero: empty */
    uint8_t *bytes;
    struct ag_cfi_tables tables;
    uintptr_t shift;             /* pc in the tables = the file's address + shift */
    struct ag_fde_place *places; /* sorted; NULL: the tables have a sorted header */
    size_t n_places, capacity;
};
struct ag_image_cfi {             /* all zero: none */
    struct ag_cfi_copy copies[2]; /* .eh_frame, .debug_frame */
};

void ag_image_cfi_open(struct ag_image_cfi *cfi, const struct ag_remote_elf *elf);
void ag_image_cfi_close(struct ag_image_cfi *cfi);
/* The row for the instruction at ADDRESS of the file; -ENOENT: no entry covers it. */
int ag_image_cfi_find(const struct ag_image_cfi *cfi, uint64_t address, uint32_t wanted,
                      struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry);
/* The begin of the function that contains the address of the file; 0: no entry covers it. */
uint64_t ag_image_cfi_function(const struct ag_image_cfi *cfi, uint64_t address);

#endif
