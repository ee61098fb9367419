/* operators.c: records the C++ operators new and delete as allocation functions of their own, if a
 * program imports them.
 *
 * Without this file all blocks of a C++ program are recorded as blocks of malloc, called by
 * operator new. With this file the via of these blocks (the allocation function that the trace
 * names) is the operator, and the blocks have a heap of their own in the trace.
 *
 * The agent (allogram's library) allocates in place of the operator of the host (the profiled
 * program with its libraries) only if that operator is known to call malloc, check the result, and
 * do nothing else. That holds for the operators of libstdc++ and libc++, and for operators in the
 * object whose malloc the agent calls (tcmalloc, jemalloc, mimalloc as libraries). The agent then
 * calls the host's malloc directly, so no operator calls the agent's malloc, and no block is
 * recorded twice. If malloc fails, the agent calls the host's operator, which runs the new handler,
 * retries and throws. No exception ever passes through a frame of the agent, because that call is a
 * tail call.
 *
 * If the program itself defines malloc, the agent calls the host's operators: they call the
 * program's malloc, whose detour records the block. Any other operator is the program's own: the
 * agent calls it, and the malloc that it calls is recorded as malloc.
 *
 * The operators are looked up at their first call, because libstdc++ may be loaded with a
 * plugin. */
#include <stdatomic.h>
#include <string.h>

#include "hook/next_symbol.h"
#include "next.h"
#include "record/event_fast.h"

enum operator_kind {
    OPERATOR_UNKNOWN = 0, /* not looked up yet */
    OPERATOR_IS_MALLOC = 1,
    OPERATOR_IS_OWN = 2,
};

struct operator_behind {
    const char *name;
    _Atomic(void *) address;
    _Atomic int kind; /* enum operator_kind; stored after address (release) */
};

_Static_assert(offsetof(struct operator_behind, kind) == 16 && OPERATOR_IS_MALLOC == 1,
               "entry.S uses the same offset and number");

/* entry.S reads the kinds of these variables. */
#define BEHIND(variable, symbol)                      \
    extern struct operator_behind variable AG_HIDDEN; \
    struct operator_behind variable = {.name = symbol}
