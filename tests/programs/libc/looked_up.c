/* looked_up.c: calls allocation functions that it looks up with a handle of the C library (from
 * dlopen), as Python's ctypes does: 100 strings of 1000 bytes by strdup, which calls malloc by its
 * public name, and 50 blocks of 2000 bytes by malloc. Every fifth string stays in use, all other
 * blocks are freed, half of them by a free that dlvsym finds. Then maps 300 pages by the libc's
 * mmap and unmaps 100. With an argument, it makes no strings and no blocks. In a recorded program,
 * a function has to have the same address, however it was looked up. The agent also exports the
 * operators of C++, which this program does not have: in this program they return NULL if they
 * cannot allocate. */
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "../say.h"

#define LOOK_UP(type, name, ...) \
    __typeof__(type) *name = (__typeof__(type) *)dlsym(libc, __VA_ARGS__)

enum { STRINGS = 100, BLOCKS = 50, PAGE = 4096 };

static int operators_are_safe(void) {
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");
    void *(*make_aligned)(size_t, size_t) =
        (void *(*)(size_t, size_t))dlsym(RTLD_DEFAULT, "_ZnwmSt11align_val_t");
    return (!make || make((size_t)1 << 60) == NULL) &&
           (!make_aligned || make_aligned(/* bytes= */ 10, /* alignment= */ 3) == NULL);
}

int main(int argc, char **argv) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    const int strings_made = argc > 1 ? 0 : STRINGS, blocks_made = argc > 1 ? 0 : BLOCKS;
    char text[1000];
    char *strings[STRINGS];
    void *blocks[BLOCKS];
    LOOK_UP(strdup, duplicate, "strdup");
    LOOK_UP(malloc, allocate, "malloc");
    LOOK_UP(free, release, "free");
    LOOK_UP(mmap, map, "mmap");
    LOOK_UP(munmap, unmap, "munmap");
    __typeof__(free) *versioned = (__typeof__(free) *)dlvsym(libc, "free", "GLIBC_2.2.5");
    const int is_recorded = dlsym(RTLD_DEFAULT, "free") != dlsym(RTLD_NEXT, "free");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < strings_made; i++) {
        strings[i] = duplicate(text);
    }
    for (int i = 0; i < blocks_made; i++) {
        blocks[i] = allocate(2000);
    }
    for (int i = 0; i < strings_made; i++) {
        if (i % 5 != 0) {
            (i % 2 ? release : versioned)(strings[i]);
        }
    }
    for (int i = 0; i < blocks_made; i++) {
        (i % 2 ? release : versioned)(blocks[i]);
    }
    char *mapped =
        map(NULL, 300 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)unmap(mapped, 100 * PAGE);
    say(operators_are_safe() && release == versioned &&
                (!is_recorded || (release == free && map == mmap))
            ? "right\n"
            : "wrong\n");
    (void)argv;
    return 0;
}
