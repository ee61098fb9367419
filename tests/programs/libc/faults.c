/* faults.c: without an argument, a program without a fault. An argument names a fault to plant;
 * `report` must find that fault, and nothing else.
 *
 * The program keeps 64 blocks of each of three sizes: 4, 5 and 6 KiB. Each size is allocated on a
 * source line of its own. In each of 20000 rounds the oldest block of each size is replaced. So no
 * block is temporary (freed before the next allocation), no line has half of the peak (960 KiB),
 * and all blocks are freed in the end. These arguments plant no fault:
 *
 *   cache      2000 blocks of 64 bytes are allocated before the first round
 *   newest     one block of 64 bytes each round, of which the newest 10000 are kept
 *   older      after the rounds, a child frees 20000 blocks that its parent allocated
 *
 * The faults:
 *
 *   leak       each round loses 48 bytes: 20000 blocks, 960000 bytes
 *   pairs      each round loses 48 bytes on one line of a function, and 32 on another
 *   sometimes  each round makes a block of 48 bytes; every tenth is lost: 2000 blocks, 96000 bytes
 *   storm      each round makes three blocks and frees each at once: 60000 blocks
 *   peak       half-way, 64 blocks of 64 KiB are in use together: 4 MiB
 *   foreign    a thread frees what main makes, 200 batches of 200: 40000 blocks, 1920000 bytes
 *   steps      each 4th round enlarges one buffer by 64 bytes: 4999 reallocations up to 320000
 *   outsized   a line that has made 500 blocks of 32 bytes makes one of 4 MiB
 *   unseen     each round allocates 3 blocks by a name of malloc that is not recorded, and frees
 *              them: 60000 ghosts (frees of unknown blocks); the first ghost at an address does not
 *              count as evidence */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../say.h"

enum { ROUNDS = 20000, KEPT = 64, BATCH = 200, BATCHES = 200, SMALL = 500, LARGE = 4 << 20 };

static void *kept[3][KEPT];

static void work(int round) {
    void **slots[] = {&kept[0][round % KEPT], &kept[1][round % KEPT], &kept[2][round % KEPT]};
    for (int kind = 0; kind < 3; kind++) {
        free(*slots[kind]);
    }
    *slots[0] = malloc(4 << 10);
    *slots[1] = malloc(5 << 10);
    *slots[2] = malloc(6 << 10);
}

__attribute__((noinline)) static void leak(void) {
    void *lost = malloc(48); /* FAULT leak */
    OPAQUE(lost);
}

__attribute__((noinline)) static void pairs(void) {
    void *larger = malloc(48); /* FAULT pairs */
    void *smaller = malloc(32);
    OPAQUE(larger);
    OPAQUE(smaller);
}

static void *lent;

__attribute__((noinline)) static void sometimes(int round) {
    if (round % 10 != 1) {
        free(lent);
    }
    lent = malloc(48); /* FAULT sometimes */
}

static void *cached[2000];

__attribute__((noinline)) static void cache(void) {
    for (int i = 0; i < 2000; i++) {
        cached[i] = malloc(64);
        OPAQUE(cached[i]);
    }
}

static void *newest[10000];

__attribute__((noinline)) static void keep_newest(int round) {
    void **oldest = &newest[round % 10000];
    free(*oldest);
    *oldest = malloc(64);
    OPAQUE(*oldest);
}

__attribute__((noinline)) static void storm(void) {
    for (int i = 0; i < 3; i++) {
        void *block = malloc(100); /* FAULT storm */
        OPAQUE(block);
        free(block);
    }
}

static void *held[KEPT];

__attribute__((noinline)) static void peak(int round) {
    for (int i = 0; i < KEPT && round == ROUNDS / 2; i++) {
        held[i] = malloc(64 << 10); /* FAULT peak */
    }
    for (int i = 0; i < KEPT && round == ROUNDS / 2 + KEPT; i++) {
        free(held[i]);
    }
}

static void *batch[BATCH];

static void *free_batches(void *barrier) {
    for (int i = 0; i < BATCHES; i++) {
        pthread_barrier_wait(barrier);
        for (int k = 0; k < BATCH; k++) {
            free(batch[k]);
        }
        pthread_barrier_wait(barrier);
    }
    return NULL;
}

__attribute__((noinline)) static void foreign(void) {
    pthread_t thread;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, free_batches, &barrier);
    for (int i = 0; i < BATCHES; i++) {
        for (int k = 0; k < BATCH; k++) {
            batch[k] = malloc(48); /* FAULT foreign */
        }
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier); /* only the last block of a batch is temporary */
    }
    pthread_join(thread, NULL);
}

static char *buffer;
static size_t buffer_bytes;

__attribute__((noinline)) static void steps(int round) {
    if (round % 4 == 0) {
        buffer_bytes += 64;
        buffer = realloc(buffer, buffer_bytes); /* FAULT steps */
    }
}

void *__libc_malloc(size_t bytes); /* an internal name of the GNU C library */

__attribute__((noinline)) static void unseen(void) {
    for (int i = 0; i < 3; i++) {
        void *block = __libc_malloc(48);
        OPAQUE(block);
        free(block); /* FAULT unseen */
    }
}

static void *older[20000];

static void make_older(void) {
    for (int i = 0; i < 20000; i++) {
        older[i] = malloc(48);
        OPAQUE(older[i]);
    }
    if (fork() == 0) {
        for (int i = 0; i < 20000; i++) {
            free(older[i]);
        }
        exit(0);
    }
    wait(NULL);
    for (int i = 0; i < 20000; i++) {
        free(older[i]);
    }
}

static void *small[SMALL + 1];

__attribute__((noinline)) static void *make(size_t size) {
    void *block = malloc(size); /* FAULT outsized */
    OPAQUE(block);              /* so that this is no tail call: the stacks need this frame */
    return block;
}

static void outsized(int round) {
    if (round < SMALL) {
        small[round] = make(32);
    } else if (round == SMALL) {
        small[round] = make(LARGE);
    } else if (round <= 2 * SMALL + 1) {
        free(small[round - SMALL - 1]);
    }
}

int main(int argc, char **argv) {
    const char *fault = argc > 1 ? argv[1] : "none";
    if (strcmp(fault, "cache") == 0) {
        cache();
    }
    for (int round = 0; round < ROUNDS; round++) {
        work(round);
        if (strcmp(fault, "newest") == 0) {
            keep_newest(round);
        } else if (strcmp(fault, "leak") == 0) {
            leak();
        } else if (strcmp(fault, "pairs") == 0) {
            pairs();
        } else if (strcmp(fault, "sometimes") == 0) {
            sometimes(round);
        } else if (strcmp(fault, "storm") == 0) {
            storm();
        } else if (strcmp(fault, "peak") == 0) {
            peak(round);
        } else if (strcmp(fault, "steps") == 0) {
            steps(round);
        } else if (strcmp(fault, "outsized") == 0) {
            outsized(round);
        } else if (strcmp(fault, "unseen") == 0) {
            unseen();
        }
    }
    if (strcmp(fault, "older") == 0) {
        make_older();
    }
    if (strcmp(fault, "foreign") == 0) {
        foreign();
    }
    free(buffer);
    free(lent);
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < KEPT; i++) {
            free(kept[kind][i]);
        }
    }
    return 0;
}
