/* json_reader.c: reads JSON into an array of values, see json_reader.h. The arrays and objects that
 * are still open are on a stack of AG_JSON_DEPTH_MOST indexes. */
#include "text/json_reader.h"

#include <errno.h>
#include <string.h>

#include "text/utf8.h"

struct reader {
    struct ag_json_document *document;
    const char *at, *end;
    uint32_t open[AG_JSON_DEPTH_MOST]; /* indexes of values */
    unsigned depth;
};

static void skip_space(struct reader *reader) {
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' ||
                                        *reader->at == '\n' || *reader->at == '\r')) {
        reader->at++;
    }
}

static bool take(struct reader *reader, char c) {
    const bool is_there = reader->at < reader->end && *reader->at == c;
    reader->at += is_there;
    return is_there;
}

static bool take_word(struct reader *reader, const char *word) {
    const size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0) {
        return false;
    }
    reader->at += length;
    return true;
}

static bool take_digits(struct reader *reader) {
    const char *start = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        reader->at++;
    }
    return reader->at > start;
}

static bool take_number(struct reader *reader) {
    (void)take(reader, '-'); /* optional */
    if (!take(reader, '0') && !take_digits(reader)) {
        return false;
    }
    if (take(reader, '.') && !take_digits(reader)) {
        return false;
    }
    if (take(reader, 'e') || take(reader, 'E')) {
        if (!take(reader, '+')) {
            (void)take(reader, '-'); /* optional */
        }
        return take_digits(reader);
    }
    return true;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Returns the number of four hexadecimal digits; -1: there are no four digits. */
static int hex_number(const char *at, const char *end) {
    int number = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = end - at > i ? hex_digit(at[i]) : -1;
        if (digit < 0) {
            return -1;
        }
        number = number * 16 + digit;
    }
    return number;
}

/* Reads to the closing quote. */
static bool take_string(struct reader *reader) {
    while (reader->at < reader->end) {
        const unsigned char c = (unsigned char)*reader->at++;
        if (c == '"') {
            return true;
        }
        if (c < 0x20) {
            return false;
        }
        if (c == '\\') {
            const char escape = reader->at < reader->end ? *reader->at++ : '\0';
            if (escape == '\0' || strchr("\"\\/bfnrtu", escape) == NULL) {
                return false;
            }
            if (escape == 'u') {
                if (hex_number(reader->at, reader->end) < 0) {
                    return false;
                }
                reader->at += 4;
            }
        }
    }
    return false;
}

/* Appends a value and, if it is not an array or object, reads it to its end. */
static int add_value(struct reader *reader) {
    struct ag_json_document *document = reader->document;
    if (document->count == document->capacity) {
        return -E2BIG;
    }
    if (reader->at == reader->end) {
        return -EBADMSG;
    }
    struct ag_json_value *value = &document->values[document->count++];
    *value = (struct ag_json_value){.after = (uint32_t)document->count};
    const char *start = reader->at;
    if (take(reader, '{') || take(reader, '[')) {
        value->kind = *start == '{' ? AG_JSON_OBJECT : AG_JSON_ARRAY;
        if (reader->depth == AG_JSON_DEPTH_MOST) {
            return -E2BIG;
        }
        reader->open[reader->depth++] = (uint32_t)document->count - 1;
        return 0;
    }
    if (take(reader, '"')) {
        value->kind = AG_JSON_STRING;
        value->start = (uint32_t)(reader->at - document->text);
        if (!take_string(reader)) {
            return -EBADMSG;
        }
        value->length = (uint32_t)(reader->at - document->text) - value->start - 1;
        return 0;
    }
    if (take_word(reader, "null")) {
        value->kind = AG_JSON_NULL;
        return 0;
    }
    if (take_word(reader, "true") || take_word(reader, "false")) {
        value->kind = *start == 't' ? AG_JSON_TRUE : AG_JSON_FALSE;
        return 0;
    }
    value->kind = AG_JSON_NUMBER;
    value->start = (uint32_t)(start - document->text);
    if (!take_number(reader)) {
        return -EBADMSG;
    }
    value->length = (uint32_t)(reader->at - start);
    return 0;
}

/* Reads a key and the colon after it. */
static int add_key(struct reader *reader) {
    skip_space(reader);
    if (reader->at == reader->end || *reader->at != '"') {
        return -EBADMSG;
    }
    const int r = add_value(reader);
    skip_space(reader);
    return r < 0 || take(reader, ':') ? r : -EBADMSG;
}

