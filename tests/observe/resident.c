/* resident.c: a program whose resident memory consists of known parts, which the enum lists. The
 * argument names a file to which the program writes. When all parts are resident, it prints "ready"
 * and waits to be killed. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MIB = 1 << 20,
    PAGE = 4096,
    HEAP_BYTES = 12 * MIB, /* blocks of malloc in [heap] */
    ARENA_BYTES = 5 * MIB, /* blocks of malloc in the arena of a thread */
    THREADS = 8,           /* each uses STACK_BYTES of its stack, and STORAGE_BYTES of its TLS */
    STORAGE_BYTES = 128 * 1024,
    STACK_BYTES = 512 * 1024,
    PRIVATE_BYTES = 20 * MIB,  /* the written part of a private mapping of 1.5 times this size */
    SHARED_BYTES = 6 * MIB,    /* shared memory without a file */
    FILE_BYTES = 8 * MIB,      /* a private mapping of a file, all of it read */
    COPIED_BYTES = 3 * MIB,    /* changed part of the mapping of the file */
    CODE_BYTES = MIB,          /* executable memory */
    STATIC_BYTES = 2 * MIB,    /* a static array */
    UNTOUCHED_BYTES = 4 * MIB, /* memory that is only read: most kernels map one page of zeros */
};

static char zeros[STATIC_BYTES];
static __thread char storage[STORAGE_BYTES];
static pthread_barrier_t barrier;

static void touch(char *bytes, long n_bytes) {
    for (long at = 0; at < n_bytes; at += PAGE) {
        ((volatile char *)bytes)[at] = 1;
    }
}

static char look_at(const char *bytes, long n_bytes) {
    char sum = 0;
    for (long at = 0; at < n_bytes; at += PAGE) {
        sum = (char)(sum + ((const volatile char *)bytes)[at]);
    }
    return sum;
}

static char *map(long n_bytes, int protection, int flags, int fd) {
    char *bytes = mmap(NULL, (size_t)n_bytes, protection, flags, fd, 0);
    if (bytes == MAP_FAILED) {
        abort();
    }
    return bytes;
}

static void fill_heap(long n_bytes) {
    enum { BLOCK = 1008 }; /* takes 1024 bytes in glibc, with the header */
    for (long at = 0; at < n_bytes; at += BLOCK + 16) {
        char *block = malloc(BLOCK);
        memset(block, 1, BLOCK);
        __asm__ volatile("" : : "r"(block) : "memory");
    }
}

static void *run(void *is_first) {
    char bytes[STACK_BYTES];
    touch(bytes, sizeof bytes);
    touch(storage, sizeof storage);
    if (is_first) {
        fill_heap(ARENA_BYTES);
    }
    pthread_barrier_wait(&barrier);
    pause();
    return NULL;
}

int main(int argc, char **argv) {
    const int usual = PROT_READ | PROT_WRITE, private = MAP_PRIVATE | MAP_ANONYMOUS;
    const int fd = open(argc > 1 ? argv[1] : "", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, FILE_BYTES) < 0) {
        return 1;
    }
    for (long at = 0; at < FILE_BYTES; at += PAGE) {
        if (pwrite(fd, "x", 1, at) != 1) {
            return 1;
        }
    }
    fill_heap(HEAP_BYTES);
    touch(zeros, sizeof zeros);
    touch(map(PRIVATE_BYTES + PRIVATE_BYTES / 2, usual, private, -1), PRIVATE_BYTES);
    touch(map(SHARED_BYTES, usual, MAP_SHARED | MAP_ANONYMOUS, -1), SHARED_BYTES);
    touch(map(CODE_BYTES, usual | PROT_EXEC, private, -1), CODE_BYTES);
    char *file = map(FILE_BYTES, usual, MAP_PRIVATE, fd);
    volatile char sum = look_at(file, FILE_BYTES);
    touch(file, COPIED_BYTES);
    sum = look_at(map(UNTOUCHED_BYTES, usual, private, -1), UNTOUCHED_BYTES);
    (void)sum;
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (long i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, i == 0 ? zeros : NULL) != 0) {
            return 1;
        }
    }
    pthread_barrier_wait(&barrier);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) {
        return 1;
    }
    pause();
    return 0;
}
