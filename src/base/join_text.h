/* join_text.h: concatenates texts where neither malloc nor stdio may be called. */
#ifndef AG_JOIN_TEXT_H
#define AG_JOIN_TEXT_H

#include <stddef.h>

/* Copies PARTS, which ends with NULL, one after the other into TO, whose size is n_bytes, at least
 * 1; what does not fit is dropped. Terminates TO. Safe in a signal handler. */
void ag_join_text(char *to, size_t n_bytes, const char *const parts[]);
/* The same for one text. */
void ag_copy_text(char *to, size_t n_bytes, const char *text);

#endif