/* Reads the bracket that closes the innermost open value, if it is there. */
static bool take_closing(struct reader *reader) {
    struct ag_json_document *document = reader->document;
    struct ag_json_value *innermost = &document->values[reader->open[reader->depth - 1]];
    skip_space(reader);
    if (!take(reader, innermost->kind == AG_JSON_OBJECT ? '}' : ']')) {
        return false;
    }
    innermost->after = (uint32_t)document->count;
    reader->depth--;
    return true;
}

int ag_json_read(struct ag_json_document *document) {
    struct reader reader = {
        .document = document, .at = document->text, .end = document->text + document->length};
    document->count = 0;
    skip_space(&reader);
    int r = add_value(&reader);
    bool is_new = true; /* the innermost open value has no element yet */
    while (r == 0 && reader.depth > 0) {
        if (take_closing(&reader)) {
            is_new = false;
            continue;
        }
        if (!is_new && !take(&reader, ',')) {
            return -EBADMSG;
        }
        if (document->values[reader.open[reader.depth - 1]].kind == AG_JSON_OBJECT) {
            r = add_key(&reader);
        }
        skip_space(&reader);
        const unsigned depth = reader.depth;
        r = r < 0 ? r : add_value(&reader);
        is_new = reader.depth > depth;
    }
    skip_space(&reader);
    return r < 0 || reader.at == reader.end ? r : -EBADMSG;
}

/* ---- values ---- */

/* Decodes the escape whose letter is at *at, and advances *at past it. */
static uint32_t escaped(const char **at, const char *end) {
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    const char c = *(*at)++;
    if (c != 'u') {
        const char *letter = strchr(letters, c);
        return (unsigned char)(letter != NULL ? meanings[letter - letters] : c);
    }
    const uint32_t first = (uint32_t)hex_number(*at, end);
    *at += 4;
    if (first < 0xd800 || first >= 0xe000) {
        return first;
    }
    const bool has_second = first < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u';
    const int second = has_second ? hex_number(*at + 2, end) : -1;
    if (second < 0xdc00 || second >= 0xe000) {
        return AG_UTF8_REPLACEMENT;
    }
    *at += 6;
    return 0x10000 + ((first - 0xd800) << 10) + ((uint32_t)second - 0xdc00);
}

bool ag_json_copy_text(const struct ag_json_document *document, const struct ag_json_value *value,
                       char *to, size_t capacity) {
    if (value == NULL || value->kind != AG_JSON_STRING || capacity == 0) {
        return false;
    }
    const char *at = document->text + value->start, *end = at + value->length;
    size_t used = 0;
    while (at < end) {
        const bool is_escape = *at == '\\';
        /* room for a byte or an escaped code point, and for the terminator */
        if (capacity - used <= (is_escape ? AG_UTF8_BYTES : 1)) {
            return false;
        }
        if (!is_escape) {
            to[used++] = *at++;
            continue;
        }
        at++;
        const uint32_t code_point = escaped(&at, end);
        if (code_point == 0) {
            return false;
        }
        used += ag_utf8_put(to + used, code_point);
    }
    to[used] = '\0';
    return true;
}

const struct ag_json_value *ag_json_member(const struct ag_json_document *document,
                                           const struct ag_json_value *object, const char *key) {
    if (object == NULL || object->kind != AG_JSON_OBJECT) {
        return NULL;
    }
    const struct ag_json_value *end = document->values + object->after;
    for (const struct ag_json_value *name = object + 1; name < end;
         name = document->values + name[1].after) {
        char text[128];
        if (ag_json_copy_text(document, name, text, sizeof text) && strcmp(text, key) == 0) {
            return name + 1;
        }
    }
    return NULL;
}

bool ag_json_copy_integer(const struct ag_json_document *document,
                          const struct ag_json_value *value, int64_t *ret_number) {
    if (value == NULL || value->kind != AG_JSON_NUMBER) {
        return false;
    }
    const char *at = document->text + value->start, *end = at + value->length;
    const bool is_negative = *at == '-';
    int64_t number = 0;
    for (at += is_negative; at < end; at++) {
        /* computed as a negative number, because -INT64_MIN is no int64_t */
        if (*at < '0' || *at > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, *at - '0', &number)) {
            return false;
        }
    }
    if (!is_negative && number == INT64_MIN) {
        return false;
    }
    *ret_number = is_negative ? number : -number;
    return true;
}
