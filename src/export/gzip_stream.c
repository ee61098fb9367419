/* gzip_stream.c: zlib's deflate with a gzip wrapper, through one buffer. */
#include "export/gzip_stream.h"

#include <stdlib.h>
#include <zlib.h>

enum { BUFFER_BYTES = 1 << 16, LEVEL = 6, WINDOW_BITS = 15, GZIP_WRAPPER = 16, MEMORY_LEVEL = 8 };

struct ag_gzip {
    FILE *out;
    z_stream stream;
    size_t n_in;
    unsigned char in[BUFFER_BYTES], deflated[BUFFER_BYTES];
};

struct ag_gzip *ag_gzip_new(FILE *out) {
    struct ag_gzip *gzip = calloc(1, sizeof(*gzip));
    if (gzip && deflateInit2(&gzip->stream, LEVEL, Z_DEFLATED, WINDOW_BITS + GZIP_WRAPPER,
                             MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(gzip);
        return NULL;
    }
    if (gzip) {
        gzip->out = out;
    }
    return gzip;
}

static void flush(struct ag_gzip *gzip, int how) {
    int r;
    gzip->stream.next_in = gzip->in;
    gzip->stream.avail_in = (uInt)gzip->n_in;
    do {
        gzip->stream.next_out = gzip->deflated;
        gzip->stream.avail_out = BUFFER_BYTES;
        r = deflate(&gzip->stream, how);
        fwrite(gzip->deflated, 1, BUFFER_BYTES - gzip->stream.avail_out, gzip->out);
    } while (gzip->stream.avail_out == 0 && r == Z_OK);
    gzip->n_in = 0;
}

void ag_gzip_put(struct ag_gzip *gzip, const void *bytes, size_t n_bytes) {
    const unsigned char *from = bytes;
    for (size_t i = 0; i < n_bytes; i++) {
        if (gzip->n_in == BUFFER_BYTES) {
            flush(gzip, Z_NO_FLUSH);
        }
        gzip->in[gzip->n_in++] = from[i];
    }
}

struct ag_gzip *ag_gzip_finish(struct ag_gzip *gzip) {
    flush(gzip, Z_FINISH);
    deflateEnd(&gzip->stream);
    free(gzip);
    return NULL;
}
