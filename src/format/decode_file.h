/* decode_file.h: an open trace file, for the files of the decoder. Internal to format. */
#ifndef AG_DECODE_FILE_H
#define AG_DECODE_FILE_H

#include "decode.h"
#include "trace_layout.h"

struct ag_trace_file {
    int fd;
    uint64_t n_bytes; /* when it was opened */
    struct ag_file_header header;
    bool has_index;
    struct ag_decode_error damage; /* code AG_DECODE_OK: none */
    struct ag_chunk_entry *entries;
    size_t n_entries, entries_capacity;
};

#endif
