/* function_handles.c: maps Erlang functions {Module, Function, Arity} to the handles that
 * allogram.h gives them, for the tracer (tracer.c). Lookups take no lock.
 *
 * The table is a hash table with open addressing, in memory that never moves. A thread fills a slot
 * under the lock and stores the handle last, so a thread that reads a handle also sees the rest of
 * the slot. Entries are never removed. They contain atoms, which the emulator never frees
 * either. */
#include "function_handles.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/own_memory.h"
#include "selection.h"

enum { SLOTS = 1 << 21, MOST = 1048575, NAME_BYTES = 768 };

struct slot {
    struct ag_mfa mfa;
    _Atomic uint32_t handle; /* 0: free */
    bool is_selected;        /* selection.h */
};
static struct {
    pthread_mutex_t lock;
    struct slot *slots;  /* mapped for the maximum; unused pages take no memory */
    uint32_t *by_handle; /* index of each handle's slot + 1; 0: none */
    uint32_t n_used;
} handles = {.lock = PTHREAD_MUTEX_INITIALIZER};

int ag_function_handles_start(void) {
    if (handles.slots == NULL) {
        handles.slots = ag_own_memory_take(SLOTS * sizeof(struct slot));
        handles.by_handle = ag_own_memory_take((MOST + 1) * sizeof(uint32_t));
    }
    return handles.slots != NULL && handles.by_handle != NULL ? 0 : -ENOMEM;
}

static bool is_same(const struct ag_mfa *a, const struct ag_mfa *b) {
    return a->function == b->function && a->module == b->module && a->arity == b->arity;
}

static struct slot *slot_of(const struct ag_mfa *mfa) {
    const uint64_t mixed =
        (mfa->module * 31 + mfa->function * 7 + mfa->arity) * UINT64_C(0x9E3779B97F4A7C15);
    for (uint32_t at = (uint32_t)(mixed >> 43);; at = (at + 1) & (SLOTS - 1)) {
        struct slot *slot = &handles.slots[at];
        /* acquire: pairs with the release of the thread that filled the slot */
        if (atomic_load_explicit(&slot->handle, memory_order_acquire) == 0 ||
            is_same(&slot->mfa, mfa)) {
            return slot;
        }
    }
}

/* Writes the name of a function of an Elixir module: the module 'Elixir.Enum' is Enum, and its
 * functions are written with a dot. */
static bool name_elixir(const char *module, const char *function, uint32_t arity, char *ret_name,
                        size_t bytes) {
    static const char prefix[] = "'Elixir.";
    const size_t length = strlen(module);
    if (strncmp(module, prefix, sizeof prefix - 1) != 0 || module[length - 1] != '\'') {
        return false;
    }
    const bool is_quoted = function[0] == '\'';
    const int function_length = (int)strlen(function) - 2 * is_quoted;
    (void)snprintf(ret_name, bytes, "%.*s.%.*s/%u", (int)(length - sizeof prefix),
                   module + sizeof prefix - 1, function_length, function + is_quoted, arity);
    return true;
}

void ag_function_name(const struct ag_mfa *mfa, char *ret_name, size_t bytes) {
    char module[NAME_BYTES], function[NAME_BYTES];
    (void)enif_snprintf(module, sizeof module, "%T", mfa->module);
    (void)enif_snprintf(function, sizeof function, "%T", mfa->function);
    if (!name_elixir(module, function, mfa->arity, ret_name, bytes)) {
        (void)snprintf(ret_name, bytes, "%s:%s/%u", module, function, mfa->arity);
    }
}

AG_COLD static allogram_function add(const struct ag_mfa *mfa) {
    char name[2 * NAME_BYTES];
    allogram_function handle = 0;
    (void)pthread_mutex_lock(&handles.lock); /* cannot fail: a mutex of this file */
    struct slot *slot = slot_of(mfa);
    handle = atomic_load_explicit(&slot->handle, memory_order_relaxed);
    if (handle == 0 && handles.n_used < MOST) {
        ag_function_name(mfa, name, sizeof name);
        const struct allogram_function_options options = {
            .size = sizeof options, .name = name, .runtime = AG_BEAM_RUNTIME};
        handle = allogram_function_new(&options);
        if (handle != 0 && handle <= MOST) {
            slot->mfa = *mfa;
            slot->is_selected = ag_selection_has_function(mfa);
            handles.by_handle[handle] = (uint32_t)(slot - handles.slots) + 1;
            handles.n_used++;
            /* release: pairs with the acquire in the lookup */
            atomic_store_explicit(&slot->handle, handle, memory_order_release);
        }
    }
    (void)pthread_mutex_unlock(&handles.lock);
    return handle;
}

allogram_function ag_function_handle(const struct ag_mfa *mfa) {
    struct slot *slot = slot_of(mfa);
    const allogram_function handle = atomic_load_explicit(&slot->handle, memory_order_acquire);
    return AG_LIKELY(handle != 0) ? handle : add(mfa);
}

const struct ag_mfa *ag_function_mfa(allogram_function handle) {
    const uint32_t at = handle <= MOST ? handles.by_handle[handle] : 0;
    return at != 0 ? &handles.slots[at - 1].mfa : NULL;
}

bool ag_function_is_selected(allogram_function handle) {
    const uint32_t at = handle <= MOST ? handles.by_handle[handle] : 0;
    return at != 0 && handles.slots[at - 1].is_selected;
}
