/* trace_layout.c: encodes and decodes header, chunk header and footer, reads and writes bytes at an
 * offset of the file, walks from chunk to chunk, and makes errors of the decoder.
 *
 * A chunk header contains a hash of the header and a hash of the chunk's stored bytes. A walk
 * trusts the length in a header only if the hash of the header matches; it need not read the stored
 * bytes. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "trace_layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/little_endian.h"
#include "segment.h"

static const char file_magic[8] = "ALLOGRAM";
static const char chunk_magic[4] = "AGCK";
static const char footer_magic[8] = "AGINDEX1";

uint64_t ag_hash_bytes(const void *bytes, size_t n_bytes) {
    return XXH64(bytes, n_bytes, /* seed= */ 0);
}

/* ---- file header ---- */

void ag_file_header_put(uint8_t bytes[AG_TRACE_HEADER_BYTES],
                        const struct ag_trace_header *header) {
    memset(bytes, 0, AG_TRACE_HEADER_BYTES);
    memcpy(bytes, file_magic, sizeof(file_magic));
    ag_put_16(bytes + 8, AG_TRACE_VERSION);
    ag_put_16(bytes + 10, AG_TRACE_HEADER_BYTES);
    ag_put_64(bytes + 16, header->session);
    ag_put_32(bytes + 24, header->pid);
    ag_put_32(bytes + 28, header->slot);
    ag_put_64(bytes + 32, header->start_realtime_ns);
    ag_put_64(bytes + 56, ag_hash_bytes(bytes, 56));
}

enum ag_decode_code ag_file_header_get(const uint8_t *bytes, size_t n_bytes,
                                       struct ag_file_header *ret_header) {
    if (n_bytes == 0) {
        return AG_DECODE_EMPTY;
    }
    if (n_bytes >= 8 && ag_get_64(bytes) == AG_SEGMENT_MAGIC) {
        return AG_DECODE_LIVE;
    }
    if (n_bytes < 8 || memcmp(bytes, file_magic, sizeof(file_magic)) != 0) {
        return AG_DECODE_NOT_A_TRACE;
    }
    /* The version is tested before the hash, because a later version may change the layout of the
     * fields after the version. */
    if (n_bytes >= 10 && ag_get_16(bytes + 8) > AG_TRACE_VERSION) {
        return AG_DECODE_NEWER;
    }
    if (n_bytes < AG_TRACE_HEADER_BYTES) {
        return AG_DECODE_CUT;
    }
    if (ag_get_64(bytes + 56) != ag_hash_bytes(bytes, 56)) {
        return AG_DECODE_CHECKSUM;
    }
    const struct ag_file_header header = {
        .version = ag_get_16(bytes + 8),
        .header_bytes = ag_get_16(bytes + 10),
        .trace = {.session = ag_get_64(bytes + 16),
                  .pid = ag_get_32(bytes + 24),
                  .slot = ag_get_32(bytes + 28),
                  .start_realtime_ns = ag_get_64(bytes + 32)},
    };
    if (header.version == 0 || header.header_bytes < AG_TRACE_HEADER_BYTES ||
        header.header_bytes > AG_TRACE_HEADER_MAX_BYTES) {
        return AG_DECODE_NOT_A_TRACE;
    }
    *ret_header = header;
    return AG_DECODE_OK;
}

/* ---- chunk header ---- */

void ag_chunk_header_put(uint8_t bytes[AG_CHUNK_HEADER_BYTES],
                         const struct ag_chunk_header *header) {
    const struct ag_chunk_entry *entry = &header->entry;

    memcpy(bytes, chunk_magic, sizeof(chunk_magic));
    bytes[4] = entry->kind;
    bytes[5] = entry->coding;
    ag_put_16(bytes + 6, AG_CHUNK_HEADER_BYTES);
    ag_put_32(bytes + 8, entry->stream);
    ag_put_32(bytes + 12, entry->thread_id);
    ag_put_64(bytes + 16, entry->first_sequence);
    ag_put_32(bytes + 24, entry->sequences);
    ag_put_32(bytes + 28, entry->events);
    ag_put_64(bytes + 32, entry->first_time_ns);
    ag_put_32(bytes + 40, entry->used_bytes);
    ag_put_32(bytes + 44, entry->stored_bytes);
    ag_put_64(bytes + 48, header->stored_hash);
    ag_put_64(bytes + 56, ag_hash_bytes(bytes, 56));
}

bool ag_chunk_entry_is_valid(const struct ag_chunk_entry *entry) {
    return entry->stored_bytes > 0 && entry->stored_bytes <= entry->used_bytes &&
           entry->used_bytes <= AG_CHUNK_MAX_BYTES &&
           entry->used_bytes <= (uint64_t)AG_RATIO_MOST * entry->stored_bytes &&
           entry->events <= entry->used_bytes;
}

