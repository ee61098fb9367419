/* bytecode.c: the parts of the adapter for programs of OCaml's bytecode interpreter: the code of
 * the closures that Memprof (the runtime's sampler) calls, and the frames of bytecode in stacks.
 *
 * 1. Code. The code of a closure is five words of bytecode: it takes its argument, calls a
 * primitive of the adapter, and returns. The adapter adds the primitive to the runtime's table. The
 * numbers of the instructions are those of runtime/caml/instruct.h (tags 4.11.2, 4.13.1, 4.14.2 and
 * the branch 5.3). If the interpreter runs threaded code (addresses instead of numbers), the
 * runtime converts the numbers (caml_thread_code).
 *
 * Memprof gets closures with that code, but the code never runs: a detour of caml_callbackN_exn
 * turns a call of one of the adapter's closures into a call of the C function. The reason is that
 * the interpreter runs signal handlers wherever a function is applied, also inside of a callback,
 * and that Memprof does not report blocks that are allocated inside of a callback. Nearly all of
 * the program's time is spent in callbacks. So the signals of a timer would mostly arrive there,
 * and the blocks of their handler would be missing in the trace.
 *
 * 2. Names. Memprof reports addresses in the bytecode. The runtime knows their function, file and
 * line from the debug section of the program, or from what the toplevel has compiled. The adapter
 * asks the runtime once for each address; when code is loaded or unloaded, all answers are invalid.
 * A frame has no room for columns. So each source position whose columns are known is registered as
 * a function of its own. An address without debug information is named by its distance from the
 * code's start, which is the same in each run. Code that a toplevel made without debug information
 * is named "(toplevel code)".
 *
 * 3. Stacks. All OCaml frames lie on a separate stack of the interpreter. Of the native stack, only
 * the outermost frame of the interpreter and the frames outside of it are kept. Where C code called
 * OCaml back, the C frames in between are dropped, because their position among the OCaml frames is
 * unknown. */
#include "bytecode.h"

#include "allogram/allogram.h"
#include "collector_hooks.h"
#include "hook/next_symbol.h"
#include "known_stacks.h"
#include "memprof.h"
#include "ocaml_name.h"
#include "record/managed_frames.h"

enum { CLOSURES = 5, CODE_WORDS = 5 };
enum { ACC0 = 0, RETURN = 40, C_CALL1 = 93 };

struct place { /* struct caml_loc_info */
    int is_valid, is_raise;
    const char *file, *function;
    int line, column;
    /* where the place ends. OCaml 4: [0]: characters from the beginning of the first line. OCaml
     * 5.2 and later: [0]: line; [1]: column in this line; [2]: as [0] in OCaml 4 */
    int end[3];
    int more[16];
};
struct table { /* struct ext_table */
    int size, capacity;
    void **contents;
};

static struct table *primitives;
static int (*add_to_table)(struct table *table, void *entry);
static void (*thread_code)(int32_t *code, uintptr_t bytes);
static void *(*extract_place)(const void *code);
static void (*find_place)(void *debug_info, struct place *ret_place);
static const unsigned char *const *start_code;
static const uintptr_t *code_bytes;
static uintptr_t interpreter_low, interpreter_bytes;
static ag_ocaml_value (*add_debug_info)(void *start, ag_ocaml_value bytes, ag_ocaml_value events);
static ag_ocaml_value (*remove_debug_info)(void *start);

/* ---- names ---- */

/* A hash table with open addressing. Each entry has a word for the key and a word for the answer,
 * which is 0 until the answer is known. Entries are never replaced. If there is no room for a key,
 * the runtime is asked each time. */
enum { CACHE_BITS = 14, CACHE_TRIED = 8, GENERATION_SHIFT = 48 };
static struct {
    _Atomic uint64_t code;   /* generation << 48 | address */
    _Atomic uint64_t answer; /* function << 32 | line */
} cache[1 << CACHE_BITS];
static _Atomic uint64_t generation = 1;

