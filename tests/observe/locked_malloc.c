/* locked_malloc.c: a program with an allocator of its own, which takes a mutex. malloc and free end
 * with jumps (tail calls) to functions that hold the mutex, so the stack of a thread in these
 * functions has no frame of malloc or free. The first thread allocates until a line arrives at
 * standard input. Then another thread calls dlopen, which allocates, too, and the program prints
 * "done". */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARENA_BYTES = 64 << 20, CLASSES = 40, HEADER_BYTES = 16 };
static char arena[ARENA_BYTES] __attribute__((aligned(16)));
static size_t used;
static void *freed[CLASSES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int class_of(size_t n) {
    int class = 5;
    while ((size_t)1 << class < n + HEADER_BYTES) {
        class ++;
    }
    return class;
}

static void linger(void) { /* so that a thread is often seen with the lock */
    for (volatile int i = 0; i < 100; i++) {
    }
}

__attribute__((noinline)) static void *allocate(size_t n, size_t least) {
    pthread_mutex_lock(&lock);
    const int class = class_of(n > least ? n : least);
    char *block = freed[class];
    if (block != NULL) {
        memcpy(&freed[class], block, sizeof(void *));
    } else {
        block = arena + used + HEADER_BYTES;
        used += (size_t)1 << class;
        if (used > ARENA_BYTES) {
            abort();
        }
        memcpy(block - HEADER_BYTES, &class, sizeof class);
    }
    linger();
    pthread_mutex_unlock(&lock);
    return block;
}

__attribute__((noinline)) static void release(char *block, int is_last) {
    int class;
    pthread_mutex_lock(&lock);
    memcpy(&class, block - HEADER_BYTES, sizeof class);
    memcpy(block, &freed[class], sizeof(void *));
    freed[class] = block;
    linger();
    (void)is_last;
    pthread_mutex_unlock(&lock); /* a jump, too */
}

void *malloc(size_t n) {
    return allocate(n, 16);
}

void free(void *block) {
    if (block != NULL) {
        release(block, 0);
    }
}

void *calloc(size_t n, size_t size) {
    void *block = malloc(n * size);
    return memset(block, 0, n * size);
}

void *realloc(void *block, size_t n) {
    char *larger = malloc(n);
    if (block != NULL) {
        int class;
        memcpy(&class, (char *)block - HEADER_BYTES, sizeof class);
        const size_t old = ((size_t)1 << class) - HEADER_BYTES;
        memcpy(larger, block, old < n ? old : n);
        free(block);
    }
    return larger;
}

static void *load(void *unused) {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    return library != NULL && dlclose(library) == 0 ? unused : NULL;
}

int main(void) {
    static const char ready[] = "ready\n", done[] = "done\n";
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    pthread_t thread;
    (void)!write(STDOUT_FILENO, ready, sizeof ready - 1);
    while (poll(&input, 1, 0) == 0) {
        for (size_t i = 0; i < 200; i++) {
            void *volatile block = malloc(i);
            for (volatile int k = 0; k < 300; k++) {
            }
            free(block);
        }
    }
    if (pthread_create(&thread, NULL, load, arena) != 0 || pthread_join(thread, NULL) != 0) {
        return 1;
    }
    (void)!write(STDOUT_FILENO, done, sizeof done - 1);
    char line[64];
    while (read(STDIN_FILENO, line, sizeof line) > 0) {
    }
    return 0;
}
