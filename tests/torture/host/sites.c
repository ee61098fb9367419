/* sites.c: the sites of torture programs: functions that allocate and count (truth.h). Each site is
 * a function of its own, so that it has a name in the trace. */
#define _GNU_SOURCE
#include "sites.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* clang-format off */
SITE(0, malloc, malloc(n))
SITE(1, malloc, malloc(n))
SITE(2, malloc, malloc(n))
SITE(3, malloc, malloc(n))
SITE(4, malloc, malloc(n))
SITE(5, malloc, malloc(n))
SITE(6, malloc, malloc(n))
SITE(7, malloc, malloc(n))
SITE(8, malloc, malloc(n))
SITE(9, malloc, malloc(n))
SITE(10, calloc, calloc(1, n))
SITE(11, calloc, calloc(n, 1))
SITE(12, realloc, realloc(NULL, n))
SITE(13, reallocarray, reallocarray(NULL, 1, n))
SITE(14, memalign, memalign(128, n))
SITE(15, aligned_alloc, aligned_alloc(32, n))
SITE(16, valloc, valloc(n))
SITE(17, malloc, malloc(n))
SITE(18, malloc, malloc(n))
/* clang-format on */

SITE_ATTRIBUTES void *site_19_posix_memalign(size_t n) {
    void *block = NULL;
    truth_begin(19, n);
    if (posix_memalign(&block, 64, n) != 0) {
        block = NULL;
    }
    truth_done(19, n, block);
    return block;
}

/* Returns a text that has n bytes with its terminator, for functions of the C library that copy a
 * text to a new block (strdup). */
static const char *text_of(size_t n) {
    static __thread char text[1024];
    memset(text, 'x', n - 1);
    text[n - 1] = 0;
    return text;
}

/* Returns a text of wide characters that has n bytes with its terminator. */
static const wchar_t *wide_text_of(size_t n) {
    static __thread wchar_t text[1024];
    wmemset(text, L'x', n / sizeof *text - 1);
    text[n / sizeof *text - 1] = 0;
    return text;
}

/* clang-format off */
SITE(22, strdup, strdup(text_of(n)))
SITE(23, strndup, strndup(text_of(n + 9), n - 1))
SITE(24, wcsdup, wcsdup(wide_text_of(n)))
/* clang-format on */

SITE_ATTRIBUTES void *site_25_pvalloc(size_t n) {
    n = (n + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    truth_begin(25, n);
    void *block = pvalloc(n);
    OPAQUE(block);
    truth_done(25, n, block);
    return block;
}

void *block_make_odd(unsigned site, size_t n) {
    static site_function *const sites[N_ODD_SITES] = {site_22_strdup, site_23_strndup,
                                                      site_24_wcsdup, site_25_pvalloc};
    n = BLOCK_LEAST_BYTES + n % 900 / 16 * 16;
    return sites[site % N_ODD_SITES](n);
}

site_function *const general_sites[N_GENERAL_SITES] = {
    site_0_malloc,   site_1_malloc,        site_2_malloc,    site_3_malloc,
    site_4_malloc,   site_5_malloc,        site_6_malloc,    site_7_malloc,
    site_8_malloc,   site_9_malloc,        site_10_calloc,   site_11_calloc,
    site_12_realloc, site_13_reallocarray, site_14_memalign, site_15_aligned_alloc,
    site_16_valloc,  site_17_malloc,       site_18_malloc,   site_19_posix_memalign,
};

SITE_ATTRIBUTES static void *site_30_mark(size_t n) {
    truth_begin(MARK_SITE, n);
    void *block = malloc(n);
    OPAQUE(block);
    truth_done(MARK_SITE, n, block);
    return block;
}

void site_mark(unsigned number) {
    block_free(site_30_mark(MARK_BYTES + number));
}

SITE_ATTRIBUTES static void *site_20_realloc(void *block, size_t n) {
    struct truth_site *old = truth_free_begin(block);
    truth_begin(20, n);
    void *moved = realloc(block, n);
    OPAQUE(moved);
    truth_free_done(old);
    truth_done(20, n, moved);
    return moved;
}

SITE_ATTRIBUTES static void *site_21_reallocarray(void *block, size_t n) {
    struct truth_site *old = truth_free_begin(block);
    truth_begin(21, n);
    void *moved = reallocarray(block, n, 1);
    OPAQUE(moved);
    truth_free_done(old);
    truth_done(21, n, moved);
    return moved;
}

void *block_make(unsigned site, size_t n) {
    return general_sites[site % N_GENERAL_SITES](n < BLOCK_LEAST_BYTES ? BLOCK_LEAST_BYTES : n);
}

void *block_resize(void *block, size_t n) {
    n = n < BLOCK_LEAST_BYTES ? BLOCK_LEAST_BYTES : n;
    void *moved = n & 1 ? site_20_realloc(block, n) : site_21_reallocarray(block, n);
    if (moved == NULL) { /* impossible for these sizes, unless the machine is out of memory */
        complain("realloc was refused");
        _Exit(97);
    }
    return moved;
}

void block_free(void *block) {
    if (block != NULL) {
        struct truth_site *truth = truth_free_begin(block);
        free(block);
        truth_free_done(truth);
    }
}
