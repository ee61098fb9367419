/* phases.c: a program in phases, for views that follow a range of time. It keeps blocks, then makes
 * temporary blocks (freed before the next allocation), then holds much memory, which a second
 * thread frees, then leaks.
 *
 *     keep_early      100 blocks of 1,000 bytes, freed at the end
 *     make_temporary  20,000 blocks of 64 bytes, each freed at once
 *     hold_much       1,000 blocks of 2,000 bytes, freed by another thread
 *     forget          50 blocks of 300 bytes, never freed */
#include <pthread.h>
#include <time.h>

#include "../say.h"

enum { EARLY = 100, TEMPORARY = 20000, MUCH = 1000, FORGOTTEN = 50 };

static void *early[EARLY], *much[MUCH];

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

__attribute__((noinline)) static void keep_early(void) {
    for (int i = 0; i < EARLY; i++) {
        early[i] = malloc(1000);
        OPAQUE(early[i]);
    }
}

__attribute__((noinline)) static void make_temporary(void) {
    for (int i = 0; i < TEMPORARY; i++) {
        void *block = malloc(64);
        OPAQUE(block);
        free(block);
        if (i % 1000 == 0) {
            pause_ms(3);
        }
    }
}

__attribute__((noinline)) static void hold_much(void) {
    for (int i = 0; i < MUCH; i++) {
        much[i] = malloc(2000);
        OPAQUE(much[i]);
        if (i % 100 == 0) {
            pause_ms(3);
        }
    }
}

__attribute__((noinline)) static void *let_go(void *argument) {
    for (int i = 0; i < MUCH; i++) {
        free(much[i]);
    }
    return argument;
}

__attribute__((noinline)) static void forget(void) {
    for (int i = 0; i < FORGOTTEN; i++) {
        void *block = malloc(300);
        OPAQUE(block);
    }
}

int main(int n_arguments, char **arguments) {
    pthread_t thread;
    keep_early();
    pause_ms(40);
    make_temporary();
    pause_ms(40);
    hold_much();
    pause_ms(40);
    pthread_create(&thread, NULL, let_go, NULL);
    pthread_join(thread, NULL);
    pause_ms(40);
    if (n_arguments < 2 || arguments[1][0] != 'b') { /* with the argument "before" nothing leaks */
        forget();
    }
    pause_ms(20);
    for (int i = 0; i < EARLY; i++) {
        free(early[i]);
    }
    return 0;
}