enum ag_decode_code ag_chunk_header_get(const uint8_t bytes[AG_CHUNK_HEADER_BYTES],
                                        struct ag_chunk_header *ret_header) {
    if (memcmp(bytes, chunk_magic, sizeof(chunk_magic)) != 0) {
        return AG_DECODE_BAD_CHUNK;
    }
    if (ag_get_64(bytes + 56) != ag_hash_bytes(bytes, 56)) {
        return AG_DECODE_CHECKSUM;
    }
    const struct ag_chunk_entry entry = {
        .kind = bytes[4],
        .coding = bytes[5],
        .stream = ag_get_32(bytes + 8),
        .thread_id = ag_get_32(bytes + 12),
        .first_sequence = ag_get_64(bytes + 16),
        .sequences = ag_get_32(bytes + 24),
        .events = ag_get_32(bytes + 28),
        .first_time_ns = ag_get_64(bytes + 32),
        .used_bytes = ag_get_32(bytes + 40),
        .stored_bytes = ag_get_32(bytes + 44),
    };
    if (ag_get_16(bytes + 6) != AG_CHUNK_HEADER_BYTES || entry.coding > AG_CODING_ZSTD ||
        !ag_chunk_entry_is_valid(&entry) ||
        (entry.coding == AG_CODING_RAW && entry.stored_bytes != entry.used_bytes)) {
        return AG_DECODE_BAD_CHUNK;
    }
    *ret_header = (struct ag_chunk_header){.entry = entry, .stored_hash = ag_get_64(bytes + 48)};
    return AG_DECODE_OK;
}

int ag_chunk_list_reserve(struct ag_chunk_list *list) {
    if (list->n < list->capacity) {
        return 0;
    }
    const size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
    struct ag_chunk_entry *entries = realloc(list->entries, capacity * sizeof(*entries));
    if (entries == NULL) {
        return -ENOMEM;
    }
    list->entries = entries;
    list->capacity = capacity;
    return 0;
}

/* ---- footer ---- */

void ag_footer_put(uint8_t bytes[AG_TRACE_FOOTER_BYTES], uint64_t index_offset) {
    memset(bytes, 0, AG_TRACE_FOOTER_BYTES);
    memcpy(bytes, footer_magic, sizeof(footer_magic));
    ag_put_64(bytes + 8, index_offset);
    ag_put_64(bytes + 24, ag_hash_bytes(bytes, 24));
}

bool ag_footer_get(const uint8_t bytes[AG_TRACE_FOOTER_BYTES], uint64_t *ret_index_offset) {
    if (memcmp(bytes, footer_magic, sizeof(footer_magic)) != 0 ||
        ag_get_64(bytes + 24) != ag_hash_bytes(bytes, 24)) {
        return false;
    }
    *ret_index_offset = ag_get_64(bytes + 8);
    return true;
}

/* ---- the file ---- */

int64_t ag_read_at(int fd, void *bytes, size_t n_bytes, uint64_t offset) {
    size_t done = 0;

    while (done < n_bytes) {
        const ssize_t n =
            pread(fd, (uint8_t *)bytes + done, n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    return (int64_t)done;
}

int ag_write_at(int fd, const void *bytes, size_t n_bytes, uint64_t offset) {
    size_t done = 0;

    while (done < n_bytes) {
        const ssize_t n =
            pwrite(fd, (const uint8_t *)bytes + done, n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : -EIO;
        }
        /* after a short write, the next pwrite reports the cause (disk full, RLIMIT_FSIZE) */
        done += (size_t)n;
    }
    return 0;
}

static int walk_damage(struct ag_chunk_walk *walk, enum ag_decode_code code) {
    walk->damage = (struct ag_decode_error){.code = code, .offset = walk->offset};
    return 0;
}

int ag_chunk_walk_next(struct ag_chunk_walk *walk, struct ag_chunk_header *ret_header) {
    if (walk->damage.code != AG_DECODE_OK || walk->offset >= walk->file_bytes) {
        return 0;
    }
    /* computed from the size when the file was opened, because the file may still grow */
    const uint64_t left_bytes = walk->file_bytes - walk->offset;
    uint8_t bytes[AG_CHUNK_HEADER_BYTES];
    const size_t wanted = left_bytes < sizeof(bytes) ? (size_t)left_bytes : sizeof(bytes);
    const int64_t n_read = ag_read_at(walk->fd, bytes, wanted, walk->offset);
    if (n_read < 0) {
        return (int)n_read;
    }
    uint64_t index_offset;
    if (n_read == AG_TRACE_FOOTER_BYTES && ag_footer_get(bytes, &index_offset)) {
        return 0;
    }
    if (n_read < AG_CHUNK_HEADER_BYTES) {
        return walk_damage(walk, AG_DECODE_CUT);
    }
    struct ag_chunk_header header;
    const enum ag_decode_code code = ag_chunk_header_get(bytes, &header);
    if (code != AG_DECODE_OK) {
        return walk_damage(walk, code);
    }
    if (header.entry.stored_bytes > left_bytes - AG_CHUNK_HEADER_BYTES) {
        return walk_damage(walk, AG_DECODE_CUT);
    }
    header.entry.offset = walk->offset;
    walk->offset += AG_CHUNK_HEADER_BYTES + header.entry.stored_bytes;
    *ret_header = header;
    return 1;
}

int ag_decode_fail(struct ag_decode_error *ret_error, enum ag_decode_code code, uint64_t offset) {
    *ret_error = (struct ag_decode_error){.code = code, .offset = offset};
    switch (code) {
    case AG_DECODE_NO_MEMORY:
        return -ENOMEM;
    case AG_DECODE_IO:
        return -EIO;
    case AG_DECODE_NEWER:
        return -ENOTSUP;
    case AG_DECODE_NOT_REGULAR:
        return -EINVAL;
    case AG_DECODE_OK:
    case AG_DECODE_EMPTY:
    case AG_DECODE_NOT_A_TRACE:
    case AG_DECODE_LIVE:
    case AG_DECODE_CUT:
    case AG_DECODE_CHECKSUM:
    case AG_DECODE_BAD_CHUNK:
    case AG_DECODE_BAD_RECORD:
    case AG_DECODE_UNSEALED:
        return -EBADMSG;
    }
    return -EBADMSG;
}
