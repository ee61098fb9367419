/* suppress.c: suspends recording while Memprof, the OCaml runtime's sampler, works for the adapter
 * (allogram's code for OCaml), because memory that Memprof allocates does not belong to the
 * program.
 *
 * memprof_entries.def lists the functions through which the runtime enters Memprof. Each of them
 * takes at most four words and returns at most two; its replacement here passes all arguments and
 * results on. No exception leaves these functions, because the adapter's callbacks raise none.
 * While the program uses Memprof itself, Memprof does not work for the adapter, and nothing is
 * suppressed.
 *
 * Recording is resumed for memory that the program keeps: in collections (collector_hooks.c), and
 * when a stack grows while the adapter's callback runs on it. */
#include "suppress.h"

#include "collector_hooks.h"
#include "memprof.h"

static __thread uintptr_t suppressed
    __attribute__((tls_model("initial-exec"))); /* argument of ag_record_resume; 0: none */
static __thread uint32_t depth
    __attribute__((tls_model("initial-exec"))); /* nested calls of hooked functions */
static bool is_whole = true; /* every function of memprof_entries.def that exists is hooked */

bool ag_ocaml_is_in_memprof(void) {
    return depth > 0;
}

bool ag_ocaml_suppress_is_whole(void) {
    return is_whole;
}

uintptr_t ag_ocaml_resume(void) {
    const uintptr_t resumed = suppressed;
    suppressed = 0;
    ag_record_resume(resumed); /* 0: nothing was suspended */
    return resumed;
}

void ag_ocaml_suppress(uintptr_t resumed) {
    if (resumed) {
        suppressed = ag_record_suspend();
    }
}

/* Two words, for caml_result of OCaml 5. If a function returns only one word, `second` has no
 * meaning, and is passed on unchanged. */
struct result {
    uintptr_t first, second;
};
typedef struct result entry_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t);

#define AG_SUPPRESSED(name, call)                                                                \
    static entry_fn *name;                                                                       \
    static struct result suppressed_##name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) { \
        if (!ag_ocaml_memprof_is_ours()) {                                                       \
            return name(a, b, c, d);                                                             \
        }                                                                                        \
        const uintptr_t suspended = suppressed ? 0 : ag_record_suspend();                        \
        suppressed = suspended ? suspended : suppressed;                                         \
        depth++;                                                                                 \
        const struct result result = name(a, b, c, d);                                           \
        depth--;                                                                                 \
        if (suspended) {                                                                         \
            (void)ag_ocaml_resume();                                                             \
        }                                                                                        \
        return result;                                                                           \
    }
#include "memprof_entries.def"
#undef AG_SUPPRESSED

/* These functions enlarge the stacks of OCaml 4's interpreter and of OCaml 5's fibers. Recording is
 * resumed while they run. Calls may nest, because one of these functions calls another. */
#define AG_RESUMED(name)                               \
    static uintptr_t (*name)(uintptr_t words);         \
    static uintptr_t resumed_##name(uintptr_t words) { \
        const uintptr_t resumed = ag_ocaml_resume();   \
        const uintptr_t result = name(words);          \
        ag_ocaml_suppress(resumed);                    \
        return result;                                 \
    }
AG_RESUMED(realloc_stack)
AG_RESUMED(try_realloc_stack)
AG_RESUMED(maybe_expand_stack)
#undef AG_RESUMED

void ag_ocaml_suppress_follow(void) {
    (void)ag_ocaml_detour("caml_realloc_stack", ag_kept_call, (void *)resumed_realloc_stack,
                          (void **)&realloc_stack);
    (void)ag_ocaml_detour("caml_try_realloc_stack", ag_kept_call, (void *)resumed_try_realloc_stack,
                          (void **)&try_realloc_stack);
    (void)ag_ocaml_detour("caml_maybe_expand_stack", ag_kept_call,
                          (void *)resumed_maybe_expand_stack, (void **)&maybe_expand_stack);
#define AG_SUPPRESSED(name, call)                \
    is_whole &=                                  \
        !ag_ocaml_find("caml_memprof_" #name) || \
        ag_ocaml_detour("caml_memprof_" #name, call, (void *)suppressed_##name, (void **)&name);
#include "memprof_entries.def"
#undef AG_SUPPRESSED
}
