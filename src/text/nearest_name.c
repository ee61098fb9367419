/* nearest_name.c: finds the name that the user most likely meant with a mistyped word, see
 * nearest_name.h. The distance of two words is the least number of changes that convert one word to
 * the other. A change inserts, removes or replaces a letter, or exchanges two neighboring letters
 * (the restricted Damerau-Levenshtein distance). */
#include "text/nearest_name.h"

#include <stdio.h>
#include <string.h>

void ag_nearest_name_start(struct ag_nearest_name *nearest, const char *typed) {
    *nearest = (struct ag_nearest_name){.typed = typed};
}

static char lower_case(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static unsigned least_of(unsigned a, unsigned b) {
    return a < b ? a : b;
}

/* Returns the distance of two words, each of at most AG_NEAREST_NAME_BYTES bytes. */
static unsigned distance_of(const char *a, size_t a_length, const char *b, size_t b_length) {
    unsigned rows[AG_NEAREST_NAME_BYTES + 1][AG_NEAREST_NAME_BYTES + 1];
    for (size_t i = 0; i <= a_length; i++) {
        for (size_t j = 0; j <= b_length; j++) {
            if (i == 0 || j == 0) {
                rows[i][j] = (unsigned)(i + j);
                continue;
            }
            const char x = lower_case(a[i - 1]), y = lower_case(b[j - 1]);
            unsigned least = rows[i - 1][j - 1] + (x != y);
            least = least_of(least, least_of(rows[i - 1][j], rows[i][j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower_case(b[j - 2]) && y == lower_case(a[i - 2])) {
                least = least_of(least, rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    return rows[a_length][b_length];
}

static void offer_word(struct ag_nearest_name *nearest, const char *name, size_t length) {
    const size_t typed_length = strlen(nearest->typed);
    if (length < 2 || length > AG_NEAREST_NAME_BYTES || typed_length < 2 ||
        typed_length > AG_NEAREST_NAME_BYTES) {
        return;
    }
    const unsigned most = typed_length < 6 ? 1 : (unsigned)typed_length / 3;
    const unsigned distance = distance_of(nearest->typed, typed_length, name, length);
    if (distance <= most && (nearest->name[0] == '\0' || distance < nearest->distance)) {
        nearest->distance = distance;
        memcpy(nearest->name, name, length);
        nearest->name[length] = '\0';
    }
}

void ag_nearest_name_offer(struct ag_nearest_name *nearest, const char *name) {
    offer_word(nearest, name, strlen(name));
}

void ag_nearest_name_offer_list(struct ag_nearest_name *nearest, const char *names) {
    while (*names != '\0') {
        const size_t length = strcspn(names, " ,");
        offer_word(nearest, names, length);
        names += length;
        names += strspn(names, " ,");
    }
}

const char *ag_nearest_name_hint(struct ag_nearest_name *nearest, const char *prefix) {
    nearest->hint[0] = '\0';
    if (nearest->name[0] != '\0') {
        (void)snprintf(nearest->hint, sizeof nearest->hint, "; did you mean '%.8s%s'?", prefix,
                       nearest->name);
    }
    return nearest->hint;
}
