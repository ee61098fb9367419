/* libc_malloc.c: is linked into torture programs that use libc's malloc. (Other torture programs
 * contain own_malloc.c.) */
#include "own_malloc.h"

const int handler_safe_malloc = 0;
