/* libc_malloc.c: linked into torture programs that use libc's malloc, in place of own_malloc.c. */
#include "own_malloc.h"

const int handler_safe_malloc = 0;
