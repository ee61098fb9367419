/* plain_text.c: writes names into lines of text. Names come from untrusted files: a line feed in a
 * name would end the line and begin a forged one, and an escape sequence would act on the terminal
 * that shows the file. Both are replaced by visible text. */
#include <inttypes.h>
#include <string.h>

#include "export/format_writer.h"
#include "text/utf8.h"

void ag_put_plain(FILE *out, const char *text, char from, char to) {
    const char *at = text ? text : "";
    for (uint32_t c; (c = ag_utf8_next(&at)) != 0;) {
        if (c < 0x80 && c >= 0x20 && c != 0x7f) {
            putc_unlocked(from != 0 && (char)c == from ? to : (char)c, out);
        } else if (ag_utf8_is_control(c)) {
            fprintf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
        } else {
            char bytes[AG_UTF8_BYTES];
            fwrite_unlocked(bytes, 1, ag_utf8_put(bytes, c), out);
        }
    }
}

void ag_put_function(FILE *out, const struct ag_frame *frame, char from, char to) {
    ag_put_plain(out, frame->label, from, to);
}

void ag_put_command(struct ag_export *export) {
    const struct ag_profile_identity *identity = ag_profile_identity(export->profile);
    for (uint32_t i = 0; i < identity->n_arguments; i++) {
        fputs_unlocked(i > 0 ? " " : "", export->out);
        ag_put_plain(export->out, identity->arguments[i], 0, 0);
    }
}

void ag_put_number(FILE *out, uint64_t number) {
    char digits[20]; /* of 2^64 - 1 */
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    fwrite_unlocked(digits + first, 1, sizeof digits - first, out);
}

void ag_put_hex(FILE *out, uint64_t number) {
    char digits[16];
    size_t first = sizeof digits;
    do {
        digits[--first] = "0123456789abcdef"[number & 15];
        number >>= 4;
    } while (number != 0);
    fwrite_unlocked(digits + first, 1, sizeof digits - first, out);
}
