/* test_format_file.c: trace files that are whole, cut at any byte, damaged, resumed, limited in
 * size, or of a newer version, and files that are no traces. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zstd.h>

#include "format/encode.h"
#include "format/trace_layout.h"
#include "format/verify.h"
#include "format_samples.h"

/* ---- files ---- */

struct image { /* a whole file in memory */
    uint8_t *bytes;
    size_t n_bytes;
};

static char work_path[64];

static int make_folder(void **state) {
    (void)state;
    snprintf(work_path, sizeof(work_path), "/tmp/test_format_file.XXXXXX");
    return mkdtemp(work_path) == NULL ? -1 : 0;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(work_path); /* fails when a test left a file behind */
}

/* The path of a file in the test's folder; valid until the next call. */
static const char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", work_path, name);
    return path;
}

static int create(const char *path) {
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void write_file(const char *path, const void *bytes, size_t n_bytes) {
    const int fd = create(path);
    assert_int_equal(ag_write_at(fd, bytes, n_bytes, 0), 0);
    close(fd);
}

static struct image read_file(const char *path) {
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    struct image image = {.bytes = malloc((size_t)status.st_size + 1),
                          .n_bytes = (size_t)status.st_size};
    assert_int_equal(ag_read_at(fd, image.bytes, image.n_bytes, 0), (int64_t)image.n_bytes);
    close(fd);
    return image;
}

static struct image sample(unsigned n_chunks, enum ag_sample_ending ending) {
    const char *path = path_of("sample");
    assert_int_equal(ag_sample_trace(create(path), /* seed= */ 1, n_chunks, ending), 0);
    const struct image image = read_file(path);
    unlink(path);
    return image;
}

/* Reads the offsets of the chunks (the units of a trace), and the offset at which the last one
 * ends. */
static size_t chunk_offsets(const struct image *image, size_t *ret_offsets, size_t capacity) {
    const char *path = path_of("offsets");
    write_file(path, image->bytes, image->n_bytes);
    struct ag_trace_file *file;
    struct ag_decode_error error;
    const struct ag_chunk_entry *entries;
    assert_int_equal(ag_trace_file_open(path, &file, &error), 0);
    const size_t count = ag_trace_file_chunks(file, &entries);
    assert_true(count < capacity);
    for (size_t i = 0; i < count; i++) {
        ret_offsets[i] = (size_t)entries[i].offset;
        ret_offsets[i + 1] = ret_offsets[i] + AG_CHUNK_HEADER_BYTES + entries[i].stored_bytes;
    }
    assert_null(ag_trace_file_close(file));
    unlink(path);
    return count;
}

static struct ag_verdict verdict_of(const void *bytes, size_t n_bytes) {
    struct ag_verdict verdict;
    const char *path = path_of("verdict");
    write_file(path, bytes, n_bytes);
    assert_int_equal(ag_trace_verify(path, /* progress= */ NULL, &verdict), 0);
    unlink(path);
    return verdict;
}

static enum ag_decode_code open_code(const char *path, int expected_errno) {
    struct ag_trace_file *file = NULL;
    struct ag_decode_error error;
    const int r = ag_trace_file_open(path, &file, &error);
    assert_int_equal(r, expected_errno);
    if (r == 0) {
        assert_null(ag_trace_file_close(file));
    }
    return error.code;
}

/* ---- whole and cut ---- */

static void a_sealed_trace_is_whole(void **state) {
    (void)state;
    const struct image image = sample(6, AG_SAMPLE_SEALED);
    const struct ag_verdict verdict = verdict_of(image.bytes, image.n_bytes);
    assert_true(verdict.is_trace);
    assert_true(verdict.is_whole);
    assert_true(verdict.has_end);
    assert_int_equal(verdict.damage.code, AG_DECODE_OK);
    assert_int_equal(verdict.chunks, 1 + 6 + 2);
    assert_true(verdict.events > 6 * 100 && verdict.events < 6 * 160);
    free(image.bytes);
}

/* The most important property of the format: a file that ends at any byte is readable, with every
 * whole chunk before its end. */
static void cut_at_any_byte_every_whole_chunk_is_readable(void **state) {
    (void)state;
    const struct image image = sample(4, AG_SAMPLE_SEALED);
    size_t offsets[16];
    const size_t n_chunks = chunk_offsets(&image, offsets, 16);
    uint64_t events_before = 0;
    for (size_t cut = 0; cut < image.n_bytes; cut++) {
        const struct ag_verdict verdict = verdict_of(image.bytes, cut);
        assert_false(verdict.is_whole);
        if (cut < AG_TRACE_HEADER_BYTES) {
            assert_false(verdict.is_trace);
            assert_int_equal(verdict.damage.code, cut == 0  ? AG_DECODE_EMPTY
                                                  : cut < 8 ? AG_DECODE_NOT_A_TRACE
                                                            : AG_DECODE_CUT);
            continue;
        }
        assert_true(verdict.is_trace);
        size_t whole = 0;
        while (whole < n_chunks && offsets[whole + 1] <= cut) {
            whole++;
        }
        assert_int_equal(verdict.chunks, whole);
        assert_int_equal(verdict.damage.code,
                         offsets[whole] == cut ? AG_DECODE_UNSEALED : AG_DECODE_CUT);
        assert_int_equal(verdict.damage.offset, offsets[whole]);
        assert_true(verdict.events >= events_before);
        events_before = verdict.events;
    }
    free(image.bytes);
}

static void a_flipped_bit_anywhere_is_found(void **state) {
    (void)state;
    const struct image image = sample(3, AG_SAMPLE_SEALED);
    for (size_t at = 0; at < image.n_bytes; at++) {
        image.bytes[at] ^= (uint8_t)(1 << at % 8);
        const struct ag_verdict verdict = verdict_of(image.bytes, image.n_bytes);
        if (verdict.is_whole) {
            fail_msg("a flipped bit at %zu of %zu was not seen", at, image.n_bytes);
        }
        image.bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    assert_true(verdict_of(image.bytes, image.n_bytes).is_whole);
    free(image.bytes);
}

static void a_trace_with_a_damaged_index_is_read_chunk_by_chunk(void **state) {
    (void)state;
    const struct image image = sample(5, AG_SAMPLE_SEALED);
    size_t offsets[16];
    const size_t n_chunks = chunk_offsets(&image, offsets, 16);
    const uint64_t events = verdict_of(image.bytes, image.n_bytes).events;
    image.bytes[offsets[n_chunks - 2] + AG_CHUNK_HEADER_BYTES + 3] ^= 1; /* a byte of the list of
                                                                          * chunks */
    const struct ag_verdict verdict = verdict_of(image.bytes, image.n_bytes);
    assert_false(verdict.is_whole);
    assert_int_equal(verdict.damage.code, AG_DECODE_CHECKSUM);
    assert_int_equal(verdict.damage.offset, offsets[n_chunks - 2]);
    assert_int_equal(verdict.events, events);
    free(image.bytes);
}

static void damage_in_one_chunk_leaves_the_others(void **state) {
    (void)state;
    const struct image image = sample(5, AG_SAMPLE_SEALED);
    size_t offsets[16];
    (void)chunk_offsets(&image, offsets, 16); /* the count is not needed here */
    const uint64_t events = verdict_of(image.bytes, image.n_bytes).events;
    image.bytes[offsets[2] + AG_CHUNK_HEADER_BYTES + 9] ^= 0x40;
    const struct ag_verdict verdict = verdict_of(image.bytes, image.n_bytes);
    assert_int_equal(verdict.damage.code, AG_DECODE_CHECKSUM);
    assert_int_equal(verdict.damage.offset, offsets[2]);
    assert_true(verdict.events < events && verdict.events > events / 2);
    free(image.bytes);
}

static void a_repeated_chunk_is_damage(void **state) {
    (void)state;
    const struct image image = sample(2, AG_SAMPLE_UNSEALED);
    size_t offsets[16];
    const size_t n_chunks = chunk_offsets(&image, offsets, 16);
    const size_t last_bytes = offsets[n_chunks] - offsets[n_chunks - 1];
    uint8_t *twice = malloc(image.n_bytes + last_bytes);
    memcpy(twice, image.bytes, image.n_bytes);
    memcpy(twice + image.n_bytes, image.bytes + offsets[n_chunks - 1], last_bytes);
    const struct ag_verdict verdict = verdict_of(twice, image.n_bytes + last_bytes);
    assert_int_equal(verdict.damage.code, AG_DECODE_BAD_CHUNK);
    assert_int_equal(verdict.damage.offset, image.n_bytes);
    free(twice);
    free(image.bytes);
}

static void a_file_that_shrinks_while_open_gives_an_error(void **state) {
    (void)state;
    const struct image image = sample(3, AG_SAMPLE_SEALED);
    const char *path = path_of("shrinking");
    write_file(path, image.bytes, image.n_bytes);
    struct ag_trace_file *file;
    struct ag_decode_error error;
    const struct ag_chunk_entry *entries;
    assert_int_equal(ag_trace_file_open(path, &file, &error), 0);
    assert_true(ag_trace_file_chunks(file, &entries) > 2);
    assert_int_equal(truncate(path, (off_t)entries[1].offset + 10), 0);
    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    assert_int_equal(ag_chunk_decoder_start(decoder, file, &entries[0], &error), 0);
    assert_int_equal(ag_chunk_decoder_start(decoder, file, &entries[1], &error), -EBADMSG);
    assert_int_equal(error.code, AG_DECODE_CUT);
    assert_null(ag_chunk_decoder_free(decoder));
    assert_null(ag_trace_file_close(file));
    unlink(path);
    free(image.bytes);
}

/* ---- files that are no trace ---- */

static void only_regular_files_are_opened(void **state) {
    (void)state;
    assert_int_equal(open_code(work_path, -EISDIR), AG_DECODE_NOT_REGULAR);
    assert_int_equal(open_code("/dev/null", -EINVAL), AG_DECODE_NOT_REGULAR);
    assert_int_equal(open_code(path_of("absent"), -ENOENT), AG_DECODE_IO);
    const char *path = path_of("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(open_code(path, -EINVAL),
                     /* open returns at once and does not wait for a process that writes */
                     AG_DECODE_NOT_REGULAR);
    unlink(path);
}

static void other_files_are_distinguished(void **state) {
    (void)state;
    const char *path = path_of("other");
    write_file(path, "", 0);
    assert_int_equal(open_code(path, -EBADMSG), AG_DECODE_EMPTY);
    write_file(path, "#!/bin/sh\necho this is no trace, but it is longer than a header of one is\n",
               74);
    assert_int_equal(open_code(path, -EBADMSG), AG_DECODE_NOT_A_TRACE);
    write_file(path, "ALAGIVE1 and more", 17);
    assert_int_equal(open_code(path, -EBADMSG), AG_DECODE_LIVE);
    write_file(path, "ALLOGRAM\2\0 of which this reader knows nothing", 46);
    assert_int_equal(open_code(path, -ENOTSUP), AG_DECODE_NEWER);
    unlink(path);
}

static void an_unknown_chunk_kind_is_passed_over(void **state) {
    (void)state;
    const char *path = path_of("unknown");
    struct ag_trace_writer *writer;
    struct ag_event_encoder *encoder = ag_event_encoder_new();
    const struct ag_event event = {.kind = AG_RECORD_FREE, .address = 4096};
    assert_int_equal(ag_event_encoder_add(encoder, &event, 1), 0);
    const struct ag_blob *body = ag_event_encoder_body(encoder);
    assert_int_equal(
        ag_trace_writer_new(create(path), &(struct ag_trace_header){.session = 1}, &writer), 0);
    const struct ag_chunk_info unknown = {.kind = 77};
    const struct ag_chunk_info events = {.kind = AG_CHUNK_KIND_EVENTS, .events = 1};
    assert_int_equal(ag_trace_writer_chunk(writer, &unknown, "\xff\xff\xff", 3), 0);
    assert_int_equal(ag_trace_writer_chunk(writer, &events, body->data, body->length), 0);
    assert_int_equal(ag_trace_writer_finish(writer, NULL), 0);
    assert_null(ag_trace_writer_free(writer));
    assert_null(ag_event_encoder_free(encoder));
    struct ag_verdict verdict;
    assert_int_equal(ag_trace_verify(path, /* progress= */ NULL, &verdict), 0);
    assert_true(verdict.is_whole);
    assert_int_equal(verdict.events, 1);
    unlink(path);
}

/* The bytes compress a thousandfold. The writer does not compress a chunk further than readers
 * allow. A chunk that another writer compressed further is damage. */
static void a_chunk_that_grows_too_much_is_damage(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    const char *path = path_of("bomb");
    struct ag_trace_writer *writer;
    uint8_t *body = malloc(N), *stored = malloc(ZSTD_compressBound(N) + AG_CHUNK_HEADER_BYTES);
    for (size_t i = 0; i < N; i += 2) {
        body[i] = 63 + 50; /* the head of a record of an unknown kind without contents */
        body[i + 1] = 0;
    }
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS};
    assert_int_equal(
        ag_trace_writer_new(create(path), &(struct ag_trace_header){.session = 1}, &writer), 0);
    assert_int_equal(ag_trace_writer_chunk(writer, &info, body, N), 0);
    assert_int_equal(ag_trace_writer_finish(writer, NULL), 0);
    assert_null(ag_trace_writer_free(writer));
    struct image image = read_file(path);
    unlink(path);
    size_t offsets[16];
    const size_t n_chunks = chunk_offsets(&image, offsets, 16);
    assert_true(n_chunks >= 1 && offsets[1] - offsets[0] > N / 256);
    assert_true(offsets[1] - offsets[0] < N / 200);
    assert_true(verdict_of(image.bytes, image.n_bytes).is_whole);

    const size_t n_stored =
        ZSTD_compress(stored + AG_CHUNK_HEADER_BYTES, ZSTD_compressBound(N), body, N, 1);
    assert_false(ZSTD_isError(n_stored));
    assert_true(n_stored < N / 256);
    const struct ag_chunk_header header = {
        .entry = {.offset = offsets[0],
                  .kind = AG_CHUNK_KIND_RECORDS,
                  .coding = AG_CODING_ZSTD,
                  .used_bytes = N,
                  .stored_bytes = (uint32_t)n_stored},
        .stored_hash = ag_hash_bytes(stored + AG_CHUNK_HEADER_BYTES, n_stored)};
    ag_chunk_header_put(stored, &header);
    memcpy(image.bytes + offsets[0], stored, AG_CHUNK_HEADER_BYTES + n_stored);
    const struct ag_verdict verdict =
        verdict_of(image.bytes, offsets[0] + AG_CHUNK_HEADER_BYTES + n_stored);
    assert_int_equal(verdict.damage.code, AG_DECODE_BAD_CHUNK);
    assert_int_equal(verdict.damage.offset, offsets[0]);
    free(image.bytes);
    free(body);
    free(stored);
}

/* ---- resume ---- */

/* After a cut at any byte, a resumed trace continues after its last whole chunk, and the writer
 * knows what the trace holds. */
static void resumed_after_a_cut_at_any_byte(void **state) {
    (void)state;
    const struct image image = sample(4, AG_SAMPLE_SEALED);
    size_t offsets[16];
    const size_t n_chunks = chunk_offsets(&image, offsets, 16) - 2; /* without the index */
    for (size_t cut = 0; cut <= image.n_bytes; cut++) {
        const char *path = path_of("resumed");
        write_file(path, image.bytes, cut);
        const int fd = open(path, O_RDWR | O_CLOEXEC);
        struct ag_trace_writer *writer;
        const int r = ag_trace_writer_resume(fd, &writer);
        if (cut < AG_TRACE_HEADER_BYTES) {
            assert_int_equal(r, -EBADMSG);
            close(fd);
            continue;
        }
        assert_int_equal(r, 0);
        size_t whole = 0;
        while (whole < n_chunks && offsets[whole + 1] <= cut) {
            whole++;
        }
        assert_int_equal(ag_trace_writer_bytes(writer), offsets[whole]);
        /* Chunk 0 has records. The other chunks are of streams (threads) 0 and 1 in turn, and each
         * has three sequence numbers. */
        assert_int_equal(ag_trace_writer_last_sequence(writer, 0), whole < 2   ? -1
                                                                   : whole < 4 ? 2
                                                                               : 5);
        assert_int_equal(ag_trace_writer_last_sequence(writer, 1), whole < 3   ? -1
                                                                   : whole < 5 ? 2
                                                                               : 5);
        assert_int_equal(ag_trace_writer_last_sequence(writer, 2), -1);
        const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS};
        assert_int_equal(ag_trace_writer_chunk(writer, &info, "\x0a\x01\x07", 3),
                         0); /* image_unload */
        assert_int_equal(ag_trace_writer_finish(writer, NULL), 0);
        assert_null(ag_trace_writer_free(writer));

        struct ag_verdict verdict;
        assert_int_equal(ag_trace_verify(path, /* progress= */ NULL, &verdict), 0);
        assert_true(verdict.is_whole);
        assert_int_equal(verdict.chunks, whole + 2);
    }
    unlink(path_of("resumed"));
    free(image.bytes);
}

