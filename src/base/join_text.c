/* join_text.c: concatenates texts for code that may call neither malloc nor stdio. */
#include "join_text.h"

void ag_join_text(char *to, size_t n_bytes, const char *const parts[]) {
    size_t at = 0;
    for (; *parts; parts++) {
        for (const char *c = *parts; *c && at + 1 < n_bytes; c++) {
            to[at++] = *c;
        }
    }
    to[at] = '\0';
}

void ag_copy_text(char *to, size_t n_bytes, const char *text) {
    ag_join_text(to, n_bytes, (const char *const[]){text, NULL});
}
