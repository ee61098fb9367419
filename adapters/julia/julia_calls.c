/* julia_calls.c: records Julia's allocations, by detours of the functions by which Julia's
 * collector allocates. These functions are called from C, from the system image, from generated
 * code, and by name from programs.
 *
 * Memory that a program gets from malloc through jl_malloc and similar functions (for example for
 * the digits of big numbers) is recorded in the heap of malloc, with the stack of its allocation
 * and with its free. This file only counts these calls, so that their number can be compared with
 * Julia's own count.
 *
 * The detours keep only the registers that the ABI keeps. This is enough, because libjulia is a
 * shared library that exports these functions: its own code calls them through a procedure linkage
 * table, so no compiler knows which function such a call reaches (hook/kept_call.h). */
#include "julia_calls.h"

#include <errno.h>

#include "hook/detour.h"
#include "hook/next_symbol.h"
#include "julia_code.h"
#include "julia_collections.h"
#include "julia_objects.h"
#include "julia_types.h"
#include "record/recorder.h"
#include "record/sampler.h"

#define CALLER_SP() ((const uintptr_t *)__builtin_frame_address(0) + 1)
#define CALLER_RBP() (*(const uintptr_t *)__builtin_frame_address(0))

static void *(*pool_alloc)(void *ptls, int offset, int bytes);
static void *(*big_alloc)(void *ptls, size_t bytes);
static void *(*managed_malloc)(size_t bytes);
static void *(*managed_realloc)(void *data, size_t bytes, size_t old_bytes, int is_aligned,
                                void *owner);
static void *(*counted_malloc)(size_t bytes);
static void *(*counted_calloc)(size_t count, size_t bytes);
static void *(*counted_realloc)(void *block, size_t old_bytes, size_t bytes);
static void *(*restore)(const char *path, void *modules);
static void *(*restore_from)(const char *bytes, size_t n_bytes, void *modules);
static void *(*malloc_stack)(size_t *bytes, void *owner);
static void (*atexit_hook)(int code);

/* Called before the original: records the thread's last object, whose type is written by now.
 * Returns NULL if out of memory. */
AG_FAST struct ag_julia_thread *enter(const uintptr_t *sp, uintptr_t rbp, size_t bytes) {
    struct ag_julia_thread *thread = ag_julia_thread();
    if (AG_UNLIKELY(!thread)) {
        return NULL;
    }
    if (AG_UNLIKELY(!ag_julia_collections_are_followed)) {
        ag_julia_collections_follow(thread);
    }
    if (AG_LIKELY(ag_julia_waits(thread))) {
        ag_julia_settle(thread, /* with_data= */ false);
    }
    thread->caller_sp = sp;
    thread->caller_rbp = rbp;
    thread->asked_bytes = bytes;
    return thread;
}

/* Called after the original: records the block. Finalizers may have run inside of the original and
 * have left an object that waits for its type. */
AG_FAST void leave(struct ag_julia_thread *thread, enum ag_julia_heap heap, uintptr_t object,
                   uintptr_t address, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    thread->caller_sp = NULL;
    thread->n_calls++;
    if (AG_UNLIKELY(thread->is_own)) {
        thread->n_own_calls++;
        return;
    }
    if (AG_UNLIKELY(ag_julia_waits(thread))) {
        ag_julia_settle(thread, /* with_data= */ false);
    }
    const struct ag_julia_block_made made = {
        .sp = sp, .rbp = rbp, .object = object, .address = address, .bytes = bytes};
    ag_julia_made(thread, heap, &made);
}

/* sp and rbp: those of hooked_pool_alloc's caller (CALLER_SP, CALLER_RBP). */
AG_NOINLINE static void *hooked_pool_alloc_slow(void *ptls, int offset, int bytes,
                                                const uintptr_t *sp, uintptr_t rbp) {
    struct ag_julia_thread *thread = enter(sp, rbp, (size_t)bytes);
    void *object = pool_alloc(ptls, offset, bytes);
    if (AG_LIKELY(thread && object)) {
        leave(thread, AG_JULIA_POOL, (uintptr_t)object, (uintptr_t)object, (size_t)bytes, sp, rbp);
    }
    return object;
}

