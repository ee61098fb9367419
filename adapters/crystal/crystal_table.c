/* crystal_table.c: reads the table of type numbers that Crystal's compiler prints, for reports. A
 * line of the table is
 *
 *     {lo - hi}: Name
 *
 * indented by its depth in the type hierarchy. hi is the type's number, and each object of the type
 * begins with this number; lo is less than hi if the type has subclasses. All other lines are
 * output of the compiler or of the program. The user supplies the file, so lengths and numbers are
 * checked. */
#include "crystal_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_file.h"

enum {
    NUMBERS_MOST = 1 << 16,
    STRING_NUMBER = 1, /* of the type String, in all programs of Crystal 1.0 to 1.14 */
};

struct ag_decoder_types {
    char *names[NUMBERS_MOST];
};

/* Whether the line belongs to the table. */
static bool read_line(const char *line, uint32_t *ret_number, const char **ret_name) {
    unsigned low = 0, high = 0;
    int n = 0;
    line += strspn(line, " ");
    if (sscanf(line, "{%u - %u}: %n", &low, &high, &n) != 2 || n == 0 || line[n] == '\0' ||
        low > high || high >= NUMBERS_MOST) {
        return false;
    }
    *ret_number = high;
    *ret_name = line + n;
    return true;
}

static int take_lines(char *text, struct ag_decoder_types *types, size_t *ret_count) {
    for (char *line; (line = strsep(&text, "\n")) != NULL;) {
        uint32_t number = 0;
        const char *name = NULL;
        line[strcspn(line, "\r")] = '\0';
        if (read_line(line, &number, &name) && !types->names[number]) {
            types->names[number] = strdup(name);
            if (!types->names[number]) {
                return -ENOMEM;
            }
            (*ret_count)++;
        }
    }
    return 0;
}

int ag_crystal_table_read(const char *path, struct ag_decoder_types **ret_types,
                          char ret_message[512]) {
    size_t count = 0;
    char *text = NULL;
    int r = ag_text_file_read(path, &text, ret_message);
    if (r < 0) {
        return r;
    }
    struct ag_decoder_types *types = calloc(1, sizeof(*types));
    r = types ? take_lines(text, types, &count) : -ENOMEM;
    free(text);
    if (r < 0) {
        (void)snprintf(ret_message, 512, "%.300s: %s", path, strerror(-r));
    } else if (count == 0) {
        r = -EINVAL;
        (void)snprintf(ret_message, 512,
                       "%.300s: has no line such as \"{187 - 187}: Point\"; write the file with "
                       "CRYSTAL_DUMP_TYPE_ID=1 crystal build PROGRAM.cr >FILE",
                       path);
    }
    if (r < 0) {
        ag_crystal_table_free(types);
        return r;
    }
    *ret_types = types;
    return 0;
}

const char *ag_crystal_table_name(const struct ag_decoder_types *types, uint32_t number) {
    const char *name = types && number < NUMBERS_MOST ? types->names[number] : NULL;
    return name ? name : number == STRING_NUMBER ? "String" : NULL;
}

void ag_crystal_table_free(struct ag_decoder_types *types) {
    for (size_t i = 0; types && i < NUMBERS_MOST; i++) {
        free(types->names[i]);
    }
    free(types);
}
