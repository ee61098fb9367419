/* trace_layout.h: the fixed parts of a trace file (header, chunk header, footer) and the constants
 * that encoder and decoder share.
 *
 * Internal to format. docs/reference/trace-format.md is the specification; comments cite its
 * sections. */
#ifndef AG_TRACE_LAYOUT_H
#define AG_TRACE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode.h"
#include "encode.h"

enum {
    AG_TRACE_HEADER_BYTES = 64,
    /* a later writer may append fields to the header; a reader skips them */
    AG_TRACE_HEADER_MAX_BYTES = 4096,
    AG_CHUNK_HEADER_BYTES = 64,
    AG_TRACE_FOOTER_BYTES = 32,
    AG_CODING_RAW = 0,
    AG_CODING_ZSTD = 1,
    /* limit of used bytes / stored bytes, so that a small file cannot cost its reader much. A loop
     * that only calls malloc and free has 60 */
    AG_RATIO_MOST = 256,

    /* limit of how far back an event may refer to another: both rings are 32 KiB, in the L1 or L2
     * cache */
    AG_NEAR_EVENTS = 4096,
    /* (stack, size, via) tuples that a chunk may store: 2 MiB in a reader */
    AG_TUPLES_MAX = 1 << 16,
    AG_BATCH_ROWS = 4096, /* limit of the rows of one batch record; decoded: up to 512 KiB */
};

/* The form of an event: the low 3 bits of its first byte. The other 5 bits are its argument. */
enum ag_event_form {
    AG_FORM_FREE_NEAR = 0,
    AG_FORM_FREE_FAR = 1,
    AG_FORM_ALLOC_NEAR_EXPECTED = 2,
    AG_FORM_ALLOC_NEAR = 3,
    AG_FORM_ALLOC_FAR_EXPECTED = 4,
    AG_FORM_ALLOC_FAR = 5,
    AG_FORM_FREE_SPECIAL = 6,
    AG_FORM_OTHER = 7,
};
enum {
    AG_FORM_BITS = 3,
    AG_FAR_UNSCALED = 1, /* far: the difference is in bytes, not in units of 16 */
    /* far alloc: the difference to the last allocation with this tuple, not to the last of all */
    AG_FAR_OF_TUPLE = 2,
    AG_FAR_SHIFT = 4,    /* allocators align to 16 */
    AG_SPECIAL_NEAR = 2, /* special free: a distance follows, not a difference of addresses */
    AG_SPECIAL_UNDO = 4, /* special free: an undo_free, else a realloc_free */
    AG_OTHER_STAMP = 0,
    AG_OTHER_RECORD = 1,

    /* The argument of a near event is the place of an event of the other kind. Arguments 0 to 14:
     * the place's distance from the newest */
    AG_NEAR_DISTANCES = 15,
    /* one of the 8 places before the one referred to last (15 to 22), or after it (23 to 30) */
    AG_NEAR_NEIGHBOURS = 8,
    AG_NEAR_LONG = 31, /* a varint follows: the distance less AG_NEAR_DISTANCES */

    AG_TRUST_MAX = 3, /* so many wrong predictions in a row do not replace a tuple's successor */
};

struct ag_file_header {
    uint16_t version, header_bytes;
    struct ag_trace_header trace;
};
struct ag_chunk_header {
    struct ag_chunk_entry entry; /* entry.offset is set by the caller */
    uint64_t stored_hash;        /* XXH64 of the stored bytes */
};

void ag_file_header_put(uint8_t bytes[AG_TRACE_HEADER_BYTES], const struct ag_trace_header *header);
void ag_chunk_header_put(uint8_t bytes[AG_CHUNK_HEADER_BYTES],
                         const struct ag_chunk_header *header);
void ag_footer_put(uint8_t bytes[AG_TRACE_FOOTER_BYTES], uint64_t index_offset);

/* The getters check everything that can be checked without the rest of the file. */
enum ag_decode_code ag_file_header_get(const uint8_t *bytes, size_t n_bytes,
                                       struct ag_file_header *ret_header);
enum ag_decode_code ag_chunk_header_get(const uint8_t bytes[AG_CHUNK_HEADER_BYTES],
                                        struct ag_chunk_header *ret_header);
/* Are a chunk's lengths within their limits? */
bool ag_chunk_entry_is_valid(const struct ag_chunk_entry *entry);
bool ag_footer_get(const uint8_t bytes[AG_TRACE_FOOTER_BYTES], uint64_t *ret_index_offset);

struct ag_chunk_list { /* zero-initialize; free(entries) at the end */
    struct ag_chunk_entry *entries;
    size_t n, capacity;
};
/* Makes room for one more entry. 0 or -ENOMEM. */
int ag_chunk_list_reserve(struct ag_chunk_list *list);

uint64_t ag_hash_bytes(const void *bytes, size_t n_bytes); /* XXH64, seed 0 */

/* Reads n_bytes, or up to the file's end. Returns the bytes read, or negative errno. */
int64_t ag_read_at(int fd, void *bytes, size_t n_bytes, uint64_t offset);
/* Writes everything, or returns negative errno. */
int ag_write_at(int fd, const void *bytes, size_t n_bytes, uint64_t offset);

/* A walk from chunk header to chunk header. Set fd, file_bytes and offset (of the first chunk);
 * zero-initialize the rest. */
struct ag_chunk_walk {
    int fd;
    uint64_t file_bytes, offset;
    struct ag_decode_error damage; /* code AG_DECODE_OK while there is none */
};
/* 1: *ret_header is the chunk at its entry.offset, and the walk continues behind it. 0: the walk
 * ended, at the end of the file, at a footer, or at damage. Negative errno: the file could not be
 * read. */
int ag_chunk_walk_next(struct ag_chunk_walk *walk, struct ag_chunk_header *ret_header);

/* Fills *ret_error. Returns the negative errno for the code. */
int ag_decode_fail(struct ag_decode_error *ret_error, enum ag_decode_code code, uint64_t offset);

#endif
