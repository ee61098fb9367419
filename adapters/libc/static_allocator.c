/* static_allocator.c: detours into allocators that are linked into the program itself.
 *
 * A program that defines malloc (jemalloc, mimalloc, tcmalloc or its own, linked statically) calls
 * it without asking the loader, so standing in front of malloc in the search order is not enough.
 * Such functions are found by name in the program's symbol tables, and their first instructions
 * replaced by a jump to an entry of ours; what was there lives on in a trampoline, the original.
 *
 * Every row of static_functions.def has its entry (static_entry_x86_64.S) and its original; two
 * functions, ag_static_begin and ag_static_end, serve them all by shape. They are slower than the
 * hooks of malloc_family.c: callers that the compiler knows may rely on more registers than the ABI
 * keeps, so the entry saves them all, and this file is compiled for general registers alone.
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
#include "base/vector_state.h"
#include "hook/detour.h"
#include "hook/elf_symbols.h"
#include "hook/loaded_objects.h"
#include "hook/next_symbol.h"
#include "next.h"
#include "record/event_fast.h"
#include "record/managed_frames.h"

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

/* A call of a detoured function, laid out by static_entry_x86_64.S: the registers as its caller had
 * them. */
struct ag_static_call {
    uintptr_t result_2, result; /* of the original: rdx, rax */
    uintptr_t flags;
    uintptr_t arguments[6]; /* rdi, rsi, rdx, rcx, r8, r9 */
    uintptr_t r10, r11, rax;
    uint64_t row;
    uintptr_t original; /* to be called */
    uintptr_t rbp;
    uintptr_t return_address; /* its address is the caller's sp */
};
_Static_assert(offsetof(struct ag_static_call, rbp) == 112 &&
                   offsetof(struct ag_static_call, row) == 112 - 16,
               "as static_entry_x86_64.S has it");

static uintptr_t originals[N_FUNCTIONS];
static struct ag_detour detours[N_FUNCTIONS];
static __thread int is_inside __attribute__((tls_model("initial-exec")));
static __thread uintptr_t gate __attribute__((tls_model("initial-exec"))); /* while it is inside */
static __thread uintptr_t last_told
    __attribute__((tls_model("initial-exec"))); /* the block of the last alloc told */

extern const unsigned char
    ag_static_entries[]; /* N_FUNCTIONS times AG_STATIC_ENTRY_BYTES of code */

/* Called from static_entry_x86_64.S. */
bool ag_static_begin(struct ag_static_call *call);
void ag_static_end(struct ag_static_call *call);

/* What is recorded of a call: by value, for ag_call_keeping_vectors. */
struct event {
    const struct ag_static_call *call;
    enum ag_word_kind kind;
    uintptr_t block;
    size_t bytes;
};

AG_FAST void record_now(const struct event *event) {
    const struct ag_static_call *call = event->call;
    const enum ag_libc_via via = functions[call->row].via;
    if (event->kind == AG_WORD_ALLOC) {
        ag_record_alloc_fast(&call->return_address, call->rbp, event->block, event->bytes, via);
    } else {
        ag_record_free_fast(event->kind, event->block, via, &call->return_address, call->rbp);
    }
}

AG_NOINLINE static void record_kept(void *context) {
    record_now(context);
}

/* Virtual machines' frames are asked of the program: the only code on the way of an event that is
 * not ours. */
AG_FAST void record(const struct ag_static_call *call, enum ag_word_kind kind, uintptr_t block,
                    size_t bytes) {
    struct event event = {.call = call, .kind = kind, .block = block, .bytes = bytes};
    if (AG_UNLIKELY(ag_thread_current->gate != AG_GATE_OPEN && ag_frame_sources_are_there())) {
        ag_call_keeping_vectors(record_kept, &event);
    } else {
        record_now(&event);
    }
}

static void record_alloc(const struct ag_static_call *call, uintptr_t block, size_t bytes) {
    if (block) {
        last_told = block;
        record(call, AG_WORD_ALLOC, block, bytes);
    }
}

static size_t product(size_t count, size_t bytes) {
    size_t product = 0;
    return __builtin_mul_overflow(count, bytes, &product) ? SIZE_MAX : product;
}

/* As asked for. A product that overflows is no number of bytes, and above all not 0: see
 * ag_static_end. */
static size_t bytes_of(const struct ag_static_call *call) {
    const uintptr_t *arguments = call->arguments;
    switch (functions[call->row].shape) {
    case SHAPE_MALLOC:
    case SHAPE_NEW:
        return arguments[0];
    case SHAPE_CALLOC:
        return product(arguments[0], arguments[1]);
    case SHAPE_REALLOC:
    case SHAPE_MEMALIGN:
        return arguments[1];
    case SHAPE_REALLOCARRAY:
        return product(arguments[1], arguments[2]);
    case SHAPE_POSIX_MEMALIGN:
        return arguments[2];
    case SHAPE_FREE:
        break;
    }
    return 0;
}

/* Before the original. Returns whether it has to come back to ag_static_end.
 *
 * The thread is marked as inside while the original runs, and its recorder suspended: the original
 * may call another function of the table, or the malloc of the C library that we stand in front of.
 * But not in an operator new: it may throw, and nothing would come back to say that the thread is
 * outside again. If it calls a malloc that is hooked, that one records the block, and we do not. */
bool ag_static_begin(struct ag_static_call *call) {
    const struct static_function *function = &functions[call->row];
    call->original = originals[call->row];
    if (AG_UNLIKELY(is_inside)) {
        return false;
    }
    switch (function->shape) {
    case SHAPE_NEW:
        last_told = 0;
        return true;
    case SHAPE_FREE:
        if (call->arguments[0]) {
            record(call, AG_WORD_FREE, call->arguments[0], 0);
        }
        break;
    case SHAPE_REALLOC:
    case SHAPE_REALLOCARRAY:
        if (call->arguments[0]) {
            record(call, AG_WORD_REALLOC_FREE, call->arguments[0], 0);
        }
        break;
    case SHAPE_MALLOC:
    case SHAPE_CALLOC:
    case SHAPE_MEMALIGN:
    case SHAPE_POSIX_MEMALIGN:
        break;
    }
    gate = ag_record_suspend();
    is_inside = 1;
    return true;
}

/* Behind the original. */
void ag_static_end(struct ag_static_call *call) {
    const enum shape shape = functions[call->row].shape;
    const uintptr_t result = call->result;
    if (shape == SHAPE_NEW) {
        if (result != last_told) {
            record_alloc(call, result, bytes_of(call));
        }
        return;
    }
    is_inside = 0;
    ag_record_resume(gate);
    switch (shape) {
    case SHAPE_MALLOC:
    case SHAPE_CALLOC:
    case SHAPE_MEMALIGN:
        record_alloc(call, result, bytes_of(call));
        break;
    case SHAPE_REALLOC:
    case SHAPE_REALLOCARRAY:
        if (result) {
            record_alloc(call, result, bytes_of(call));
        } else if (call->arguments[0] && bytes_of(call) != 0) {
            record(call, AG_WORD_UNDO_FREE, call->arguments[0], 0);
        }
        break;
    case SHAPE_POSIX_MEMALIGN:
        if ((int)result == 0) {
            record_alloc(call, *(const uintptr_t *)call->arguments[0], bytes_of(call));
        }
        break;
    case SHAPE_NEW:
    case SHAPE_FREE:
        break;
    }
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
                              (void **)(uintptr_t)&originals[i]);
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
