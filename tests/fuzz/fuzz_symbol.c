/* fuzz_symbol.c: reads any bytes as the file of an image (program or library) whose functions are
 * symbolized. The seeds are small programs with debug information. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <elf.h>

#include "symbol/symbol.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

/* Looks up addresses from START on: the entry point, or 0x1000, near which the symbols of a small
 * program lie. */
static void look_up(struct ag_symbolizer *symbolizer, uint64_t start) {
    for (uint64_t offset = 0; offset < 0x400; offset += 7) {
        const uint64_t address = start + offset;
        const struct ag_symbol_frame *frames;
        const size_t n = ag_symbolizer_frames(symbolizer, 1, address, address % 2 == 0, &frames);
        for (size_t i = 0; i < n; i++) {
            if (frames[i].function == NULL || strlen(frames[i].function) > (64 << 10)) {
                __builtin_trap();
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    const int fd = memfd_create("image", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n_bytes) != (ssize_t)n_bytes) {
        __builtin_trap();
    }
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct ag_symbolizer *symbolizer = ag_symbolizer_new(NULL);
    ag_symbolizer_image(symbolizer, 1, path, NULL, 0, 0, 0, 0);
    Elf64_Ehdr header = {0};
    memcpy(&header, bytes, n_bytes < sizeof(header) ? n_bytes : sizeof(header));
    look_up(symbolizer, header.e_entry);
    look_up(symbolizer, 0x1000);
    ag_symbolizer_free(symbolizer);
    close(fd);
    return 0;
}
