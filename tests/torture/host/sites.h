/* sites.h: the functions of torture programs that allocate, and count what they allocate (truth.h).
 * Each has its number in its name. By this number the driver (trace_truth.py) compares the counts
 * of the trace with those of the site. */
#ifndef TORTURE_SITES_H
#define TORTURE_SITES_H

#include <stddef.h>

#include "truth.h"

/* Hides a value from the compiler. */
#define OPAQUE(value) __asm__ volatile("" : "+r"(value) : : "memory")

#define SITE_ATTRIBUTES __attribute__((noinline, noclone, used))

/* A site: `call` is the expression that allocates n bytes. */
#define SITE(number, name, call)                             \
    SITE_ATTRIBUTES void *site_##number##_##name(size_t n) { \
        truth_begin(number, n);                              \
        void *block = call;                                  \
        OPAQUE(block);                                       \
        truth_done(number, n, block);                        \
        return block;                                        \
    }

/* Plugin k has the sites 32 + 2 k and the next (variants.py), C++ code 44 and 45 (cxx_plugin.cc),
 * generated code 48 to 95 (fresh_source.py). */
enum {
    N_GENERAL_SITES = 20, /* 0 .. 19: for block_make, with any size */
    N_ODD_SITES = 4,      /* 22 .. 25: functions that compute the size themselves (strdup ...) */
    MARK_SITE = 30,       /* each process has one block here: MARK_BYTES + its number bytes */
    MARK_BYTES = 4096,
};

typedef void *site_function(size_t n);
extern site_function *const general_sites[N_GENERAL_SITES];

void *site_0_malloc(size_t n);
void *site_1_malloc(size_t n);
void *site_2_malloc(size_t n);
void *site_3_malloc(size_t n);
void *site_10_calloc(size_t n);
void site_mark(unsigned number);

/* A block of at least n bytes, n < 900, from one of the odd sites. */
void *block_make_odd(unsigned site, size_t n);
/* A block of n bytes, n >= BLOCK_LEAST_BYTES, from the general site of this number. NULL when there
 * is no memory. */
void *block_make(unsigned site, size_t n);
/* realloc and reallocarray: a free of the old block and an allocation at a site of their own. */
void *block_resize(void *block, size_t n);
void block_free(void *block);

#endif
