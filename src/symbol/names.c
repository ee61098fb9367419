/* names.c: interns texts, and caches the demangled form of each linker name, because many addresses
 * have the same name. */
#include "names.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol.h"

enum { TEXT_BYTES = 32 }; /* approximate memory of an interned text in addition to its bytes */

static const char not_mangled[] = ""; /* value in names->demangled for a text that is not a mangled
                                       * name */

struct name { /* an interned text */
    uint32_t id;
    const char *text; /* NULL: out of memory */
};

static struct name names_intern(struct ag_names *names, const char *text, size_t length) {
    const size_t n_texts = names->texts.count;
    const uint32_t id = ag_text_id(&names->texts, text, length);
    names->n_bytes += names->texts.count > n_texts ? TEXT_BYTES + length : 0;
    return (struct name){.id = id,
                         .text = id != 0 || length == 0 ? ag_text(&names->texts, id) : NULL};
}

/* Whether a control character begins at TEXT[AT]: C0, DEL, or C1 in UTF-8 (c2 80 to c2 9f; c2 9b
 * starts an escape sequence). */
static bool is_control(const char *text, size_t length, size_t at) {
    const unsigned char c = (unsigned char)text[at];
    const unsigned char next = at + 1 < length ? (unsigned char)text[at + 1] : 0;
    return c < ' ' || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0);
}

static struct name names_intern_printable(struct ag_names *names, const char *text, size_t length) {
    size_t first = 0;
    while (first < length && !is_control(text, length, first)) {
        first++;
    }
    if (first == length) {
        return names_intern(names, text, length);
    }
    char *copy = strndup(text, length);
    if (copy == NULL) {
        return (struct name){.text = NULL};
    }
    for (size_t i = first; i < length; i++) {
        if (is_control(text, length, i)) {
            copy[i] = '?';
            copy[i + ((unsigned char)text[i] == 0xc2)] = '?';
        }
    }
    const struct name name = names_intern(names, copy, length);
    free(copy);
    return name;
}

const char *ag_names_keep(struct ag_names *names, const char *text) {
    if (text == NULL) {
        return NULL;
    }
    return names_intern_printable(names, text, strnlen(text, AG_NAME_LIMIT_BYTES)).text;
}

const char *ag_names_demangled(struct ag_names *names, const char *linkage) {
    if (linkage == NULL) {
        return NULL;
    }
    const struct name name =
        names_intern_printable(names, linkage, strnlen(linkage, AG_NAME_LIMIT_BYTES));
    if (name.text == NULL) {
        return NULL;
    }
    const char *demangled = ag_pointer_map_find(&names->demangled, name.id);
    if (demangled == NULL) {
        char *text = ag_demangle(name.text);
        demangled = ag_names_keep(names, text);
        free(text);
        /* if memory is exhausted, the name is demangled again at the next call */
        (void)ag_pointer_map_put(&names->demangled, name.id,
                                 (void *)(uintptr_t)(demangled != NULL ? demangled : not_mangled));
    }
    return demangled != not_mangled ? demangled : NULL;
}

const char *ag_names_function(struct ag_names *names, const char *linkage) {
    const char *demangled = ag_names_demangled(names, linkage);
    if (demangled != NULL || linkage == NULL) {
        return demangled;
    }
    const size_t length = strnlen(linkage, AG_NAME_LIMIT_BYTES);
    const struct name name =
        names_intern_printable(names, linkage, ag_name_stem_bytes(linkage, length));
    return name.id != 0 ? name.text : NULL;
}

void ag_names_clear(struct ag_names *names) {
    ag_text_store_done(&names->texts);
    ag_pointer_map_done(&names->demangled, NULL);
}
