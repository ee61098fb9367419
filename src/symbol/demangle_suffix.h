/* demangle_suffix.h: the suffixes that linkers and compilers append to a name: versions
 * (@GLIBC_2.17) and copies (.cold, .part.0). */
#ifndef AG_DEMANGLE_SUFFIX_H
#define AG_DEMANGLE_SUFFIX_H

#include <stddef.h>

/* The number of the first LENGTH bytes of NAME without suffixes: at least 1 if LENGTH is. */
size_t ag_name_stem_bytes(const char *name, size_t length);

#endif
