/* utf8.h: reads untrusted text by code points. */
#ifndef AG_UTF8_H
#define AG_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_UTF8_REPLACEMENT = 0xfffd, AG_UTF8_BYTES = 4 };

/* Returns the next code point of a terminated string; *text moves past it. A byte that is not part
 * of valid UTF-8 yields AG_UTF8_REPLACEMENT and is skipped alone. Returns 0 at the end. */
uint32_t ag_utf8_next(const char **text);
size_t ag_utf8_put(char *to,
                   /* returns the bytes written, up to AG_UTF8_BYTES, without a terminator */
                   uint32_t code_point);

/* Would a terminal act on it instead of showing it? C0 and C1 controls, DEL, and the marks that
 * change the direction of text, with which one name can look like another. */
bool ag_utf8_is_control(uint32_t code_point);
unsigned ag_utf8_columns(uint32_t code_point); /* 0, 1 or 2 columns of a terminal, approximately */

#endif
