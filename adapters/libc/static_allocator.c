/* static_allocator.c: hooks functions of allocators that the agent (allogram's library in the
 * program) cannot interpose, by detours: jumps at the start of a function.
 *
 * 1. A program that defines malloc (jemalloc, mimalloc, tcmalloc or its own, linked statically)
 * calls it without a symbol lookup, so interposing malloc is not enough. Such functions are found
 * by name in the program's symbol tables, and their first instructions are replaced by a jump to an
 * entry of the agent. The agent calls the original function through a copy of the replaced
 * instructions, the trampoline.
 *
 * 2. Allocators also have functions of their own (mallocx, mi_heap_malloc, moz_arena_malloc).
 * Programs free the blocks of these functions by free, so without hooks of these functions the
 * trace would have frees of unknown blocks. Each loaded object is searched for the names of
 * static_functions.def after AG_STATIC_OTHERS.
 *
 * 3. Every row of static_functions.def has its own detour. One entry (static_entry.S) and two
 * functions, ag_static_begin and ag_static_end, serve all rows; the row's shape says what the
 * arguments mean (static_shapes.def). Callers that were compiled together with the function may
 * rely on more registers than the ABI keeps. So the entry keeps all registers (hook/kept_call.h),
 * which makes these hooks slower than those of malloc_family.c, and this file is compiled for
 * general registers only.
 *
 * 4. An allocator's functions call each other by their public names (posix_memalign calls malloc).
 * Calls inside of a recorded call are not recorded (ag_record_suspend_call). An operator new is
 * different: the hooked malloc that it calls records the block and notes this in the operator's
 * call, which then records nothing. In both cases a mark in the stack frame of the outer call
 * (record/call_marks.h) leads to that call. Marks also work if a signal handler interrupts an
 * allocator, and if a call never returns. If an allocator has functions that only this file hooks,
 * foreign_allocator.c also marks the calls that the agent passes on to a library's allocator
 * (through ag_next, the table of the functions that the agent replaced). The functions of the C
 * library and the C++ operators that the program defines are hooked only if the program also
 * defines malloc. Otherwise a function with such a name is another function (remove_namesakes), and
 * the operators are those of a static libstdc++, whose calls of malloc are recorded anyway. */
#include "static_allocator.h"

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/join_text.h"
#include "base/pages.h"
#include "base/vector_state.h"
#include "hook/detour.h"
#include "hook/elf_symbols.h"
#include "hook/import_slot.h"
#include "hook/kept_call.h"
#include "hook/loaded_objects.h"
#include "hook/next_symbol.h"
#include "hook/symbol_tables.h"
#include "next.h"
#include "record/event_fast.h"
#include "record/managed_frames.h"
#include "unwind/readable_range.h"

enum shape { /* what the arguments mean */
#define AG_SHAPE(name, does, block, count, bytes) SHAPE_##name,
#include "static_shapes.def"
#undef AG_SHAPE
};

enum does {
    DOES_ALLOCATE,           /* returns the block */
    DOES_ALLOCATE_C,         /* returns a string, whose length gives the size */
    DOES_ALLOCATE_THROW,     /* returns the block, or throws */
    DOES_ALLOCATE_TO,        /* stores the block in *block and returns 0 */
    DOES_REALLOCATE,         /* a block that cannot be resized stays valid */
    DOES_REALLOCATE_OR_FREE, /* a block that cannot be resized is freed */
    DOES_FREE,
};

enum { NONE = -1 };

static const struct {
    int8_t does, block, count, bytes; /* indexes of arguments, or NONE */
} shapes[] = {
#define AG_SHAPE(name, does, block, count, bytes) {DOES_##does, block, count, bytes},
#include "static_shapes.def"
#undef AG_SHAPE
};

struct static_function {
    const char *name;
    enum shape shape;
    enum ag_libc_via via;
};
static const struct static_function functions[] = {
#define AG_STATIC(name, shape, via) {#name, shape, via},
#define AG_STATIC_OTHERS
#include "static_functions.def"
#undef AG_STATIC
#undef AG_STATIC_OTHERS
};
enum { N_FUNCTIONS = AG_ARRAY_SIZE(functions) };
enum {
#define AG_STATIC(name, shape, via) ROW_##name,
#define AG_STATIC_OTHERS FIRST_OTHER, BEFORE_FIRST_OTHER = FIRST_OTHER - 1,
#include "static_functions.def"
#undef AG_STATIC
#undef AG_STATIC_OTHERS
};

