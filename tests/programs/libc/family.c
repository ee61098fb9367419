/* family.c: calls every function of the malloc family a known number of times. "none" after a call
 * means that the call must fail and allocate no block. In order:
 *
 *                    how many               blocks   bytes
 *   malloc           10 x 100, 1 x 0            11    1000
 *   calloc           5 x (3 * 40), 1 x 0         6     600   (overflow fails: none)
 *   realloc(NULL)    2 x 64                      2     128
 *   realloc          100 to 200000               5  311100   (each time one is freed, too)
 *   realloc(p, 0)    frees the last of those     0       0   (a failing realloc: none)
 *   reallocarray     63, then 90                 2     153   (the 63 are freed; overflow: none)
 *   aligned          77 + 33 + 128 + 10 + 10     5     258   (invalid alignment: none)
 *   huge             5 GiB, 4 GiB - 1            2           (never touched; failing malloc: none)
 *
 * Then all blocks except 3 of 100 bytes are freed; free(NULL) does nothing.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @allocated_blocks 11 + 6 + 2 + 5 + 2 + 5 + 2
 * @allocated_bytes  1000 + 600 + 128 + 311100 + 153 + 258 + (9 << 30) - 1
 * @in_use_blocks    3
 * @in_use_bytes     300
 * @ghost_frees      0
 * @threads          1
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>

#include "../say.h"

/* Functions of C23. They are called if the C library or a profiler has them. */
__attribute__((weak)) void free_sized(void *address, size_t size);
__attribute__((weak)) void free_aligned_sized(void *address, size_t alignment, size_t size);

static void check(const char *what, int holds) {
    say("%s %s\n", what, holds ? "right" : "WRONG");
}

static void *blocks[10], *empty, *zeroed[6], *moving, *other, *array, *aligned[5], *huge, *nearly;
static volatile size_t impossible = PTRDIFF_MAX, half = SIZE_MAX / 2;

static void plain(void) {
    for (int i = 0; i < 10; i++) {
        blocks[i] = malloc(100);
        memset(blocks[i], 0xee, malloc_usable_size(blocks[i])); /* the program may use all of the
                                                                 * usable size */
    }
    check("usable", malloc_usable_size(blocks[0]) == 104 && malloc_usable_size(NULL) == 0);
    empty = malloc(0);
    check("malloc(0)", empty != NULL);

    for (int i = 0; i < 5; i++) {
        zeroed[i] = calloc(3, 40);
        int sum = 0;
        for (int byte = 0; byte < 120; byte++) {
            sum += ((unsigned char *)zeroed[i])[byte];
        }
        check("calloc zeroes", sum == 0);
    }
    zeroed[5] = calloc(0, 8);
    errno = 0;
    void *volatile failed = calloc(half, 3);
    check("calloc overflow", failed == NULL && errno == ENOMEM);
}

static void resized(void) {
    static const size_t sizes[] = {100, 1000, 10000, 100000, 200000};
    moving = realloc(NULL, 64);
    other = realloc(NULL, 64);
    memset(moving, 'm', 64);
    for (int i = 0; i < 5; i++) {
        moving = realloc(moving, sizes[i]);
    }
    check("realloc keeps", memcmp(moving, "mmmmmmmmmmmmmmmm", 16) == 0);
    errno = 0;
    void *volatile failed = realloc(moving, impossible);
    check("failing realloc", failed == NULL && errno == ENOMEM && ((char *)moving)[63] == 'm');
    moving = realloc(moving, 0);
    check("realloc(p, 0)", moving == NULL);

    array = reallocarray(NULL, 7, 9);
    errno = 0;
    failed = reallocarray(array, half, 3);
    check("reallocarray overflow", failed == NULL && errno == ENOMEM);
    array = reallocarray(array, 10, 9);
}

static void aligned_and_huge(void) {
    aligned[0] = memalign(64, 77);
    check("posix_memalign", posix_memalign(&aligned[1], 4096, 33) == 0);
    aligned[2] = aligned_alloc(128, 128);
    aligned[3] = valloc(10);
    aligned[4] = pvalloc(10);
    static const uintptr_t alignments[] = {64, 4096, 128, 4096, 4096};
    for (int i = 0; i < 5; i++) {
        check("alignment", (uintptr_t)aligned[i] % alignments[i] == 0);
    }
    void *untouched = (void *)16;
    errno = 0;
    int r = posix_memalign(&untouched, 3, 33);
    check("posix_memalign invalid", r == EINVAL && untouched == (void *)16 && errno == 0);

    huge = malloc((size_t)5 << 30);
    nearly = malloc(((size_t)4 << 30) - 1);
    check("huge", huge != NULL && nearly != NULL);
    errno = 0;
    void *volatile failed = malloc(impossible);
    check("failing malloc", failed == NULL && errno == ENOMEM);
}

int main(void) {
    plain();
    resized();
    aligned_and_huge();

    errno = 4711;
    free(NULL);
    free(other);
    check("free keeps errno", errno == 4711);
    for (int i = 3; i < 10; i++) {
        free(blocks[i]);
    }
    free(empty);
    for (int i = 0; i < 6; i++) {
        if (free_sized != NULL && i < 5) {
            free_sized(zeroed[i], 120);
        } else {
            free(zeroed[i]);
        }
    }
    free(array);
    for (int i = 0; i < 5; i++) {
        if (free_aligned_sized != NULL && i == 2) {
            free_aligned_sized(aligned[i], 128, 128);
        } else {
            free(aligned[i]);
        }
    }
    free(huge);
    free(nearly);
    return 0;
}
