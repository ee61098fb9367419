/* mapped_memory.c CASE: maps memory. Reports must mention this memory in some cases and not in
 * others.
 *
 * touched: 80 MiB that grow() maps and 16 MiB that extra() maps, all written. committed: 80 MiB
 * that are mapped without access and then made accessible by mprotect and written, and 1 GiB of
 * addresses that stay without access. memory, reserved, file: 1 GiB that is never touched.
 * read_file: a file of 96 MiB that is mapped and read. malloc: 96 MiB in blocks of malloc. */
#include <string.h>
#include <sys/mman.h>

#include "../say.h"

enum { MIB = 1 << 20 };
#define KEPT __attribute__((noinline, noclone))

KEPT static char *map(size_t bytes, int protection, int flags, int fd) {
    char *p = mmap(NULL, bytes, protection, flags, fd, 0);
    if (p == MAP_FAILED) {
        _exit(1);
    }
    OPAQUE(p);
    return p;
}

KEPT static void grow(void) {
    for (int i = 0; i < 10; i++) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
        char *p = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, flags, -1, 0); /* the line */
        memset(p, 1, 8 * MIB);
    }
}

KEPT static void extra(void) {
    char *p = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 1, 16 * MIB);
}

KEPT static char *reserve(size_t bytes) {
    char *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    OPAQUE(p);
    return p;
}

KEPT static char *reserve_addresses(void) {
    char *p = mmap(NULL, 1024 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    OPAQUE(p);
    return p;
}

static int empty_file(size_t bytes) {
    const int fd = memfd_create("mapped", 0);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        _exit(1);
    }
    return fd;
}

int main(int count, char **words) {
    const char *name = count == 2 ? words[1] : "";
    if (strcmp(name, "touched") == 0) {
        grow();
        extra();
    } else if (strcmp(name, "committed") == 0) {
        char *p = reserve(80 * MIB);
        (void)reserve_addresses();
        if (mprotect(p, 80 * MIB, PROT_READ | PROT_WRITE) != 0) {
            return 1;
        }
        memset(p, 1, 80 * MIB);
    } else if (strcmp(name, "memory") == 0) {
        (void)map(1024 * (size_t)MIB, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    } else if (strcmp(name, "reserved") == 0) {
        (void)reserve_addresses();
    } else if (strcmp(name, "file") == 0) {
        (void)map(1024 * MIB, PROT_READ, MAP_SHARED, empty_file(1024 * MIB));
    } else if (strcmp(name, "read_file") == 0) {
        const char *p = map(96 * MIB, PROT_READ, MAP_SHARED | MAP_POPULATE, empty_file(96 * MIB));
        say("%d\n", p[95 * MIB]);
    } else if (strcmp(name, "malloc") == 0) {
        for (int i = 0; i < 96; i++) {
            char *block = malloc(MIB);
            OPAQUE(block);
            memset(block, 1, MIB);
        }
    } else {
        return 2;
    }
    return 0;
}
