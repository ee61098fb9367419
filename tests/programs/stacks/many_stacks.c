/* many_stacks.c [LEVELS]: allocates one block in each of 2^LEVELS distinct stacks (default 12
 * levels): each level calls `left` or `right`. The last level calls one of eight functions `way_0`
 * to `way_7`, which the lowest three bits of the path select, and this function calls `make`. A
 * block has 16 + path % 1024 bytes. The block of every odd path is freed at once, the others are
 * kept.
 *
 * @allocated_blocks 4096
 * @allocated_bytes  4096 * 16 + 4 * (1024 * 1023 / 2)
 * @freed_blocks     2048
 * @peak_bytes       2048 * 16 + 4 * (1024 * 1023 / 2 - 512) / 2 + (16 + 1023)
 * @peak_blocks      2049
 * @temporary_blocks 2048
 * @site             make 4096 4096 * 16 + 4 * (1024 * 1023 / 2)
 */
#include <stdint.h>

#include "../say.h"

enum { LEVELS = 12, LEVELS_MOST = 24 };

static void turn(uint32_t path, int levels);

__attribute__((noinline, noclone)) static void left(uint32_t path, int levels) {
    turn(path, levels);
    __asm__ volatile(""); /* no tail call */
}

__attribute__((noinline, noclone)) static void right(uint32_t path, int levels) {
    turn(path, levels);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void make(uint32_t path) {
    void *block = malloc(16 + path % 1024);
    OPAQUE(block);
    if (path & 1) {
        free(block);
    }
    __asm__ volatile("");
}

/* The assembler comments differ, so the compiler does not merge the functions. */
#define WAY(n)                                                              \
    __attribute__((noinline, noclone)) static void way_##n(uint32_t path) { \
        make(path);                                                         \
        __asm__ volatile("/* " #n " */");                                   \
    }
WAY(0)
WAY(1)
WAY(2)
WAY(3)
WAY(4)
WAY(5)
WAY(6)
WAY(7)

__attribute__((noinline, noclone)) static void turn(uint32_t path, int levels) {
    static void (*const ways[])(uint32_t) = {way_0, way_1, way_2, way_3,
                                             way_4, way_5, way_6, way_7};
    if (levels == 0) {
        ways[path % 8](path);
    } else if (path >> (levels - 1) & 1) {
        right(path, levels - 1);
    } else {
        left(path, levels - 1);
    }
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    const int wanted = argc > 1 ? atoi(argv[1]) : LEVELS;
    const int levels = wanted > 0 && wanted <= LEVELS_MOST ? wanted : LEVELS;
    for (uint32_t path = 0; path < UINT32_C(1) << levels; path++) {
        turn(path, levels);
    }
    say("turned\n");
    return 0;
}
