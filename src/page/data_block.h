/* data_block.h: encodes bytes as a part of an HTML file.
 *
 * A block is a <script> of a type that no browser runs: base64 of zlib-compressed bytes, so that
 * its contents cannot be markup. The page decodes a block when it needs it. */
#ifndef AG_DATA_BLOCK_H
#define AG_DATA_BLOCK_H

#include <stdio.h>

#include "table/byte_list.h"

/* Writes LIST as the block ID of trace number TRACE ("b0-frames"). 0 or -ENOMEM. */
int ag_data_block_write(FILE *out, unsigned trace, const char *id, const struct ag_byte_list *list);

#endif
