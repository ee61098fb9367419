/* own_malloc.h: what a program says of the malloc that it is linked with. */
#ifndef TORTURE_OWN_MALLOC_H
#define TORTURE_OWN_MALLOC_H

/* 1: handlers that interrupt malloc may call it. */
extern const int handler_safe_malloc;

#endif
