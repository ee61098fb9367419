/* utf8.h: decodes untrusted text, code point by code point, and encodes code points. */
#ifndef AG_UTF8_H
#define AG_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_UTF8_REPLACEMENT = 0xfffd, AG_UTF8_BYTES = 4 };

/* Returns the next code point of the terminated string *text, and advances *text past it. For a
 * byte that is not part of valid UTF-8, returns AG_UTF8_REPLACEMENT and advances by one byte.
 * Returns 0 at the end of the string. */
uint32_t ag_utf8_next(const char **text);
/* Writes a code point to TO, without a terminator. Returns the number of bytes written, at most
 * AG_UTF8_BYTES. */
size_t ag_utf8_put(char *to, uint32_t code_point);

/* Whether a terminal might interpret the code point instead of showing it: C0 and C1 controls, DEL,
 * and marks that change the direction of text, which can make one name look like another. */
bool ag_utf8_is_control(uint32_t code_point);
/* number of columns on a terminal, 0, 1 or 2; approximate */
unsigned ag_utf8_columns(uint32_t code_point);

#endif
