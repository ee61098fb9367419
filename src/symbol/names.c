/* names.c: an intern table of texts; each also stores its demangled form, since many places have
 * the same name. */
#include "names.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "demangle_suffix.h"
#include "symbol.h"

struct name {
    struct name *next;     /* another text with the same hash */
    const char *demangled; /* interned, or NULL: not mangled, or not tried yet */
    bool is_tried;
    size_t length;
    char text[];
};

static struct name *intern(struct ag_names *names, const char *text, size_t length) {
    const uint64_t key = ag_keyed_hash_bytes(text, length);
    struct name *first = ag_pointer_table_find(&names->kept, key);
    for (struct name *name = first; name != NULL; name = name->next) {
        if (name->length == length && memcmp(name->text, text, length) == 0) {
            return name;
        }
    }
    struct name *name = calloc(1, sizeof(*name) + length + 1);
    if (name == NULL) {
        return NULL;
    }
    name->next = first;
    name->length = length;
    memcpy(name->text, text, length);
    if (ag_pointer_table_put(&names->kept, key, name) < 0) {
        free(name);
        return NULL;
    }
    names->n_bytes += sizeof(*name) + length;
    return name;
}

/* C0, DEL, and the C1 controls of UTF-8 (c2 80 to c2 9f: c2 9b starts an escape sequence). */
static bool is_control(const char *text, size_t length, size_t at) {
    const unsigned char c = (unsigned char)text[at];
    const unsigned char next = at + 1 < length ? (unsigned char)text[at + 1] : 0;
    return c < ' ' || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0);
}

static struct name *intern_printable(struct ag_names *names, const char *text, size_t length) {
    size_t first = 0;
    while (first < length && !is_control(text, length, first)) {
        first++;
    }
    if (first == length) {
        return intern(names, text, length);
    }
    char *copy = strndup(text, length);
    if (copy == NULL) {
        return NULL;
    }
    for (size_t i = first; i < length; i++) {
        if (is_control(text, length, i)) {
            copy[i] = '?';
            copy[i + ((unsigned char)text[i] == 0xc2)] = '?';
        }
    }
    struct name *name = intern(names, copy, length);
    free(copy);
    return name;
}

const char *ag_names_keep(struct ag_names *names, const char *text) {
    if (text == NULL) {
        return NULL;
    }
    const struct name *name = intern_printable(names, text, strnlen(text, AG_NAME_LIMIT_BYTES));
    return name != NULL ? name->text : NULL;
}

const char *ag_names_demangled(struct ag_names *names, const char *linkage) {
    if (linkage == NULL) {
        return NULL;
    }
    struct name *name = intern_printable(names, linkage, strnlen(linkage, AG_NAME_LIMIT_BYTES));
    if (name == NULL) {
        return NULL;
    }
    if (!name->is_tried) {
        name->is_tried = true;
        char *text = ag_demangle(name->text);
        name->demangled = ag_names_keep(names, text);
        free(text);
    }
    return name->demangled;
}

const char *ag_names_function(struct ag_names *names, const char *linkage) {
    const char *demangled = ag_names_demangled(names, linkage);
    if (demangled != NULL || linkage == NULL) {
        return demangled;
    }
    const size_t length = strnlen(linkage, AG_NAME_LIMIT_BYTES);
    const struct name *name = intern_printable(names, linkage, ag_name_stem_bytes(linkage, length));
    return name != NULL && name->length > 0 ? name->text : NULL;
}

static void destroy(void *value) {
    for (struct name *name = value; name != NULL;) {
        struct name *next = name->next;
        free(name);
        name = next;
    }
}

void ag_names_clear(struct ag_names *names) {
    ag_pointer_table_clear(&names->kept, destroy);
}
