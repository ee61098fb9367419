/* fibers.c: lets stack walks continue through the effect handlers of OCaml 5, while a callback of
 * the adapter runs.
 *
 * A computation under an effect handler runs on a fiber, a stack of its own. A field of the fiber's
 * handler has the parent, the fiber that started it. While C calls OCaml back, the runtime clears
 * that field, so that no effect passes the C frames, and keeps the parent in a block of three
 * words, including the header (runtime/callback.c, alloc_and_clear_stack_parent). The unwind tables
 * lead from a fiber to its parent by the same field, so a walk from one of the adapter's callbacks
 * would end there.
 *
 * So the function through which Memprof (the runtime's sampler) calls the callbacks has a detour.
 * It notes the parent and counts the block as the adapter's own. During the walk the field has its
 * value again. No other code reads it then: this domain (the unit of parallelism) runs no OCaml
 * code and joins no collection before the callback returns. */
#include "fibers.h"

#include "collector_hooks.h"
#include "runtime_counters.h"

enum { BLOCK_WORDS = 3, HANDLER = 16, PARENT = 24 }; /* struct stack_info, stack_handler of 5.3 */

/* The original of caml_callback_exn. Its caller caml_callback_res has no detour: that function is
 * so short that its call instruction would move to code without an unwind table. In bytecode the
 * adapter's closures are called without these two functions (bytecode.c), and no parent is
 * hidden. */
static ag_ocaml_value (*callback)(ag_ocaml_value closure, ag_ocaml_value argument);
static uintptr_t closures_low, closures_bytes;
static _Atomic uint64_t own_words;
static __thread uintptr_t hidden
    __attribute__((tls_model("initial-exec"))); /* the noted parent; 0: none */

/* The parent field of the fiber that this thread is on; NULL: the layout is unknown. */
static uintptr_t *parent_place(void) {
    const uintptr_t stack = ag_ocaml_counters_current_stack();
    const uintptr_t handler = stack ? *(const uintptr_t *)(stack + HANDLER) : 0;
    return handler ? (uintptr_t *)(handler + PARENT) : NULL;
}

/* Notes the parent of the current fiber; returns the parent that was noted before. */
static uintptr_t begin_callback(void) {
    const uintptr_t outer = hidden;
    const uintptr_t *place = parent_place();
    hidden = place ? *place : 0;
    if (hidden) {
        atomic_fetch_add_explicit(&own_words, BLOCK_WORDS, memory_order_relaxed);
    }
    return outer;
}

static bool is_ours(ag_ocaml_value closure) {
    return (uintptr_t)closure - closures_low < closures_bytes;
}

/* Called from callback.S. */
extern const unsigned char ag_ocaml_callback_enter[] AG_HIDDEN;
bool ag_ocaml_callback_begins(struct ag_kept_call *call);
void ag_ocaml_callback_ends(const struct ag_kept_call *call);

/* Returns whether the callback is the adapter's. If so, call->datum keeps the parent that was noted
 * before, for ag_ocaml_callback_ends. */
bool ag_ocaml_callback_begins(struct ag_kept_call *call) {
    call->original = (uintptr_t)callback;
    if (!is_ours((ag_ocaml_value)call->arguments[0])) {
        return false;
    }
    call->datum = begin_callback();
    return true;
}

void ag_ocaml_callback_ends(const struct ag_kept_call *call) {
    hidden = call->datum;
}

uintptr_t *ag_ocaml_fibers_enter(void) {
    uintptr_t *place = hidden ? parent_place() : NULL;
    if (!place || *place != 0) {
        return NULL;
    }
    *place = hidden;
    return place;
}

void ag_ocaml_fibers_leave(uintptr_t *place) {
    if (place) {
        *place = 0;
    }
}

uint64_t ag_ocaml_fibers_own_words(void) {
    return atomic_load_explicit(&own_words, memory_order_relaxed);
}

void ag_ocaml_fibers_follow(uintptr_t closures, uintptr_t end) {
    closures_low = closures;
    closures_bytes = end - closures;
    (void)ag_ocaml_detour("caml_callback_exn", ag_ocaml_callback_enter, NULL, (void **)&callback);
}
