/* image_cfi.h: a copy of the unwind tables of one mapped file: .eh_frame, and .debug_frame in Go
 * programs. If the linker wrote no sorted header for a table (in static programs), image_cfi.c
 * builds an index. */
#ifndef AG_IMAGE_CFI_H
#define AG_IMAGE_CFI_H

#include <stdint.h>

struct ag_cfi_entry;
struct ag_cfi_row;
struct ag_image_cfi; /* NULL: there are no tables */
struct ag_remote_elf;

/* Returns NULL if the file has no tables, or if out of memory. */
struct ag_image_cfi *ag_image_cfi_new(const struct ag_remote_elf *elf);
struct ag_image_cfi *ag_image_cfi_free(struct ag_image_cfi *cfi);
/* Finds the row (the rules to find the caller's frame) for the instruction at ADDRESS of the file.
 * The row contains the rule for the register WANTED. Returns 0; -ENOENT: no entry covers the
 * address; or another negative errno. */
int ag_image_cfi_find(const struct ag_image_cfi *cfi, uint64_t address, uint32_t wanted,
                      struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry);
/* Finds the function that contains ADDRESS of the file. Returns the same as ag_image_cfi_find. The
 * addresses in *ret_entry are those of the file, in both functions. */
int ag_image_cfi_function(const struct ag_image_cfi *cfi, uint64_t address,
                          struct ag_cfi_entry *ret_entry);

#endif
