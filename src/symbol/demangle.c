/* demangle.c: converts (demangles) linker names to names as programmers wrote them, for C++, Rust
 * (legacy and v0) and D, with GNU libiberty.
 *
 * A mangled name may come from a hostile file, and a name of a kilobyte with back references can
 * expand to an astronomical amount of text. So there are limits. The recursion limits of libiberty
 * stay enabled, and a long name is not demangled. The demanglers of C++ and Rust pass their text in
 * pieces to a callback, which ends them by longjmp when the text exceeds TEXT_LIMIT_BYTES. (The
 * demanglers keep their state on the stack; but a punycode buffer of the Rust demangler, a few
 * hundred bytes, may leak.) The demangler of D returns the whole text at once, so the number of
 * back references to types in a D name is limited, which limits the expansion. */
#include "symbol.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "table/array.h"

enum {
    /* libiberty itself rejects C++ names of more than 1 KiB (DEMANGLE_RECURSION_LIMIT) */
    MANGLED_LIMIT_BYTES = 8 << 10,
    TEXT_LIMIT_BYTES = 32 << 10,
    D_BACK_REFERENCES = 24, /* with 24 references the text has at most 7000 times the length of the
                             * name (e^(24/e)) */
};

struct text {
    char *bytes;
    size_t length, capacity;
    jmp_buf too_long; /* target of longjmp if the text exceeds its limit or memory is exhausted */
};

static void demangled_append(const char *piece, size_t length, void *context) {
    struct text *text = context;
    if (length > TEXT_LIMIT_BYTES - text->length) {
        longjmp(text->too_long, 1);
    }
    if (AG_ARRAY_RESERVE(text->bytes, text->capacity, text->length + length + 1) < 0) {
        longjmp(text->too_long, 1);
    }
    memcpy(text->bytes + text->length, piece, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

typedef int print_fn(const char *mangled, int options, demangle_callbackref callback,
                     void *context);

static char *demangled_print(print_fn *printer, const char *mangled, int options) {
    struct text *text = calloc(1, sizeof(*text));
    if (text == NULL) {
        return NULL;
    }
    char *result = NULL;
    if (setjmp(text->too_long) == 0 && printer(mangled, options, demangled_append, text) &&
        text->length > 0) {
        result = text->bytes;
    } else {
        free(text->bytes);
    }
    free(text);
    return result;
}

/* Counts the back references to types in a D name. A back reference is a 'Q' and a distance in
 * base-26 letters. It repeats an identifier (which begins with a digit) or a type. Only a type can
 * contain further back references, so only back references to types can multiply the text. */
static size_t d_type_back_references(const char *mangled) {
    size_t n = 0;
    for (const char *at = strchr(mangled, 'Q'); at != NULL; at = strchr(at + 1, 'Q')) {
        size_t distance = 0;
        const char *digit = at + 1;
        for (; *digit >= 'A' && *digit <= 'Z' && distance < MANGLED_LIMIT_BYTES; digit++) {
            distance = distance * 26 + (size_t)(*digit - 'A');
        }
        if (*digit >= 'a' && *digit <= 'z') {
            distance = distance * 26 + (size_t)(*digit - 'a');
        }
        const bool is_identifier =
            distance <= (size_t)(at - mangled) && isdigit((unsigned char)*(at - distance));
        n += !is_identifier;
    }
    return n;
}

static char *demangle_exact(const char *name) {
    const int options = DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP;
    if (name[0] != '_') {
        return NULL;
    }
    if (name[1] == 'R') {
        return demangled_print(rust_demangle_callback, name, DMGL_RUST);
    }
    if (name[1] == 'Z') {
        /* the demangler of Rust accepts only legacy Rust names: C++ names that end in a hash */
        char *text = demangled_print(rust_demangle_callback, name, DMGL_RUST);
        return text != NULL ? text : demangled_print(cplus_demangle_v3_callback, name, options);
    }
    if (name[1] == 'D' && (isdigit((unsigned char)name[2]) || strcmp(name, "_Dmain") == 0)) {
        return d_type_back_references(name) <= D_BACK_REFERENCES ? dlang_demangle(name, DMGL_DLANG)
                                                                 : NULL;
    }
    return NULL;
}

char *ag_demangle(const char *name) {
    const size_t length = strnlen(name, MANGLED_LIMIT_BYTES);
    if (length == MANGLED_LIMIT_BYTES) {
        return NULL;
    }
    char *stem = strndup(name, ag_name_stem_bytes(name, length));
    if (stem == NULL) {
        return NULL;
    }
    char *text = demangle_exact(stem);
    free(stem);
    return text;
}

/* Suffixes that compilers and linkers append to the names of the copies or pieces of a function,
 * which programmers regard as one function. Outlined bodies (._omp_fn, .actor and .destroy of
 * coroutines) are separate functions and keep their suffixes. */
static const char *const copy_suffixes[] = {
    "cold", "part", "isra", "constprop", "lto_priv", "llvm", "localalias", "unlikely", "warm",
};

static bool is_copy_suffix(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof(copy_suffixes) / sizeof(copy_suffixes[0]); i++) {
        if (strlen(copy_suffixes[i]) == length && memcmp(copy_suffixes[i], word, length) == 0) {
            return true;
        }
    }
    return false;
}

static size_t digits_before(const char *name, size_t end) {
    size_t n = 0;
    while (n < end && isdigit((unsigned char)name[end - 1 - n])) {
        n++;
    }
    return n;
}

size_t ag_name_stem_bytes(const char *name, size_t length) {
    const char *version = memchr(name, '@', length); /* "malloc@@GLIBC_2.2.5" */
    size_t stem = version != NULL && version > name ? (size_t)(version - name) : length;
    for (size_t end = stem; end > 0;) {
        const size_t digits = digits_before(name, end);
        if (digits > 0 && digits < end && name[end - digits - 1] == '.') {
            /* a number such as ".0" is a suffix only after a word of copy_suffixes */
            end -= digits + 1;
        }
        const char *dot = memrchr(name, '.', end);
        if (dot == NULL || dot == name ||
            !is_copy_suffix(dot + 1, end - (size_t)(dot + 1 - name))) {
            break;
        }
        end = (size_t)(dot - name);
        stem = end;
    }
    return stem;
}
