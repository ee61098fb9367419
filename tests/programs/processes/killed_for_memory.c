/* killed_for_memory.c: grows until the kernel kills it for lack of memory. It counts its
 * allocations in a file mapped shared, $PROGRESS, which survives the kill: those begun (written
 * before the call) and those done (written after the memory was touched). Every fourth block is
 * allocated by grow_little, the others by grow_much.
 *
 * Arguments: a file, which is mapped and read, so that it is resident; its size in KiB; the size of
 * a block in KiB; the pause after each block in microseconds; the number of blocks after which the
 * program stops growing and waits for a signal that kills it (0: it never stops). */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../say.h"

struct progress { /* read by tests/stress/kernel_kills.py */
    _Atomic uint64_t pid, begun, done;
};

__attribute__((noinline)) static void *grow_little(size_t bytes) {
    void *block = calloc(1, bytes);
    OPAQUE(block);
    return block;
}

__attribute__((noinline)) static void *grow_much(size_t bytes) {
    void *block = malloc(bytes);
    OPAQUE(block);
    return block;
}

int main(int n_arguments, char **arguments) {
    const char *path = getenv("PROGRESS");
    const int fd = path == NULL ? -1 : open(path, O_RDWR);
    struct progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (progress == MAP_FAILED || n_arguments < 6) {
        return 2;
    }
    const size_t file_bytes = (size_t)atol(arguments[2]) << 10,
                 block_bytes = (size_t)atol(arguments[3]) << 10;
    const long pause_us = atol(arguments[4]), n_blocks = atol(arguments[5]);
    const struct timespec pause = {.tv_sec = pause_us / 1000000,
                                   .tv_nsec = pause_us % 1000000 * 1000};
    const int file = open(arguments[1], O_RDONLY);
    volatile const char *data = mmap(NULL, file_bytes, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
        return 2;
    }
    for (size_t at = 0; at < file_bytes; at += 4096) {
        (void)data[at];
    }
    atomic_store(&progress->pid, (uint64_t)getpid());
    for (long i = 0; n_blocks == 0 || i < n_blocks; i++) {
        atomic_store(&progress->begun, (uint64_t)i + 1);
        void *block = i % 4 == 0 ? grow_little(block_bytes) : grow_much(block_bytes);
        if (block == NULL) {
            return 3;
        }
        memset(block, 1, block_bytes);
        atomic_store(&progress->done, (uint64_t)i + 1);
        if (pause_us > 0) {
            nanosleep(&pause, NULL);
        }
    }
    for (;;) {
        sleep(1);
    }
}
