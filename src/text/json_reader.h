/* json_reader.h: reads JSON from an untrusted source (RFC 8259) into an array of values, without
 * recursion and without allocating memory.
 *
 *     struct ag_json_value values[100];
 *     struct ag_json_document document = {
 *         .text = text, .length = length, .values = values, .capacity = 100};
 *     if (ag_json_read(&document) == 0) {
 *         const struct ag_json_value *method = ag_json_member(&document, values, "method");
 *
 * The values are in the order of the text. The first value is the whole text. After an object come
 * its members: each is a key (a string) followed by its value. */
#ifndef AG_JSON_READER_H
#define AG_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_JSON_DEPTH_MOST = 64 }; /* arrays and objects inside each other */

enum ag_json_kind {
    AG_JSON_NULL,
    AG_JSON_FALSE,
    AG_JSON_TRUE,
    AG_JSON_NUMBER,
    AG_JSON_STRING,
    AG_JSON_ARRAY,
    AG_JSON_OBJECT,
};
struct ag_json_value {
    enum ag_json_kind kind;
    /* of a string or number: its bytes in the text, without the quotes */
    uint32_t start, length;
    uint32_t after; /* index of the first value that is not inside this one */
};
struct ag_json_document {
    const char *text; /* need not be terminated */
    size_t length;    /* at most UINT32_MAX */
    struct ag_json_value *values;
    size_t capacity, count; /* room in `values`; number of values, set by ag_json_read */
};
/* Returns 0; -EBADMSG: the text is not one JSON value; -E2BIG: it has more values than `capacity`,
 * or is nested more deeply than AG_JSON_DEPTH_MOST. */
int ag_json_read(struct ag_json_document *document);
/* The first member of OBJECT with this key; NULL: there is none, or OBJECT is NULL or not an
 * object. */
const struct ag_json_value *ag_json_member(const struct ag_json_document *document,
                                           const struct ag_json_value *object, const char *key);
/* Copies a string to TO, with a terminator. Returns false if VALUE is NULL or not a string, if the
 * string contains U+0000, or if it may be too long. A string of at most CAPACITY - 4 bytes always
 * fits; a string without escapes fits if it has at most CAPACITY - 1 bytes. Half of a surrogate
 * pair, without the other half, becomes U+FFFD. */
bool ag_json_copy_text(const struct ag_json_document *document, const struct ag_json_value *value,
                       char *to, size_t capacity);
/* Returns false if VALUE is NULL, or is not an integer that fits into 64 bits. */
bool ag_json_copy_integer(const struct ag_json_document *document,
                          const struct ag_json_value *value, int64_t *ret_number);

#endif
