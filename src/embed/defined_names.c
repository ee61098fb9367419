/* defined_names.c: stores the names of types and labels, which host_heaps.c registers, and the
 * texts of registered_functions.c. Entries of names lie in pages that never move and are complete
 * before their number is published, so readers need no lock. */
#include "defined_names.h"

#include <string.h>

#include "base/own_memory.h"
#include "record/recorder.h"

/* Memory for texts, in blocks of 64 KiB; the rest of a block is wasted when a text does not fit. */
static char *take_text_memory(size_t bytes) {
    enum { BLOCK_BYTES = 64 * 1024 };
    static char *block;
    static size_t left;
    if (bytes > left) {
        block = ag_own_memory_take(BLOCK_BYTES);
        left = block ? BLOCK_BYTES : 0;
    }
    if (!block || bytes > left) {
        return NULL;
    }
    char *text = block;
    block += bytes;
    left -= bytes;
    return text;
}

const char *ag_reported_text_copy(const char *text) {
    const size_t length = strnlen(text, AG_DEFINED_NAME_BYTES - 1);
    char *copy = take_text_memory(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

uint32_t ag_reported_text_hash(uint32_t start, const char *text) {
    uint32_t hash = start ^ 2166136261u; /* FNV-1a, which is fast enough for few short names */
    for (size_t i = 0; text[i] && i < AG_DEFINED_NAME_BYTES - 1; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    }
    return hash;
}

bool ag_reported_text_is(const char *kept, const char *given) {
    return strncmp(kept, given, AG_DEFINED_NAME_BYTES - 1) == 0;
}

struct ag_defined_name *ag_defined_names_get(struct ag_defined_names *names, uint32_t number) {
    /* acquire: pairs with the release in ag_defined_names_intern, which completed the entry */
    if (number == 0 || number > atomic_load_explicit(&names->count, memory_order_acquire)) {
        return NULL;
    }
    struct ag_defined_name *page =
        atomic_load_explicit(&names->pages[number / AG_DEFINED_NAMES_A_PAGE], memory_order_relaxed);
    return &page[number % AG_DEFINED_NAMES_A_PAGE];
}

static struct ag_defined_name *place_of(struct ag_defined_names *names, uint32_t number) {
    struct ag_defined_name *page =
        atomic_load_explicit(&names->pages[number / AG_DEFINED_NAMES_A_PAGE], memory_order_relaxed);
    if (!page) {
        page = ag_own_memory_take(AG_DEFINED_NAMES_A_PAGE * sizeof(*page));
        atomic_store_explicit(&names->pages[number / AG_DEFINED_NAMES_A_PAGE], page,
                              memory_order_relaxed);
    }
    return page ? &page[number % AG_DEFINED_NAMES_A_PAGE] : NULL;
}

uint32_t ag_defined_names_intern(struct ag_defined_names *names, const char *name,
                                 const char *runtime, int *ret_is_new) {
    uint32_t *head = &names->heads[ag_reported_text_hash(0, name) % AG_ARRAY_SIZE(names->heads)];
    for (uint32_t number = *head; number != 0;) {
        const struct ag_defined_name *known = ag_defined_names_get(names, number);
        if (ag_reported_text_is(known->name, name) &&
            ag_reported_text_is(known->runtime, runtime)) {
            *ret_is_new = 0;
            return number;
        }
        number = known->next;
    }
    const uint32_t number = atomic_load_explicit(&names->count, memory_order_relaxed) + 1;
    struct ag_defined_name *made = number <= AG_DEFINED_NAMES_MOST ? place_of(names, number) : NULL;
    const char *name_copy = made ? ag_reported_text_copy(name) : NULL;
    const char *runtime_copy = name_copy ? ag_reported_text_copy(runtime) : NULL;
    if (!runtime_copy) {
        return 0;
    }
    made->name = name_copy;
    made->runtime = runtime_copy;
    made->next = *head;
    *head = number;
    atomic_store_explicit(&names->count, number, memory_order_release);
    *ret_is_new = 1;
    return number;
}

uint32_t ag_defined_names_site(struct ag_defined_names *names, uint32_t number) {
    struct ag_defined_name *entry = ag_defined_names_get(names, number);
    if (!entry) {
        return 0;
    }
    const uint64_t known = atomic_load_explicit(&entry->site, memory_order_relaxed);
    if (AG_LIKELY(known >> 32 == ag_recorder.recording && (uint32_t)known != 0)) {
        return (uint32_t)known;
    }
    const uint32_t site = ag_record_leaf_site(number, names->image);
    atomic_store_explicit(&entry->site, (uint64_t)ag_recorder.recording << 32 | site,
                          memory_order_relaxed);
    return site;
}
