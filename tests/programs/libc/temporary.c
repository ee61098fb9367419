/* temporary.c: how many blocks are freed before the next allocation of their thread.
 *
 *   1000 rounds of one block, freed at once                            1000
 *   1000 rounds of two, newest freed first: the second of each         1000
 *   1000 rounds of two, oldest freed first: again the second of each   1000
 *   500 blocks resized at once (the old one dies) and freed at once    1000
 *   10 blocks freed at the end, oldest first: only the last made          1
 *
 * If one other allocation may lie between the allocation and the free of a block (@within), the
 * first block of each pair (2000) and one more of the ten count, too.
 *
 * @allocated_blocks 1000 + 2000 + 2000 + 1000 + 10
 * @freed_blocks     6010
 * @in_use_blocks    0
 * @temporary_blocks 4001
 * @within           1 6002
 */
#include "../say.h"

static void *make(size_t size) {
    void *block = malloc(size);
    OPAQUE(block);
    return block;
}

int main(void) {
    void *ten[10];
    for (int i = 0; i < 1000; i++) {
        free(make(50));
    }
    for (int i = 0; i < 1000; i++) {
        void *a = make(10), *b = make(20);
        free(b);
        free(a);
    }
    for (int i = 0; i < 1000; i++) {
        void *a = make(10), *b = make(20);
        free(a);
        free(b);
    }
    for (int i = 0; i < 500; i++) {
        void *block = realloc(make(10), 4000);
        OPAQUE(block);
        free(block);
    }
    for (int i = 0; i < 10; i++) {
        ten[i] = make(5);
    }
    for (int i = 0; i < 10; i++) {
        free(ten[i]);
    }
    say("temporary\n");
    return 0;
}
