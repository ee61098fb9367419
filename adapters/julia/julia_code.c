/* julia_code.c: finds the functions of Julia's generated code at the addresses that stacks contain,
 * and defines them in the trace.
 *
 * jl_gdblookup is Julia's interface for debuggers. It prints the functions at an address, innermost
 * first and inlined ones as well, with files and lines, and allocates nothing in Julia's heap. It
 * prints by jl_safe_printf("%s at %s:%d%s\n", function, file, line, inlined). While this thread
 * calls jl_gdblookup, the hook of jl_safe_printf stores the arguments instead of printing them. */
#include "julia_code.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "julia_runtime.h"
#include "record/made_code.h"
#include "record/recorder.h"

enum { PLACES_MOST = 64 };

void *ag_julia_printf_original;
/* Read by julia_entry.S: this thread is calling jl_gdblookup. */
extern __thread uintptr_t ag_julia_asks __attribute__((tls_model("initial-exec"))) AG_HIDDEN;
__thread uintptr_t ag_julia_asks;
void ag_julia_printf_answer(const char *format, ...) AG_HIDDEN;

static struct { /* the result of the current call of jl_gdblookup */
    struct ag_made_place places[PLACES_MOST];
    uint32_t n_places;
    uintptr_t suspended; /* Julia reads debug information into malloc's memory, which must
                          * not be recorded */
} answer;

static void take_place(const struct allogram_function_options *function, uint32_t line) {
    ag_record_resume(answer.suspended); /* the program's events are recorded again while the
                                         * function is defined */
    answer.places[answer.n_places++] =
        (struct ag_made_place){.function = allogram_register_function(function), .line = line};
    answer.suspended = ag_record_suspend();
}

void ag_julia_printf_answer(const char *format, ...) {
    static const char with_line[] = "%s at %s:%d", without_line[] = "%s at %s ";
    const bool has_line = strncmp(format, with_line, strlen(with_line)) == 0;
    if ((!has_line && strncmp(format, without_line, strlen(without_line)) != 0) ||
        answer.n_places == PLACES_MOST) {
        return; /* Julia does not know the function, or there is no room for another place */
    }
    va_list arguments;
    va_start(arguments, format);
    struct allogram_function_options function = {.size = sizeof(function), .runtime = "julia"};
    function.name = va_arg(arguments, const char *);
    function.file = va_arg(arguments, const char *);
    const int line = has_line ? va_arg(arguments, int) : 0;
    va_end(arguments);
    take_place(&function, line > 0 ? (uint32_t)line : 0);
}

static void julia_code_name(uintptr_t pc) {
    answer.n_places = 0;
    answer.suspended = ag_record_suspend();
    ag_julia_asks = 1;
    ag_julia.jl_gdblookup((void *)(pc - 1)); // NOLINT(performance-no-int-to-ptr)
    ag_julia_asks = 0;
    ag_record_resume(answer.suspended);
    if (answer.n_places == 0) { /* code that converts calling conventions has no line */
        static const struct allogram_function_options glue = {
            .size = sizeof(glue), .name = "[generated code]", .runtime = "julia"};
        answer.places[answer.n_places++] =
            (struct ag_made_place){.function = allogram_register_function(&glue)};
    }
    ag_record_code(pc, answer.places, answer.n_places);
}

static _Atomic uint32_t n_named;

void ag_julia_code_name_again(void) {
    atomic_store_explicit(&n_named, 0, memory_order_relaxed);
}

void ag_julia_code_name_new(void) {
    static _Atomic bool is_busy;
    if (!ag_julia_is_recorded() || atomic_exchange_explicit(&is_busy, true, memory_order_acquire)) {
        return; /* nothing is recorded, or another thread is naming the functions */
    }
    uint32_t at = atomic_load_explicit(&n_named, memory_order_relaxed);
    for (; at < ag_made_code_count(); at++) {
        const uintptr_t pc = ag_made_code_pc(at);
        if (pc == 0) {
            break;
        }
        julia_code_name(pc);
    }
    atomic_store_explicit(&n_named, at, memory_order_relaxed);
    atomic_store_explicit(&is_busy, false, memory_order_release);
}
