/* julia_name.c: converts symbol names of Julia's compiled images to names of functions, for
 * reports.
 *
 * The prefix of a symbol shows the calling convention of its function, and the number at the end
 * distinguishes methods (get_function_name in Julia's src/codegen.cpp). Characters that an
 * assembler does not accept are written as a short name or as two hexadecimal digits, followed by a
 * dot (makeSafeName in src/aot.cpp). */
#include "julia_name.h"

#include <stdint.h>
#include <string.h>

static const char *const prefixes[] = {"julia_", "japi1_", "japi3_", "jfptr_", "jlcapi_", NULL};
/* Symbols that are no functions of Julia: functions of C, and (other_prefixes) functions that
 * Julia's code generator makes. */
static const char *const others[] = {"_init",
                                     "_fini",
                                     "frame_dummy",
                                     "register_tm_clones",
                                     "deregister_tm_clones",
                                     "__do_global_dtors_aux",
                                     NULL};
static const char *const other_prefixes[] = {"jlplt_",     "ccall_", "ccalllib_",
                                             "tojlinvoke", "jl_",    NULL};
static const struct {
    char character;
    const char *text;
} escapes[] = {
    {' ', "SP"},   {'!', "NOT"}, {'"', "DQT"}, {'#', "YY"},   {'%', "REM"}, {'&', "AND"},
    {'\'', "SQT"}, {'(', "LPR"}, {')', "RPR"}, {'*', "MUL"},  {'+', "SUM"}, {'-', "SUB"},
    {'.', "DOT"},  {'/', "DIV"}, {':', "COL"}, {'<', "LT"},   {'=', "EQ"},  {'>', "GT"},
    {'?', "COND"}, {'@', "AT"},  {'[', "LBR"}, {'\\', "RDV"}, {']', "RBR"}, {'^', "POW"},
    {'`', "TIC"},  {'{', "LCR"}, {'|', "OR"},  {'}', "RCR"},  {'~', "TLD"},
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* The value of an upper-case hexadecimal digit; -1: it is none. */
static int digit_of(char c) {
    return is_digit(c) ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The number of bytes of TEXT, LENGTH long, that stand for *ret_character; 0: no escape begins
 * there. */
static size_t read_escape(const char *text, size_t length, char *ret_character) {
    for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
        const size_t n = strlen(escapes[i].text);
        if (n < length && memcmp(text, escapes[i].text, n) == 0 && text[n] == '.') {
            *ret_character = escapes[i].character;
            return n + 1;
        }
    }
    if (length > 2 && text[2] == '.' && digit_of(text[0]) >= 8 && digit_of(text[1]) >= 0) {
        *ret_character = (char)(digit_of(text[0]) * 16 + digit_of(text[1])); /* a UTF-8 byte */
        return 3;
    }
    return 0;
}

/* The length of the name without ".clone_1" and without the number that distinguishes methods. */
static size_t length_of_name(const char *text) {
    const char *clone = strstr(text, ".clone_");
    const size_t length = clone ? (size_t)(clone - text) : strlen(text);
    size_t end = length;
    while (end > 0 && is_digit(text[end - 1])) {
        end--;
    }
    return end > 1 && end < length && text[end - 1] == '_' ? end - 1 : length;
}

static bool begins_with_one_of(const char *text, const char *const *list, size_t *ret_length) {
    for (; *list; list++) {
        *ret_length = strlen(*list);
        if (strncmp(text, *list, *ret_length) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_foreign(const char *linkage) {
    size_t length = 0;
    for (size_t i = 0; others[i]; i++) {
        if (strcmp(linkage, others[i]) == 0) {
            return true;
        }
    }
    return begins_with_one_of(linkage, other_prefixes, &length);
}

bool ag_julia_symbol_name(const char *linkage, char *ret_text, size_t capacity) {
    size_t prefix = 0, length, used = 0;
    if (!begins_with_one_of(linkage, prefixes, &prefix)) {
        prefix = 0;
        length = strlen(linkage);
        length -= length > 0 && linkage[length - 1] == ';';
        if (length == 0 || length >= capacity || is_foreign(linkage)) {
            return false;
        }
        memcpy(ret_text, linkage, length);
        ret_text[length] = '\0';
        return true;
    }
    const char *name = linkage + prefix;
    length = length_of_name(name);
    for (size_t at = 0; at < length; used++) {
        if (used + 1 >= capacity) {
            return false;
        }
        ret_text[used] = name[at];
        const size_t escape = read_escape(name + at, length - at, &ret_text[used]);
        at += escape > 0 ? escape : 1;
    }
    ret_text[used] = '\0';
    return used > 0;
}
