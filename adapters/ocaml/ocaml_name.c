/* ocaml_name.c: converts OCaml's names in linker symbols and debug information to the names that
 * programmers write. Used for reports, by bytecode.c, and by the OCaml library in pkg/. The parts
 * of a symbol:
 *
 *     caml Dune__exe__Known __ pair _ 81        up to 5.0; since 5.1, a dot follows the module
 *          ^ path of modules   ^ name ^ stamp
 *
 * A path's parts begin with capitals and are joined by "__", which a programmer writes as a dot.
 * Dune puts the modules of an executable under "Dune__exe", which does not occur in sources. In a
 * symbol, a character that assemblers do not accept is written as "$" and two hexadecimal
 * digits. */
#include "ocaml_name.h"

#include <string.h>

struct text {
    char *bytes;
    size_t length, capacity;
};

/* Used instead of isdigit(): this file is also part of the agent (the library that is loaded into
 * the recorded program), which calls as few functions of the C library as possible. */
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_capital(char c) {
    return c >= 'A' && c <= 'Z';
}

static const char *find_gap(const char *bytes, size_t length) {
    for (size_t i = 0; i + 1 < length; i++) {
        if (bytes[i] == '_' && bytes[i + 1] == '_') {
            return bytes + i;
        }
    }
    return NULL;
}

static bool ocaml_name_put(struct text *text, const char *bytes, size_t length) {
    if (length >= text->capacity - text->length) {
        return false;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
    return true;
}

static int digit(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Replaces escapes such as "$2b" by their characters. Escapes of the control characters below "$20"
 * stay as they are. */
static bool put_unescaped(struct text *text, const char *bytes, size_t length) {
    bool fits = true;
    for (size_t i = 0; i < length && fits; i++) {
        char c = bytes[i];
        if (c == '$' && i + 2 < length && digit(bytes[i + 1]) >= 2 && digit(bytes[i + 2]) >= 0) {
            c = (char)(digit(bytes[i + 1]) << 4 | digit(bytes[i + 2]));
            i += 2;
        }
        fits = ocaml_name_put(text, &c, 1);
    }
    return fits;
}

/* The length of the module path at the start of NAME: parts that begin with capitals, joined by
 * "__". The part "exe" of dune's prefix begins with no capital, so the prefix is recognized as a
 * whole. */
static size_t path_bytes(const char *name, size_t length) {
    static const char dune[] = "Dune__exe";
    size_t end = 0;
    for (size_t at = 0; at < length;) {
        if (at == 0 && length > strlen(dune) && strncmp(name, dune, strlen(dune)) == 0) {
            end = strlen(dune);
        } else if (is_capital(name[at])) {
            const char *next = find_gap(name + at + 1, length - at - 1);
            end = next != NULL ? (size_t)(next - name) : length;
        } else {
            break;
        }
        at = end + 2;
    }
    return end;
}

/* Writes "Dune__exe__Known" as Known, and "Stdlib__List" as Stdlib.List. */
static bool put_path(struct text *text, const char *path, size_t length) {
    static const char dune[] = "Dune__exe__";
    if (length > strlen(dune) && strncmp(path, dune, strlen(dune)) == 0) {
        path += strlen(dune);
        length -= strlen(dune);
    }
    while (length > 0) {
        const char *next = find_gap(path, length);
        const size_t part = next != NULL && next > path ? (size_t)(next - path) : length;
        const bool has_more = part + 2 < length;
        if (!put_unescaped(text, path, has_more ? part : length) ||
            (has_more && !ocaml_name_put(text, ".", 1))) {
            return false;
        }
        path += part + 2;
        length = has_more ? length - part - 2 : 0;
    }
    return true;
}

/* The length of NAME without the stamp (a number at its end that makes it unique). */
static size_t stem_bytes(const char *name, size_t length) {
    size_t at = length;
    while (at > 0 && is_digit(name[at - 1])) {
        at--;
    }
    return at < length && at > 1 && name[at - 1] == '_' ? at - 1 : length;
}

static bool put_function(struct text *text, const char *name, size_t length) {
    const size_t stem = stem_bytes(name, length);
    if ((stem == 3 && strncmp(name, "fun", 3) == 0 && stem < length) ||
        (stem > 4 && strncmp(name, "anon_fn$5b", 10) == 0)) {
        return ocaml_name_put(text, "(fun)", strlen("(fun)"));
    }
    if (length == strlen("entry") && strncmp(name, "entry", length) == 0) {
        return ocaml_name_put(text, "(toplevel)", strlen("(toplevel)"));
    }
    return put_unescaped(text, name, stem);
}

bool ag_ocaml_symbol_name(const char *linkage, char *ret_text, size_t capacity) {
    static const char prefix[] = "caml";
    struct text text = {.bytes = ret_text, .capacity = capacity};
    if (strncmp(linkage, prefix, strlen(prefix)) != 0 || !is_capital(linkage[strlen(prefix)])) {
        return false;
    }
    const char *name = linkage + strlen(prefix);
    const size_t length = strlen(name);
    const char *dot = strchr(name, '.');
    const size_t path = dot != NULL ? (size_t)(dot - name) : path_bytes(name, length);
    const size_t gap = dot != NULL ? 1 : 2;
    if (path == 0 || path + gap >= length) {
        return false; /* a module's data, or an unknown symbol */
    }
    return put_path(&text, name, path) && ocaml_name_put(&text, ".", 1) &&
           put_function(&text, name + path + gap, length - path - gap);
}

bool ag_ocaml_scoped_name(const char *scoped, char *ret_text, size_t capacity) {
    struct text text = {.bytes = ret_text, .capacity = capacity};
    const size_t length = strlen(scoped);
    const char *dot = strchr(scoped, '.');
    const size_t path = dot != NULL ? (size_t)(dot - scoped) : length;
    if (length == 0 || !is_capital(scoped[0])) {
        return length > 0 && ocaml_name_put(&text, scoped, length);
    }
    const bool is_module = dot == NULL; /* the module's toplevel */
    return put_path(&text, scoped, path) &&
           (is_module ? ocaml_name_put(&text, ".(toplevel)", strlen(".(toplevel)"))
                      : ocaml_name_put(&text, dot, length - path));
}
