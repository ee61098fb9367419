/* family.c: every entry point of the malloc family, each a known number of times.
 *
 * Blocks, in order (n x size):
 *   malloc         10 x 100, 1 x 0                        11 blocks  1000 bytes
 *   calloc          5 x (3 * 40), 1 x (0 * 8), overflow fails: 0    6   600
 *   realloc(NULL)   2 x 64                                 2        128
 *   realloc         5 grow 64 -> 200000 (one block, moved or not): 1 free + 1 alloc each time
 *                   sizes 100, 1000, 10000, 100000, 200000           5 311100, 5 freed (64 100 1000 10000 100000 = 111164)
 *   realloc(p, 0)   1 freed (200000); the other of the two (64) is freed below
 *   realloc failing 0
 *   reallocarray    1 x (7 * 9 = 63); then overflow fails: 0;  to 10 * 9 = 90: 1 free + 1 alloc
 *   memalign        1 x 77   posix_memalign 1 x 33, invalid fails: 0   aligned_alloc 1 x 128   valloc 1 x 10   pvalloc 1 x 10
 *   huge            1 x 5 GiB, 1 x 4 GiB - 1 (never touched)
 *   failing malloc  0
 * Then all but 3 of the first malloc'ed (300 bytes) are freed, and free(NULL) is nothing.
 *
 * @allocated_blocks 11 + 6 + 2 + 5 + 2 + 5 + 2
 * @allocated_bytes  1000 + 600 + 128 + 311100 + 63 + 90 + 77 + 33 + 128 + 10 + 10 + (5 << 30) + (4 << 30) - 1
 * @in_use_blocks    3
 * @in_use_bytes     300
 * @ghost_frees      0
 * @threads          1
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>

#include "say.h"

/* C23; there where the C library or a profiler has them. */
__attribute__((weak)) void free_sized(void *address, size_t size);
__attribute__((weak)) void free_aligned_sized(void *address, size_t alignment, size_t size);

static void check(const char *what, int holds)
{
    say("%s %s\n", what, holds ? "right" : "WRONG");
}

int main(void)
{
    void *blocks[10], *empty, *zeroed[6], *moving, *other;
    for (int i = 0; i < 10; i++) {
        blocks[i] = malloc(100);
        memset(blocks[i], 0xee, malloc_usable_size(blocks[i])); /* all that is usable is ours */
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
    volatile size_t half = SIZE_MAX / 2;
    void *volatile failed = calloc(half, 3);
    check("calloc overflow", failed == NULL && errno == ENOMEM);

    moving = realloc(NULL, 64);
    other = realloc(NULL, 64);
    memset(moving, 'm', 64);
    static const size_t sizes[] = {100, 1000, 10000, 100000, 200000};
    for (int i = 0; i < 5; i++) {
        moving = realloc(moving, sizes[i]);
    }
    check("realloc keeps", memcmp(moving, "mmmmmmmmmmmmmmmm", 16) == 0);
    errno = 0;
    volatile size_t impossible = PTRDIFF_MAX;
    failed = realloc(moving, impossible);
    check("failing realloc", failed == NULL && errno == ENOMEM && ((char *)moving)[63] == 'm');
    moving = realloc(moving, 0);
    check("realloc(p, 0)", moving == NULL);

    void *array = reallocarray(NULL, 7, 9);
    errno = 0;
    failed = reallocarray(array, half, 3);
    check("reallocarray overflow", failed == NULL && errno == ENOMEM);
    array = reallocarray(array, 10, 9);

    void *aligned[5];
    aligned[0] = memalign(64, 77);
    check("posix_memalign", posix_memalign(&aligned[1], 4096, 33) == 0);
    aligned[2] = aligned_alloc(128, 128);
    aligned[3] = valloc(10);
    aligned[4] = pvalloc(10);
    check("alignment", (uintptr_t)aligned[0] % 64 == 0 && (uintptr_t)aligned[1] % 4096 == 0 &&
                           (uintptr_t)aligned[2] % 128 == 0 && (uintptr_t)aligned[3] % 4096 == 0 &&
                           (uintptr_t)aligned[4] % 4096 == 0);
    void *untouched = (void *)16;
    errno = 0;
    int r = posix_memalign(&untouched, 3, 33);
    check("posix_memalign invalid", r == EINVAL && untouched == (void *)16 && errno == 0);

    void *huge = malloc((size_t)5 << 30), *nearly = malloc(((size_t)4 << 30) - 1);
    check("huge", huge != NULL && nearly != NULL);
    errno = 0;
    failed = malloc(impossible);
    check("failing malloc", failed == NULL && errno == ENOMEM);

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
