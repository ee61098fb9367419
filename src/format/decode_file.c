/* decode_file.c: opens a trace file and lists its chunks. The list is read from the file's index,
 * which was written after all other chunks. If there is no valid index, the list is made by a walk
 * from chunk header to chunk header.
 *
 * The file is untrusted. Only regular files are opened, the hash of every header is checked, and
 * the chunks of an index must cover the file without gap or overlap. Each entry of the index is
 * compared with the chunk's header when the chunk is read. If the index is damaged, the file is
 * walked, and the damage of the index is reported unless the walk finds damage. The list has at
 * most one entry per 65 bytes of the file, because a chunk has a header of 64 bytes and at least
 * one byte of content. */
#include "decode_chunk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the list of chunks ---- */

static bool entries_add(struct ag_trace_file *file, const struct ag_chunk_entry *entry) {
    if (ag_chunk_list_reserve(&file->chunks) < 0) {
        return false;
    }
    file->chunks.entries[file->chunks.n++] = *entry;
    return true;
}

/* Adds every chunk from `offset` on. Returns 0 and, in *ret_damage, where and why the walk stopped
 * (code OK: it reached `end`); or a negative errno. */
static int add_walked(struct ag_trace_file *file, uint64_t offset, uint64_t end,
                      struct ag_decode_error *ret_damage) {
    struct ag_chunk_walk walk = {.fd = file->fd, .file_bytes = end, .offset = offset};
    struct ag_chunk_header header;
    int r;

    while ((r = ag_chunk_walk_next(&walk, &header)) > 0) {
        if (!entries_add(file, &header.entry)) {
            return -ENOMEM;
        }
    }
    *ret_damage = walk.damage;
    return r;
}

/* ---- with an index ---- */

/* Adds the rows of one CHUNKS record. Each chunk must begin where the previous chunk ends. *next:
 * the offset at which the next chunk has to begin. */
static bool take_rows(struct ag_trace_file *file, const struct ag_record *record,
                      uint64_t index_offset, uint64_t *next) {
    struct ag_chunk_entry entry;

    for (size_t cursor = 0; ag_chunks_next(record, &cursor, &entry) > 0;) {
        if (entry.offset != *next || !ag_chunk_entry_is_valid(&entry) ||
            index_offset - *next < AG_CHUNK_HEADER_BYTES + (uint64_t)entry.stored_bytes) {
            return false;
        }
        *next += AG_CHUNK_HEADER_BYTES + (uint64_t)entry.stored_bytes;
        if (!entries_add(file, &entry)) {
            return false;
        }
    }
    return true;
}

/* Reads the list of all chunks before the index from the chunks of the index. The first chunk of
 * the index is at index_offset. */
static bool take_list(struct ag_trace_file *file, struct ag_chunk_decoder *decoder,
                      const struct ag_chunk_list *index, uint64_t index_offset,
                      struct ag_decode_error *ret_error) {
    uint64_t next = file->header.header_bytes;

    for (size_t i = 0; i < index->n; i++) {
        if (ag_chunk_decoder_start(decoder, file, &index->entries[i], ret_error) < 0) {
            return false;
        }
        struct ag_record record;
        while (ag_chunk_decoder_next(decoder, NULL, 0, &record, ret_error) == 0 &&
               record.kind != 0) {
            if (record.kind == AG_RECORD_CHUNKS && !take_rows(file, &record, index_offset, &next)) {
                (void)ag_decode_fail(ret_error, AG_DECODE_BAD_RECORD,
                                     index->entries[i].offset); /* *ret_error has the result */
                ret_error->record = AG_RECORD_CHUNKS;
                return false;
            }
        }
        if (ret_error->code != AG_DECODE_OK) {
            return false;
        }
    }
    if (next != index_offset) {                                     /* the list omits chunks */
        (void)ag_decode_fail(ret_error, AG_DECODE_BAD_CHUNK, next); /* *ret_error has the result */
        return false;
    }
    return true;
}

