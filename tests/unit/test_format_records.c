/* test_format_records.c: records and batches (records of rows) are the same after encoding and
 * decoding. Records of other versions of the format are read, and every record is documented. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/decode_chunk.h"
#include "format/encode.h"
#include "format/record_layout.h"
#include "format_samples.h"

/* A decoder that reads records from memory, as if the memory were a chunk (a unit of a trace
 * file). */
static struct ag_chunk_decoder *decoder_at(const void *bytes, size_t n_bytes) {
    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    assert_non_null(decoder);
    decoder->body = malloc(n_bytes + AG_BODY_PADDING);
    assert_non_null(decoder->body);
    memcpy(decoder->body, bytes, n_bytes);
    decoder->at = decoder->body;
    decoder->end = decoder->body + n_bytes;
    decoder->entry = (struct ag_chunk_entry){.kind = AG_CHUNK_KIND_RECORDS, .stream = 3};
    return decoder;
}

static void assert_same_record(const struct ag_record *found, const struct ag_record *expected) {
    struct ag_record_layout layout;
    assert_int_equal(found->kind, expected->kind);
    assert_true(ag_record_layout(found->kind, &layout));
    for (uint32_t i = 0; i < layout.n_fields; i++) {
        const struct ag_field *field = &layout.fields[i];
        if (ag_field_is_number(field)) {
            assert_int_equal(ag_field_number(field, &found->u),
                             ag_field_number(field, &expected->u));
            continue;
        }
        const struct ag_bytes a = ag_field_bytes(field, &found->u);
        const struct ag_bytes b = ag_field_bytes(field, &expected->u);
        assert_int_equal(a.length, b.length);
        assert_memory_equal(a.data, b.data, a.length);
    }
}

static void every_record_is_decoded_the_same(void **state) {
    (void)state;
    struct ag_record records[64];
    struct ag_blob blob = {0};
    const size_t count = ag_sample_records(records, 64);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ag_record_append(&blob, &records[i]), 0);
    }
    struct ag_chunk_decoder *decoder = decoder_at(blob.data, blob.length);
    struct ag_decode_error error;
    for (size_t i = 0; i < count; i++) {
        struct ag_record record;
        assert_int_equal(ag_chunk_decoder_next(decoder, NULL, 0, &record, &error), 0);
        assert_same_record(&record, &records[i]);
        assert_int_equal(record.stream, 3);
    }
    struct ag_record record;
    assert_int_equal(ag_chunk_decoder_next(decoder, NULL, 0, &record, &error), 0);
    assert_int_equal(record.kind, 0);
    assert_null(ag_chunk_decoder_free(decoder));
    ag_blob_done(&blob);
}

/* 10,000 rows of one kind are encoded as three records. Decoded, these records give the same
 * rows. */
static void batches_are_decoded_the_same(void **state) {
    (void)state;
    enum { ROWS = 10000 };
    struct ag_stack_sum *sums = calloc(ROWS, sizeof(*sums));
    struct ag_node *nodes = calloc(ROWS, sizeof(*nodes));
    struct ag_sample_random random = {.state = 5};
    for (size_t i = 0; i < ROWS; i++) {
        sums[i] = (struct ag_stack_sum){.stack = (uint32_t)ag_sample_next(&random),
                                        .via = (uint32_t)ag_sample_next(&random),
                                        .allocated_blocks = ag_sample_next(&random),
                                        .freed_bytes = ag_sample_next(&random),
                                        .temporary_blocks = i};
        nodes[i] = (struct ag_node){.id = (uint32_t)ag_sample_next(&random),
                                    .parent = (uint32_t)ag_sample_next(&random),
                                    .pc = ag_sample_next(&random),
                                    .image = (uint32_t)i};
    }
    struct ag_blob blob = {0};
    assert_int_equal(ag_record_append_stack_sums(&blob, sums, ROWS), 0);
    assert_int_equal(ag_record_append_nodes(&blob, nodes, ROWS), 0);
    struct ag_chunk_decoder *decoder = decoder_at(blob.data, blob.length);
    struct ag_decode_error error;
    struct ag_record record;
    size_t n_sums = 0, n_nodes = 0;
    while (ag_chunk_decoder_next(decoder, NULL, 0, &record, &error) == 0 && record.kind != 0) {
        struct ag_stack_sum sum;
        struct ag_node node;
        size_t cursor = 0;
        if (record.kind == AG_RECORD_STACK_SUMS) {
            assert_int_equal(ag_nodes_next(&record, &cursor, &node), -EINVAL);
            for (; ag_stack_sums_next(&record, &cursor, &sum) > 0; n_sums++) {
                assert_memory_equal(&sum, &sums[n_sums], sizeof(sum));
            }
        } else {
            for (; ag_nodes_next(&record, &cursor, &node) > 0; n_nodes++) {
                assert_memory_equal(&node, &nodes[n_nodes], sizeof(node));
            }
        }
    }
    assert_int_equal(n_sums, ROWS);
    assert_int_equal(n_nodes, ROWS);
    assert_null(ag_chunk_decoder_free(decoder));
    ag_blob_done(&blob);
    free(sums);
    free(nodes);
}