/* After a crash of the machine a file may have its full length, but not its bytes. */
static void resume_cuts_a_chunk_whose_bytes_were_not_written(void **state) {
    (void)state;
    const struct image image = sample(4, AG_SAMPLE_UNSEALED);
    size_t offsets[16];
    const size_t n_chunks = chunk_offsets(&image, offsets, 16);
    memset(image.bytes + offsets[n_chunks] - 20, 0, 20);
    const char *path = path_of("zeros");
    write_file(path, image.bytes, image.n_bytes);
    struct ag_trace_writer *writer;
    assert_int_equal(ag_trace_writer_resume(open(path, O_RDWR | O_CLOEXEC), &writer), 0);
    assert_int_equal(ag_trace_writer_bytes(writer), offsets[n_chunks - 1]);
    assert_null(ag_trace_writer_free(writer));
    unlink(path);
    free(image.bytes);
}

static void sequences_of_many_streams_are_known_after_a_resume(void **state) {
    (void)state;
    enum { STREAMS = 1000 };
    const char *path = path_of("streams");
    struct ag_trace_writer *writer;
    assert_int_equal(
        ag_trace_writer_new(create(path), &(struct ag_trace_header){.session = 1}, &writer), 0);
    const char body[] = {(char)(AG_OTHER_STAMP << AG_FORM_BITS | AG_FORM_OTHER), 1};
    for (uint32_t i = 0; i < STREAMS; i++) {
        const struct ag_chunk_info info = {
            .kind = AG_CHUNK_KIND_EVENTS, .stream = i * 7, .first_sequence = i, .sequences = 2};
        assert_int_equal(ag_trace_writer_chunk(writer, &info, body, sizeof(body)), 0);
    }
    assert_null(ag_trace_writer_free(writer));
    assert_int_equal(ag_trace_writer_resume(open(path, O_RDWR | O_CLOEXEC), &writer), 0);
    for (uint32_t i = 0; i < STREAMS; i++) {
        assert_int_equal(ag_trace_writer_last_sequence(writer, i * 7), (int64_t)i + 1);
        assert_int_equal(ag_trace_writer_last_sequence(writer, i * 7 + 1), -1);
    }
    assert_null(ag_trace_writer_free(writer));
    unlink(path);
}