static void forget_all(void) {
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    ag_ocaml_forget_stacks();
}

static ag_ocaml_value hooked_add_debug_info(void *start, ag_ocaml_value bytes,
                                            ag_ocaml_value events) {
    const ag_ocaml_value result = add_debug_info(start, bytes, events);
    forget_all();
    return result;
}

static ag_ocaml_value hooked_remove_debug_info(void *start) {
    const ag_ocaml_value result = remove_debug_info(start);
    forget_all();
    return result;
}

/* Writes "bytecode+0x1f3c"; for an address outside of the program's code "(toplevel code)". */
static void name_by_distance(uintptr_t code, char *ret_text) {
    static const char digits[] = "0123456789abcdef", prefix[] = "bytecode+0x";
    static const char of_toplevel[] = "(toplevel code)";
    const uintptr_t distance = code - (uintptr_t)*start_code;
    if (distance >= *code_bytes) {
        __builtin_memcpy(ret_text, of_toplevel, sizeof(of_toplevel));
        return;
    }
    size_t at = sizeof(prefix) - 1;
    int shift = 60;
    __builtin_memcpy(ret_text, prefix, at);
    while (shift > 0 && (distance >> shift & 15) == 0) {
        shift -= 4;
    }
    for (; shift >= 0; shift -= 4) {
        ret_text[at++] = digits[distance >> shift & 15];
    }
    ret_text[at] = '\0';
}

static uint64_t ask(uintptr_t code) {
    enum { NAME_BYTES = 512 };
    char name[NAME_BYTES];
    struct place place = {0};
    find_place(extract_place((const void *)code), &place);
    const bool is_named = place.is_valid && place.function && place.function[0] != '<' &&
                          ag_ocaml_scoped_name(place.function, name, sizeof(name));
    if (!is_named) {
        name_by_distance(code, name);
    }
    const int end = ag_ocaml.generation == AG_OCAML_4 ? place.end[0] : place.end[2];
    const uint32_t line = place.is_valid && place.line > 0 ? (uint32_t)place.line : 0;
    const bool has_columns = line != 0 && place.column >= 0 && place.column < end;
    const struct allogram_function_options options = {
        .size = sizeof(options),
        .name = name,
        .file = place.is_valid ? place.file : NULL,
        .runtime = "ocaml",
        .line = has_columns ? line : 0,
        .column = has_columns ? (uint32_t)place.column : 0,
        .end_column = has_columns ? (uint32_t)end : 0};
    return (uint64_t)allogram_register_function(&options) << 32 | (has_columns ? 0 : line);
}

static uint64_t answer_for(uintptr_t code) {
    const uint64_t key =
        atomic_load_explicit(&generation, memory_order_relaxed) << GENERATION_SHIFT | code;
    const uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - CACHE_BITS);
    for (size_t i = 0; i < CACHE_TRIED; i++) {
        const size_t at = (hash + i) & ((1 << CACHE_BITS) - 1);
        uint64_t there = atomic_load_explicit(&cache[at].code, memory_order_relaxed);
        if (there == key) {
            /* acquire: pairs with the release of the thread that stored the answer */
            const uint64_t answer = atomic_load_explicit(&cache[at].answer, memory_order_acquire);
            return answer ? answer : ask(code);
        }
        if (there == 0 &&
            atomic_compare_exchange_strong_explicit(&cache[at].code, &there, key,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            const uint64_t answer = ask(code);
            atomic_store_explicit(&cache[at].answer, answer, memory_order_release);
            return answer;
        }
    }
    return ask(code);
}

/* ---- stacks ---- */

bool ag_ocaml_is_interpreter(uintptr_t pc) {
    return pc - 1 - interpreter_low < interpreter_bytes;
}

/* Chooses the native frames to keep: the outermost frame of the interpreter and all frames outside
 * of it. */
