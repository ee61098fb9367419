/* source_path.h: the names of source files, as compilers record them, to the paths that a person
 * would open. */
#ifndef AG_SOURCE_PATH_H
#define AG_SOURCE_PATH_H

#include <stddef.h>

/* FILE below FOLDER (where the compiler ran) unless it is absolute or FOLDER is not, with "." and
 * "x/.." taken out:
 * "/build/../src/a.c" is "/src/a.c". FOLDER may be NULL. -ENAMETOOLONG: it does not fit. */
int ag_source_path(const char *folder, const char *file, char *ret_path, size_t capacity);

#endif
