/* commanded.c: runs the commands that it reads on standard input, a line each, and prints "ok" after
 * each:
 *
 *     alloc BLOCKS BYTES    allocates blocks and keeps them
 *     free BLOCKS           frees the BLOCKS newest of the blocks that are kept
 *     temporary BLOCKS BYTES
 *                           allocates blocks, and frees each one before the next allocation
 *     gc                    reports a garbage collection of a heap that the program registered
 *
 * The program ends when its input ends. So a test decides when the program allocates, and does not
 * have to sleep. */
#include <allogram/allogram.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_BLOCKS = 1 << 20 };
static void *kept[KEPT_BLOCKS];
static size_t n_kept;

__attribute__((noinline, noclone)) static void alloc_as_commanded(size_t bytes) {
    kept[n_kept++] = malloc(bytes);
}

int main(void) {
    char line[256];
    size_t blocks = 0, bytes = 0;
    const struct allogram_heap_options options = {
        .size = sizeof(options), .name = "cells", .allocator = "commanded", .runtime = "commanded"};
    const allogram_heap heap = allogram_heap_new(&options);
    setvbuf(stdin, NULL, _IONBF, 0);
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "alloc %zu %zu", &blocks, &bytes) == 2) {
            for (size_t i = 0; i < blocks && n_kept < KEPT_BLOCKS; i++) {
                alloc_as_commanded(bytes);
            }
        } else if (sscanf(line, "free %zu", &blocks) == 1) {
            for (size_t i = 0; i < blocks && n_kept > 0; i++) {
                free(kept[--n_kept]);
            }
        } else if (sscanf(line, "temporary %zu %zu", &blocks, &bytes) == 2) {
            for (size_t i = 0; i < blocks && n_kept < KEPT_BLOCKS; i++) {
                alloc_as_commanded(bytes);
                free(kept[--n_kept]);
            }
        } else if (strcmp(line, "gc\n") == 0) {
            allogram_gc_begin(heap, 0, 0);
            allogram_gc_end(heap, "full", 0);
        } else {
            return 2;
        }
        puts("ok");
        fflush(stdout);
    }
    return 0;
}
