/* own_allocator.c: a program with an allocator linked into it, so that no preloaded malloc is ever
 * called. Together with detour_preload.c the program checks that each of its allocator calls was
 * counted once. Exit status: 0: each call was counted once; 1: at least one was not, or
 * posix_memalign failed or did not align its block; 2: no library was preloaded. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detour_counts.h"

enum { ROUNDS = 1000 };

static void *volatile block; /* volatile, so that the compiler does not remove the allocations */

static void check_contents(size_t n_bytes) {
    memset(block, 0x5a, n_bytes);
}

int main(void) {
    const struct detour_counts *after = dlsym(RTLD_DEFAULT, "detour_counts");
    if (after == NULL) {
        return 2;
    }
    const struct detour_counts before = *after;
    for (size_t i = 1; i <= ROUNDS; i++) {
        block = malloc(i * 37 % 5000);
        check_contents(i * 37 % 5000);
        block = realloc(block, i * 91 % 9000 + 1);
        check_contents(i * 91 % 9000 + 1);
        free(block);
        block = calloc(i, 3);
        check_contents(i * 3);
        free(block);
        void *aligned = NULL;
        if (posix_memalign(&aligned, 64, i) != 0 || (size_t)aligned % 64 != 0) {
            return 1;
        }
        block = aligned;
        check_contents(i);
        free(block);
    }
    block = malloc(64 << 20); /* so large that malloc maps it separately */
    free(block);
    const struct detour_counts expected = {ROUNDS + 1, 3 * ROUNDS + 1, ROUNDS, ROUNDS, ROUNDS};
    const int is_right = after->n_malloc - before.n_malloc == expected.n_malloc &&
                         after->n_free - before.n_free == expected.n_free &&
                         after->n_calloc - before.n_calloc == expected.n_calloc &&
                         after->n_realloc - before.n_realloc == expected.n_realloc &&
                         after->n_aligned - before.n_aligned == expected.n_aligned;
    if (!is_right) {
        fprintf(
            stderr,
            "malloc %lu of %lu, free %lu of %lu, calloc %lu of %lu, realloc %lu of %lu, aligned %lu of %lu\n",
            after->n_malloc - before.n_malloc, expected.n_malloc, after->n_free - before.n_free,
            expected.n_free, after->n_calloc - before.n_calloc, expected.n_calloc,
            after->n_realloc - before.n_realloc, expected.n_realloc,
            after->n_aligned - before.n_aligned, expected.n_aligned);
    }
    return is_right ? 0 : 1;
}