/* Records of kinds that the reader did not ask for are not returned, even when their bytes are
 * damaged. */
static void kinds_that_are_not_wanted_are_passed_over(void **state) {
    (void)state;
    const struct ag_stack_sum sum = {.stack = 7};
    const struct ag_node node = {.id = 8};
    struct ag_blob blob = {0};
    assert_int_equal(ag_record_append_stack_sums(&blob, &sum, 1), 0);
    blob.data[blob.length - 1] |= 0x80; /* its last number has no end */
    assert_int_equal(ag_record_append_nodes(&blob, &node, 1), 0);
    struct ag_chunk_decoder *decoder = decoder_at(blob.data, blob.length);
    ag_chunk_decoder_pass_over(decoder, ~(UINT64_C(1) << AG_RECORD_NODES));
    struct ag_decode_error error;
    struct ag_record record;
    assert_int_equal(ag_chunk_decoder_next(decoder, NULL, 0, &record, &error), 0);
    assert_int_equal(record.kind, AG_RECORD_NODES);
    assert_int_equal(ag_chunk_decoder_next(decoder, NULL, 0, &record, &error), 0);
    assert_int_equal(record.kind, 0);
    assert_null(ag_chunk_decoder_free(decoder));

    decoder = decoder_at(blob.data, blob.length); /* a reader that asks for the kind finds the
                                                   * damage */
    assert_int_equal(ag_chunk_decoder_next(decoder, NULL, 0, &record, &error), -EBADMSG);
    assert_null(ag_chunk_decoder_free(decoder));
    ag_blob_done(&blob);
}

/* ---- other versions ---- */

static void assert_decodes(const void *bytes, size_t n_bytes, struct ag_record *ret_record,
                           struct ag_chunk_decoder **ret_decoder) {
    struct ag_decode_error error;
    *ret_decoder = decoder_at(bytes, n_bytes);
    assert_int_equal(ag_chunk_decoder_next(*ret_decoder, NULL, 0, ret_record, &error), 0);
}

static void an_unknown_kind_is_passed_over(void **state) {
    (void)state;
    const char bytes[] = {(char)0xcd,
                          0x02,
                          3,
                          1,
                          2,
                          3, /* kind 333 */
                          AG_RECORD_IMAGE_UNLOAD,
                          1,
                          42};
    struct ag_record record;
    struct ag_chunk_decoder *decoder;
    assert_decodes(bytes, sizeof(bytes), &record, &decoder);
    assert_int_equal(record.kind, AG_RECORD_IMAGE_UNLOAD);
    assert_int_equal(record.u.image_unload.image, 42);
    assert_null(ag_chunk_decoder_free(decoder));
}

static void fields_of_a_newer_writer_are_passed_over(void **state) {
    (void)state;
    const char bytes[] = {AG_RECORD_IMAGE_UNLOAD, 4, 42, 99, 98, 97, AG_RECORD_IMAGE_UNLOAD, 1, 43};
    struct ag_record record;
    struct ag_chunk_decoder *decoder;
    assert_decodes(bytes, sizeof(bytes), &record, &decoder);
    assert_int_equal(record.u.image_unload.image, 42);
    struct ag_decode_error error;
    assert_int_equal(ag_chunk_decoder_next(decoder, NULL, 0, &record, &error), 0);
    assert_int_equal(record.u.image_unload.image, 43);
    assert_null(ag_chunk_decoder_free(decoder));
}

static void fields_that_an_older_writer_lacks_are_zero(void **state) {
    (void)state;
    const char bytes[] = {AG_RECORD_PROCESS, 2, 42, 7};
    struct ag_record record;
    struct ag_chunk_decoder *decoder;
    memset(&record, 0xff, sizeof(record));
    assert_decodes(bytes, sizeof(bytes), &record, &decoder);
    assert_int_equal(record.u.process.pid, 42);
    assert_int_equal(record.u.process.parent_pid, 7);
    assert_int_equal(record.u.process.session, 0);
    assert_int_equal(record.u.process.host.length, 0);
    assert_null(ag_chunk_decoder_free(decoder));
}

