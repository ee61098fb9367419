/* image_cfi.h: a copy of the unwind tables of one mapped file: .eh_frame by its sorted header, or
 * without a header by an index that is built here (static programs), and .debug_frame (Go). */
#ifndef AG_IMAGE_CFI_H
#define AG_IMAGE_CFI_H

#include <stdint.h>

struct ag_cfi_entry;
struct ag_cfi_row;
struct ag_image_cfi; /* NULL: there are no tables */
struct ag_remote_elf;

/* NULL: the file has no tables, or out of memory. */
struct ag_image_cfi *ag_image_cfi_new(const struct ag_remote_elf *elf);
struct ag_image_cfi *ag_image_cfi_free(struct ag_image_cfi *cfi);
/* The row for the instruction at ADDRESS of the file; -ENOENT: no entry covers it. */
int ag_image_cfi_find(const struct ag_image_cfi *cfi, uint64_t address, uint32_t wanted,
                      struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry);
/* The start of the function that contains the address of the file; 0: no entry covers it. */
uint64_t ag_image_cfi_function(const struct ag_image_cfi *cfi, uint64_t address);

#endif
