/* json_writer.c: JSON as it comes, see json_writer.h. Two facts are state enough: how deep we are,
 * and whether a comma is due. That the brackets match is the caller's care, and the tests'. */
#include "report/json_writer.h"

#include <inttypes.h>

#include "report/utf8.h"

static void put_string(FILE *out, const char *text) {
    putc('"', out);
    for (uint32_t c; (c = ag_utf8_next(&text)) != 0;) {
        char bytes[AG_UTF8_BYTES];
        if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", (int)c);
        } else if (c == '\n') {
            fputs("\\n", out);
        } else if (c == '\t') {
            fputs("\\t", out);
        } else if (ag_utf8_is_control(
                       c)) { /* more than JSON asks for: a report may be shown by `cat` */
            fprintf(out, "\\u%04x", (unsigned)c);
        } else {
            fwrite(bytes, 1, ag_utf8_put(bytes, c), out);
        }
    }
    putc('"', out);
}

static void break_line(struct ag_json *json) {
    if (json->depth > 0 && json->depth <= json->line_depth) {
        fprintf(json->out, "\n%*s", (int)json->depth, "");
    }
}

static void start_value(struct ag_json *json, const char *key) {
    if (json->follows_value) {
        fputs(json->depth <= json->line_depth ? "," : ", ", json->out);
    }
    break_line(json);
    if (key != NULL) {
        put_string(json->out, key);
        fputs(": ", json->out);
    }
    json->follows_value = true;
}

void ag_json_open(struct ag_json *json, const char *key, char bracket) {
    start_value(json, key);
    putc(bracket, json->out);
    json->depth++;
    json->follows_value = false;
}

void ag_json_close(struct ag_json *json, char bracket) {
    putc(bracket, json->out);
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
    fprintf(json->out, "%" PRIu64, number);
}

void ag_json_percent(struct ag_json *json, const char *key, double percent) {
    start_value(json, key);
    fprintf(json->out, "%.2f", percent);
}

void ag_json_bool(struct ag_json *json, const char *key, bool is_true) {
    start_value(json, key);
    fputs(is_true ? "true" : "false", json->out);
}

void ag_json_null(struct ag_json *json, const char *key) {
    start_value(json, key);
    fputs("null", json->out);
}
