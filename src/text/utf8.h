/* utf8.h: decodes untrusted text, code point by code point, and encodes code points. */
#ifndef AG_UTF8_H
#define AG_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_UTF8_REPLACEMENT = 0xfffd, AG_UTF8_BYTES = 4 };

/* Returns the next code point of a terminated string; *text moves past it. A byte that is not part
 * of valid UTF-8 yields AG_UTF8_REPLACEMENT and is skipped alone. Returns 0 at the end. */
uint32_t ag_utf8_next(const char **text);
/* Writes a code point without a terminator. Returns the bytes written, at most AG_UTF8_BYTES. */
size_t ag_utf8_put(char *to, uint32_t code_point);

/* Whether a terminal might interpret the code point instead of showing it: C0 and C1 controls, DEL,
 * and marks that change the direction of text, which can make one name look like another. */
bool ag_utf8_is_control(uint32_t code_point);
unsigned ag_utf8_columns(uint32_t code_point); /* 0, 1 or 2 columns of a terminal, approximately */

#endif
