/* short_threads.c: 300 threads, ten at a time; each allocates 11 x 21 bytes, frees 10 of them and
 * ends.
 *
 * In the counts below, a ghost free is a free of a block whose allocation was not recorded, and
 * `runtime` stands for further blocks that the C library or the language's runtime allocates; the
 * judge (counting_preload.c) counts them.
 *
 * @allocated_blocks 3300 + runtime
 * @allocated_bytes  3300 * 21 + runtime
 * @ghost_frees      0
 * @threads          301
 * @varies           peak_bytes peak_blocks allocated_blocks allocated_bytes freed_blocks
 * @varies           freed_bytes in_use_blocks in_use_bytes
 * @site             work 3300 3300 * 21
 */
#include <pthread.h>

#include "../say.h"

__attribute__((noinline, noclone)) static void *work(void *unused) {
    void *blocks[11];
    for (int i = 0; i < 11; i++) {
        blocks[i] = malloc(21);
    }
    for (int i = 0; i < 10; i++) {
        free(blocks[i]);
    }
    return unused;
}

int main(void) {
    for (int batch = 0; batch < 30; batch++) {
        pthread_t threads[10];
        for (int i = 0; i < 10; i++) {
            pthread_create(&threads[i], NULL, work, NULL);
        }
        for (int i = 0; i < 10; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    say("300 threads\n");
    return 0;
}
