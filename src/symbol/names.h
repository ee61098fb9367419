/* names.h: the texts of look-up results, each interned once, safe to print, valid as long as the
 * symbolizer.
 *
 * An interned text is truncated to AG_NAME_LIMIT_BYTES, and its control characters (an escape
 * sequence in a function's name would reach the user's terminal) are replaced by '?'. */
#ifndef AG_NAMES_H
#define AG_NAMES_H

#include <stddef.h>

#include "table/pointer_map.h"
#include "table/text_store.h"

enum { AG_NAME_LIMIT_BYTES = 16 << 10 };

struct ag_names { /* all zero: empty */
    struct ag_text_store texts;
    struct ag_pointer_map demangled; /* text -> its demangled form */
    size_t n_bytes;                  /* sum of all interned texts */
};

/* The interned copy of TEXT; NULL if TEXT is NULL or out of memory. */
const char *ag_names_keep(struct ag_names *names, const char *text);
/* LINKAGE as the programmer wrote it: demangled, without the suffixes of compilers. Never empty;
 * NULL as above. */
const char *ag_names_function(struct ag_names *names, const char *linkage);
/* The same, but NULL when LINKAGE is not a mangled name. */
const char *ag_names_demangled(struct ag_names *names, const char *linkage);
void ag_names_clear(struct ag_names *names);

#endif