static uintptr_t originals[N_FUNCTIONS];
static uintptr_t hooked[N_FUNCTIONS]; /* addresses */
static struct ag_detour detours[N_FUNCTIONS];

/* One call of a function in static_functions.def. The struct is in the stack frame of the
 * function's detour. */
struct static_call {
    struct ag_call_mark mark; /* an element of the list ag_suspended_calls, or of the list
                               * `operators` for an operator new */
    uintptr_t recorded;       /* for an operator new: the last block that a call inside of the
                               * operator recorded */
    uintptr_t unused;
    struct ag_kept_call kept;
};
_Static_assert(offsetof(struct static_call, kept) == 32, "static_entry.S uses the same offset");
__thread ag_call_marks ag_foreign_calls __attribute__((tls_model("initial-exec")));
static __thread ag_call_marks operators __attribute__((tls_model("initial-exec")));

extern const unsigned char ag_static_enter[] AG_HIDDEN; /* static_entry.S */

/* Called from static_entry.S. */
bool ag_static_begin(struct ag_kept_call *call);
void ag_static_end(struct ag_kept_call *call);

/* The parts of an event, in one struct, because ag_call_keeping_vectors passes one pointer. */
struct event {
    const struct ag_kept_call *call;
    enum ag_word_kind kind;
    uintptr_t block;
    size_t bytes;
};

AG_FAST void record_now(const struct event *event) {
    const struct ag_kept_call *call = event->call;
    const enum ag_libc_via via = functions[call->datum].via;
    if (event->kind == AG_WORD_ALLOC) {
        ag_record_alloc_fast(&call->return_address, call->rbp, event->block, event->bytes, via);
    } else {
        ag_record_free_fast(event->kind, event->block, via, &call->return_address, call->rbp);
    }
}

AG_NOINLINE static void record_kept(void *context) {
    record_now(context);
}

/* The program's virtual machines may supply frames of their own (record/managed_frames.h). Their
 * callbacks are the only code on the path of an event that is not the agent's, so the vector
 * registers are saved around them. */
AG_FAST void record(const struct ag_kept_call *call, enum ag_word_kind kind, uintptr_t block,
                    size_t bytes) {
    struct event event = {.call = call, .kind = kind, .block = block, .bytes = bytes};
    if (AG_UNLIKELY(ag_thread_current->gate != AG_GATE_OPEN && ag_frame_sources_are_there())) {
        ag_call_keeping_vectors(record_kept, &event);
    } else {
        record_now(&event);
    }
}

/* If an operator new made this call, notes in the operator's call that the block is recorded. */
static void note_recorded(const struct ag_kept_call *call, uintptr_t block) {
    if (ag_call_is_inside(&operators, (uintptr_t)&call->return_address)) {
        struct ag_call_mark *mark = operators;
        ((struct static_call *)mark)->recorded = block; /* the mark is the first member of the
                                                         * struct */
    }
}

static void record_alloc(const struct ag_kept_call *call, uintptr_t block, size_t bytes) {
    if (block) {
        record(call, AG_WORD_ALLOC, block, bytes);
        note_recorded(call, block);
    }
}

static size_t product(size_t count, size_t bytes) {
    size_t product = 0;
    return __builtin_mul_overflow(count, bytes, &product) ? SIZE_MAX : product;
}

/* The requested size; SIZE_MAX if a product overflows. If a product overflows, the result must not
 * be 0: when realloc returns NULL for 0 bytes, ag_static_end does not take back the free that
 * ag_static_begin recorded. */
static size_t bytes_of(const struct ag_kept_call *call) {
    const enum shape shape = functions[call->datum].shape;
    const size_t bytes = call->arguments[shapes[shape].bytes];
    return shapes[shape].count == NONE ? bytes
                                       : product(call->arguments[shapes[shape].count], bytes);
}

/* Whether the word at the address can be read. The address may be invalid, because a function with
 * the name of an allocator's function may be something else. */
static bool is_readable(uintptr_t address) {
    uintptr_t word;
    return ag_readable_copy(&word, address, sizeof(word));
}

/* The size of a string with its terminating 0, as far as its memory can be read. */
static size_t text_bytes(uintptr_t text) {
    size_t bytes = 0;
    while (is_readable(ag_page_of(text + bytes))) {
        const size_t rest = AG_PAGE_BYTES - (text + bytes) % AG_PAGE_BYTES;
        const size_t length = strnlen((const char *)text + bytes, rest);
        bytes += length;
        if (length < rest) {
            return bytes + 1;
        }
    }
    return bytes;
}

