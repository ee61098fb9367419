/* frame_index.h: the frame tables of an OCaml program, read from its file: maps return addresses to
 * debug information. */
#ifndef AG_OCAML_FRAME_INDEX_H
#define AG_OCAML_FRAME_INDEX_H

#include "symbol/decoder.h"

struct ag_ocaml_frame_index { /* all zero: empty */
    struct ag_ocaml_frame_entry {
        uint64_t return_address, debug_info; /* debug_info 0: compiled without -g */
    } * entries;                             /* sorted by return address */
    size_t n_entries, capacity;
};

/* TABLES: the address of caml_frametable. Damaged tables are skipped. */
void ag_ocaml_frame_index_read(struct ag_ocaml_frame_index *index, struct ag_decoder_file *file,
                               uint64_t tables);
/* Returns the address of the debug information of a return address. 0: unknown, or compiled without
 * -g. */
uint64_t ag_ocaml_frame_index_find(const struct ag_ocaml_frame_index *index,
                                   uint64_t return_address);
void ag_ocaml_frame_index_clear(struct ag_ocaml_frame_index *index);

#endif
