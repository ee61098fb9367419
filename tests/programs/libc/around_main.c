/* around_main.c: allocations before main, in main, at its end and after it. COUNT x BYTES of each:
 *
 *   constructor of priority 101     3 x 101        atexit handler                  5 x 105
 *   constructor of priority 200     2 x 102        thread-specific destructor      6 x 106
 *   constructor                     1 x 103        the value that this frees       1 x 107
 *   main                            4 x 104        destructor                      7 x 108
 *
 * Two of the atexit handler's blocks are freed.
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's
 * runtime allocates; the judge (counting_preload.c) counts them.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @allocated_blocks 3 + 2 + 1 + 4 + 5 + 6 + 1 + 7 + runtime
 * @allocated_bytes  303 + 204 + 103 + 416 + 525 + 636 + 107 + 756 + runtime
 * @freed_blocks     3 + runtime
 * @ghost_frees      0
 * @threads          2
 */
#include <pthread.h>

#include "../say.h"

static void make(int n, size_t size) {
    for (int i = 0; i < n; i++) {
        void *block = malloc(size);
        OPAQUE(block);
    }
}

__attribute__((constructor(101))) static void first(void) {
    make(3, 101);
}
__attribute__((constructor(200))) static void second(void) {
    make(2, 102);
}
__attribute__((constructor)) static void third(void) {
    make(1, 103);
}
__attribute__((destructor)) static void last(void) {
    make(7, 108);
    say("destructor\n");
}

static void at_exit(void) {
    make(3, 105);
    void *a = malloc(105), *b = malloc(105);
    free(b);
    free(a);
    say("atexit\n");
}

static pthread_key_t key;

static void end_of_thread(void *value) {
    make(6, 106);
    free(value);
    say("thread-specific destructor\n");
}

static void *work(void *unused) {
    (void)unused;
    pthread_setspecific(key, malloc(107));
    return NULL;
}

int main(void) {
    pthread_t thread;
    atexit(at_exit);
    pthread_key_create(&key, end_of_thread);
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    make(4, 104);
    say("main\n");
    return 0;
}
