/* julia_types.c: finds the names of Julia's types and defines them in the trace. A type is itself
 * an object of Julia. A table maps the address of each type that was seen to its number in the
 * trace. jl_static_show writes the whole name, with parameters, without allocating in Julia's heap.
 * It takes some microseconds, once per type. */
#include "julia_types.h"

#include <errno.h>
#include <string.h>

#include "base/pages.h"
#include "julia_imports.h"
#include "julia_runtime.h"
#include "record/recorder.h"

enum {
    TYPES_BITS = 14,
    TYPES = 1 << TYPES_BITS,
    PROBES_MOST = 256,
    NAME_BYTES = 2048,
    GONE = 1,
    FIRST_TYPE = 4096, /* smaller tags mark objects that src/dump.c replaced by others */
    STREAM_BYTES = 512 /* for an ios_t, which has about 150 */
};

struct entry {
    _Atomic uintptr_t tag;            /* 0: free; GONE: its type has been collected */
    _Atomic uint32_t type, data_type; /* 0: not named yet */
};
static struct entry *entries;

int ag_julia_types_start(void) {
    entries = ag_pages_map(TYPES * sizeof(*entries));
    return entries ? 0 : -ENOMEM;
}

static struct entry *julia_type_find(uintptr_t tag) {
    uint32_t at = (uint32_t)((uint64_t)tag * UINT64_C(0x9e3779b97f4a7c15) >> (64 - TYPES_BITS));
    struct entry *free_one = NULL;
    for (int i = 0; i < PROBES_MOST; i++, at = (at + 1) & (TYPES - 1)) {
        const uintptr_t found = atomic_load_explicit(&entries[at].tag, memory_order_acquire);
        if (found == tag) {
            return &entries[at];
        }
        if (found <= GONE && !free_one) {
            free_one = &entries[at];
        }
        if (found == 0) {
            break;
        }
    }
    uintptr_t expected = free_one ? atomic_load_explicit(&free_one->tag, memory_order_relaxed) : 0;
    if (!free_one || expected > GONE ||
        !atomic_compare_exchange_strong_explicit(&free_one->tag, &expected, tag,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        return NULL; /* full, or another thread is adding: the type is named without the table */
    }
    return free_one;
}

static size_t type_name_append(char *text, size_t at, const char *more, size_t length) {
    const size_t room = NAME_BYTES - 1 - at;
    const size_t taken = length < room ? length : room;
    memcpy(text + at, more, taken);
    return at + taken;
}

static allogram_type julia_type_name(uintptr_t tag, bool is_data) {
    char text[NAME_BYTES];
    size_t length = 0;
    if (tag == AG_JULIA_BUFFER) {
        length = type_name_append(text, 0, "array buffer", 12);
    } else if (tag == 0) {
        length = type_name_append(text, 0, "array", 5);
    } else if (tag < FIRST_TYPE) {
        length = type_name_append(text, 0, "duplicate in a package's file", 29);
    } else if (*(const volatile uintptr_t *)tag == 0) { /* the first word is the name */
        length = type_name_append(text, 0, "type without a name", 19);
    } else {
        uintptr_t stream[STREAM_BYTES / sizeof(uintptr_t)] = {0};
        size_t n_shown = 0;
        const uintptr_t suspended = ag_record_suspend(); /* the stream's memory is from malloc */
        (void)ag_julia.ios_mem(stream, 0);
        (void)ag_julia.jl_static_show(stream, (void *)tag); // NOLINT(performance-no-int-to-ptr)
        char *shown = ag_julia.ios_take_buffer(stream, &n_shown);
        if (shown) {
            length = type_name_append(text, 0, shown, strnlen(shown, n_shown));
            ag_julia_free(shown);
        }
        (void)ag_julia.ios_close(stream);
        ag_record_resume(suspended);
    }
    if (is_data) {
        length = type_name_append(text, length, " data", 5);
    }
    text[length] = '\0';
    return allogram_register_type(text, "julia");
}

allogram_type ag_julia_type(uintptr_t tag, bool is_data) {
    static struct entry unknown; /* data of an unknown array */
    struct entry *entry = tag != 0 ? julia_type_find(tag) : &unknown;
    _Atomic uint32_t *known = !entry ? NULL : is_data ? &entry->data_type : &entry->type;
    uint32_t type = known ? atomic_load_explicit(known, memory_order_relaxed) : 0;
    if (type == 0) {
        type = julia_type_name(tag, is_data);
        if (known) {
            atomic_store_explicit(known, type, memory_order_relaxed);
        }
    }
    return type;
}

void ag_julia_types_sweep(void) {
    for (size_t i = 0; i < TYPES; i++) {
        const uintptr_t tag = atomic_load_explicit(&entries[i].tag, memory_order_relaxed);
        if (tag >= FIRST_TYPE && tag != AG_JULIA_BUFFER &&
            !(ag_julia_word(tag) & AG_JULIA_MARKED)) {
            atomic_store_explicit(&entries[i].type, 0, memory_order_relaxed);
            atomic_store_explicit(&entries[i].data_type, 0, memory_order_relaxed);
            atomic_store_explicit(&entries[i].tag, GONE, memory_order_release);
        }
    }
}
