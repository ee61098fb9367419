/* sites.h: the sites of torture programs. A site is a function that allocates and counts its
 * allocations (truth.h). Each site has a number, which is part of its name. By this number the
 * driver (trace_truth.py) compares the site's counts with those of the trace. */
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

/* Plugin k has the sites 32 + 2 k and 33 + 2 k (variants.py), the C++ plugin 44 and 45
 * (cxx_plugin.cc), generated code 48 to 95 (fresh_source.py). */
enum {
    N_GENERAL_SITES = 20, /* sites 0 .. 19, for block_make, with any size */
    N_ODD_SITES = 4,      /* sites 22 .. 25, which compute the size themselves (strdup ...) */
    MARK_SITE = 30,       /* process number N allocates one block of MARK_BYTES + N bytes here */
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

/* Allocates a block of at least n bytes (n < 900) at one of the N_ODD_SITES sites. */
void *block_make_odd(unsigned site, size_t n);
/* Allocates a block of n bytes (n >= BLOCK_LEAST_BYTES) at the general site of this number. Returns
 * NULL if there is no memory. */
void *block_make(unsigned site, size_t n);
/* Calls realloc or reallocarray. Counts a free of the old block, and an allocation at site 20 or
 * 21. */
void *block_resize(void *block, size_t n);
void block_free(void *block);

#endif