static struct static_call *static_call_of(struct ag_kept_call *call) {
    return (struct static_call *)((char *)call - offsetof(struct static_call, kept));
}

/* Whether all arguments of the function are certainly in registers: the C standard and the mangled
 * names of C++ operators determine them. */
static bool has_known_arguments(uintptr_t row) {
    return row <= ROW_free || (row >= ROW__Znwm && row < FIRST_OTHER);
}

/* The number of words above the caller's return address that are copied for the original. An
 * allocator's function has all its arguments in registers, but a function that only has the name of
 * one may have arguments on the stack. Fewer than STACK_WORDS words are copied if the stack ends
 * before. If another mapping follows the stack, and another thread unmaps it at this moment, the
 * copy faults; so nothing is copied for functions that cannot have arguments on the stack. */
static size_t stack_words(const struct ag_kept_call *call) {
    enum { STACK_WORDS = 16 }; /* as in static_entry.S */
    if (has_known_arguments(call->datum)) {
        return 0;
    }
    const uintptr_t first = (uintptr_t)(&call->return_address + 1);
    const size_t in_page = AG_PAGE_BYTES - 1 - (first - 1) % AG_PAGE_BYTES;
    return in_page >= STACK_WORDS * sizeof(uintptr_t) || is_readable(first + in_page)
               ? STACK_WORDS
               : in_page / sizeof(uintptr_t);
}

static ag_static_first_call *_Atomic on_first_call;

void ag_static_allocator_on_first_call(ag_static_first_call *call) {
    atomic_store_explicit(&on_first_call, call, memory_order_release);
}

/* Called before the original. Returns whether ag_static_end has to be called after it. */
bool ag_static_begin(struct ag_kept_call *call) {
    struct static_call *noted = static_call_of(call);
    const enum shape shape = functions[call->datum].shape;
    const enum does does = (enum does)shapes[shape].does;
    call->original = originals[call->datum];
    if (ag_is_inside_allocator((uintptr_t)&call->return_address)) {
        return false;
    }
    if (AG_UNLIKELY(atomic_load_explicit(&on_first_call, memory_order_relaxed) != NULL)) {
        ag_static_first_call *const first =
            atomic_exchange_explicit(&on_first_call, NULL, memory_order_acquire);
        if (first) { /* no other thread was faster */
            first();
        }
    }
    call->result = stack_words(call); /* static_entry.S copies this number of words */
    if (does == DOES_ALLOCATE_THROW) {
        noted->recorded = 0;
        ag_call_note(&operators, &noted->mark);
        return true;
    }
    if (does >= DOES_REALLOCATE && call->arguments[shapes[shape].block]) {
        record(call, does == DOES_FREE ? AG_WORD_FREE : AG_WORD_REALLOC_FREE,
               call->arguments[shapes[shape].block], 0);
    }
    ag_record_suspend_call(&noted->mark);
    return true;
}

/* Called after the original. */
void ag_static_end(struct ag_kept_call *call) {
    struct static_call *noted = static_call_of(call);
    const enum shape shape = functions[call->datum].shape;
    const enum does does = (enum does)shapes[shape].does;
    const uintptr_t result = call->result;
    if (does == DOES_ALLOCATE_THROW) {
        ag_call_forget(&operators, &noted->mark);
        if (result != noted->recorded) {
            record_alloc(call, result, bytes_of(call));
        } else {
            note_recorded(call, result);
        }
        return;
    }
    ag_record_resume_call(&noted->mark);
    switch (does) {
    case DOES_ALLOCATE:
        record_alloc(call, result, bytes_of(call));
        break;
    case DOES_ALLOCATE_C:
        record_alloc(call, result, text_bytes(result));
        break;
    case DOES_ALLOCATE_TO:
        if ((int)result == 0 && is_readable(call->arguments[shapes[shape].block])) {
            record_alloc(call, *(const uintptr_t *)call->arguments[shapes[shape].block],
                         bytes_of(call));
        }
        break;
    case DOES_REALLOCATE:
    case DOES_REALLOCATE_OR_FREE: {
        const uintptr_t block = call->arguments[shapes[shape].block];
        if (result) {
            record_alloc(call, result, bytes_of(call));
        } else if (block && does == DOES_REALLOCATE && bytes_of(call) != 0) {
            record(call, AG_WORD_UNDO_FREE, block, 0);
        }
        break;
    }
    case DOES_FREE:
    case DOES_ALLOCATE_THROW:
        break;
    }
}

/* ---- searching and hooking ---- */