static void columns_of_other_versions_are_passed_over_or_zero(void **state) {
    (void)state;
    /* two rows of one column, then one row of six columns */
    const char bytes[] = {
        AG_RECORD_NODES, 4, 2, 1, 32, 2, AG_RECORD_NODES, 8, 1, 6, 32, 4, 6, 8, 10, 12};
    struct ag_record record;
    struct ag_chunk_decoder *decoder;
    struct ag_node node;
    size_t cursor = 0;
    assert_decodes(bytes, sizeof(bytes), &record, &decoder);
    assert_int_equal(ag_nodes_next(&record, &cursor, &node), 1);
    assert_int_equal(ag_nodes_next(&record, &cursor, &node), 1);
    assert_int_equal(node.id, 17);
    assert_int_equal(node.pc, 0);
    assert_int_equal(ag_nodes_next(&record, &cursor, &node), 0);
    struct ag_decode_error error;
    cursor = 0;
    assert_int_equal(ag_chunk_decoder_next(decoder, NULL, 0, &record, &error), 0);
    assert_int_equal(ag_nodes_next(&record, &cursor, &node), 1);
    assert_int_equal(node.id, 16);
    assert_int_equal(node.image, 4);
    assert_int_equal(ag_nodes_next(&record, &cursor, &node), 0);
    assert_null(ag_chunk_decoder_free(decoder));
}

static void assert_refused(const void *bytes, size_t n_bytes, enum ag_decode_code code,
                           uint32_t kind) {
    struct ag_chunk_decoder *decoder = decoder_at(bytes, n_bytes);
    struct ag_decode_error error = {0};
    struct ag_record record;
    assert_int_equal(ag_chunk_decoder_next(decoder, NULL, 0, &record, &error), -EBADMSG);
    assert_int_equal(error.code, code);
    assert_int_equal(error.record, kind);
    assert_null(ag_chunk_decoder_free(decoder));
}

static void records_that_contradict_themselves_are_refused(void **state) {
    (void)state;
    const char longer_than_the_chunk[] = {AG_RECORD_MAP, 9, 1};
    assert_refused(longer_than_the_chunk, 3, AG_DECODE_CUT, AG_RECORD_MAP);
    const char cut_number[] = {AG_RECORD_MAP, 1, (char)0x80};
    assert_refused(cut_number, 3, AG_DECODE_BAD_RECORD, AG_RECORD_MAP);
    const char text_beyond[] = {AG_RECORD_VIA, 4, 1, 1, 9, 'm'};
    assert_refused(text_beyond, 6, AG_DECODE_BAD_RECORD, AG_RECORD_VIA);
    const char wide_image[] = {
        AG_RECORD_IMAGE_UNLOAD, 5, (char)0xff, (char)0xff, (char)0xff, (char)0xff, 0x7f};
    assert_refused(wide_image, 7, AG_DECODE_BAD_RECORD, AG_RECORD_IMAGE_UNLOAD);
    const char too_many_rows[] = {AG_RECORD_NODES, 3, (char)0x81, 0x20, 1};
    assert_refused(too_many_rows, 5, AG_DECODE_BAD_RECORD, AG_RECORD_NODES);
    const char no_columns[] = {AG_RECORD_NODES, 2, 1, 0};
    assert_refused(no_columns, 4, AG_DECODE_BAD_RECORD, AG_RECORD_NODES);
    const char rows_cut[] = {AG_RECORD_NODES, 4, 2, 1, 32, (char)0x80};
    assert_refused(rows_cut, 6, AG_DECODE_BAD_RECORD, AG_RECORD_NODES);
}

static void an_event_or_a_batch_is_no_record_to_append(void **state) {
    (void)state;
    struct ag_blob blob = {0};
    assert_int_equal(ag_record_append(&blob, &(struct ag_record){.kind = AG_RECORD_ALLOC}),
                     -EINVAL);
    assert_int_equal(ag_record_append(&blob, &(struct ag_record){.kind = AG_RECORD_NODES}),
                     -EINVAL);
    assert_int_equal(blob.length, 0);
    ag_blob_done(&blob);
}

/* ---- the document ---- */

static char document[256 * 1024];

static void read_document(void) {
    FILE *file = fopen(AG_TRACE_FORMAT_DOCUMENT, "r");
    assert_non_null(file);
    const size_t n_bytes = fread(document, 1, sizeof(document) - 1, file);
    fclose(file);
    document[n_bytes] = '\0';
}