/* ---- a full disk ---- */

/* Sets a limit of the file size, and writes a trace that exceeds it. Must be called in a child
 * process, because the limit holds until the process ends. Returns 0, or a number for the process
 * to exit with: the source line of the failed check, modulo 250. */
static int fill_up(const char *path, size_t limit_bytes) {
    const struct rlimit limit = {.rlim_cur = limit_bytes, .rlim_max = limit_bytes};
    signal(SIGXFSZ, SIG_IGN);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0) {
        return __LINE__ % 250;
    }
    return ag_sample_trace(fd, 1, 50, AG_SAMPLE_SEALED) == -EFBIG ? 0 : __LINE__ % 250;
}

static void at_a_file_size_limit_the_last_whole_chunk_is_the_end(void **state) {
    (void)state;
    for (size_t limit = AG_TRACE_HEADER_BYTES; limit < 4000; limit += 137) {
        const char *path = path_of("full");
        const pid_t child = fork();
        if (child == 0) {
            _exit(fill_up(path, limit));
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        struct ag_verdict verdict;
        assert_int_equal(ag_trace_verify(path, /* progress= */ NULL, &verdict), 0);
        assert_true(verdict.is_trace);
        assert_int_equal(verdict.damage.code,
                         AG_DECODE_UNSEALED); /* not CUT: the writer left no partial chunk */
        unlink(path);
    }
}

static void after_a_failed_write_the_error_stays(void **state) {
    (void)state;
    const struct image image = sample(1, AG_SAMPLE_UNSEALED);
    const char *path = path_of("readonly");
    struct ag_trace_writer *writer;
    close(create(path));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(ag_trace_writer_new(fd, &(struct ag_trace_header){.session = 1}, &writer),
                     -EBADF);
    close(fd); /* after a failure the descriptor still belongs to this test */
    write_file(path, image.bytes, image.n_bytes);
    const int resumed = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(ag_trace_writer_resume(resumed, &writer), 0);
    const int read_only = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(dup2(read_only, resumed), resumed);
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS};
    assert_int_equal(ag_trace_writer_chunk(writer, &info, "\x0a\x01\x07", 3), -EBADF);
    assert_int_equal(ag_trace_writer_chunk(writer, &info, "\x0a\x01\x07", 3), -EBADF);
    assert_int_equal(ag_trace_writer_finish(writer, NULL), -EBADF);
    assert_int_equal(ag_trace_writer_bytes(writer), image.n_bytes);
    assert_null(ag_trace_writer_free(writer));
    close(read_only);
    unlink(path);
    free(image.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sealed_trace_is_whole),
        cmocka_unit_test(cut_at_any_byte_every_whole_chunk_is_readable),
        cmocka_unit_test(a_flipped_bit_anywhere_is_found),
        cmocka_unit_test(a_trace_with_a_damaged_index_is_read_chunk_by_chunk),
        cmocka_unit_test(damage_in_one_chunk_leaves_the_others),
        cmocka_unit_test(a_repeated_chunk_is_damage),
        cmocka_unit_test(a_file_that_shrinks_while_open_gives_an_error),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(other_files_are_distinguished),
        cmocka_unit_test(an_unknown_chunk_kind_is_passed_over),
        cmocka_unit_test(a_chunk_that_grows_too_much_is_damage),
        cmocka_unit_test(resumed_after_a_cut_at_any_byte),
        cmocka_unit_test(resume_cuts_a_chunk_whose_bytes_were_not_written),
        cmocka_unit_test(sequences_of_many_streams_are_known_after_a_resume),
        cmocka_unit_test(at_a_file_size_limit_the_last_whole_chunk_is_the_end),
        cmocka_unit_test(after_a_failed_write_the_error_stays),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
