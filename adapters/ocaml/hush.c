/* hush.c: see hush.h.
 *
 * Each entry is one function of the runtime, called with at most four words and giving back two at
 * most; the one here that stands in its place passes all of them on. None of them is left by an
 * exception, since our callbacks raise none; where the program has a Memprof of its own, ours is
 * over, and nothing is hushed. */
#include "hush.h"

#include "collector_hooks.h"
#include "memprof.h"

static __thread uintptr_t hushed
    __attribute__((tls_model("initial-exec"))); /* to be resumed with */

uintptr_t ag_ocaml_speak(void) {
    const uintptr_t spoke = hushed;
    hushed = 0;
    ag_record_resume(spoke); /* 0: nothing was suspended */
    return spoke;
}

void ag_ocaml_hush(uintptr_t spoke) {
    if (spoke) {
        hushed = ag_record_suspend();
    }
}

/* Two words, for caml_result of OCaml 5; who gives back one leaves the other as it is. */
struct result {
    uintptr_t first, second;
};
typedef struct result entry_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t);

#define AG_HUSHED(name)                                                                      \
    static entry_fn *name;                                                                   \
    static struct result hushed_##name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d) { \
        if (!ag_ocaml_memprof_is_ours()) {                                                   \
            return name(a, b, c, d);                                                         \
        }                                                                                    \
        const uintptr_t suspended = hushed ? 0 : ag_record_suspend();                        \
        hushed = suspended ? suspended : hushed;                                             \
        const struct result result = name(a, b, c, d);                                       \
        if (suspended) {                                                                     \
            (void)ag_ocaml_speak();                                                          \
        }                                                                                    \
        return result;                                                                       \
    }
#include "memprof_entries.def"
#undef AG_HUSHED

void ag_ocaml_hush_follow(void) {
#define AG_HUSHED(name) \
    (void)ag_ocaml_detour("caml_memprof_" #name, (void *)hushed_##name, (void **)&name);
#include "memprof_entries.def"
#undef AG_HUSHED
}
