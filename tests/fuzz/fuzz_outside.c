/* fuzz_outside.c: reads any bytes as an input that `allogram observe` reads from another process:
 * /proc/PID/maps, a perf map, a jitdump, an ELF object that describes generated code to debuggers,
 * or an ELF file with unwind tables.
 *
 *     input   | which : 1 | the bytes | */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "observe/generated_code.h"
#include "remote/remote_elf.h"
#include "remote/remote_maps.h"
#include "symbol/image_cfi.h"
#include "unwind/eh_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static char *as_text(const uint8_t *bytes, size_t n_bytes) {
    char *text = malloc(n_bytes + 1);
    memcpy(text, bytes, n_bytes);
    text[n_bytes] = '\0';
    return text;
}

static void read_tables(const uint8_t *bytes, size_t n_bytes) {
    struct ag_remote_elf elf;
    uint8_t *copy = malloc(n_bytes + 1);
    memcpy(copy, bytes, n_bytes);
    if (ag_remote_elf_adopt(copy, n_bytes, &elf) < 0) {
        return;
    }
    struct ag_image_cfi *cfi = ag_image_cfi_new(&elf);
    for (uint64_t address = 0; address < 0x4000; address += 0x101) {
        struct ag_cfi_row row;
        struct ag_cfi_entry entry;
        (void)ag_image_cfi_find(cfi, address, 6, &row, &entry);
        (void)ag_remote_elf_function(&elf, address);
    }
    (void)ag_image_cfi_free(cfi);
    ag_remote_elf_close(&elf);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    struct ag_generated_code code = {0};
    struct ag_remote_maps maps = {0};
    if (n_bytes == 0) {
        return 0;
    }
    const uint8_t *rest = bytes + 1;
    const size_t n = n_bytes - 1;
    char *text = as_text(rest, n);
    switch (bytes[0] % 5) {
    case 0:
        (void)ag_remote_maps_parse(&maps, as_text(rest, n));
        (void)ag_remote_maps_find(&maps, 0x1000);
        break;
    case 1:
        ag_generated_code_read_map(&code, text);
        break;
    case 2:
        ag_generated_code_read_dump(&code, rest, n);
        break;
    case 3:
        ag_generated_code_read_object(&code, rest, n);
        break;
    default:
        read_tables(rest, n);
        break;
    }
    ag_generated_code_sort(&code);
    (void)ag_generated_code_find(&code, 0x1000);
    ag_generated_code_done(&code);
    ag_remote_maps_done(&maps);
    free(text);
    return 0;
}