/* Whether the document names the field, in backticks and with its type. Neighboring fields may
 * share one type: `low`, `high` u32. The document gives no type for numbers of 64 bits. */
static bool is_documented(const char *section, const char *end, const struct ag_field *field) {
    static const char *const types[] = {
        [AG_FIELD_U8] = " u8",      [AG_FIELD_U32] = " u32",    [AG_FIELD_STACK] = " u32",
        [AG_FIELD_U64] = NULL,      [AG_FIELD_ADDRESS] = NULL,  [AG_FIELD_TEXT] = " text",
        [AG_FIELD_TEXTS] = " text", [AG_FIELD_BYTES] = " bytes"};
    const char *type = types[field->type];
    char name[64];
    snprintf(name, sizeof(name), "`%s`", field->name);
    for (const char *at = section; (at = strstr(at, name)) != NULL && at < end;) {
        at += strlen(name);
        const char *next = at;
        while (type != NULL && strncmp(next, ", `", 3) == 0) {
            next = strchr(next + 3, '`') + 1;
        }
        if (type != NULL ? strncmp(next, type, strlen(type)) == 0
                         : strncmp(next, " u32", 4) != 0 && strncmp(next, " u8", 3) != 0) {
            return true;
        }
    }
    return false;
}

/* docs/reference/trace-format.md has a heading "### NUMBER name" for each kind and, under it, each
 * field with its type. */
static void every_record_and_field_is_documented(void **state) {
    (void)state;
    read_document();
    enum { KINDS = 256 };
    for (unsigned kind = 0; kind < KINDS; kind++) {
        const char *name = ag_record_kind_name((enum ag_record_kind)kind);
        if (name == NULL) {
            continue;
        }
        char heading[64];
        snprintf(heading, sizeof(heading), "\n### %u %s\n", kind, name);
        const char *section = strstr(document, heading);
        if (section == NULL) {
            fail_msg("record %u %s has no section", kind, name);
            return; /* fail_msg does not return, but the static analyzer does not know that */
        }
        const char *next = strstr(section + strlen(heading), "\n##");
        const char *end = next != NULL ? next : section + strlen(section);
        struct ag_record_layout layout;
        if (!ag_record_layout(kind, &layout)) {
            continue; /* an event: section 3 of the document has its bytes */
        }
        for (uint32_t f = 0; f < layout.n_fields; f++) {
            if (!is_documented(section, end, &layout.fields[f])) {
                fail_msg("field %s of %s is not documented with its type", layout.fields[f].name,
                         name);
            }
        }
    }
}

/* In section 6 of the document, the lines that begin with an offset contain the bytes of the golden
 * trace trace-v1-example. */
static void the_worked_example_is_the_golden_trace(void **state) {
    (void)state;
    read_document();
    uint8_t golden[1024];
    FILE *file = fopen(AG_TRACE_EXAMPLE, "r");
    assert_non_null(file);
    const size_t n_golden = fread(golden, 1, sizeof(golden), file);
    fclose(file);

    size_t n_bytes = 0;
    const char *line = strstr(document, "\n## 6.");
    assert_non_null(line);
    for (; (line = strchr(line, '\n')) != NULL;) {
        line++;
        unsigned long offset, byte;
        int used;
        if (strncmp(line, "    0000", 8) != 0 || sscanf(line, "%6lx  %n", &offset, &used) != 1) {
            continue;
        }
        assert_int_equal(offset, n_bytes);
        for (line += used; sscanf(line, "%2lx%n", &byte, &used) == 1 && used == 2; line += 3) {
            assert_true(n_bytes < n_golden);
            assert_int_equal(byte, golden[n_bytes]);
            n_bytes++;
            if (line[2] == '\n' || line[3] == ' ') {
                break; /* the line ends, or text begins */
            }
        }
    }
    assert_int_equal(n_bytes, n_golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_decoded_the_same),
        cmocka_unit_test(batches_are_decoded_the_same),
        cmocka_unit_test(kinds_that_are_not_wanted_are_passed_over),
        cmocka_unit_test(an_unknown_kind_is_passed_over),
        cmocka_unit_test(fields_of_a_newer_writer_are_passed_over),
        cmocka_unit_test(fields_that_an_older_writer_lacks_are_zero),
        cmocka_unit_test(columns_of_other_versions_are_passed_over_or_zero),
        cmocka_unit_test(records_that_contradict_themselves_are_refused),
        cmocka_unit_test(an_event_or_a_batch_is_no_record_to_append),
        cmocka_unit_test(every_record_and_field_is_documented),
        cmocka_unit_test(the_worked_example_is_the_golden_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