struct entries {                             /* indexed by row; the address is 0 if the function was
                                              * not found */
    struct ag_elf_symbol found[N_FUNCTIONS]; /* addresses in memory */
};

struct search {
    struct entries program, libraries;
    const void *malloc_address;
    bool is_past_program;
};

static uintptr_t bound_free; /* the function to which calls of free lead: the agent's, or the one
                              * that is hooked in a program that was attached to */

/* Whether the calls of a function are recorded as calls of free anyway: glibc's cfree is its free,
 * and glibc 2.43's free_sized and free_aligned_sized only call free. FREE_SYMBOL: the object's own
 * free, or NULL. */
static bool is_recorded_free(uintptr_t base, const ElfW(Sym) * symbol,
                             const ElfW(Sym) * free_symbol) {
    return (free_symbol && symbol->st_value == free_symbol->st_value) ||
           (bound_free != 0 &&
            ag_detour_passed_on((const void *)(base + symbol->st_value)) == bound_free);
}

static void look_into_tables(const struct dl_phdr_info *info, size_t first_row,
                             struct entries *entries) {
    struct ag_symbol_tables tables;
    if (!ag_object_tables(info, &tables)) {
        return;
    }
    const struct ag_symbol_name free_name = ag_symbol_name("free", 1U << STT_FUNC);
    const ElfW(Sym) *free_symbol = ag_symbol_tables_find(&tables, &free_name);
    const struct ag_symbol_name malloc_name = ag_symbol_name("malloc", 1U << STT_FUNC);
    const bool is_allocator = free_symbol && ag_symbol_tables_find(&tables, &malloc_name);
    const size_t first = first_row == FIRST_OTHER && !is_allocator ? ROW_mallocx : first_row;
    for (size_t i = first; i < N_FUNCTIONS; i++) {
        const struct ag_symbol_name name = ag_symbol_name(functions[i].name, 1U << STT_FUNC);
        const ElfW(Sym) *symbol =
            entries->found[i].address ? NULL : ag_symbol_tables_find(&tables, &name);
        if (symbol &&
            !(first_row == FIRST_OTHER && functions[i].shape == SHAPE_FREE && i < ROW_mallocx &&
              is_recorded_free(info->dlpi_addr, symbol, free_symbol))) {
            entries->found[i] = (struct ag_elf_symbol){
                .address = info->dlpi_addr + symbol->st_value, .size_bytes = symbol->st_size};
        }
    }
}

/* Whether an object imports malloc, calloc, realloc or free from another object. */
static bool imports_malloc(const struct dl_phdr_info *info) {
    const void *const inside = (const void *)(uintptr_t)info->dlpi_phdr;
    return ag_import_find(inside, "malloc") != 0 || ag_import_find(inside, "calloc") != 0 ||
           ag_import_find(inside, "realloc") != 0 || ag_import_find(inside, "free") != 0;
}

/* Removes the functions that only have the name of one of the C library's. ISO C does not reserve
 * valloc, cfree and other names, so libraries and programs may use these names for functions of
 * their own. A source file may also have a static malloc. The program defines the C library's
 * functions only if malloc is among them. A static function is the C library's only if the program
 * imports none of malloc, calloc, realloc and free. */
static void remove_namesakes(const struct dl_phdr_info *info, struct entries *entries) {
    enum { LAST = ROW_mallocx - 1 };
    struct ag_elf_symbol *found = entries->found;
    bool has_locals = false;
    for (size_t i = 0; i <= LAST; i++) {
        has_locals |= found[i].address != 0 && found[i].is_local;
    }
    if (has_locals && imports_malloc(info)) { /* few programs have static functions of these names,
                                               * and the search takes time */
        for (size_t i = 0; i <= LAST; i++) {
            found[i].address = found[i].is_local ? 0 : found[i].address;
        }
    }
    for (size_t i = 0; i <= LAST && found[ROW_malloc].address == 0; i++) {
        found[i].address = 0;
    }
}

/* Also finds functions that the program does not export, unless its file was stripped. */
static void look_into_program(const struct dl_phdr_info *info, struct entries *entries) {
    const char *names[N_FUNCTIONS];
    struct ag_elf_symbols symbols;
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        names[i] = functions[i].name;
    }
    if (ag_elf_symbols_open("/proc/self/exe", &symbols) == 0) {
        (void)ag_elf_symbols_find(&symbols, names, N_FUNCTIONS, entries->found);
        ag_elf_symbols_close(&symbols);
        for (size_t i = 0; i < N_FUNCTIONS; i++) {
            entries->found[i].address += entries->found[i].address ? info->dlpi_addr : 0;
        }
    }
    look_into_tables(info, 0, entries);
    remove_namesakes(info, entries);
}