/* True if the recording is sampled and this object is not sampled, which holds for nearly all
 * objects. The calls for such objects are not counted either: only an exact recording compares its
 * number of calls with Julia's own count. */
AG_FAST bool is_left_out(const struct ag_julia_thread *thread, size_t bytes) {
    return ag_recorder_is_sampling() && bytes < ag_thread_skip.left_bytes && thread &&
           !ag_julia_waits(thread) && ag_julia_collections_are_followed;
}

static void *hooked_pool_alloc(void *ptls, int offset, int bytes) {
    struct ag_julia_thread *thread = ag_julia_own;
    if (!is_left_out(thread, (size_t)bytes)) {
        return hooked_pool_alloc_slow(ptls, offset, bytes, CALLER_SP(), CALLER_RBP());
    }
    ag_thread_skip.left_bytes -= (size_t)bytes + 1;
    thread->caller_sp = CALLER_SP(); /* the cause, if this call starts a collection */
    thread->caller_rbp = CALLER_RBP();
    thread->asked_bytes = (size_t)bytes;
    void *object = pool_alloc(ptls, offset, bytes);
    thread->caller_sp = NULL;
    thread->last_object = (uintptr_t)object;
    return object;
}

static void *hooked_big_alloc(void *ptls, size_t bytes) {
    struct ag_julia_thread *thread = enter(CALLER_SP(), CALLER_RBP(), bytes);
    void *object = big_alloc(ptls, bytes);
    if (AG_LIKELY(thread && object)) {
        const uintptr_t block = thread->fresh;
        thread->fresh = 0;
        leave(thread, AG_JULIA_BIG, (uintptr_t)object, block, bytes, CALLER_SP(), CALLER_RBP());
    }
    return object;
}

static void *hooked_managed_malloc(size_t bytes) {
    struct ag_julia_thread *thread = enter(CALLER_SP(), CALLER_RBP(), bytes);
    void *data = managed_malloc(bytes);
    if (AG_LIKELY(thread && data)) {
        thread->fresh = 0;
        leave(thread, AG_JULIA_STD, 0, (uintptr_t)data, bytes, CALLER_SP(), CALLER_RBP());
    }
    return data;
}

/* If the memory moves, the hook of libjulia's free records the move (julia_imports.c). If DATA is
 * memory that other code got from malloc, DATA and the result are both recorded as malloc's. */
static void *hooked_managed_realloc(void *data, size_t bytes, size_t old_bytes, int is_aligned,
                                    void *owner) {
    struct ag_julia_thread *thread = enter(CALLER_SP(), CALLER_RBP(), bytes);
    if (thread) {
        ag_julia_settle(thread, /* with_data= */ true);
        thread->resized = (uintptr_t)data;
        thread->resized_tag = ag_julia_tag((uintptr_t)owner);
    }
    void *moved = managed_realloc(data, bytes, old_bytes, is_aligned, owner);
    if (thread) {
        thread->caller_sp = NULL;
        thread->resized = 0;
        thread->n_calls++;
    }
    return moved;
}

static void count_call(void) {
    struct ag_julia_thread *thread = ag_julia_thread();
    if (thread) {
        thread->n_calls++;
    }
}

static void *hooked_counted_malloc(size_t bytes) {
    count_call();
    return counted_malloc(bytes);
}

static void *hooked_counted_calloc(size_t count, size_t bytes) {
    count_call();
    return counted_calloc(count, bytes);
}

static void *hooked_counted_realloc(void *block, size_t old_bytes, size_t bytes) {
    count_call();
    return counted_realloc(block, old_bytes, bytes);
}

/* Called before a package's file is read: the types in the file get their names only at the end of
 * the reading. */
static struct ag_julia_thread *begin_restoring(void) {
    struct ag_julia_thread *thread = ag_julia_thread();
    if (!thread || thread->is_restoring) {
        return NULL;
    }
    ag_julia_settle(thread, /* with_data= */ true);
    thread->is_restoring = true;
    return thread;
}

