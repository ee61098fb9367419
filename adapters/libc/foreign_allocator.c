/* foreign_allocator.c: prevents that a block is recorded twice if the malloc that the agent
 * (allogram's library in the program) calls comes from a linked or preloaded library other than the
 * libc.
 *
 * The calloc of such a library may call malloc by its public name, which is the agent's: the block
 * would be recorded as malloc's, and then as calloc's. So this file replaces two kinds of pointers.
 * The import slots through which the library calls the malloc family get functions of this file.
 * The pointers in ag_next, through which the agent calls the library, get functions that mark the
 * thread as inside the allocator. If the thread is inside the allocator, a call of the library goes
 * to the function that it would reach without the agent. Otherwise the call goes to the agent's
 * function, because a library may contain more than an allocator.
 *
 * Only calls of the library pass through this file. Allocations of others during such a call (a
 * signal handler, the libc) reach the agent's functions and are recorded as usual. A sampling
 * recorder counts the bytes of a block in entry.S. It counts them once, because calls from inside
 * the allocator do not reach entry.S. After a longjmp out of the allocator the mark is stale; the
 * next call detects that.
 *
 * Libraries without import slots for the malloc family (tcmalloc, libraries that are linked with
 * -Bsymbolic) and the libc itself are not changed. Two kinds of objects are not handled: objects
 * that the loader searches before the agent, because their calls do not reach the agent, and
 * objects after the libc (the loader of an older glibc has a malloc for itself). */
#include "foreign_allocator.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "hook/import_slot.h"
#include "hook/loaded_objects.h"
#include "hook/symbol_tables.h"
#include "next.h"
#include "static_allocator.h"

enum { LIBRARIES_MOST = 8 };

static struct ag_next_functions behind; /* the pointers that ag_next had before */

/* The agent's functions, from entry.S. */
extern void *ag_entry_malloc(size_t bytes) AG_HIDDEN;
extern void *ag_entry_calloc(size_t count, size_t bytes) AG_HIDDEN;
extern void *ag_entry_realloc(void *block, size_t bytes) AG_HIDDEN;
extern void ag_entry_free(void *block) AG_HIDDEN;
extern void *ag_entry_memalign(size_t alignment, size_t bytes) AG_HIDDEN;
extern void *ag_entry_aligned_alloc(size_t alignment, size_t bytes) AG_HIDDEN;
extern int ag_entry_posix_memalign(void **ret_block, size_t alignment, size_t bytes) AG_HIDDEN;
extern void *ag_entry_valloc(size_t bytes) AG_HIDDEN;
extern void *ag_entry_pvalloc(size_t bytes) AG_HIDDEN;

AG_FAST bool is_inside(void) {
    return ag_is_inside_allocator((uintptr_t)__builtin_frame_address(0));
}

/* guarded_NAME replaces NAME in ag_next. called_NAME replaces NAME in the library's import slots
 * and makes only a tail call, so that the agent's function sees the library as its caller.
 * PARAMETERS and ARGUMENTS are given in parentheses. */
#define FUNCTION(name, result, parameters, arguments)                           \
    static result guarded_##name parameters {                                   \
        struct ag_call_mark mark;                                               \
        ag_call_note(&ag_foreign_calls, &mark);                                 \
        result answer = behind.name arguments;                                  \
        ag_call_forget(&ag_foreign_calls, &mark);                               \
        return answer;                                                          \
    }                                                                           \
    static result called_##name parameters {                                    \
        return is_inside() ? behind.name arguments : ag_entry_##name arguments; \
    }

FUNCTION(malloc, void *, (size_t bytes), (bytes))
FUNCTION(calloc, void *, (size_t count, size_t bytes), (count, bytes))
FUNCTION(realloc, void *, (void *block, size_t bytes), (block, bytes))
FUNCTION(memalign, void *, (size_t alignment, size_t bytes), (alignment, bytes))
FUNCTION(aligned_alloc, void *, (size_t alignment, size_t bytes), (alignment, bytes))
FUNCTION(posix_memalign, int, (void **ret_block, size_t alignment, size_t bytes),
         (ret_block, alignment, bytes))
FUNCTION(valloc, void *, (size_t bytes), (bytes))
FUNCTION(pvalloc, void *, (size_t bytes), (bytes))

static void guarded_free(void *block) {
    struct ag_call_mark mark;
    ag_call_note(&ag_foreign_calls, &mark);
    behind.free(block);
    ag_call_forget(&ag_foreign_calls, &mark);
}

static void called_free(void *block) {
    void (*function)(void *) = is_inside() ? behind.free : ag_entry_free;
    function(block);
}

static const struct {
    const char *name;
    void *replacement;
} calls[] = {
#define CALL(name) \
    { #name, (void *)(uintptr_t)called_##name }
    CALL(malloc),        CALL(calloc),         CALL(realloc), CALL(free),    CALL(memalign),
    CALL(aligned_alloc), CALL(posix_memalign), CALL(valloc),  CALL(pvalloc),
#undef CALL
};

struct libraries {
    const void *inside[LIBRARIES_MOST]; /* an address in each library */
    size_t n;
    bool is_past_self;
};

static bool is_libc(const struct ag_symbol_tables *tables) {
    static const char name[] = "libc."; /* libc.so.6, libc.musl-x86_64.so.1 */
    return tables->own_name && strncmp(tables->own_name, name, sizeof(name) - 1) == 0;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *context) {
    struct libraries *libraries = context;
    struct ag_symbol_tables tables;
    (void)size; /* only fields that every glibc has are read */
    if (!libraries->is_past_self) {
        libraries->is_past_self = ag_object_contains(info, (uintptr_t)ag_foreign_allocator_lead);
        return 0;
    }
    if (!ag_object_tables(info, &tables)) {
        return 0;
    }
    const struct ag_symbol_name name = ag_symbol_name("malloc", 1U << STT_FUNC | 1U << STT_NOTYPE);
    const ElfW(Sym) *symbol = ag_symbol_tables_find(&tables, &name);
    const bool is_last = is_libc(&tables);
    if (symbol && !is_last && libraries->n < LIBRARIES_MOST) {
        libraries->inside[libraries->n++] = (const void *)(info->dlpi_addr + symbol->st_value);
    }
    return is_last;
}

void ag_foreign_allocator_guard(void) {
    if (ag_next.malloc == guarded_malloc) {
        return;
    }
    behind = ag_next;
#define GUARD(name) ag_next.name = behind.name ? guarded_##name : NULL
    GUARD(malloc);
    GUARD(calloc);
    GUARD(realloc);
    GUARD(free);
    GUARD(memalign);
    GUARD(aligned_alloc);
    GUARD(posix_memalign);
    GUARD(valloc);
    GUARD(pvalloc);
#undef GUARD
}

void ag_foreign_allocator_lead(void) {
    struct libraries libraries = {.n = 0};
    bool is_led = false;
    (void)ag_objects_visit(look_at_object, &libraries);
    behind = ag_next;
    for (size_t i = 0; i < libraries.n; i++) {
        for (size_t n = 0; n < AG_ARRAY_SIZE(calls); n++) {
            void *ours = NULL;
            is_led |= ag_import_replace(libraries.inside[i], calls[n].name, calls[n].replacement,
                                        &ours) == 0;
        }
    }
    if (is_led) {
        ag_foreign_allocator_guard();
    }
}
