/* own_malloc.h: a property of the malloc with which a torture program is linked; own_malloc.c or
 * libc_malloc.c defines it. */
#ifndef TORTURE_OWN_MALLOC_H
#define TORTURE_OWN_MALLOC_H

/* 1: a signal handler that interrupts malloc may call malloc. */
extern const int handler_safe_malloc;

#endif
