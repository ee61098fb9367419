/* source_path.h: converts names of source files, as compilers record them, to paths that can be
 * opened. */
#ifndef AG_SOURCE_PATH_H
#define AG_SOURCE_PATH_H

#include <stddef.h>

/* FILE below FOLDER (where the compiler ran), unless FILE is absolute or FOLDER is not, with "."
 * and "x/.." removed: "/build/../src/a.c" is "/src/a.c". FOLDER may be NULL. -ENAMETOOLONG: it does
 * not fit. */
int ag_source_path(const char *folder, const char *file, char *ret_path, size_t capacity);

#endif
