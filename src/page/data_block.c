/* data_block.c: writes compressed, base64-encoded bytes as a part of an HTML file, see
 * data_block.h. base64 is implemented here, because it needs only twenty lines, and a library would
 * be a further dependency. */
#include "page/data_block.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

enum { LINE_BYTES = 3 * 1024 }; /* bytes that give one fwrite of 4 KiB of base64 */

static void encode_base64(FILE *out, const uint8_t *bytes, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char line[LINE_BYTES / 3 * 4];
    size_t used = 0;
    for (size_t i = 0; i < count; i += 3) {
        const size_t left = count - i;
        const uint32_t three = (uint32_t)bytes[i] << 16 |
                               (uint32_t)(left > 1 ? bytes[i + 1] : 0) << 8 |
                               (left > 2 ? bytes[i + 2] : 0);
        line[used++] = digits[three >> 18];
        line[used++] = digits[three >> 12 & 63];
        line[used++] = left > 1 ? digits[three >> 6 & 63] : '=';
        line[used++] = left > 2 ? digits[three & 63] : '=';
        if (used == sizeof(line)) {
            fwrite(line, 1, used, out);
            used = 0;
        }
    }
    fwrite(line, 1, used, out);
}

int ag_data_block_write(FILE *out, unsigned trace, const char *id, struct ag_byte_list *list) {
    uLongf n_packed = compressBound(list->count);
    uint8_t *packed = malloc(n_packed);
    const bool is_packed =
        !list->is_short && packed &&
        compress2(packed, &n_packed, list->bytes ? list->bytes : packed, list->count,
                  /* level= */ 6) == Z_OK;
    if (is_packed) {
        fprintf(out, "<script type=\"text/plain\" id=\"b%u-%s\">", trace, id);
        encode_base64(out, packed, n_packed);
        fputs("</script>\n", out);
    }
    free(packed);
    ag_byte_list_done(list);
    return is_packed ? 0 : -ENOMEM;
}
