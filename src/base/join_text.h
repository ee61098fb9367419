/* join_text.h: texts one behind the other, where neither malloc nor stdio may be called. */
#ifndef AG_JOIN_TEXT_H
#define AG_JOIN_TEXT_H

#include <stddef.h>

/* Writes PARTS up to its NULL into TO, whose size is n_bytes, at least 1; what finds no room is
 * left out. Ends it with a zero. Safe in a signal handler. */
void ag_join_text(char *to, size_t n_bytes, const char *const parts[]);

#endif
