/* crystal_name.c: for reports, converts Crystal's linker symbols to the names that Crystal
 * programmers write, and determines from the name of a function which type it allocates. The forms
 * of symbols are:
 *
 *     * TYPE [@ OWNER] (# | ::) METHOD [: named arguments] [< types of arguments >] : RESULT
 *     ~ procRESULT @ FILE : LINE             a proc
 *     ~ NAME : init                          a constant's or class variable's value
 *     __crystal_main, __crystal_malloc64 ... functions of the compiler
 *
 * The source is mangled_name in compiler/crystal/codegen/fun.cr and types.cr of Crystal 1.6 to
 * 1.14. Types contain blanks, parentheses, commas, "::", "|", "+" and "->"; methods may be
 * operators, for example "<". */
#include "crystal_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Returns the position after the parenthesis or brace that closes the one at AT, or the end of the
 * text. */
static size_t behind_parentheses(const char *text, size_t at) {
    size_t depth = 0;
    do {
        depth += text[at] == '(' || text[at] == '{';
        depth -= text[at] == ')' || text[at] == '}';
        at++;
    } while (depth > 0 && text[at] != '\0');
    return at;
}

static bool is_operator(char c) {
    return c != '\0' && strchr("<>=!+-*/%&|^~[]?", c) != NULL;
}

/* The length of the method's name at METHOD. */
static size_t method_bytes(const char *method) {
    size_t n = 0;
    if (!is_operator(method[0])) {
        while (isalnum((unsigned char)method[n]) || method[n] == '_' || (method[n] & 0x80) != 0) {
            n++;
        }
        while (method[n] == '?' || method[n] == '!' || method[n] == '=') {
            n++;
        }
        return n;
    }
    while (is_operator(method[n])) {
        n++;
    }
    /* If neither ":" nor "<" follows a "<", this "<" is not part of the name but opens the list of
     * types. */
    while (n > 1 && method[n] != ':' && method[n] != '<' && method[n - 1] == '<') {
        n--;
        if (method[n] == '<') {
            break;
        }
    }
    return n;
}

struct parts {
    size_t type_end; /* where TYPE ends */
    size_t method;   /* where METHOD begins; 0: no type precedes it */
    bool is_instance;
};

/* Splits the text after the star. */
static struct parts split(const char *text) {
    struct parts parts = {.type_end = 0};
    size_t at = 0, owner = 0;
    while (text[at] != '\0') {
        const char c = text[at];
        if (c == '(' || c == '{') {
            at = behind_parentheses(text, at);
        } else if (c == '@' && owner == 0 && parts.method == 0) {
            parts.type_end = at;
            owner = ++at;
        } else if (c == '@' && owner == 0) { /* any "::" before the "@" is in the type's path */
            parts.type_end = at;
            parts.method = 0;
            owner = ++at;
        } else if (c == '#') {
            parts.type_end = owner != 0 ? parts.type_end : at;
            parts.method = at + 1;
            parts.is_instance = true;
            break;
        } else if (c == ':' && text[at + 1] == ':') {
            parts.type_end = owner != 0 ? parts.type_end : at;
            parts.method = at += 2;
            if (is_operator(text[at])) {
                break;
            }
        } else if (c == ':' || c == '<') {
            break;
        } else {
            at++;
        }
    }
    return parts;
}

static bool proc_name(const char *linkage, char *ret_text, size_t capacity) {
    static const char init[] = ":init";
    const size_t length = strlen(linkage);
    const char *place = strrchr(linkage, '@');
    int n = -1;
    if (strncmp(linkage, "~proc", strlen("~proc")) == 0 && place != NULL) {
        n = snprintf(ret_text, capacity, "->(%s)", place + 1);
    } else if (length > sizeof(init) && strcmp(linkage + length - (sizeof(init) - 1), init) == 0) {
        n = snprintf(ret_text, capacity, "%.*s (value)", (int)(length - sizeof(init)), linkage + 1);
    } else {
        n = snprintf(ret_text, capacity, "%s", linkage + 1);
    }
    return n > 0 && (size_t)n < capacity;
}

/* If the arguments of a generic type are inferred from those of `new` (Pair.new(1, "s")), TYPE has
 * the type's parameters, and RESULT is the type that is made. Returns the position of RESULT, or 0
 * if the arguments of TYPE are not inferred. */
