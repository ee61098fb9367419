/* gzip_stream.h: compresses bytes to a gzip file. Equal input gives equal output: the header has no
 * time and no name. */
#ifndef AG_GZIP_STREAM_H
#define AG_GZIP_STREAM_H

#include <stddef.h>
#include <stdio.h>

struct ag_gzip;
struct ag_gzip *ag_gzip_new(FILE *out); /* NULL: no memory */
void ag_gzip_put(struct ag_gzip *gzip, const void *bytes, size_t n_bytes);
/* Ends the file and frees. Write errors stay in the stream. Returns NULL. */
struct ag_gzip *ag_gzip_finish(struct ag_gzip *gzip);

#endif