static uint32_t choose_outer_natives(void *unused, const struct ag_walk_view *walked) {
    (void)unused;
    uint32_t i = walked->n_frames;
    while (i > 0 && !ag_ocaml_is_interpreter(ag_walk_view_pc(walked, i - 1))) {
        i--;
    }
    return i > 0 ? i - 1 : 0;
}

uint32_t ag_ocaml_bytecode_stack(ag_ocaml_value callstack, const uintptr_t *sp, uintptr_t rbp) {
    struct ag_managed_frame frame = {0};
    uint32_t stack = ag_record_stack_outer(sp, rbp, choose_outer_natives, NULL);
    for (size_t i = ag_ocaml_words(callstack); i > 0; i--) {
        const uint64_t answer =
            answer_for((uintptr_t)ag_ocaml_field(callstack, i - 1) & ~(uintptr_t)1);
        frame.function = (uint32_t)(answer >> 32);
        frame.line = (uint32_t)answer;
        stack = ag_managed_push(stack, &frame, 1);
    }
    return stack;
}

/* ---- the runtime ---- */

static ag_ocaml_value (*callback_many)(ag_ocaml_value closure, int n_arguments,
                                       const ag_ocaml_value *arguments);

static ag_ocaml_value hooked_callback_many(ag_ocaml_value closure, int n_arguments,
                                           const ag_ocaml_value *arguments) {
    ag_ocaml_function *const function = ag_ocaml_memprof_function(closure);
    return function ? function(arguments[0]) : callback_many(closure, n_arguments, arguments);
}

void ag_ocaml_bytecode_follow(void) {
    (void)ag_ocaml_detour("caml_callbackN_exn", ag_kept_call, (void *)hooked_callback_many,
                          (void **)&callback_many);
}

bool ag_ocaml_bytecode_find(void) {
    struct ag_symbol_place interpreter;
    if (!ag_symbol_find("caml_interprete", AG_SYMBOL_FIRST, NULL, &interpreter) &&
        !ag_symbol_find("caml_bytecode_interpreter", AG_SYMBOL_FIRST, NULL, &interpreter)) {
        return false;
    }
    interpreter_low = (uintptr_t)interpreter.address;
    interpreter_bytes = interpreter.bytes;
    primitives = ag_ocaml_find_data("caml_prim_table");
    start_code = ag_ocaml_find_data("caml_start_code");
    code_bytes = ag_ocaml_find_data("caml_code_size");
    add_to_table = (int (*)(struct table *, void *))ag_ocaml_find("caml_ext_table_add");
    thread_code = (void (*)(int32_t *, uintptr_t))ag_ocaml_find("caml_thread_code");
    extract_place = (void *(*)(const void *))ag_ocaml_find("caml_debuginfo_extract");
    find_place = (void (*)(void *, struct place *))ag_ocaml_find("caml_debuginfo_location");
    return primitives && start_code && code_bytes && add_to_table && extract_place && find_place &&
           ag_ocaml_detour("caml_add_debug_info", ag_kept_call, (void *)hooked_add_debug_info,
                           (void **)&add_debug_info) &&
           ag_ocaml_detour("caml_remove_debug_info", ag_kept_call, (void *)hooked_remove_debug_info,
                           (void **)&remove_debug_info);
}

void *ag_ocaml_bytecode_code(size_t index, ag_ocaml_value (*function)(ag_ocaml_value)) {
    static int32_t codes[CLOSURES][CODE_WORDS];
    const int primitive = add_to_table(primitives, (void *)function);
    const int32_t code[CODE_WORDS] = {ACC0, C_CALL1, primitive, RETURN, 1};
    if (primitive < 0 || index >= CLOSURES) {
        return NULL;
    }
    __builtin_memcpy(codes[index], code, sizeof(code));
    if (thread_code) { /* otherwise the runtime interprets the numbers themselves */
        thread_code(codes[index], sizeof(code));
    }
    return codes[index];
}

void ag_ocaml_bytecode_load_debug_info(void) {
    struct place place;
    find_place(extract_place(*start_code), &place);
}