static size_t made_type(const char *text, const struct parts *parts, size_t method) {
    const size_t length = strlen(text);
    const char *open = memchr(text, '(', parts->type_end);
    if (parts->is_instance || parts->method == 0 || method != strlen("new") || !open ||
        strncmp(text + parts->method, "new", method) != 0) {
        return 0;
    }
    const size_t base = (size_t)(open - text);
    for (size_t at = parts->method + method; at + base + 1 < length; at++) {
        const size_t type = at + 1;
        if (text[at] == ':' && text[at - 1] != ':' && strncmp(text + type, text, base + 1) == 0 &&
            behind_parentheses(text, type + base) == length) {
            return type;
        }
    }
    return 0;
}

bool ag_crystal_name(const char *linkage, char *ret_text, size_t capacity) {
    if (linkage[0] == '~') {
        return proc_name(linkage, ret_text, capacity);
    }
    if (linkage[0] != '*') {
        const int n = snprintf(ret_text, capacity, "%s", linkage);
        return strncmp(linkage, "__crystal_", strlen("__crystal_")) == 0 && (size_t)n < capacity;
    }
    const char *text = linkage + 1;
    const struct parts parts = split(text);
    const size_t method = method_bytes(text + parts.method);
    const size_t made = made_type(text, &parts, method);
    if (made != 0) {
        const int length = snprintf(ret_text, capacity, "%s.new", text + made);
        return (size_t)length < capacity;
    }
    const int n = parts.method == 0
                      ? snprintf(ret_text, capacity, "%.*s", (int)method, text)
                      : snprintf(ret_text, capacity, "%.*s%s%.*s", (int)parts.type_end, text,
                                 parts.is_instance ? "#" : ".", (int)method, text + parts.method);
    return n > 0 && (size_t)n < capacity;
}

/* ---- places ---- */

static bool ends_with(const char *text, const char *end, size_t *ret_before) {
    const size_t length = strlen(text), n = strlen(end);
    *ret_before = length - n;
    return length >= n && strcmp(text + length - n, end) == 0;
}

static bool is_in_binding(const char *file) {
    static const char *const files[] = {"/gc/boehm.cr", "/gc/none.cr", "/gc.cr"};
    size_t unused;
    for (size_t i = 0; file != NULL && i < sizeof(files) / sizeof(files[0]); i++) {
        if (ends_with(file, files[i], &unused)) {
            return true;
        }
    }
    return false;
}

static bool is_shim(const char *function, const char *file) {
    static const char *const short_names[] = {"malloc", "malloc_atomic", "realloc"};
    if (strncmp(function, "GC.malloc", strlen("GC.malloc")) == 0 ||
        strncmp(function, "GC.realloc", strlen("GC.realloc")) == 0 ||
        strncmp(function, "__crystal_malloc", strlen("__crystal_malloc")) == 0 ||
        strncmp(function, "__crystal_realloc", strlen("__crystal_realloc")) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof(short_names) / sizeof(short_names[0]); i++) {
        if (strcmp(function, short_names[i]) == 0 && is_in_binding(file)) {
            return true;
        }
    }
    return false;
}

enum ag_crystal_place ag_crystal_place(const char *function, const char *file, char *ret_type,
                                       size_t capacity) {
    static const struct {
        const char *end; /* of the function's name */
        enum ag_crystal_place place;
    } ends[] = {
        {".new", AG_CRYSTAL_OBJECT},         {".allocate", AG_CRYSTAL_OBJECT},
        {").malloc", AG_CRYSTAL_BUFFER},     {")#realloc", AG_CRYSTAL_BUFFER},
        {").malloc_one", AG_CRYSTAL_BUFFER},
    };
    size_t unused;
    ret_type[0] = '\0';
    if (is_shim(function, file)) {
        return AG_CRYSTAL_SHIM;
    }
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t before;
        if (ends_with(function, ends[i].end, &before) && before > 0) {
            before += ends[i].end[0] == ')'; /* the parenthesis belongs to the type */
            (void)snprintf(ret_type, capacity, "%.*s", (int)before, function);
            return ends[i].place;
        }
    }
    if (strcmp(function, "new") == 0 || strcmp(function, "allocate") == 0) {
        return AG_CRYSTAL_OBJECT;
    }
    if ((strcmp(function, "malloc") == 0 && file && ends_with(file, "/primitives.cr", &unused)) ||
        ((strcmp(function, "realloc") == 0 || strcmp(function, "malloc") == 0) && file &&
         ends_with(file, "/pointer.cr", &unused))) {
        return AG_CRYSTAL_BUFFER;
    }
    return AG_CRYSTAL_NO_PLACE;
}
