/* utf8.c: decodes and encodes UTF-8, see utf8.h. The functions of the C library are not used,
 * because they depend on the locale, and reports must not depend on it. */
#include "text/utf8.h"

uint32_t ag_utf8_next(const char **text) {
    const unsigned char *at = (const unsigned char *)*text;
    if (at[0] == 0) {
        return 0;
    }
    (*text)++;
    if (at[0] < 0x80) {
        return at[0];
    }
    unsigned more = at[0] >= 0xf0 ? 3 : at[0] >= 0xe0 ? 2 : 1;
    if (at[0] < 0xc2 || at[0] > 0xf4) {
        return AG_UTF8_REPLACEMENT;
    }
    uint32_t code_point = at[0] & (0x3fu >> more);
    /* the loop also ends at the terminating 0, which is not a continuation byte */
    for (unsigned i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return AG_UTF8_REPLACEMENT;
        }
        code_point = code_point << 6 | (at[i] & 0x3f);
    }
    bool is_overlong = (more == 2 && code_point < 0x800) || (more == 3 && code_point < 0x10000);
    bool is_surrogate = code_point >= 0xd800 && code_point < 0xe000;
    if (is_overlong || is_surrogate || code_point > 0x10ffff) {
        return AG_UTF8_REPLACEMENT;
    }
    *text += more;
    return code_point;
}

size_t ag_utf8_put(char *to, uint32_t code_point) {
    if (code_point < 0x80) {
        to[0] = (char)code_point;
        return 1;
    }
    size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        to[i] = (char)(0x80 | (code_point & 0x3f));
        code_point >>= 6;
    }
    to[0] = (char)((0xf00u >> length & 0xff) | code_point);
    return length;
}

bool ag_utf8_is_control(uint32_t code_point) {
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) || code_point == 0x061c ||
           (code_point >= 0x200e && code_point <= 0x200f) ||
           (code_point >= 0x2028 && code_point <= 0x202e) ||
           (code_point >= 0x2066 && code_point <= 0x2069);
}

unsigned ag_utf8_columns(uint32_t code_point) {
    static const struct range {
        uint32_t first, last;
        unsigned columns;
    } ranges[] = {
        {0x0300, 0x036f, 0}, {0x1100, 0x115f, 2}, {0x200b, 0x200d, 0},   {0x2e80, 0xa4cf, 2},
        {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2}, {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},
        {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (code_point >= ranges[i].first && code_point <= ranges[i].last) {
            return ranges[i].columns;
        }
    }
    return 1;
}
