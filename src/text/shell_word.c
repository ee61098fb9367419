/* shell_word.c: quotes paths for a shell. Within single quotes every character is literal; a single
 * quote is written as '\'' (the quotes end, a quote follows that a backslash makes literal, new
 * quotes begin). */
#include "text/shell_word.h"

#include <stdbool.h>
#include <string.h>

static const char *write_word(const char *path, bool has_stars, char *word, size_t word_bytes) {
    enum { ROOM = 6 }; /* the longest piece, the last quote and the final 0 */
    static const char plain[] =
        "*abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./%@=:,";
    const bool is_option = path[0] == '-'; /* a command would take the path for an option */
    const bool is_plain = path[0] != '\0' && path[0] != '=' && /* zsh expands =NAME */
                          path[strspn(path, has_stars ? plain : plain + 1)] == 0;
    if (is_plain && !is_option) {
        return path;
    }
    size_t used = 0;
    if (!is_plain) {
        word[used++] = '\'';
    }
    if (is_option) {
        word[used++] = '.';
        word[used++] = '/';
    }
    for (; *path != '\0' && used + ROOM < word_bytes; path++) {
        const char *piece = *path == '\''                            ? "'\\''"
                            : *path == '*' && has_stars && !is_plain ? "'*'"
                                                                     : NULL;
        const size_t length = piece ? strlen(piece) : 1;
        memcpy(word + used, piece ? piece : path, length);
        used += length;
    }
    if (!is_plain) {
        word[used++] = '\'';
    }
    word[used] = '\0';
    return word;
}

const char *ag_shell_word(const char *path, char *word, size_t word_bytes) {
    return write_word(path, /* has_stars= */ false, word, word_bytes);
}

const char *ag_shell_pattern(const char *pattern, char *word, size_t word_bytes) {
    return write_word(pattern, /* has_stars= */ true, word, word_bytes);
}
