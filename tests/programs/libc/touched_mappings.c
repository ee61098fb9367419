/* touched_mappings.c: maps memory in different ways, touches a part of it, and prints a line of
 * JSON for each of its functions: how many bytes are mapped at the end, how many of these are
 * resident and not resident, and how many more are mapped at the end than in the middle of the
 * run. A forked child maps memory of its own, and prints its line with "of": "child". The memory
 * stays as it is for a while before the program ends, so that the writer looks at it. */
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "../say.h"

#define MIB (UINT64_C(1) << 20)
#define KEPT __attribute__((noinline, noclone))
enum { PAGE = 4096 };
enum { BEFORE_MS = 4000, AFTER_MS = 1500 }; /* the middle of the run is in the first pause */

static char *checked(char *p) {
    if (p == MAP_FAILED) {
        _exit(98);
    }
    OPAQUE(p);
    return p;
}

#define MAP(at, bytes, protection, flags) \
    checked(mmap(at, bytes, protection, (flags) | MAP_ANONYMOUS, -1, 0))
#define MAP_PRIVATE_MEMORY(bytes) MAP(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE)

KEPT static char *map_first(void) {
    return MAP_PRIVATE_MEMORY(16 * MIB);
}

KEPT static char *map_over(char *at) {
    return MAP(at, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED);
}

KEPT static char *map_partly(void) {
    return MAP_PRIVATE_MEMORY(8 * MIB);
}

KEPT static char *map_late(void) {
    return MAP_PRIVATE_MEMORY(6 * MIB);
}

KEPT static char *map_shared(void) {
    return MAP(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED);
}

KEPT static char *reserve(void) {
    return MAP(NULL, 64 * MIB, PROT_NONE, MAP_PRIVATE);
}

KEPT static char *move(char *at) {
    return checked(mremap(at, 4 * MIB, 6 * MIB, MREMAP_MAYMOVE));
}

KEPT static char *map_to_move(void) {
    return MAP_PRIVATE_MEMORY(4 * MIB);
}

static void touch(char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE) {
        ((volatile char *)at)[i] = 1;
    }
}

static void pause_ms(long ms) {
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static void print(const char *of, const char *function, uint64_t mapped, uint64_t resident,
                  int64_t growth) {
    say("{\"of\": \"%s\", \"function\": \"%s\", \"mapped_bytes\": %" PRIu64
        ", \"resident_bytes\": %" PRIu64 ", \"untouched_bytes\": %" PRIu64
        ", \"growth_bytes\": %" PRId64 "}\n",
        of, function, mapped, resident, mapped - resident, growth);
}

int main(void) {
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* huge pages would touch more */
    char *first = map_first();
    touch(first, 4 * MIB);
    touch(map_over(first + 8 * MIB), MIB);
    char *partly = map_partly();
    touch(partly, 8 * MIB);
    touch(map_shared(), 2 * MIB);
    char *reserved = reserve();
    if (mprotect(reserved + 32 * MIB, 2 * MIB, PROT_READ | PROT_WRITE) != 0) {
        return 97;
    }
    touch(reserved + 32 * MIB, 2 * MIB);
    char *to_move = map_to_move();
    touch(to_move, 4 * MIB);
    (void)move(to_move);
    const pid_t child = fork();
    if (child == 0) {
        touch(map_late(), 3 * MIB);
        print("child", "map_late", 6 * MIB, 3 * MIB, 6 * MIB);
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        return 96;
    }
    pause_ms(BEFORE_MS);
    if (munmap(partly + 3 * MIB, 2 * MIB) != 0) {
        return 95;
    }
    touch(map_late(), 6 * MIB);
    print("parent", "map_first", 15 * MIB, 4 * MIB, 0);
    print("parent", "map_over", MIB, MIB, 0);
    print("parent", "map_partly", 6 * MIB, 6 * MIB, -2 * (int64_t)MIB);
    print("parent", "map_late", 6 * MIB, 6 * MIB, 6 * MIB);
    print("parent", "map_shared", 8 * MIB, 2 * MIB, 0);
    print("parent", "reserve", 64 * MIB, 2 * MIB, 0);
    print("parent", "move", 6 * MIB, 4 * MIB, 0);
    pause_ms(AFTER_MS);
    return 0;
}
