/* symbol_versions.c: compares the symbol versions that the agent needs with those that a C library
 * defines, so that `attach` can say that a library is too old before it calls the loader of the
 * process. The loader of glibc before 2.34 refuses the agent without saying why.
 *
 *     agent    .gnu.version_r    per needed library: a verneed with its vernaux, one per version
 *     libc     .gnu.version_d    a verdef per version
 *
 * As in the loader, versions are compared by their hashes. Both tables are input from outside:
 * each offset is checked, and each step leads forward. */
#include "symbol_versions.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_BYTES_MOST = 64 << 10, STRINGS_BYTES_MOST = 1 << 20 };

struct contents { /* of a section */
    uint8_t *bytes;
    size_t n;
};

static struct contents contents_of(const struct ag_remote_elf *elf, const char *section,
                                   size_t limit) {
    struct contents contents = {.n = 0};
    contents.bytes = ag_remote_elf_contents(elf, section, limit, &contents.n);
    return contents;
}

/* Copies a struct of N bytes at the offset AT; false: it is not in the section. */
static bool contents_read(const struct contents *contents, size_t at, void *ret, size_t n) {
    if (at > contents->n || contents->n - at < n) {
        return false;
    }
    memcpy(ret, contents->bytes + at, n);
    return true;
}

/* The string at the offset AT, or "". */
static const char *text_at(const struct contents *strings, size_t at) {
    const bool has = at < strings->n && memchr(strings->bytes + at, '\0', strings->n - at) != NULL;
    return has ? (const char *)strings->bytes + at : "";
}

static bool is_defined(const struct contents *definitions, uint32_t hash) {
    Elf64_Verdef definition = {.vd_next = 0};
    size_t at = 0;
    do {
        at += definition.vd_next;
        if (!contents_read(definitions, at, &definition, sizeof definition)) {
            return true; /* damaged: the loader has to decide */
        }
        if (definition.vd_hash == hash) {
            return true;
        }
    } while (definition.vd_next != 0);
    return false;
}

/* Whether one of the versions of a needed library, which begin at the offset AT, is not defined. */
static bool lacks_one(const struct contents *needed, size_t at, const struct contents *definitions,
                      const struct contents *strings, char ret_name[AG_VERSION_NAME_BYTES]) {
    Elf64_Vernaux version = {.vna_next = 0};
    do {
        at += version.vna_next;
        if (!contents_read(needed, at, &version, sizeof version)) {
            return false;
        }
        if ((version.vna_flags & VER_FLG_WEAK) == 0 && !is_defined(definitions, version.vna_hash)) {
            (void)snprintf(ret_name, AG_VERSION_NAME_BYTES, "%s",
                           text_at(strings, version.vna_name));
            return true;
        }
    } while (version.vna_next != 0);
    return false;
}

bool ag_symbol_versions_lack(const struct ag_remote_elf *agent, const struct ag_remote_elf *libc,
                             char ret_name[AG_VERSION_NAME_BYTES]) {
    struct contents needed = contents_of(agent, ".gnu.version_r", TABLE_BYTES_MOST);
    struct contents strings = contents_of(agent, ".dynstr", STRINGS_BYTES_MOST);
    struct contents definitions = contents_of(libc, ".gnu.version_d", TABLE_BYTES_MOST);
    Elf64_Verneed library = {.vn_next = 0};
    bool lacks = false;
    size_t at = 0;
    do {
        at += library.vn_next;
        if (definitions.bytes == NULL || !contents_read(&needed, at, &library, sizeof library)) {
            break;
        }
        lacks = strcmp(text_at(&strings, library.vn_file), "libc.so.6") == 0 &&
                lacks_one(&needed, at + library.vn_aux, &definitions, &strings, ret_name);
    } while (!lacks && library.vn_next != 0);
    free(needed.bytes);
    free(strings.bytes);
    free(definitions.bytes);
    return lacks;
}
