/* utf8.h: text from outside, code point by code point. */
#ifndef AG_UTF8_H
#define AG_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_UTF8_REPLACEMENT = 0xfffd, AG_UTF8_BYTES = 4 };

/* The next code point of a terminated string; *text moves behind it. A byte that is not part of
 * valid UTF-8 yields AG_UTF8_REPLACEMENT and is skipped alone. Returns 0 at the end. */
uint32_t ag_utf8_next(const char **text);
size_t ag_utf8_put(char *to,
                   uint32_t code_point); /* bytes written, up to AG_UTF8_BYTES, not terminated */

/* Would a terminal act on it instead of showing it? C0 and C1 controls, DEL, and the marks that
 * turn the direction of text around, with which a name can look like another. */
bool ag_utf8_is_control(uint32_t code_point);
unsigned ag_utf8_columns(uint32_t code_point); /* 0, 1 or 2 columns of a terminal, near enough */

#endif
