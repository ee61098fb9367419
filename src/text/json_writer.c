/* json_writer.c: writes JSON incrementally, see json_writer.h. The state is the number of open
 * brackets, and whether the next value needs a comma. The caller must close each bracket with the
 * bracket that matches it. */
#include "text/json_writer.h"

#include <inttypes.h>
#include <stddef.h>

#include "text/number.h"
#include "text/utf8.h"

/* Returns the number of ASCII bytes at the start of TEXT that need no escape. The caller writes
 * these bytes with one call. */
static size_t plain_bytes(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\') {
        at++;
    }
    return (size_t)(at - (const unsigned char *)text);
}

static void put_string(FILE *out, const char *text) {
    putc_unlocked('"', out);
    for (;;) {
        size_t plain = plain_bytes(text);
        fwrite_unlocked(text, 1, plain, out);
        text += plain;
        uint32_t c = ag_utf8_next(&text);
        char bytes[AG_UTF8_BYTES];
        if (c == 0) {
            break;
        }
        if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", (int)c);
        } else if (c == '\n') {
            fputs_unlocked("\\n", out);
        } else if (c == '\t') {
            fputs_unlocked("\\t", out);
        } else if (ag_utf8_is_control(
                       c)) { /* JSON allows some control characters without an escape, but the text
                              * may be shown on a terminal */
            fprintf(out, "\\u%04x", (unsigned)c);
        } else {
            fwrite_unlocked(bytes, 1, ag_utf8_put(bytes, c), out);
        }
    }
    putc_unlocked('"', out);
}

static void break_line(struct ag_json *json) {
    if (json->depth > 0 && json->depth <= json->line_depth) {
        fprintf(json->out, "\n%*s", (int)json->depth, "");
    }
}

static void start_value(struct ag_json *json, const char *key) {
    if (json->follows_value) {
        fputs_unlocked(json->depth <= json->line_depth ? "," : ", ", json->out);
    }
    break_line(json);
    if (key != NULL) {
        put_string(json->out, key);
        fputs_unlocked(": ", json->out);
    }
    json->follows_value = true;
}

void ag_json_open(struct ag_json *json, const char *key, char bracket) {
    start_value(json, key);
    putc_unlocked(bracket, json->out);
    json->depth++;
    json->follows_value = false;
}

void ag_json_close(struct ag_json *json, char bracket) {
    putc_unlocked(bracket, json->out);
    json->depth--;
    json->follows_value = true;
    if (json->depth == 0) {
        putc('\n', json->out);
    }
}

void ag_json_string(struct ag_json *json, const char *key, const char *text) {
    if (text == NULL) {
        ag_json_null(json, key);
        return;
    }
    start_value(json, key);
    put_string(json->out, text);
}

void ag_json_integer(struct ag_json *json, const char *key, uint64_t number) {
    start_value(json, key);
    ag_put_number(json->out, number);
}

void ag_json_signed(struct ag_json *json, const char *key, int64_t number) {
    start_value(json, key);
    fprintf(json->out, "%" PRId64, number);
}

void ag_json_milliseconds(struct ag_json *json, const char *key, uint64_t time_ns) {
    start_value(json, key);
    fprintf(json->out, "%" PRIu64 ".%06" PRIu64, time_ns / 1000000, time_ns % 1000000);
}

void ag_json_percent(struct ag_json *json, const char *key, double percent) {
    start_value(json, key);
    fprintf(json->out, "%.2f", percent);
}

void ag_json_decimal(struct ag_json *json, const char *key, double number, int decimals) {
    start_value(json, key);
    fprintf(json->out, "%.*f", decimals, number);
}

void ag_json_bool(struct ag_json *json, const char *key, bool is_true) {
    start_value(json, key);
    fputs(is_true ? "true" : "false", json->out);
}

void ag_json_null(struct ag_json *json, const char *key) {
    start_value(json, key);
    fputs("null", json->out);
}

void ag_json_integer_if(struct ag_json *json, const char *key, uint64_t number, bool is_known) {
    if (is_known) {
        ag_json_integer(json, key, number);
    } else {
        ag_json_null(json, key);
    }
}

void ag_json_nonzero(struct ag_json *json, const char *key, uint64_t number) {
    ag_json_integer_if(json, key, number, number != 0);
}

void ag_json_range(struct ag_json *json, const char *key, uint64_t low, uint64_t high) {
    ag_json_open(json, key, '[');
    ag_json_integer(json, NULL, low);
    ag_json_integer(json, NULL, high);
    ag_json_close(json, ']');
}

void ag_json_estimate(struct ag_json *json, const char *key, uint64_t value, bool is_known,
                      uint64_t low, uint64_t high) {
    char interval[64];
    snprintf(interval, sizeof interval, "%s_ci95", key);
    ag_json_integer_if(json, key, value, is_known);
    if (is_known) {
        ag_json_range(json, interval, low, high);
    } else {
        ag_json_null(json, interval);
    }
}

void ag_json_strings(struct ag_json *json, const char *key, const char *const *texts,
                     size_t count) {
    ag_json_open(json, key, '[');
    for (size_t i = 0; i < count; i++) {
        ag_json_string(json, NULL, texts[i]);
    }
    ag_json_close(json, ']');
}