BEHIND(behind_new, "_Znwm");
BEHIND(behind_new_array, "_Znam");
BEHIND(behind_new_nothrow, "_ZnwmRKSt9nothrow_t");
BEHIND(behind_new_array_nothrow, "_ZnamRKSt9nothrow_t");
BEHIND(behind_new_aligned, "_ZnwmSt11align_val_t");
BEHIND(behind_new_array_aligned, "_ZnamSt11align_val_t");
BEHIND(behind_new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t");
BEHIND(behind_new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t");
BEHIND(behind_delete, "_ZdlPv");
BEHIND(behind_delete_array, "_ZdaPv");
BEHIND(behind_delete_sized, "_ZdlPvm");
BEHIND(behind_delete_array_sized, "_ZdaPvm");
BEHIND(behind_delete_nothrow, "_ZdlPvRKSt9nothrow_t");
BEHIND(behind_delete_array_nothrow, "_ZdaPvRKSt9nothrow_t");
BEHIND(behind_delete_aligned, "_ZdlPvSt11align_val_t");
BEHIND(behind_delete_array_aligned, "_ZdaPvSt11align_val_t");
BEHIND(behind_delete_sized_aligned, "_ZdlPvmSt11align_val_t");
BEHIND(behind_delete_array_sized_aligned, "_ZdaPvmSt11align_val_t");
BEHIND(behind_delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t");
BEHIND(behind_delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t");

static bool is_standard_library(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    static const char *const libraries[] = {"libstdc++.so", "libc++.so", "libc++abi.so"};
    for (size_t i = 0; i < AG_ARRAY_SIZE(libraries); i++) {
        if (strncmp(name, libraries[i], strlen(libraries[i])) == 0) {
            return true;
        }
    }
    return false;
}

AG_COLD static int look_up(struct operator_behind *behind) {
    ag_libc_start();
    const void *self = (const void *)(uintptr_t)ag_libc_start;
    struct ag_symbol_place place, malloc_place;
    if (!ag_symbol_find(behind->name, AG_SYMBOL_NEXT, self, &place)) {
        /* No object defines the operator, so only a program that looks it up by dlsym can call it.
         * The agent's operator then only calls malloc, and returns NULL if malloc fails. */
        atomic_store_explicit(&behind->kind, OPERATOR_IS_MALLOC, memory_order_release);
        return OPERATOR_IS_MALLOC;
    }
    const bool is_malloc = !place.in_executable && !ag_program.malloc &&
                           (is_standard_library(place.image_name) ||
                            (ag_symbol_find("malloc", AG_SYMBOL_NEXT, self, &malloc_place) &&
                             malloc_place.bias == place.bias));
    const int kind = is_malloc ? OPERATOR_IS_MALLOC : OPERATOR_IS_OWN;
    atomic_store_explicit(&behind->address, place.address, memory_order_relaxed);
    /* The release pairs with the acquire in kind_of: a thread that sees the kind also sees the
     * address. */
    atomic_store_explicit(&behind->kind, kind, memory_order_release);
    return kind;
}

AG_FAST int kind_of(struct operator_behind *behind) {
    const int kind = atomic_load_explicit(&behind->kind, memory_order_acquire);
    return AG_LIKELY(kind != OPERATOR_UNKNOWN) ? kind : look_up(behind);
}

AG_FAST void *address_of(struct operator_behind *behind) {
    return atomic_load_explicit(&behind->address, memory_order_relaxed);
}

/* ---- new ---- */

/* Returns a block that is recorded; or NULL: the caller has to call the host's operator. */
AG_FAST void *new_block(struct operator_behind *behind, size_t bytes, enum ag_libc_via via,
                        const uintptr_t *sp, uintptr_t rbp) {
    if (AG_UNLIKELY(kind_of(behind) != OPERATOR_IS_MALLOC)) {
        return NULL;
    }
    void *block = ag_next.malloc(bytes ? bytes : 1); /* two calls of operator new with 0 bytes
                                                      * return different addresses */
    if (AG_LIKELY(block != NULL)) {
        ag_record_alloc_fast(sp, rbp, (uintptr_t)block, bytes, via);
    }
    return block;
}

/* As in libstdc++, the alignment is at least that of a pointer, and the size is rounded up to a
 * multiple of the alignment. */
AG_FAST void *new_aligned_block(struct operator_behind *behind, size_t bytes, size_t alignment,
                                enum ag_libc_via via, const uintptr_t *sp, uintptr_t rbp) {
    const bool is_power_of_two = alignment && (alignment & (alignment - 1)) == 0;
    if (AG_UNLIKELY(kind_of(behind) != OPERATOR_IS_MALLOC || !is_power_of_two)) {
        return NULL;
    }
    const size_t align_to = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    const size_t rounded = ((bytes ? bytes : 1) + align_to - 1) & ~(align_to - 1);
    if (rounded < bytes) {
        return NULL;
    }
    void *block = ag_next.aligned_alloc(align_to, rounded);
    if (AG_LIKELY(block != NULL)) {
        ag_record_alloc_fast(sp, rbp, (uintptr_t)block, bytes, via);
    }
    return block;
}

/* What a NEW function returns if no block was made: the result of the host's operator, if there is
 * one. */
#define OF_HOST(name, parameters, arguments)                          \
    (AG_LIKELY(address_of(&behind_##name) != NULL)                    \
         ? ((void *(*)parameters)address_of(&behind_##name))arguments \
         : NULL)

/* Called from entry.S, which passes the caller's sp and rbp after the operator's own arguments.
 * PARAMETERS and ARGUMENTS are given in parentheses; REQUEST: the arguments of MAKE, the function
 * that allocates. */
#define UNPACK(...) __VA_ARGS__
#define NEW(name, via, make, request, parameters, arguments)                            \
    void *ag_##name(UNPACK parameters, const uintptr_t *sp, uintptr_t rbp);             \
    void *ag_##name(UNPACK parameters, const uintptr_t *sp, uintptr_t rbp) {            \
        void *block = make(&behind_##name, UNPACK request, via, sp, rbp);               \
        return AG_LIKELY(block != NULL) ? block : OF_HOST(name, parameters, arguments); \
    }

NEW(new, VIA_NEW, new_block, (bytes), (size_t bytes), (bytes))
NEW(new_array, VIA_NEW_ARRAY, new_block, (bytes), (size_t bytes), (bytes))
NEW(new_nothrow, VIA_NEW, new_block, (bytes), (size_t bytes, const void *tag), (bytes, tag))
NEW(new_array_nothrow, VIA_NEW_ARRAY, new_block, (bytes), (size_t bytes, const void *tag),
    (bytes, tag))
NEW(new_aligned, VIA_NEW, new_aligned_block, (bytes, alignment), (size_t bytes, size_t alignment),
    (bytes, alignment))
NEW(new_array_aligned, VIA_NEW_ARRAY, new_aligned_block, (bytes, alignment),
    (size_t bytes, size_t alignment), (bytes, alignment))
NEW(new_aligned_nothrow, VIA_NEW, new_aligned_block, (bytes, alignment),
    (size_t bytes, size_t alignment, const void *tag), (bytes, alignment, tag))
NEW(new_array_aligned_nothrow, VIA_NEW_ARRAY, new_aligned_block, (bytes, alignment),
    (size_t bytes, size_t alignment, const void *tag), (bytes, alignment, tag))

/* ---- delete: the same function under many names, each with its own operator of the host ---- */

/* As in free, every call is a tail call: no frame of the agent is on the stack while the host
 * frees. */
AG_FAST void delete_block(void *block, enum ag_libc_via via) {
    if (AG_LIKELY(block != NULL) &&
        AG_UNLIKELY(!ag_record_free_frameless(AG_WORD_FREE, (uintptr_t)block, via))) {
        ag_free_slowly(block, via);
        return;
    }
    ag_next.free(block);
}

/* Called from entry.S, which exports the names of the C++ ABI. PARAMETERS and ARGUMENTS are
 * given in parentheses. */
#define DELETE(name, via, parameters, arguments)                          \
    void ag_##name parameters;                                            \
    void ag_##name parameters {                                           \
        if (AG_UNLIKELY(kind_of(&behind_##name) != OPERATOR_IS_MALLOC)) { \
            ((void(*) parameters)address_of(&behind_##name)) arguments;   \
            return;                                                       \
        }                                                                 \
        delete_block(block, via);                                         \
    }

DELETE(delete, VIA_NEW, (void *block), (block))
DELETE(delete_array, VIA_NEW_ARRAY, (void *block), (block))
DELETE(delete_sized, VIA_NEW, (void *block, size_t bytes), (block, bytes))
DELETE(delete_array_sized, VIA_NEW_ARRAY, (void *block, size_t bytes), (block, bytes))
DELETE(delete_nothrow, VIA_NEW, (void *block, const void *tag), (block, tag))
DELETE(delete_array_nothrow, VIA_NEW_ARRAY, (void *block, const void *tag), (block, tag))
DELETE(delete_aligned, VIA_NEW, (void *block, size_t alignment), (block, alignment))
DELETE(delete_array_aligned, VIA_NEW_ARRAY, (void *block, size_t alignment), (block, alignment))
DELETE(delete_sized_aligned, VIA_NEW, (void *block, size_t bytes, size_t alignment),
       (block, bytes, alignment))
DELETE(delete_array_sized_aligned, VIA_NEW_ARRAY, (void *block, size_t bytes, size_t alignment),
       (block, bytes, alignment))
DELETE(delete_aligned_nothrow, VIA_NEW, (void *block, size_t alignment, const void *tag),
       (block, alignment, tag))
DELETE(delete_array_aligned_nothrow, VIA_NEW_ARRAY,
       (void *block, size_t alignment, const void *tag), (block, alignment, tag))