/* Finds the chunks through the index to which the footer points. Returns false if this index is not
 * valid; *ret_error has the reason. */
static bool load_index(struct ag_trace_file *file, uint64_t index_offset,
                       struct ag_decode_error *ret_error) {
    const uint64_t footer_offset = file->n_bytes - AG_TRACE_FOOTER_BYTES;
    if (index_offset < file->header.header_bytes || index_offset > footer_offset) {
        (void)ag_decode_fail(ret_error, AG_DECODE_BAD_CHUNK,
                             footer_offset); /* *ret_error has the result */
        return false;
    }
    if (add_walked(file, index_offset, footer_offset, ret_error) < 0 ||
        ret_error->code != AG_DECODE_OK) {
        return false;
    }
    const struct ag_chunk_list index = file->chunks;
    file->chunks = (struct ag_chunk_list){0};

    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    bool is_good = decoder != NULL && take_list(file, decoder, &index, index_offset, ret_error);
    for (size_t i = 0; is_good && i < index.n; i++) {
        is_good = entries_add(file, &index.entries[i]);
    }
    (void)ag_chunk_decoder_free(decoder); /* returns NULL */
    free(index.entries);
    if (!is_good && ret_error->code == AG_DECODE_OK) {
        (void)ag_decode_fail(ret_error, AG_DECODE_NO_MEMORY,
                             index_offset); /* *ret_error has the result */
    }
    return is_good;
}

/* ---- with an index or without ---- */

static int find_chunks(struct ag_trace_file *file) {
    uint8_t footer[AG_TRACE_FOOTER_BYTES];
    uint64_t index_offset;
    struct ag_decode_error index_error = {0};
    bool has_footer = false;

    if (file->n_bytes >= AG_TRACE_HEADER_BYTES + AG_TRACE_FOOTER_BYTES) {
        const int64_t n_read =
            ag_read_at(file->fd, footer, sizeof(footer), file->n_bytes - sizeof(footer));
        has_footer = n_read == (int64_t)sizeof(footer) && ag_footer_get(footer, &index_offset);
    }
    if (has_footer && load_index(file, index_offset, &index_error)) {
        file->has_index = true;
        return 0;
    }
    file->chunks.n = 0;
    const int r = add_walked(file, file->header.header_bytes, file->n_bytes, &file->damage);
    if (r < 0) {
        return r;
    }
    if (file->damage.code == AG_DECODE_OK) {
        file->damage = has_footer ? index_error
                                  : (struct ag_decode_error){.code = AG_DECODE_UNSEALED,
                                                             .offset = file->n_bytes};
    }
    return 0;
}

/* ---- the file ---- */

/* Opens a regular file. Checks the kind of the file before it is opened, because opening a device
 * or a pipe may have side effects. */
static int open_regular(const char *path, struct ag_decode_error *ret_error,
                        struct stat *ret_status) {
    if (stat(path, ret_status) < 0) {
        const int error = -errno;
        (void)ag_decode_fail(ret_error, AG_DECODE_IO, 0); /* errno has the cause */
        return error;
    }
    if (!S_ISREG(ret_status->st_mode)) {
        const int error = ag_decode_fail(ret_error, AG_DECODE_NOT_REGULAR, 0);
        return S_ISDIR(ret_status->st_mode) ? -EISDIR : error;
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, ret_status) < 0) {
        const int error = -errno;
        (void)ag_decode_fail(ret_error, AG_DECODE_IO, 0); /* errno has the cause */
        if (fd >= 0) {
            close(fd);
        }
        return error;
    }
    if (!S_ISREG(ret_status->st_mode)) {
        close(fd);
        return ag_decode_fail(ret_error, AG_DECODE_NOT_REGULAR, 0);
    }
    return fd;
}

