/* temporary.c: how many blocks are freed before the next allocation of their thread.
 *   1000 rounds: malloc free                      1000 temporary
 *   1000 rounds: malloc malloc free free          the second of each pair: freed first (newest first): 1000 temporary
 *   1000 rounds: malloc malloc, oldest first      the second is freed after no further allocation too: 1000 temporary
 *   500 x realloc of a block just made            the old block dies at once: 500 temporary, and so does the new one: 500
 *   10 blocks freed at the end, oldest first      only the last made of all: 1
 * With --within=1 also the first of each pair (2000): one allocation lies between, and of the last ten one more.
 *
 * @allocated_blocks 1000 + 2000 + 2000 + 1000 + 10
 * @freed_blocks     6010
 * @in_use_blocks    0
 * @temporary_blocks 4001
 * @within           1 6002
 */
#include "say.h"

static void *make(size_t size)
{
    void *block = malloc(size);
    OPAQUE(block);
    return block;
}

int main(void)
{
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
