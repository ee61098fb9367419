/* static_allocator.c: detours into allocators that are linked into the program itself.
 *
 * A program that defines malloc (jemalloc, mimalloc, tcmalloc or its own, linked statically) calls
 * it without asking the loader, so standing in front of malloc in the search order is not enough.
 * Such functions are found by name in the program's symbol tables, and their first instructions
 * replaced by a jump to an entry of ours; what was there lives on in a trampoline, the original.
 *
 * Every row of static_functions.def has its entry (static_entry_x86_64.S) and its original; one
 * function, ag_static_hook, serves them all by shape. It is slower than the hooks of
 * malloc_family.c by an indirect call and a switch that a predictor knows.
 *
 * An allocator's functions call each other by their public names (posix_memalign calls malloc): a
 * thread that is inside one is not told of the others. The C++ operators of the program are hooked
 * only when it defines malloc too: elsewhere they are libstdc++'s, linked statically, and call the
 * malloc that is hooked already. */
#include "static_allocator.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/join_text.h"
#include "hook/detour.h"
#include "hook/elf_symbols.h"
#include "hook/loaded_objects.h"
#include "hook/next_symbol.h"
#include "next.h"
#include "record/event_fast.h"

enum shape {                       /* what the arguments mean */
             SHAPE_MALLOC,         /* (bytes, ...) */
             SHAPE_NEW,            /* (bytes, ...), and it may throw */
             SHAPE_CALLOC,         /* (count, bytes) */
             SHAPE_REALLOC,        /* (block, bytes, ...) */
             SHAPE_REALLOCARRAY,   /* (block, count, bytes) */
             SHAPE_MEMALIGN,       /* (alignment, bytes) */
             SHAPE_POSIX_MEMALIGN, /* (ret_block, alignment, bytes) */
             SHAPE_FREE,           /* (block, ...) */
};

struct static_function {
    const char *name;
    enum shape shape;
    enum ag_libc_via via;
};
static const struct static_function functions[] = {
#define AG_STATIC(name, shape, via) {#name, shape, via},
#include "static_functions.def"
#undef AG_STATIC
};
enum { N_FUNCTIONS = AG_ARRAY_SIZE(functions), AG_STATIC_ENTRY_BYTES = 32 };

typedef uintptr_t original_fn(uintptr_t first, uintptr_t second, uintptr_t third);
static original_fn *originals[N_FUNCTIONS];
static struct ag_detour detours[N_FUNCTIONS];
static __thread int is_inside __attribute__((tls_model("initial-exec")));
static __thread uintptr_t last_told
    __attribute__((tls_model("initial-exec"))); /* the block of the last alloc told */

extern const unsigned char
    ag_static_entries[]; /* N_FUNCTIONS times AG_STATIC_ENTRY_BYTES of code */

/* Called from static_entry_x86_64.S. */
uintptr_t ag_static_hook(uintptr_t first, uintptr_t second, uintptr_t third, const uintptr_t *sp,
                         uintptr_t rbp, uint32_t row);

/* What may throw is called without this: see call_new. */
static uintptr_t call_original(uint32_t row, uintptr_t first, uintptr_t second, uintptr_t third) {
    const uintptr_t gate =
        ag_record_suspend(); /* a wrapper may call the malloc of libc that we stand in front of */
    is_inside = 1;
    const uintptr_t result = originals[row](first, second, third);
    is_inside = 0;
    ag_record_resume(gate);
    return result;
}

static uintptr_t tell(uintptr_t block, size_t bytes, enum ag_libc_via via, const uintptr_t *sp,
                      uintptr_t rbp) {
    if (block) {
        last_told = block;
        ag_record_alloc_fast(sp, rbp, block, bytes, via);
    }
    return block;
}

/* An operator new may throw, and then nobody would come back to say that the thread is outside
 * again. So it runs unguarded: if it calls a malloc that is hooked, that one tells the block, and
 * we do not. */
static uintptr_t call_new(uint32_t row, uintptr_t bytes, uintptr_t second, uintptr_t third,
                          const uintptr_t *sp, uintptr_t rbp) {
    last_told = 0;
    const uintptr_t block = originals[row](bytes, second, third);
    return block == last_told ? block : tell(block, bytes, functions[row].via, sp, rbp);
}

/* What did not fit is no number of bytes, and above all not 0: see reallocate. */
static size_t product_or_most(size_t count, size_t bytes) {
    size_t product = 0;
    return __builtin_mul_overflow(count, bytes, &product) ? SIZE_MAX : product;
}

static uintptr_t reallocate(uint32_t row, uintptr_t block, uintptr_t second, uintptr_t third,
                            size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    const enum ag_libc_via via = functions[row].via;
    if (block) {
        ag_record_free_fast(AG_WORD_REALLOC_FREE, block, via, sp, rbp);
    }
    const uintptr_t moved = call_original(row, block, second, third);
    if (moved) {
        ag_record_alloc_fast(sp, rbp, moved, bytes, via);
    } else if (block && bytes != 0) {
        ag_record_free_fast(AG_WORD_UNDO_FREE, block, via, sp, rbp);
    }
    return moved;
}

