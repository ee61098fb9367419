/* data_block.h: writes bytes as a block, which is a part of an HTML file.
 *
 * A block is a <script> element of a type that no browser runs. It contains the base64 of
 * zlib-compressed bytes, so its contents cannot be markup. The page decodes a block when it needs
 * it. */
#ifndef AG_DATA_BLOCK_H
#define AG_DATA_BLOCK_H

#include <stdio.h>

#include "table/byte_list.h"

/* Writes LIST as the block ID of trace number TRACE, and frees LIST. The block's element gets an
 * HTML id such as "b0-frames". 0 or -ENOMEM. */
int ag_data_block_write(FILE *out, unsigned trace, const char *id, struct ag_byte_list *list);

#endif
