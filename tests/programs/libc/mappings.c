/* mappings.c: memory directly from the kernel: mmap, mremap, munmap, sbrk. Such memory is no block:
 * only the two mallocs of 5 bytes are counted. Three ranges are still mapped at the end: the memory
 * of sbrk, and the old and the new range, of 32768 bytes each, of a mapping that was moved with
 * MREMAP_DONTUNMAP.
 *
 * @allocated_blocks 2
 * @allocated_bytes  10
 * @freed_blocks     0
 * @mapped_bytes     65536 + 2 * 32768
 */
#include <sys/mman.h>

#include "../say.h"

int main(void) {
    void *block = malloc(5);
    OPAQUE(block);
    for (int i = 0; i < 100; i++) {
        size_t bytes = (size_t)(i + 1) * 8192;
        char *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        room[0] = 1;
        room = mremap(room, bytes, 2 * bytes, MREMAP_MAYMOVE);
        room[bytes] = 2;
        munmap(room, bytes);
        munmap(room + bytes, bytes);
    }
    char *top = sbrk(0);
    say("sbrk %s\n", sbrk(65536) == top && (char *)sbrk(0) == top + 65536 ? "grew" : "WRONG");
    enum { LEAVE_OLD_PLACE = 4 }; /* MREMAP_DONTUNMAP */
    char *room = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *moved = mremap(room, 32768, 32768, MREMAP_MAYMOVE | LEAVE_OLD_PLACE, NULL);
    say("%s\n", moved != MAP_FAILED && moved != room ? "moved" : "WRONG");
    room[0] = moved[0] = 1;
    block = malloc(5);
    OPAQUE(block);
    return 0;
}