uintptr_t ag_static_hook(uintptr_t first, uintptr_t second, uintptr_t third, const uintptr_t *sp,
                         uintptr_t rbp, uint32_t row) {
    if (AG_UNLIKELY(is_inside)) {
        return originals[row](first, second, third);
    }
    const enum ag_libc_via via = functions[row].via;
    switch (functions[row].shape) {
    case SHAPE_MALLOC:
        return tell(call_original(row, first, second, third), first, via, sp, rbp);
    case SHAPE_NEW:
        return call_new(row, first, second, third, sp, rbp);
    case SHAPE_CALLOC:
        return tell(call_original(row, first, second, third), first * second, via, sp, rbp);
    case SHAPE_REALLOC:
        return reallocate(row, first, second, third, /* bytes= */ second, sp, rbp);
    case SHAPE_REALLOCARRAY:
        return reallocate(row, first, second, third, product_or_most(second, third), sp, rbp);
    case SHAPE_MEMALIGN:
        return tell(call_original(row, first, second, third), second, via, sp, rbp);
    case SHAPE_POSIX_MEMALIGN: {
        const uintptr_t r = call_original(row, first, second, third);
        if ((int)r == 0) {
            (void)tell(*(const uintptr_t *)first, third, via, sp, rbp);
        }
        return r;
    }
    case SHAPE_FREE:
        if (first) {
            ag_record_free_fast(AG_WORD_FREE, first, via, sp, rbp);
        }
        return call_original(row, first, second, third);
    }
    __builtin_unreachable();
}

/* ---- finding and hooking ---- */

static int read_program_bias(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size; /* only a field that every glibc has is read */
    *(uintptr_t *)context = info->dlpi_addr;
    return 1; /* the first object is the program */
}

static bool is_operator(const struct static_function *function) {
    return strncmp(function->name, "_Z", 2) == 0;
}

/* Addresses in memory by row, 0: the program does not define it. Returns how many that are no
 * operators. */
static size_t find_functions(struct ag_elf_symbol found[N_FUNCTIONS]) {
    const char *names[N_FUNCTIONS];
    uintptr_t bias = 0;
    struct ag_elf_symbols symbols;
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        names[i] = functions[i].name;
        found[i] = (struct ag_elf_symbol){0};
    }
    (void)ag_objects_visit(read_program_bias, &bias);
    if (ag_elf_symbols_open("/proc/self/exe", &symbols) == 0) {
        (void)ag_elf_symbols_find(&symbols, names, N_FUNCTIONS, found);
        ag_elf_symbols_close(&symbols);
    }
    size_t count = 0;
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        struct ag_symbol_place place;
        if (found[i].address) {
            found[i].address += bias;
        } else if (ag_symbol_find(names[i], AG_SYMBOL_FIRST, NULL, &place) && place.in_executable) {
            found[i].address = (uintptr_t)place.address; /* stripped, but exported */
        }
        count += found[i].address && !is_operator(&functions[i]);
    }
    return count;
}

static bool is_hooked_already(const struct ag_elf_symbol found[N_FUNCTIONS], size_t row) {
    for (size_t i = 0; i < row; i++) {
        if (found[i].address == found[row].address) {
            return true; /* one function under two names */
        }
    }
    return false;
}

static void write_note(char *note, size_t bytes, const char *first, const char *name,
                       const char *second, const char *third) {
    const char *const parts[] = {first, name, second, third, NULL};
    ag_join_text(note, bytes, parts);
}

static void unhook_all(void) {
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        (void)ag_detour_remove(&detours[i]); /* a detour that was not installed is left alone */
    }
}

int ag_static_allocator_hook(char *ret_note, size_t note_bytes) {
    struct ag_elf_symbol found[N_FUNCTIONS];
    if (find_functions(found) == 0) {
        return 0;
    }
    int count = 0;
    const char *first_name = "";
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        if (!found[i].address || is_hooked_already(found, i)) {
            continue;
        }
        const int r =
            ag_detour_install(&detours[i], (void *)(uintptr_t)found[i].address, found[i].size_bytes,
                              (void *)(uintptr_t)(ag_static_entries + i * AG_STATIC_ENTRY_BYTES),
                              (void **)&originals[i]);
        if (r < 0) { /* half an allocator would give wrong numbers */
            write_note(ret_note, note_bytes,
                       "the program's own allocator is not recorded: ", functions[i].name, ": ",
                       detours[i].reason ? detours[i].reason : "cannot be detoured");
            unhook_all();
            return r;
        }
        first_name = count == 0 ? functions[i].name : first_name;
        count++;
    }
    write_note(ret_note, note_bytes, "the program's own allocator is hooked by detours, from ",
               first_name, "", "");
    return count;
}