static void *hooked_restore(const char *path, void *modules) {
    struct ag_julia_thread *thread = begin_restoring();
    void *restored = restore(path, modules);
    if (thread) {
        ag_julia_restored(thread);
    }
    return restored;
}

static void *hooked_restore_from(const char *bytes, size_t n_bytes, void *modules) {
    struct ag_julia_thread *thread = begin_restoring();
    void *restored = restore_from(bytes, n_bytes, modules);
    if (thread) {
        ag_julia_restored(thread);
    }
    return restored;
}

static void *hooked_malloc_stack(size_t *bytes, void *owner) {
    struct ag_julia_thread *thread = ag_julia_thread();
    if (thread) {
        thread->makes_stack = true;
    }
    void *stack = malloc_stack(bytes, owner);
    if (thread) {
        thread->makes_stack = false;
    }
    return stack;
}

static void hooked_atexit_hook(int code) {
    ag_julia_code_name_new();
    atexit_hook(code);
    ag_julia_code_name_new();
}

/* ---- sums, start ---- */

void ag_julia_calls_sum(uint64_t *ret_calls, uint64_t *ret_own_calls) {
    const struct ag_julia_thread *thread =
        atomic_load_explicit(&ag_julia_threads, memory_order_acquire);
    *ret_calls = *ret_own_calls = 0;
    for (; thread; thread = thread->next) {
        *ret_calls += thread->n_calls - thread->n_own_calls;
        *ret_own_calls += thread->n_own_calls;
    }
}

static struct door {
    const char *name;
    void *replacement;
    void **original;
    struct ag_detour detour;
} doors[] = {
    {.name = "jl_gc_pool_alloc", (void *)hooked_pool_alloc, (void **)&pool_alloc},
    {.name = "jl_gc_big_alloc", (void *)hooked_big_alloc, (void **)&big_alloc},
    {.name = "jl_gc_managed_malloc", (void *)hooked_managed_malloc, (void **)&managed_malloc},
    {.name = "jl_gc_managed_realloc", (void *)hooked_managed_realloc, (void **)&managed_realloc},
    {.name = "jl_gc_counted_malloc", (void *)hooked_counted_malloc, (void **)&counted_malloc},
    {.name = "jl_gc_counted_calloc", (void *)hooked_counted_calloc, (void **)&counted_calloc},
    {.name = "jl_gc_counted_realloc_with_old_size",
     (void *)hooked_counted_realloc,
     (void **)&counted_realloc},
    {.name = "jl_restore_incremental", (void *)hooked_restore, (void **)&restore},
    {.name = "jl_restore_incremental_from_buf",
     (void *)hooked_restore_from,
     (void **)&restore_from},
    {.name = "jl_malloc_stack", (void *)hooked_malloc_stack, (void **)&malloc_stack},
    {.name = "jl_atexit_hook", (void *)hooked_atexit_hook, (void **)&atexit_hook},
    {.name = "jl_safe_printf", (void *)ag_julia_printf_entry, &ag_julia_printf_original},
};

void ag_julia_calls_leave(void) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(doors); i++) {
        (void)ag_detour_remove(&doors[i].detour);
    }
}

int ag_julia_calls_follow(const char **ret_reason, const char **ret_name) {
    int r = 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(doors) && r == 0; i++) {
        struct ag_symbol_place place;
        struct door *door = &doors[i];
        *ret_name = door->name;
        *ret_reason = " is not exported by this libjulia";
        r = -ENOENT;
        const bool is_there = ag_symbol_find(door->name, AG_SYMBOL_FIRST, NULL, &place);
        if (is_there && place.in_executable) {
            *ret_reason =
                " is linked into the program, but only libjulia as a shared library is supported";
            r = -ENOTSUP;
        } else if (is_there) {
            r = ag_detour_install(&door->detour, place.address, 0, door->replacement,
                                  door->original);
            *ret_reason = " cannot be hooked";
        }
    }
    if (r < 0) {
        ag_julia_calls_leave();
    }
    return r;
}
