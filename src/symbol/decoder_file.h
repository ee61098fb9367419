/* decoder_file.h: the file of an image (a loaded program or library), which the functions of
 * decoder.h read; used by the symbolizer. */
#ifndef AG_DECODER_FILE_H
#define AG_DECODER_FILE_H

#include "decoder.h"
#include "elf_file.h"
#include "work_meter.h"

struct ag_decoder_segment {
    uint64_t low, high, offset;
    bool is_code;
};
struct ag_decoder_relocation { /* the word at address `place` of the file has the value `word` if
                                * the image is loaded at its own addresses (bias 0) */
    uint64_t place, word;
};
struct ag_decoder_file {         /* all zero: closed */
    Elf *elf;                    /* owned by the caller */
    struct ag_work_meter *meter; /* limits the work for the image; owned by the caller. When the
                                  * limit is reached, nothing more is read */
    const unsigned char *bytes;
    size_t n_bytes;
    struct ag_decoder_segment *segments;
    size_t n_segments;
    struct ag_decoder_relocation *relocations; /* sorted by place; read when ag_decoder_word is
                                                * called for the first time */
    size_t n_relocations;
    bool has_relocations;
};

/* Returns 0, -ENOMEM or -ENOEXEC. FILE and METER must stay valid until the file is closed. */
int ag_decoder_file_open(const struct ag_elf_file *file, struct ag_work_meter *meter,
                         struct ag_decoder_file *ret_file);
void ag_decoder_file_close(struct ag_decoder_file *file);

#endif
