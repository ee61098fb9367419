/* join_text.h: concatenates texts where neither malloc nor stdio may be called. */
#ifndef AG_JOIN_TEXT_H
#define AG_JOIN_TEXT_H

#include <stddef.h>

/* Copies the texts of PARTS, an array that ends with NULL, one after the other into TO, a buffer of
 * n_bytes (at least 1). Bytes that do not fit are dropped. Terminates TO. Safe in a signal
 * handler. */
void ag_join_text(char *to, size_t n_bytes, const char *const parts[]);
/* Copies one text in the same way. */
void ag_copy_text(char *to, size_t n_bytes, const char *text);

#endif
