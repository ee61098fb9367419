/* fragmented.c SECONDS: a program most of whose resident memory is free. keep_small makes small
 * blocks that live on, between blocks of fill_page that are freed: each small block pins nearly a
 * page. fill_more makes blocks that are all freed again, below one block that prevents malloc from
 * giving them back by itself. keep_large makes a large block that lives on. map_some maps memory
 * without malloc.
 *
 * The program waits SECONDS, and then prints by how much malloc_trim(0) decreases its resident
 * memory. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL_BLOCKS = 8000, SMALL = 24, PAGE_BLOCK = 4040, MORE_BLOCKS = 16000, MORE = 1000 };
enum { MAPPED = 10 << 20, KEPT_LARGE = 3 << 20 };

static char *small[SMALL_BLOCKS], *pages[SMALL_BLOCKS], *more[MORE_BLOCKS];

__attribute__((noinline)) static char *keep_small(void) {
    char *block = malloc(SMALL);
    memset(block, 1, SMALL);
    return block;
}

__attribute__((noinline)) static char *fill_page(void) {
    char *block = malloc(PAGE_BLOCK);
    memset(block, 1, PAGE_BLOCK);
    return block;
}

__attribute__((noinline)) static char *fill_more(void) {
    char *block = malloc(MORE);
    memset(block, 1, MORE);
    return block;
}

__attribute__((noinline)) static char *keep_large(void) {
    char *block = malloc(KEPT_LARGE);
    memset(block, 1, KEPT_LARGE);
    return block;
}

__attribute__((noinline)) static char *map_some(void) {
    char *bytes = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(bytes, 1, MAPPED);
    return bytes;
}

static long resident_bytes(void) {
    long pages_resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*s %ld", &pages_resident) != 1) {
        exit(1);
    }
    fclose(file);
    return pages_resident * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv) {
    (void)resident_bytes(); /* the buffer of stdio is allocated and freed before the blocks */
    char *large = keep_large(), *mapped = map_some();
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        small[i] = keep_small();
        pages[i] = fill_page();
    }
    for (int i = 0; i < MORE_BLOCKS; i++) {
        more[i] = fill_more();
    }
    char *last = keep_small();
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        free(pages[i]);
    }
    for (int i = 0; i < MORE_BLOCKS; i++) {
        free(more[i]);
    }
    sleep(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
    const long before = resident_bytes();
    malloc_trim(0);
    printf("{\"trimmed_bytes\": %ld, \"resident_bytes\": %ld}\n", before - resident_bytes(),
           before);
    return large == NULL || mapped == NULL || last == NULL;
}
