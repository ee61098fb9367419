/* fuzz_ocaml.c: the decoder of OCaml's frame tables and debug information reads any bytes as the
 * memory of an OCaml program.
 *
 * The first byte selects the release of OCaml. The other bytes are the memory from ADDRESS on,
 * without relocations; caml_frametable is at ADDRESS. All addresses after this memory count as
 * code. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "symbol/decoder.h"

enum { ADDRESS = 0x10000, FRAMES_MOST = 16 };
struct ag_decoder_file {
    const uint8_t *bytes;
    size_t n_bytes;
    bool is_5;
};
extern const struct ag_decoder ag_decoder_ocaml;
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

size_t ag_decoder_file_bytes(struct ag_decoder_file *file) {
    return file->n_bytes;
}

const unsigned char *ag_decoder_bytes(struct ag_decoder_file *file, uint64_t address,
                                      size_t *ret_bytes) {
    if (address < ADDRESS || address - ADDRESS >= file->n_bytes) {
        return NULL;
    }
    *ret_bytes = file->n_bytes - (size_t)(address - ADDRESS);
    return file->bytes + (address - ADDRESS);
}

bool ag_decoder_word(struct ag_decoder_file *file, uint64_t address, uint64_t *ret_word) {
    size_t n_bytes = 0;
    const unsigned char *bytes = ag_decoder_bytes(file, address, &n_bytes);
    if (bytes == NULL || n_bytes < sizeof(*ret_word)) {
        return false;
    }
    memcpy(ret_word, bytes, sizeof(*ret_word));
    return true;
}

bool ag_decoder_is_code(struct ag_decoder_file *file, uint64_t address) {
    return address >= ADDRESS + file->n_bytes;
}

bool ag_decoder_symbol(struct ag_decoder_file *file, const char *name, uint64_t *ret_address) {
    *ret_address = ADDRESS;
    return strcmp(name, "caml_frametable") == 0 ||
           strcmp(name, file->is_5 ? "caml_memprof_sample_young" : "caml_memprof_track_young") == 0;
}

static void look_up(void *state, uint64_t pc) {
    struct ag_decoded_frame frames[FRAMES_MOST];
    const size_t n = ag_decoder_ocaml.frames(state, pc, true, frames, FRAMES_MOST);
    for (size_t i = 0; i < n; i++) {
        if (frames[i].function == NULL || frames[i].file == NULL ||
            strlen(frames[i].function) > 0x10000 || frames[i].is_inlined != (i + 1 < n)) {
            __builtin_trap();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    if (n_bytes == 0) {
        return 0;
    }
    uint8_t memory[4096] = {0}; /* a copy, so that the sanitizer finds reads beyond its end */
    struct ag_decoder_file file = {memory, n_bytes - 1, bytes[0] & 1};
    file.n_bytes = file.n_bytes < sizeof(memory) ? file.n_bytes : sizeof(memory);
    memcpy(memory, bytes + 1, file.n_bytes);
    void *state = ag_decoder_ocaml.open(&file);
    for (uint64_t offset = 0; state != NULL && offset + 8 <= file.n_bytes; offset += 4) {
        uint64_t word = 0;
        memcpy(&word, memory + offset, sizeof(word));
        look_up(state, ADDRESS + offset); /* as debug information in this memory */
        look_up(state, word);             /* as a return address */
    }
    if (state != NULL) {
        char name[64];
        memory[sizeof(memory) - 1] = '\0';
        (void)ag_decoder_ocaml.name(state, (const char *)memory, name, sizeof(name));
        ag_decoder_ocaml.close(state);
    }
    return 0;
}
