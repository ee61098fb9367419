/* growing.c: a program whose memory grows by known amounts after a line arrives on standard input.
 * Then it prints "grown" and waits to be killed.
 *
 * The program makes 60 rounds. In each round keep_three maps 3 MiB, keep_one maps 1 MiB, and
 * keep_heap takes 64 KiB by brk; these functions write to each page. give_back maps 1 MiB and
 * unmaps it without a write. */
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 60, MIB = 1 << 20, HEAP_BYTES = 64 << 10, PAGE_BYTES = 4096 };

__attribute__((noinline)) void touch(char *bytes, long n_bytes) {
    for (long at = 0; at < n_bytes; at += PAGE_BYTES) {
        ((volatile char *)bytes)[at] = 1;
    }
    __asm__ volatile("");
}

static char *map(long n_bytes) {
    return mmap(NULL, (size_t)n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

__attribute__((noinline)) void keep_three(void) {
    touch(map(3L * MIB), 3L * MIB);
    __asm__ volatile("");
}

__attribute__((noinline)) void keep_one(void) {
    touch(map(MIB), MIB);
    __asm__ volatile("");
}

__attribute__((noinline)) void keep_heap(void) {
    touch(sbrk(HEAP_BYTES), HEAP_BYTES);
    __asm__ volatile("");
}

__attribute__((noinline)) void give_back(void) {
    munmap(map(MIB), MIB);
    __asm__ volatile("");
}

int main(void) {
    const struct timespec pause_time = {.tv_nsec = 5000000};
    static char line[16]; /* the program does not use stdio, which would use the heap */
    if (write(STDOUT_FILENO, "ready\n", 6) != 6 || read(STDIN_FILENO, line, sizeof line) <= 0) {
        return 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        keep_three();
        keep_one();
        keep_heap();
        give_back();
        nanosleep(&pause_time, NULL);
    }
    if (write(STDOUT_FILENO, "grown\n", 6) != 6) {
        return 1;
    }
    pause();
    return 0;
}
