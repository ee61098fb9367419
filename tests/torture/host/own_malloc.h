/* own_malloc.h: a property of the malloc of a torture program. The program contains own_malloc.c or
 * libc_malloc.c, which defines the property. */
#ifndef TORTURE_OWN_MALLOC_H
#define TORTURE_OWN_MALLOC_H

/* 1 if a signal handler that interrupts malloc may call malloc, otherwise 0. */
extern const int handler_safe_malloc;

#endif
