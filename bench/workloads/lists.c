/* lists.c: the C program of bench/parts/boehm.py. `lists N` allocates N pairs of blocks from the
 * Boehm collector; one block of each pair has no pointers. The pairs are in lists of a thousand, of
 * which only the last is reachable. The program does almost nothing but allocate. */
#include <gc.h>
#include <stdio.h>
#include <stdlib.h>

struct item {
    struct item *following;
    long values[3];
};

static __attribute__((noinline)) struct item *add(struct item *list, int begins) {
    struct item *item = GC_malloc(sizeof(*item));
    item->following = begins ? NULL : list;
    item->values[0] = *(volatile char *)GC_malloc_atomic(40);
    return item;
}

int main(int argc, char **argv) {
    GC_INIT();
    const long pairs = argc > 1 ? atol(argv[1]) : 1000000;
    struct item *volatile list = NULL;
    for (long i = 0; i < pairs; i++) {
        list = add(list, i % 1000 == 0);
    }
    fprintf(stderr, "allocations %ld\n", 2 * pairs);
    return 0;
}
