/* trace_name.c: expands a pattern to the name of a trace. trace_file.c creates the file. */
#include "trace_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PATTERN "allogram.%e.%p.allogram"
enum {
    PATH_BYTES = 4096,
    PROGRAM_BYTES = 200, /* of a file name of at most 255 bytes: leaves room for the rest of it */
};

int ag_trace_pattern_complete(const char *pattern, char ret_pattern[1024], char ret_message[512]) {
    pattern = pattern ? pattern : DEFAULT_PATTERN;
    if (pattern[0] == '\0') {
        (void)snprintf(ret_message, 512, "output: its name is empty; name a file");
        return -EINVAL;
    }
    for (const char *at = strchr(pattern, '%'); at; at = strchr(at + 2, '%')) {
        if (at[1] == '\0' || !strchr("epht%", at[1])) {
            (void)snprintf(ret_message, 512, "output %s: %%%c is none of %%e %%p %%h %%t %%%%",
                           pattern, at[1] ? at[1] : ' ');
            return -EINVAL;
        }
    }
    size_t length = 0;
    if (pattern[0] != '/') {
        char folder[PATH_BYTES];
        if (!getcwd(folder, sizeof(folder))) {
            const int error = errno;
            (void)snprintf(ret_message, 512, "find the current folder: %s", strerror(error));
            return -error;
        }
        for (const char *at = folder; *at && length < 1000;
             at++) { /* doubles the percent signs of the folder's name */
            length += (size_t)snprintf(ret_pattern + length, 1024 - length,
                                       *at == '%' ? "%%%%" : "%c", *at);
        }
        ret_pattern[length++] = '/';
    }
    if (length + strlen(pattern) >= 1024 || pattern[strlen(pattern) - 1] == '/') {
        (void)snprintf(ret_message, 512, "output %.200s: %s", pattern,
                       length + strlen(pattern) >= 1024 ? "name too long"
                                                        : "is a folder; name a file in it");
        return -EINVAL;
    }
    memcpy(ret_pattern + length, pattern, strlen(pattern) + 1);
    return 0;
}

void ag_trace_pattern_folder(const char *pattern, char ret_folder[4096]) {
    const char *slash = strrchr(pattern, '/');
    size_t length = 0;
    for (const char *at = pattern; at < slash && length < PATH_BYTES - 1; at++) {
        ret_folder[length++] = *at;
        at += at[0] == '%' && at[1] == '%';
    }
    ret_folder[length] = '\0';
    if (length == 0) {
        memcpy(ret_folder, "/", 2);
    }
}

/* Appends text; on failure *length becomes the buffer's size. */
static void name_append(char *buffer, size_t *length, const char *text, size_t text_bytes) {
    if (*length + text_bytes >= PATH_BYTES) {
        *length = PATH_BYTES;
        return;
    }
    memcpy(buffer + *length, text, text_bytes);
    *length += text_bytes;
}

/* A program's name comes from outside: replaces bytes that would change the folder or disturb a
 * terminal. */
static void name_append_program(char *buffer, size_t *length, const char *program) {
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    size_t name_bytes = strnlen(name, PROGRAM_BYTES);
    while (name_bytes > 0 && ((unsigned char)name[name_bytes] & 0xc0) == 0x80) {
        name_bytes--; /* does not split a UTF-8 character */
    }
    for (const char *at = name; at < name + name_bytes; at++) {
        name_append(buffer, length, (unsigned char)*at <= ' ' || *at == 0x7f ? "_" : at, 1);
    }
}

int ag_trace_name_expand(const char *pattern, const struct ag_trace_names *names,
                         char ret_path[4096]) {
    size_t length = 0;
    char text[256];
    for (const char *at = pattern; *at && length < PATH_BYTES; at++) {
        if (*at != '%') {
            name_append(ret_path, &length, at, 1);
            continue;
        }
        at++;
        switch (*at) {
        case 'e':
            name_append_program(ret_path, &length, names->program);
            break;
        case 'p':
            name_append(ret_path, &length, text,
                        (size_t)snprintf(text, sizeof(text), "%u", names->pid));
            break;
        case 't':
            name_append(
                ret_path, &length, text,
                (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)names->start_s));
            break;
        case 'h':
            if (gethostname(text, sizeof(text)) < 0) {
                memcpy(text, "host", 5);
            }
            text[sizeof(text) - 1] = '\0';
            name_append(ret_path, &length, text, strlen(text));
            break;
        case '%':
            name_append(ret_path, &length, "%", 1);
            break;
        case '\0':
            at--; /* a pattern from a damaged header; the loop ends at its NUL */
            break;
        }
    }
    if (length >= PATH_BYTES) {
        return -ENAMETOOLONG;
    }
    ret_path[length] = '\0';
    return 0;
}

int ag_trace_name_number(const char *path, uint32_t number, char ret_path[4096]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const size_t stem = dot && dot != name ? (size_t)(dot - path) : strlen(path);
    const int n = number == 1 ? snprintf(ret_path, PATH_BYTES, "%s", path)
                              : snprintf(ret_path, PATH_BYTES, "%.*s-%u%s", (int)stem, path, number,
                                         path + stem);
    return n < PATH_BYTES ? 0 : -ENAMETOOLONG;
}

void ag_trace_name_dump(const char *trace, uint32_t number, char ret_path[4096]) {
    static const char extension[] = ".allogram";
    const size_t length = strlen(trace), tail = sizeof(extension) - 1;
    const bool has_extension = length > tail && strcmp(trace + length - tail, extension) == 0;
    (void)snprintf(ret_path, 4096, "%.*s.dump%u%s", (int)(has_extension ? length - tail : length),
                   trace, number, extension);
}
