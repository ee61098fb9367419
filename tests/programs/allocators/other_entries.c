/* other_entries.c FAMILY: allocates with functions that only one allocator has, and frees with that
 * allocator's functions and with free.
 *
 * FAMILY is moz_arena, jemalloc, mimalloc or tcmalloc. Each of 100 rounds allocates five blocks by
 * FAMILY's own functions (1010 bytes; 3 * 707 bytes; 4040 bytes, which are resized to 9090; 6464
 * aligned bytes) and one block of 3333 bytes by malloc, and frees all. The functions are looked up
 * by name, so any allocator may be linked or preloaded. Exit status 77: the functions were not
 * found. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../say.h"

typedef void *function_1(size_t a);
typedef void *function_2(size_t a, size_t b);
typedef void *function_3(size_t a, size_t b, size_t c);

static union {
    void *address;
    function_1 *one;
    function_2 *two;
    function_3 *three;
} functions[5];

static int find(const char *const names[5]) {
    for (int i = 0; i < 5; i++) {
        functions[i].address = dlsym(RTLD_DEFAULT, names[i]);
        if (!functions[i].address) {
            say("no %s\n", names[i]);
            return 0;
        }
    }
    return 1;
}

static void moz_arena(void) {
    void *blocks[4];
    blocks[0] = functions[0].two(1, 1010);
    blocks[1] = functions[1].three(1, 3, 707);
    blocks[2] = functions[0].two(1, 4040);
    blocks[2] = functions[2].three(1, (size_t)blocks[2], 9090);
    blocks[3] = functions[4].three(1, 64, 6464);
    functions[3].two(1, (size_t)blocks[0]);
    functions[3].two(1, (size_t)blocks[1]);
    free(blocks[2]);
    free(blocks[3]);
}

static void jemalloc(void) {
    void *blocks[4];
    blocks[0] = functions[0].two(1010, 0);
    blocks[1] = functions[0].two(2121, 0x40); /* MALLOCX_ZERO */
    blocks[2] = functions[0].two(4040, 0);
    blocks[2] = functions[1].three((size_t)blocks[2], 9090, 0);
    blocks[3] = functions[0].two(6464, 6); /* MALLOCX_LG_ALIGN(6) */
    functions[2].two((size_t)blocks[0], 0);
    functions[3].three((size_t)blocks[1], 2121, 0);
    free(blocks[2]);
    free(blocks[3]);
}

/* Functions like malloc, calloc, realloc, free and aligned_alloc, under other names. */
static void plain(int is_alignment_first) {
    void *blocks[4];
    blocks[0] = functions[0].one(1010);
    blocks[1] = functions[1].two(3, 707);
    blocks[2] = functions[0].one(4040);
    blocks[2] = functions[2].two((size_t)blocks[2], 9090);
    blocks[3] = is_alignment_first ? functions[4].two(64, 6464) : functions[4].two(6464, 64);
    functions[3].one((size_t)blocks[0]);
    functions[3].one((size_t)blocks[1]);
    free(blocks[2]);
    free(blocks[3]);
}

int main(int argc, char **argv) {
    static const char *const moz[5] = {"moz_arena_malloc", "moz_arena_calloc", "moz_arena_realloc",
                                       "moz_arena_free", "moz_arena_memalign"};
    static const char *const je[5] = {"mallocx", "rallocx", "dallocx", "sdallocx", "free"};
    static const char *const mi[5] = {"mi_malloc", "mi_calloc", "mi_realloc", "mi_free",
                                      "mi_malloc_aligned"};
    static const char *const tc[5] = {"tc_malloc", "tc_calloc", "tc_realloc", "tc_free",
                                      "tc_memalign"};
    const char *family = argc > 1 ? argv[1] : "";
    const char *const *names = strcmp(family, "moz_arena") == 0  ? moz
                               : strcmp(family, "jemalloc") == 0 ? je
                               : strcmp(family, "mimalloc") == 0 ? mi
                                                                 : tc;
    if (!find(names)) {
        return 77;
    }
    for (int i = 0; i < 100; i++) {
        if (names == moz) {
            moz_arena();
        } else if (names == je) {
            jemalloc();
        } else {
            plain(names == tc);
        }
        void *block = malloc(3333);
        OPAQUE(block);
        free(block);
    }
    say("done\n");
    return 0;
}
