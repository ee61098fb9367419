/* many_threads.c: N threads, ten at a time; each allocates 11 x 21 bytes and frees them.
 *
 *     many_threads N */
#include <pthread.h>
#include <stdlib.h>

static void *work(void *unused) {
    void *blocks[11];
    for (int i = 0; i < 11; i++) {
        blocks[i] = malloc(21);
    }
    for (int i = 0; i < 11; i++) {
        free(blocks[i]);
    }
    return unused;
}

int main(int argc, char **argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 0;
    for (int batch = 0; batch < count / 10; batch++) {
        pthread_t threads[10];
        for (int i = 0; i < 10; i++) {
            if (pthread_create(&threads[i], NULL, work, NULL) != 0) {
                return 1;
            }
        }
        for (int i = 0; i < 10; i++) {
            (void)pthread_join(threads[i], NULL); /* the thread's result is not needed */
        }
    }
    return 0;
}
