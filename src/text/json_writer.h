/* json_writer.h: writes JSON to a stream incrementally: values are not kept in memory, so the
 * output may have any size.
 *
 *     struct ag_json json = {.out = out};
 *     ag_json_open(&json, NULL, '{');
 *     ag_json_string(&json, "view", "sites");
 *     ag_json_open(&json, "sites", '[');      // a value in an array has the key NULL
 *     ...
 *     ag_json_close(&json, ']');
 *     ag_json_close(&json, '}');
 *
 * Errors of writing are not returned: the caller checks ferror of the stream. Strings may contain
 * any bytes: control characters are escaped, and bytes that are not valid UTF-8 are replaced by
 * U+FFFD. Integers are written with all digits. */
#ifndef AG_JSON_WRITER_H
#define AG_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct ag_json {
    FILE *out;
    /* Arrays and objects up to this depth of nesting have a line for each element; a deeper array
     * or object is on one line. */
    unsigned line_depth;
    unsigned depth;     /* internal */
    bool follows_value; /* internal: the next value needs a comma */
};
void ag_json_open(struct ag_json *json, const char *key, char bracket);
void ag_json_close(struct ag_json *json, char bracket);
/* Writes null if TEXT is NULL. */
void ag_json_string(struct ag_json *json, const char *key, const char *text);
void ag_json_integer(struct ag_json *json, const char *key, uint64_t number);
void ag_json_signed(struct ag_json *json, const char *key, int64_t number);
/* Writes a time in milliseconds with a fraction, such as 12.000345. */
void ag_json_milliseconds(struct ag_json *json, const char *key, uint64_t time_ns);
void ag_json_percent(struct ag_json *json, const char *key, double percent);
void ag_json_decimal(struct ag_json *json, const char *key, double number, int decimals);
void ag_json_bool(struct ag_json *json, const char *key, bool is_true);
void ag_json_null(struct ag_json *json, const char *key);
/* Writes null if IS_KNOWN is false. */
void ag_json_integer_if(struct ag_json *json, const char *key, uint64_t number, bool is_known);
/* Writes null if NUMBER is 0. */
void ag_json_nonzero(struct ag_json *json, const char *key, uint64_t number);
/* Writes an estimate as KEY, and its 95 % interval as KEY_ci95. Both are null if IS_KNOWN is
 * false. */
void ag_json_estimate(struct ag_json *json, const char *key, uint64_t value, bool is_known,
                      uint64_t low, uint64_t high);
/* Writes the array [LOW, HIGH]. */
void ag_json_range(struct ag_json *json, const char *key, uint64_t low, uint64_t high);
void ag_json_strings(struct ag_json *json, const char *key, const char *const *texts, size_t count);

#endif