int ag_trace_file_open(const char *path, struct ag_trace_file **ret_file,
                       struct ag_decode_error *ret_error) {
    struct stat status;
    *ret_error = (struct ag_decode_error){0};
    const int fd = open_regular(path, ret_error, &status);
    if (fd < 0) {
        return fd;
    }
    struct ag_trace_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        close(fd);
        return ag_decode_fail(ret_error, AG_DECODE_NO_MEMORY, 0);
    }
    file->fd = fd;
    file->n_bytes = (uint64_t)status.st_size;

    uint8_t bytes[AG_TRACE_HEADER_BYTES];
    int64_t n_read = ag_read_at(fd, bytes, sizeof(bytes), 0);
    int r;
    if (n_read < 0) {
        r = (int)n_read;
        (void)ag_decode_fail(ret_error, AG_DECODE_IO, 0); /* errno has the cause */
        goto fail;
    }
    const enum ag_decode_code code = ag_file_header_get(bytes, (size_t)n_read, &file->header);
    if (code != AG_DECODE_OK) {
        r = ag_decode_fail(ret_error, code, 0);
        goto fail;
    }
    r = find_chunks(file);
    if (r < 0) {
        (void)ag_decode_fail(ret_error, r == -ENOMEM ? AG_DECODE_NO_MEMORY : AG_DECODE_IO,
                             0); /* errno has the cause */
        goto fail;
    }
    *ret_file = file;
    return 0;

fail:
    (void)ag_trace_file_close(file); /* returns NULL */
    return r;
}

struct ag_trace_file *ag_trace_file_close(struct ag_trace_file *file) {
    if (file != NULL) {
        close(file->fd);
        free(file->chunks.entries);
        free(file);
    }
    return NULL;
}

uint64_t ag_trace_file_bytes(const struct ag_trace_file *file) {
    return file->n_bytes;
}

int ag_trace_file_descriptor(const struct ag_trace_file *file) {
    return file->fd;
}

uint32_t ag_trace_file_version(const struct ag_trace_file *file) {
    return file->header.version;
}

bool ag_trace_file_has_index(const struct ag_trace_file *file) {
    return file->has_index;
}

const struct ag_decode_error *ag_trace_file_damage(const struct ag_trace_file *file) {
    return file->damage.code == AG_DECODE_OK ? NULL : &file->damage;
}

void ag_trace_file_set_progress(struct ag_trace_file *file, const struct ag_progress *progress) {
    file->progress = progress;
}

void ag_trace_file_begin_pass(const struct ag_trace_file *file, uint64_t bytes) {
    if (file->progress != NULL) {
        file->progress->notice(file->progress->context, AG_PROGRESS_BEGIN, bytes);
    }
}

void ag_trace_file_end_pass(const struct ag_trace_file *file) {
    if (file->progress != NULL) {
        file->progress->notice(file->progress->context, AG_PROGRESS_END, 0);
    }
}

size_t ag_trace_file_chunks(const struct ag_trace_file *file,
                            const struct ag_chunk_entry **ret_entries) {
    *ret_entries = file->chunks.entries;
    return file->chunks.n;
}

const char *ag_decode_code_text(enum ag_decode_code code) {
    switch (code) {
    case AG_DECODE_OK:
        return "whole";
    case AG_DECODE_EMPTY:
        return "empty";
    case AG_DECODE_NOT_A_TRACE:
        return "not an allogram trace";
    case AG_DECODE_NEWER:
        return "of a newer version than this allogram can read";
    case AG_DECODE_LIVE:
        return "a live recording, not a trace; `allogram check` makes the traces";
    case AG_DECODE_NOT_REGULAR:
        return "not a regular file";
    case AG_DECODE_CUT:
        return "cut short";
    case AG_DECODE_CHECKSUM:
        return "damaged, a checksum does not match";
    case AG_DECODE_BAD_CHUNK:
        return "damaged, a chunk is not valid";
    case AG_DECODE_BAD_RECORD:
        return "damaged, a record is not valid";
    case AG_DECODE_UNSEALED:
        return "not sealed, the recording was killed or is still running";
    case AG_DECODE_NO_MEMORY:
        return "too large for the available memory";
    case AG_DECODE_IO:
        return "not readable";
    }
    return "damaged";
}
