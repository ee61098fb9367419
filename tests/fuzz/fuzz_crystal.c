/* fuzz_crystal.c: reads any bytes as a linker symbol of Crystal and as the function name and file
 * of a frame, as the table of types that a user gives, or as code. The first byte is 0 for a table,
 * and 1 for code; otherwise it is the size of the buffer for the name. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crystal_name.h"
#include "crystal_site.h"
#include "crystal_table.h"
#include "symbol/decoder.h"

enum { ADDRESS = 0x10000, SIZE = 24 };
struct ag_decoder_file {
    const uint8_t *bytes;
    size_t n_bytes;
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

/* Checks that results are terminated, and fit into their buffers. */
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

const unsigned char *ag_decoder_bytes(struct ag_decoder_file *file, uint64_t address,
                                      size_t *ret_bytes) {
    if (address < ADDRESS || address - ADDRESS >= file->n_bytes) {
        return NULL;
    }
    *ret_bytes = file->n_bytes - (size_t)(address - ADDRESS);
    return file->bytes + (address - ADDRESS);
}

bool ag_decoder_is_code(struct ag_decoder_file *file, uint64_t address) {
    return address >= ADDRESS && address - ADDRESS < file->n_bytes;
}

/* Checks that the code reader finds no type number that the code does not contain. */
static void code(const char *bytes, size_t n_bytes) {
    struct ag_decoder_file file = {(const uint8_t *)bytes, n_bytes};
    for (size_t at = 0; at < n_bytes; at++) {
        uint32_t number = 0;
        if (at + sizeof(number) <= n_bytes) {
            memcpy(&number, bytes + at, sizeof(number));
        }
        const uint32_t absent = 0x55aa55aa;
        (void)ag_crystal_site_stores(&file, ADDRESS + at, number, /* size_of_object= */ 0);
        (void)ag_crystal_site_stores(&file, ADDRESS + at, number, SIZE);
        if (ag_crystal_site_stores(&file, ADDRESS + at, absent, 0) &&
            !memmem(bytes, n_bytes, &absent, sizeof(absent))) {
            abort();
        }
    }
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
    } else if (bytes[0] == 1) {
        code(text, n_bytes - 1);
    } else {
        name(text, bytes[0]);
    }
    free(text);
    return 0;
}
