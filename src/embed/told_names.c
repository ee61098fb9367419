/* told_names.c: see told_names.h. Entries lie in pages that never move, so that readers need no
 * lock: a number is given out after its entry is whole. */
#include "told_names.h"

#include <string.h>

#include "base/own_memory.h"
#include "record/recorder.h"

void *ag_told_memory(size_t bytes) {
    return ag_own_memory_take(bytes);
}

/* Memory for texts, in blocks of 64 KiB; what a block has left when a text does not fit is lost. */
static char *take_text_memory(size_t bytes) {
    enum { BLOCK_BYTES = 64 * 1024 };
    static char *block;
    static size_t left;
    if (bytes > left) {
        block = ag_told_memory(BLOCK_BYTES);
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

const char *ag_told_text_copy(const char *text) {
    const size_t length = strnlen(text, AG_TOLD_NAME_BYTES - 1);
    char *copy = take_text_memory(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

static uint32_t hash_of(const char *name) {
    uint32_t hash = 2166136261u; /* FNV-1a: names are short and few */
    for (size_t i = 0; name[i] && i < AG_TOLD_NAME_BYTES - 1; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    }
    return hash;
}

static int is_same(const char *kept, const char *given) {
    return strncmp(kept, given, AG_TOLD_NAME_BYTES - 1) == 0;
}

struct ag_told_name *ag_told_names_get(struct ag_told_names *names, uint32_t number) {
    /* acquire: pairs with the release in intern; the entry is whole */
    if (number == 0 || number > atomic_load_explicit(&names->count, memory_order_acquire)) {
        return NULL;
    }
    struct ag_told_name *page =
        atomic_load_explicit(&names->pages[number / AG_TOLD_PAGE], memory_order_relaxed);
    return &page[number % AG_TOLD_PAGE];
}

static struct ag_told_name *place_of(struct ag_told_names *names, uint32_t number) {
    struct ag_told_name *page =
        atomic_load_explicit(&names->pages[number / AG_TOLD_PAGE], memory_order_relaxed);
    if (!page) {
        page = ag_told_memory(AG_TOLD_PAGE * sizeof(*page));
        atomic_store_explicit(&names->pages[number / AG_TOLD_PAGE], page, memory_order_relaxed);
    }
    return page ? &page[number % AG_TOLD_PAGE] : NULL;
}

uint32_t ag_told_names_intern(struct ag_told_names *names, const char *name, const char *runtime,
                              int *ret_is_new) {
    uint32_t *head = &names->heads[hash_of(name) % AG_ARRAY_SIZE(names->heads)];
    for (uint32_t number = *head; number != 0;) {
        const struct ag_told_name *known = ag_told_names_get(names, number);
        if (is_same(known->name, name) && is_same(known->runtime, runtime)) {
            *ret_is_new = 0;
            return number;
        }
        number = known->next;
    }
    const uint32_t number = atomic_load_explicit(&names->count, memory_order_relaxed) + 1;
    struct ag_told_name *made = number <= AG_TOLD_NAMES_MOST ? place_of(names, number) : NULL;
    const char *name_copy = made ? ag_told_text_copy(name) : NULL;
    const char *runtime_copy = name_copy ? ag_told_text_copy(runtime) : NULL;
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

uint32_t ag_told_names_site(struct ag_told_names *names, uint32_t number) {
    struct ag_told_name *entry = ag_told_names_get(names, number);
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
