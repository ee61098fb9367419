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
 * -Bsymbolic) and the libc itself are not changed. If a library without slots is more than an
 * allocator, its own code calls its malloc by a direct call. code_calls finds such a call, and then
 * a detour of the library's malloc records these calls.
 *
 * Two kinds of objects are not handled: objects that the loader searches before the agent, because
 * their calls do not reach the agent, and objects after the libc (the loader of an older glibc has
 * a malloc for itself). */
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
    const void *malloc_addresses[LIBRARIES_MOST]; /* of each library */
    size_t n;
    const void *called_directly; /* the malloc of the first library whose own code calls it without
                                  * a symbol lookup; or NULL */
    bool is_past_self;
};

static bool is_libc(const struct ag_symbol_tables *tables) {
    static const char name[] = "libc."; /* libc.so.6, libc.musl-x86_64.so.1 */
    return tables->own_name && strncmp(tables->own_name, name, sizeof(name) - 1) == 0;
}

static const ElfW(Sym) * family_symbol(const struct ag_symbol_tables *tables, const char *name) {
    const struct ag_symbol_name wanted = ag_symbol_name(name, 1U << STT_FUNC | 1U << STT_NOTYPE);
    return ag_symbol_tables_find(tables, &wanted);
}

/* Where a library has its function of each row of `calls`; 0, 0: nowhere. */
struct family {
    struct {
        uintptr_t low, high;
    } functions[AG_ARRAY_SIZE(calls)];
};

/* Whether the code calls or jumps to a function of the family. Calls between functions of the
 * family do not count: they are parts of one allocation. The search does not know where
 * instructions begin, so other bytes may look like a call by chance (with a probability below 2^-32
 * for each byte of the code). Then the library is hooked needlessly. */
static bool code_calls(const struct family *family, const uint8_t *code, size_t n_bytes) {
    enum { CALL = 0xe8, JUMP = 0xe9, BYTES = 5 };
    for (size_t at = 0; at + BYTES <= n_bytes; at++) {
        if (code[at] != CALL && code[at] != JUMP) {
            continue;
        }
        int32_t distance;
        memcpy(&distance, code + at + 1, sizeof(distance));
        const uintptr_t from = (uintptr_t)(code + at);
        const uintptr_t target = from + BYTES + (uintptr_t)(intptr_t)distance;
        bool is_inside = false, is_call = false;
        for (size_t i = 0; i < AG_ARRAY_SIZE(calls); i++) {
            is_call |= family->functions[i].low != 0 && family->functions[i].low == target;
            is_inside |= family->functions[i].low <= from && from < family->functions[i].high;
        }
        if (is_call && !is_inside) {
            return true;
        }
    }
    return false;
}

/* The search takes about 1 ms for each MiB of code. */
static bool library_calls_itself(const struct dl_phdr_info *info,
                                 const struct ag_symbol_tables *tables) {
    enum { CODE_BYTES_MOST = 16 << 20 };
    struct family family = {0};
    for (size_t i = 0; i < AG_ARRAY_SIZE(calls); i++) {
        const ElfW(Sym) *symbol = family_symbol(tables, calls[i].name);
        if (symbol) {
            family.functions[i].low = info->dlpi_addr + symbol->st_value;
            family.functions[i].high = family.functions[i].low + symbol->st_size;
        }
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uint8_t *code = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr);
        const size_t n_bytes =
            segment->p_filesz < CODE_BYTES_MOST ? segment->p_filesz : CODE_BYTES_MOST;
        if (segment->p_type == PT_LOAD && (segment->p_flags & (PF_R | PF_X)) == (PF_R | PF_X) &&
            code_calls(&family, code, n_bytes)) {
            return true;
        }
    }
    return false;
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
    const ElfW(Sym) *symbol = family_symbol(&tables, "malloc");
    const bool is_last = is_libc(&tables);
    if (symbol && !is_last && libraries->n < LIBRARIES_MOST) {
        const void *const address = (const void *)(info->dlpi_addr + symbol->st_value);
        libraries->malloc_addresses[libraries->n++] = address;
        if (!libraries->called_directly && library_calls_itself(info, &tables)) {
            libraries->called_directly = address;
        }
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

const void *ag_foreign_allocator_lead(void) {
    struct libraries libraries = {.n = 0};
    bool is_led = false;
    (void)ag_objects_visit(look_at_object, &libraries);
    behind = ag_next;
    for (size_t i = 0; i < libraries.n; i++) {
        for (size_t n = 0; n < AG_ARRAY_SIZE(calls); n++) {
            void *ours = NULL;
            is_led |= ag_import_replace(libraries.malloc_addresses[i], calls[n].name,
                                        calls[n].replacement, &ours) == 0;
        }
    }
    if (is_led) {
        ag_foreign_allocator_guard();
    }
    return libraries.called_directly;
}
