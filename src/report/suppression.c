/* suppression.c: reads the file of accepted leaks, and matches its patterns. See suppression.h. */
#include "report/suppression.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_file.h"
#include "model/profile.h"
#include "table/array.h"

enum { MOST_SUPPRESSIONS = 100000 };

struct ag_suppressions {
    struct ag_suppression *list;
    size_t count;
};

/* Splits the pattern at its stars, and searches each part at its first occurrence after the
 * previous part. Only a last part that ends in `$` is compared with the end of the text. The search
 * never goes back, so no pattern makes it slow. */
bool ag_suppression_pattern_matches(const char *pattern, const char *text) {
    bool is_held = pattern[0] == '^';
    pattern += is_held ? 1 : 0;
    for (;;) {
        if (pattern[0] == '*') {
            pattern++;
            is_held = false;
            continue;
        }
        size_t length = strcspn(pattern, "*");
        if (pattern[length] == '\0' && length > 0 && pattern[length - 1] == '$') {
            size_t rest = strlen(text);
            size_t tail = length - 1;
            bool is_tail = rest >= tail && memcmp(text + rest - tail, pattern, tail) == 0;
            return is_tail && (!is_held || rest == tail);
        }
        if (length == 0) {
            return true;
        }
        const char *found = memmem(text, strlen(text), pattern, length);
        if (found == NULL || (is_held && found != text)) {
            return false;
        }
        text = found + length;
        pattern += length;
        is_held = false;
    }
}

static int add(struct ag_suppressions *suppressions, const char *pattern) {
    const struct ag_suppression copy = {.pattern = strdup(pattern)};
    if (copy.pattern == NULL || AG_ARRAY_ADD(suppressions->list, suppressions->count, copy) < 0) {
        free(copy.pattern);
        return -ENOMEM;
    }
    return 0;
}

/* Reads one line. 0, -ENOMEM, -E2BIG, or -EINVAL for a line that is neither empty, a comment nor
 * leak:PATTERN. */
static int read_line(struct ag_suppressions *suppressions, char *line) {
    line += strspn(line, " \t");
    line[strcspn(line, "\r\n")] = '\0';
    size_t length = strlen(line);
    while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == '\t')) {
        line[--length] = '\0';
    }
    if (length == 0 || line[0] == '#') {
        return 0;
    }
    if (strncmp(line, "leak:", 5) != 0 || length == 5) {
        return -EINVAL;
    }
    return suppressions->count < MOST_SUPPRESSIONS ? add(suppressions, line + 5) : -E2BIG;
}

struct ag_suppressions *ag_suppressions_open(const char *path, char ret_message[512]) {
    char reason[512], *text = NULL;
    if (ag_text_file_read(path, &text, reason) < 0) {
        snprintf(ret_message, 512, "--suppressions=%.480s", reason);
        return NULL;
    }
    struct ag_suppressions *suppressions = calloc(1, sizeof *suppressions);
    int r = suppressions != NULL ? 0 : -ENOMEM;
    char *at = text;
    unsigned number = 0;
    for (char *line; r == 0 && (line = strsep(&at, "\n")) != NULL;) {
        number++;
        r = read_line(suppressions, line);
    }
    free(text);
    if (r == 0) {
        return suppressions;
    }
    if (r == -EINVAL) {
        snprintf(ret_message, 512,
                 "--suppressions=%.300s:%u: not a line of a suppression file; expected "
                 "leak:PATTERN, such as leak:load_plugins",
                 path, number);
    } else {
        snprintf(ret_message, 512, "--suppressions=%.300s: %s", path, strerror(-r));
    }
    return ag_suppressions_close(suppressions);
}

struct ag_suppressions *ag_suppressions_close(struct ag_suppressions *suppressions) {
    for (size_t i = 0; suppressions != NULL && i < suppressions->count; i++) {
        free(suppressions->list[i].pattern);
    }
    if (suppressions != NULL) {
        free(suppressions->list);
        free(suppressions);
    }
    return NULL;
}

size_t ag_suppressions_list(const struct ag_suppressions *suppressions,
                            const struct ag_suppression **ret_list) {
    *ret_list = suppressions->list;
    return suppressions->count;
}

static bool matches(const char *pattern, const char *text) {
    return text != NULL && text[0] != '\0' && ag_suppression_pattern_matches(pattern, text);
}

struct ag_suppression *ag_suppressions_match(struct ag_suppressions *suppressions,
                                             const struct ag_frame *frame) {
    for (size_t i = 0; i < suppressions->count; i++) {
        const char *pattern = suppressions->list[i].pattern;
        if (matches(pattern, frame->function) || matches(pattern, frame->file) ||
            matches(pattern, frame->image)) {
            return &suppressions->list[i];
        }
    }
    return NULL;
}

void ag_suppressions_reset(struct ag_suppressions *suppressions) {
    for (size_t i = 0; i < suppressions->count; i++) {
        suppressions->list[i].blocks = 0;
        suppressions->list[i].bytes = 0;
    }
}
