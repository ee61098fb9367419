/* names.h: interns the texts of look-up results: each different text is stored once, is safe to
 * print, and is valid as long as the symbolizer.
 *
 * An interned text is truncated to AG_NAME_LIMIT_BYTES, and its control characters are replaced by
 * '?', because an escape sequence in the name of a function would reach the user's terminal. */
#ifndef AG_NAMES_H
#define AG_NAMES_H

#include <stddef.h>

#include "table/pointer_map.h"
#include "table/text_store.h"

enum { AG_NAME_LIMIT_BYTES = 16 << 10 };

struct ag_names { /* all zero: empty */
    struct ag_text_store texts;
    struct ag_pointer_map demangled; /* id of a text -> the demangled form of the text */
    size_t n_bytes;                  /* approximate memory of all interned texts */
};

/* Returns the interned copy of TEXT; NULL: TEXT is NULL, or out of memory. */
const char *ag_names_keep(struct ag_names *names, const char *text);
/* Returns the name of the function with the linker name LINKAGE as the programmer wrote it:
 * demangled, without the suffixes of compilers, not empty. NULL: LINKAGE is NULL or empty, or out
 * of memory. */
const char *ag_names_function(struct ag_names *names, const char *linkage);
/* As ag_names_function, but also returns NULL if LINKAGE is not a mangled name. */
const char *ag_names_demangled(struct ag_names *names, const char *linkage);
void ag_names_clear(struct ag_names *names);

#endif
