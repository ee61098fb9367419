/* symbol_lookup.c: hooks dlsym and dlvsym, so that a program which looks up an allocation function
 * or mmap, munmap or mremap in the libc gets the function of the agent (allogram's library in the
 * program).
 *
 * A call of malloc reaches the agent, because the loader searches the agent before the libc. But a
 * lookup in the libc itself, dlsym(dlopen("libc.so.6", ...), "free"), finds the libc's function.
 * Python's ctypes and .NET's DllImport look functions up in this way. The frees would then be
 * missing from the trace, although the blocks are in it: the libc's strdup calls malloc by its
 * public name, which is the agent's.
 *
 * The hook returns the agent's function only if the libc's lookup finds the function to which the
 * agent's function passes its calls on. So a program that looks for the malloc of another library
 * still gets that library's malloc. The meaning of the handles RTLD_DEFAULT and RTLD_NEXT depends
 * on the caller, which dlsym finds by its return address. So for these handles, and for all names
 * that are not listed here, lookup_entry.S jumps to the libc's dlsym. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "hook/next_symbol.h"

/* The agent's functions, by the names that only the agent has (entry.S, mappings.c). */
extern unsigned char ag_entry_malloc[] AG_HIDDEN, ag_entry_calloc[] AG_HIDDEN,
    ag_entry_realloc[] AG_HIDDEN, ag_entry_reallocarray[] AG_HIDDEN, ag_entry_free[] AG_HIDDEN,
    ag_entry_memalign[] AG_HIDDEN, ag_entry_aligned_alloc[] AG_HIDDEN,
    ag_entry_posix_memalign[] AG_HIDDEN, ag_entry_valloc[] AG_HIDDEN, ag_entry_pvalloc[] AG_HIDDEN,
    ag_entry_mmap[] AG_HIDDEN, ag_entry_mmap64[] AG_HIDDEN, ag_entry_munmap[] AG_HIDDEN,
    ag_entry_mremap[] AG_HIDDEN;

static const struct {
    const char *name;
    void *function;
} own[] = {
#define OWN(name) \
    { #name, ag_entry_##name }
    OWN(malloc),   OWN(calloc),        OWN(realloc),        OWN(reallocarray), OWN(free),
    OWN(memalign), OWN(aligned_alloc), OWN(valloc),         OWN(pvalloc),      OWN(mmap),
    OWN(mmap64),   OWN(munmap),        OWN(posix_memalign), OWN(mremap),
#undef OWN
};

/* The libc's functions; NULL: not looked up yet, or the program has no library that defines them
 * (libdl, with a glibc before 2.34). Read by lookup_entry.S. */
_Atomic(void *) ag_dlsym_original AG_HIDDEN;
_Atomic(void *) ag_dlvsym_original AG_HIDDEN;

/* Called from lookup_entry.S. Each returns the agent's function; or NULL: the caller has to call
 * the libc's function. */
void *ag_dlsym_answer(void *handle, const char *name) AG_HIDDEN;
void *ag_dlvsym_answer(void *handle, const char *name, const char *version) AG_HIDDEN;

static void *original(_Atomic(void *) *pointer, const char *name) {
    void *function = atomic_load_explicit(pointer, memory_order_relaxed);
    struct ag_symbol_place place;
    if (!function && ag_symbol_find(name, AG_SYMBOL_NEXT, (const void *)own, &place)) {
        function = place.address;
        atomic_store_explicit(pointer, function, memory_order_relaxed);
    }
    return function;
}

/* Returns the agent's function NAME; NULL if the agent has no such function, or if the meaning of
 * the handle depends on the caller. */
static void *own_function(const void *handle, const char *name) {
    for (size_t i = 0; handle != RTLD_DEFAULT && handle != RTLD_NEXT && i < AG_ARRAY_SIZE(own);
         i++) {
        if (strcmp(own[i].name, name) == 0) {
            return own[i].function;
        }
    }
    return NULL;
}

/* Whether FOUND is the function to which the agent's function NAME passes calls on. */
static bool is_behind(const char *name, const void *found) {
    struct ag_symbol_place place;
    return found && ag_symbol_find(name, AG_SYMBOL_NEXT, (const void *)own, &place) &&
           place.is_behind_self && place.address == found;
}

void *ag_dlsym_answer(void *handle, const char *name) {
    void *(*const look_up)(void *, const char *) =
        (void *(*)(void *, const char *))(uintptr_t)original(&ag_dlsym_original, "dlsym");
    void *const function = look_up ? own_function(handle, name) : NULL;
    return function && is_behind(name, look_up(handle, name)) ? function : NULL;
}

void *ag_dlvsym_answer(void *handle, const char *name, const char *version) {
    void *(*const look_up)(void *, const char *, const char *) =
        (void *(*)(void *, const char *, const char *))(uintptr_t)original(&ag_dlvsym_original,
                                                                           "dlvsym");
    void *const function = look_up ? own_function(handle, name) : NULL;
    return function && is_behind(name, look_up(handle, name, version)) ? function : NULL;
}
