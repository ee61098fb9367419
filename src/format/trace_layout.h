/* trace_layout.h: the fixed parts of a trace file (header, chunk header, footer), and the constants
 * and functions that encoder and decoder share. A chunk is a part of the file that is compressed
 * separately.
 *
 * docs/reference/trace-format.md is the specification; comments cite its sections. */
#ifndef AG_TRACE_LAYOUT_H
#define AG_TRACE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode.h"
#include "encode.h"

enum {
    AG_TRACE_HEADER_BYTES = 64,
    /* a later version of allogram may append fields to the header; a reader skips them */
    AG_TRACE_HEADER_MAX_BYTES = 4096,
    AG_CHUNK_HEADER_BYTES = 64,
    AG_TRACE_FOOTER_BYTES = 32,
    AG_CODING_RAW = 0,
    AG_CODING_ZSTD = 1,
    /* limit of the compression ratio (used bytes / stored bytes), so that a small file cannot cost
     * its reader much memory and time. The trace of a loop that only calls malloc and free has a
     * ratio of 60 */
    AG_RATIO_MOST = 256,

    /* An event may refer to one of the last AG_NEAR_EVENTS allocations or frees. A decoder keeps
     * their addresses in two rings of 32 KiB each, which fit into the L1 or L2 cache */
    AG_NEAR_EVENTS = 4096,
    /* limit of the tuples (stack, size, allocation function) that a chunk stores; a reader needs 2
     * MiB for them */
    AG_TUPLES_MAX = 1 << 16,
    /* limit of the rows of one batch record (a record with rows); decoded rows take up to 512
     * KiB */
    AG_BATCH_ROWS = 4096,
};

/* The form of an event: the low 3 bits of its first byte. The other 5 bits are the argument of the
 * form. NEAR: the event contains the place of a recent event (the number of that event among the
 * chunk's allocations, or among the chunk's frees). FAR: the event contains a difference of
 * addresses. EXPECTED: the allocation has the predicted tuple. SPECIAL: a realloc_free or an
 * undo_free. OTHER: a stamp (a time) or a record. */
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
    /* flag in the argument of a far event: the difference is in bytes, not in units of 16 bytes */
    AG_FAR_UNSCALED = 1,
    /* flag in the argument of a far allocation: the difference is that to the last allocation with
     * the same tuple, not to the last allocation of the chunk */
    AG_FAR_OF_TUPLE = 2,
    AG_FAR_SHIFT = 4, /* log2 of the unit: allocators align blocks to 16 bytes */
    /* flag in the argument of a special free: a distance follows, not a difference of addresses */
    AG_SPECIAL_NEAR = 2,
    /* flag in the argument of a special free, which is an undo_free (a free that is taken back) if
     * the flag is set, else a realloc_free */
    AG_SPECIAL_UNDO = 4,
    AG_OTHER_STAMP = 0,
    AG_OTHER_RECORD = 1,

    /* The argument of a near event gives the place of the event to which the near event refers: a
     * free refers to an allocation, an allocation to a free. Arguments 0 to 14: the distance of the
     * place from the newest place */
    AG_NEAR_DISTANCES = 15,
    /* arguments 15 to 22: one of the 8 places before the place to which an event referred last; 23
     * to 30: one of the 8 places after it */
    AG_NEAR_NEIGHBOURS = 8,
    AG_NEAR_LONG = 31, /* a varint follows: the distance minus AG_NEAR_DISTANCES */

    /* largest confidence in a tuple's successor: this many wrong predictions in a row do not
     * replace the successor */
    AG_TRUST_MAX = 3,
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
/* Whether a chunk's lengths are within their limits. */
bool ag_chunk_entry_is_valid(const struct ag_chunk_entry *entry);
bool ag_footer_get(const uint8_t bytes[AG_TRACE_FOOTER_BYTES], uint64_t *ret_index_offset);

struct ag_chunk_list { /* zero-initialize; free(entries) at the end */
    struct ag_chunk_entry *entries;
    size_t n, capacity;
};
/* Makes room for one more entry. Returns 0 or -ENOMEM. */
int ag_chunk_list_reserve(struct ag_chunk_list *list);

uint64_t ag_hash_bytes(const void *bytes, size_t n_bytes); /* XXH64, seed 0 */

/* Reads n_bytes, or up to the file's end. Returns the number of bytes that were read, or a negative
 * errno. */
int64_t ag_read_at(int fd, void *bytes, size_t n_bytes, uint64_t offset);
/* Writes all n_bytes and returns 0, or returns a negative errno. */
int ag_write_at(int fd, const void *bytes, size_t n_bytes, uint64_t offset);

/* The state of a walk from chunk header to chunk header. The caller sets fd, file_bytes and offset
 * (of the first chunk), and zero-initializes the rest. */
struct ag_chunk_walk {
    int fd;
    uint64_t file_bytes, offset;
    struct ag_decode_error damage; /* code AG_DECODE_OK: no damage so far */
};
/* Returns 1: *ret_header is the header of the next chunk, whose offset is in entry.offset. Returns
 * 0: the walk ended, at the end of the file, at a footer, or at damage. Returns a negative errno if
 * the file could not be read. */
int ag_chunk_walk_next(struct ag_chunk_walk *walk, struct ag_chunk_header *ret_header);

/* Fills *ret_error. Returns the negative errno for the code. */
int ag_decode_fail(struct ag_decode_error *ret_error, enum ag_decode_code code, uint64_t offset);

#endif
