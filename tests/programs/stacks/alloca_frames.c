/* alloca_frames.c: frames whose size the compiler does not know: alloca, arrays of variable length,
 * over-aligned locals (whose frames are found through a saved pointer). Each of 3000 rounds calls
 * three functions, which allocate one block each, of 30, 31 and 32 bytes.
 *
 * @allocated_blocks 9000
 * @allocated_bytes  3000 * (30 + 31 + 32)
 * @freed_blocks     9000
 * @in_use_blocks    0
 * @peak_bytes       32
 * @temporary_blocks 9000
 * @site             with_alloca 3000 3000 * 30
 * @site             with_array 3000 3000 * 31
 * @site             with_aligned 3000 3000 * 32
 */
#include <alloca.h>
#include <string.h>

#include "../say.h"

static void use(size_t size) {
    (void)size;
}

__attribute__((noinline, noclone)) static void with_alloca(size_t n) {
    char *room = alloca(n);
    memset(room, 1, n);
    void *block = malloc(30);
    OPAQUE(block);
    free(block);
    use((size_t)room[n - 1]);
    OPAQUE(room);
}

__attribute__((noinline, noclone)) static void with_array(size_t n) {
    char room[n];
    char *pointer = room;
    memset(room, 1, n);
    OPAQUE(pointer);
    void *block = malloc(31);
    OPAQUE(block);
    free(block);
    OPAQUE(pointer);
}

__attribute__((noinline, noclone)) static void with_aligned(size_t n) {
    _Alignas(128) char room[256];
    char *variable = alloca(n), *pointer = room;
    OPAQUE(pointer);
    memset(variable, 1, n);
    void *block = malloc(32);
    OPAQUE(block);
    free(block);
    OPAQUE(variable);
}

int main(void) {
    for (size_t i = 0; i < 3000; i++) {
        with_alloca(i % 777 + 1);
        with_array(i % 555 + 1);
        with_aligned(i % 333 + 1);
    }
    say("done\n");
    return 0;
}
