/* endings.c: ends in the way that its argument names, after allocating 1000 blocks of 10 bytes, and
 * freeing 400 of them. An atexit handler (run by exit, by return, and when pthread_exit has ended
 * the last thread) allocates a block of 7 bytes, an at_quick_exit handler a block of 13 bytes. In
 * the counts below, `handler` is 1 if such a handler runs, otherwise 0.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @allocated_blocks 1000 + handler
 * @freed_blocks     400
 * @ghost_frees      0
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "../say.h"

static void keep(size_t size) {
    void *block = malloc(size);
    OPAQUE(block);
}
static void at_exit(void) {
    keep(7);
}
static void at_quick(void) {
    keep(13);
}

static void end(const char *how) {
    if (strcmp(how, "exit") == 0) {
        exit(3);
    } else if (strcmp(how, "_exit") == 0) {
        _exit(4);
    } else if (strcmp(how, "_Exit") == 0) {
        _Exit(5);
    } else if (strcmp(how, "quick_exit") == 0) {
        quick_exit(6);
    } else if (strcmp(how, "abort") == 0) {
        abort();
    } else if (strcmp(how, "kill") == 0) {
        kill(getpid(), SIGKILL);
    } else if (strcmp(how, "segv") == 0) {
        volatile size_t nowhere = 8;
        *(volatile int *)nowhere = 1;
    } else if (strcmp(how, "term") == 0) {
        raise(SIGTERM);
    } else if (strcmp(how, "pthread_exit") == 0) {
        pthread_exit(NULL);
    }
}

int main(int n_arguments, char **arguments) {
    static void *blocks[1000];
    atexit(at_exit);
    at_quick_exit(at_quick);
    for (int i = 0; i < 1000; i++) {
        blocks[i] = malloc(10);
    }
    for (int i = 0; i < 400; i++) {
        free(blocks[i]);
    }
    say("ends now\n");
    end(n_arguments > 1 ? arguments[1] : "return");
    return 2;
}
