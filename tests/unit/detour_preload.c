/* detour_preload.c: a library that is preloaded into own_allocator.c. In the program's file it
 * finds the functions of the malloc family that the program defines. It installs detours of these
 * functions (jumps over their first bytes to a replacement), and counts their calls.
 */
#include "detour_counts.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "hook/detour.h"
#include "hook/elf_symbols.h"

struct detour_counts detour_counts;
static int depth; /* above 0: inside of an allocator function, whose own calls are not counted */

static void *(*real_malloc)(size_t);
static void (*real_free)(void *);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);

static void *seen_malloc(size_t n_bytes) {
    detour_counts.n_malloc += depth++ == 0;
    void *block = real_malloc(n_bytes);
    depth--;
    return block;
}

static void seen_free(void *block) {
    detour_counts.n_free += depth++ == 0;
    real_free(block);
    depth--;
}

static void *seen_calloc(size_t n, size_t n_bytes) {
    detour_counts.n_calloc += depth++ == 0;
    void *block = real_calloc(n, n_bytes);
    depth--;
    return block;
}

static void *seen_realloc(void *block, size_t n_bytes) {
    detour_counts.n_realloc += depth++ == 0;
    void *moved = real_realloc(block, n_bytes);
    depth--;
    return moved;
}

static int seen_posix_memalign(void **ret_block, size_t alignment, size_t n_bytes) {
    detour_counts.n_aligned += depth++ == 0;
    const int r = real_posix_memalign(ret_block, alignment, n_bytes);
    depth--;
    return r;
}

static int note_bias(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    *(uint64_t *)context = info->dlpi_addr;
    return 1; /* stops after the first object, which is the program */
}

__attribute__((constructor)) static void install(void) {
    static const char *const names[] = {"malloc", "free", "calloc", "realloc", "posix_memalign"};
    void *const replacements[] = {(void *)seen_malloc, (void *)seen_free, (void *)seen_calloc,
                                  (void *)seen_realloc, (void *)seen_posix_memalign};
    void **const originals[] = {(void **)&real_malloc, (void **)&real_free, (void **)&real_calloc,
                                (void **)&real_realloc, (void **)&real_posix_memalign};
    static struct ag_detour detours[5];
    struct ag_elf_symbols symbols;
    struct ag_elf_symbol found[5];
    uint64_t bias = 0;
    dl_iterate_phdr(note_bias, &bias);
    if (ag_elf_symbols_open("/proc/self/exe", &symbols) < 0 ||
        ag_elf_symbols_find(&symbols, names, 5, found) != 5) {
        fprintf(stderr, "the program does not have the malloc family\n");
        _Exit(3);
    }
    for (int i = 0; i < 5; i++) {
        const int r = ag_detour_install(&detours[i], (void *)(uintptr_t)(found[i].address + bias),
                                        found[i].size_bytes, replacements[i], originals[i]);
        if (r < 0) {
            fprintf(stderr, "%s: %s (%d)\n", names[i], detours[i].reason, r);
            _Exit(3);
        }
    }
    ag_elf_symbols_close(&symbols);
}
