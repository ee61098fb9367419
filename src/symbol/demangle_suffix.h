/* demangle_suffix.h: what linkers and compilers hang onto a name: versions (@GLIBC_2.17) and copies
 * (.cold, .part.0). */
#ifndef AG_DEMANGLE_SUFFIX_H
#define AG_DEMANGLE_SUFFIX_H

#include <stddef.h>

/* How many of the first LENGTH bytes of NAME the programmer would recognise: at least 1 when LENGTH
 * is. */
size_t ag_name_stem_bytes(const char *name, size_t length);

#endif
