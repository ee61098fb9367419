/* fuzz_crystal.c: reads any bytes as a linker symbol of Crystal and as the function name and file
 * of a frame, or as the table of types that a user gives. The first byte is 0 for a table;
 * otherwise it is the size of the buffer for the name. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crystal_name.h"
#include "crystal_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

/* Results are terminated, and fit into their buffers. */
static void name(const char *text, size_t capacity) {
    char *answer = malloc(capacity);
    char *type = malloc(capacity);
    if (!answer || !type) {
        abort();
    }
    if (ag_crystal_name(text, answer, capacity)) {
        const char *file = strchr(text, '\n');
        if (strlen(answer) >= capacity) {
            abort();
        }
        (void)ag_crystal_place(answer, file, type, capacity);
        if (strlen(type) >= capacity) {
            abort();
        }
    }
    (void)ag_crystal_place(text, NULL, type, capacity);
    free(answer);
    free(type);
}

static void table(const char *text, size_t n_bytes) {
    char path[64], message[512] = "";
    struct ag_decoder_types *types = NULL;
    const int fd = memfd_create("types", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, n_bytes) != (ssize_t)n_bytes) {
        abort();
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (ag_crystal_table_read(path, &types, message) < 0) {
        if (message[0] == '\0' || strchr(message, '\n')) {
            abort();
        }
    } else {
        size_t n_text = 0;
        for (uint32_t number = 0; number < 4096; number++) {
            const char *found = ag_crystal_table_name(types, number);
            n_text += found ? strlen(found) : 0;
        }
        if (n_text == 0) { /* the type String always exists */
            abort();
        }
    }
    ag_crystal_table_free(types);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    if (n_bytes == 0) {
        return 0;
    }
    char *text = malloc(n_bytes); /* exactly as long, so that the sanitizer finds reads beyond the
                                   * end */
    if (!text) {
        abort();
    }
    memcpy(text, bytes + 1, n_bytes - 1);
    text[n_bytes - 1] = '\0';
    if (bytes[0] == 0) {
        table(text, n_bytes - 1);
    } else {
        name(text, bytes[0]);
    }
    free(text);
    return 0;
}
