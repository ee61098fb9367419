/* data_block.h: encodes numbers as bytes, and bytes as a part of an HTML file.
 *
 * A block is a <script> of a type that no browser runs: base64 of zlib-compressed bytes, so that
 * its contents cannot be markup. The page decodes a block when it needs it. */
#ifndef AG_DATA_BLOCK_H
#define AG_DATA_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ag_byte_list { /* zero-initialise; freed by ag_byte_list_done */
    uint8_t *bytes;
    size_t count, capacity;
    bool is_short; /* out of memory: the contents are incomplete */
};
void ag_byte_list_add(struct ag_byte_list *list, const void *bytes, size_t count);
void ag_byte_list_number(struct ag_byte_list *list, uint64_t number);
void ag_byte_list_signed(struct ag_byte_list *list, int64_t number); /* zigzag */
void ag_byte_list_done(struct ag_byte_list *list);

/* Writes LIST as the block ID of trace number TRACE ("b0-frames"). 0 or -ENOMEM. */
int ag_data_block_write(FILE *out, unsigned trace, const char *id, const struct ag_byte_list *list);

#endif
