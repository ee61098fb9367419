/* libc_malloc.c: the program has no malloc of its own. */
#include "own_malloc.h"

const int handler_safe_malloc = 0;
