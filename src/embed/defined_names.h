/* defined_names.h: names that a program defined, numbered from 1: its types and its labels (names
 * for parts of its work).
 *
 * In each recording a name gets a new site, the number under which the stack tree (the table of all
 * stacks of the recording) has this name. The site of the last recording is stored with the
 * name. */
#ifndef AG_DEFINED_NAMES_H
#define AG_DEFINED_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AG_DEFINED_NAMES_MOST = 65535,
    AG_DEFINED_NAMES_A_PAGE = 1024,
    AG_DEFINED_NAME_PAGES = (AG_DEFINED_NAMES_MOST + 1) / AG_DEFINED_NAMES_A_PAGE,
    AG_DEFINED_NAME_BYTES = 4096, /* size of a name; longer names are truncated */
};
struct ag_defined_name {
    const char *name, *runtime; /* in mapped memory, never moved */
    uint32_t next;              /* the next number with the same hash; 0: none */
    _Atomic uint32_t is_shut;   /* a type that the recording's filter leaves out */
    _Atomic uint64_t site;      /* recording << 32 | site; 0: none */
};
struct ag_defined_names { /* zero-initialized */
    struct ag_defined_name *_Atomic pages[AG_DEFINED_NAME_PAGES];
    uint32_t heads[1024]; /* index: a hash; the first number with this hash, 0: none. Protected by
                           * the caller's lock. */
    _Atomic uint32_t count;
    uint32_t image; /* AG_IMAGE_TYPE or AG_IMAGE_LABEL */
};

/* Returns the number of a name. A name without a number gets one, and *ret_is_new is set to 1.
 * Returns 0 if there are too many names, or no memory. The caller holds a lock. */
uint32_t ag_defined_names_intern(struct ag_defined_names *names, const char *name,
                                 const char *runtime, int *ret_is_new);
/* Returns NULL if no name has this number. May be called by any thread and signal handler. */
struct ag_defined_name *ag_defined_names_get(struct ag_defined_names *names, uint32_t number);
/* Returns a permanent copy, truncated to AG_DEFINED_NAME_BYTES - 1; NULL: no memory. All callers
 * hold the lock under which names are interned. */
const char *ag_reported_text_copy(const char *text);
/* Returns the hash of the part of the text that ag_reported_text_copy copies. start: the hash of a
 * text that precedes this one; 0: no text precedes. */
uint32_t ag_reported_text_hash(uint32_t start, const char *text);
/* Whether KEPT is the copy of GIVEN. */
bool ag_reported_text_is(const char *kept, const char *given);
/* Returns the site of name NUMBER in this recording; 0: no such number, or no memory. May be called
 * by any thread and signal handler. */
uint32_t ag_defined_names_site(struct ag_defined_names *names, uint32_t number);

#endif