static int look_into_library(const struct dl_phdr_info *info, struct search *search) {
    const bool is_malloc =
        search->malloc_address && ag_object_contains(info, (uintptr_t)search->malloc_address);
    if (is_malloc) {
        look_into_tables(info, 0, &search->program);
    } else if (!ag_object_contains(info, (uintptr_t)ag_static_allocator_hook)) {
        look_into_tables(info, FIRST_OTHER, &search->libraries);
    }
    return 0;
}

static int look_into_object(struct dl_phdr_info *info, size_t size, void *context) {
    struct search *search = context;
    (void)size; /* only fields that every glibc has are read */
    if (!search->is_past_program) {
        search->is_past_program = true;
        look_into_program(info, &search->program);
        return 0;
    }
    return look_into_library(info, search);
}

static bool is_hooked_already(uintptr_t address) {
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        if (originals[i] && hooked[i] == address) {
            return true; /* the function is hooked already, under another name */
        }
    }
    return false;
}

static void write_note(struct ag_static_answer *answer, const char *first, const char *name,
                       const char *reason) {
    const char *const parts[] = {first, name, ": ", reason ? reason : "its code cannot be changed",
                                 NULL};
    ag_join_text(answer->note, sizeof(answer->note), parts);
}

/* Compilers put small functions into their callers, if both are in one source file or the program
 * is optimized as a whole. A function of this length has about 60 instructions. With -O3, gcc 12
 * inlines functions of up to 30 instructions (its parameter max-inline-insns-auto), counted before
 * optimization. So a function that is longer than this number of bytes is probably not inlined. */
enum { INLINED_BYTES_MOST = 256 };

static void unhook_all(void) {
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        (void)ag_detour_remove(&detours[i]); /* a detour that was not installed is not changed */
        originals[i] = 0;
    }
}

/* Hooks rows [first, end). Returns the number of functions that were hooked; or a negative errno if
 * a needed function cannot be hooked, and then no function is hooked. */
static int hook(const struct entries *entries, size_t first, size_t end,
                struct ag_static_answer *answer) {
    int count = 0;
    for (size_t i = first; i < end; i++) {
        const struct ag_elf_symbol *found = &entries->found[i];
        if (!found->address || originals[i] || is_hooked_already(found->address)) {
            continue;
        }
        void *original = NULL;
        const int r =
            ag_detour_install_kept(&detours[i], (void *)(uintptr_t)found->address,
                                   found->size_bytes, ag_static_enter, /* datum= */ i, &original);
        if (r < 0 && i < FIRST_OTHER) { /* with half of an allocator hooked, the numbers would be
                                         * wrong */
            write_note(answer, "the program's own allocator is not recorded: ", functions[i].name,
                       detours[i].reason);
            unhook_all();
            return r;
        }
        if (r < 0) {
            write_note(answer,
                       "calls of an allocator's function are not recorded: ", functions[i].name,
                       detours[i].reason);
            continue;
        }
        originals[i] = (uintptr_t)original;
        hooked[i] = found->address;
        if (answer->note[0] == '\0') {
            const char *const parts[] = {
                "the program has an allocator of its own (", functions[i].name,
                "), which is recorded too",
                i < FIRST_OTHER && found->size_bytes <= INLINED_BYTES_MOST
                    ? "; copies of it that the compiler put into its callers are not recorded"
                    : "",
                NULL};
            ag_join_text(answer->note, sizeof(answer->note), parts);
        }
        count++;
    }
    return count;
}

static struct search search; /* too large for a stack of unknown size */

void ag_static_allocator_hook(const void *malloc_address, struct ag_static_answer *ret_answer) {
    search = (struct search){.malloc_address = malloc_address};
    *ret_answer = (struct ag_static_answer){0};
    struct ag_symbol_place place;
    bound_free =
        ag_symbol_find("free", AG_SYMBOL_FIRST, NULL, &place) ? (uintptr_t)place.address : 0;
    (void)ag_objects_visit(look_into_object, &search);
    ret_answer->n_program = hook(&search.program, 0, FIRST_OTHER, ret_answer);
}

void ag_static_allocator_hook_others(struct ag_static_answer *answer) {
    answer->n_others = hook(&search.program, FIRST_OTHER, N_FUNCTIONS, answer) +
                       hook(&search.libraries, FIRST_OTHER, N_FUNCTIONS, answer);
}
