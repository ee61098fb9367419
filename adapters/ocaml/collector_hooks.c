/* collector_hooks.c: the runtime's own hooks, called at the beginning and end of each minor
 * collection and each slice of a major one, by the thread that runs it. They are variables of the
 * runtime; a program that puts its own functions there takes ours out. */
#include "collector_hooks.h"

#include "hush.h"
#include "runtime_counters.h"

static allogram_heap minor_heap, major_heap;
/* A collection that Memprof caused allocates for itself. */
static __thread uintptr_t spoke __attribute__((tls_model("initial-exec")));

static uint64_t in_use_bytes(const struct ag_ocaml_counters *counters) {
    return counters->heap_words > counters->free_words
               ? (counters->heap_words - counters->free_words) * 8
               : 0;
}

/* The last call is a jump, so that the stack begins at who called the hook. */
static void minor_begins(void) {
    struct ag_ocaml_counters counters = {0};
    spoke = ag_ocaml_speak();
    (void)ag_ocaml_counters_read(&counters); /* 0: not known */
    allogram_gc_begin(minor_heap, 0, counters.minor_used_words * 8);
}

static void minor_ends(void) {
    struct ag_ocaml_counters counters = {0};
    (void)ag_ocaml_counters_read(&counters);
    allogram_gc_end(minor_heap, "minor", counters.minor_used_words * 8);
    ag_ocaml_hush(spoke);
}

static void slice_begins(void) {
    struct ag_ocaml_counters counters = {0};
    spoke = ag_ocaml_speak();
    (void)ag_ocaml_counters_read(&counters);
    allogram_gc_begin(major_heap, 0, in_use_bytes(&counters));
}

static void slice_ends(void) {
    struct ag_ocaml_counters counters = {0};
    (void)ag_ocaml_counters_read(&counters);
    allogram_gc_end(major_heap, "major slice", in_use_bytes(&counters));
    ag_ocaml_hush(spoke);
}

/* What finishes a whole cycle at once has no hooks: Gc.full_major, Gc.compact, Gc.major. */
static void (*finish_cycle)(void);
static void (*compact)(intptr_t new_policy);

static void told_finish_cycle(void) {
    slice_begins();
    finish_cycle();
    struct ag_ocaml_counters counters = {0};
    (void)ag_ocaml_counters_read(&counters);
    allogram_gc_end(major_heap, "major", in_use_bytes(&counters));
    ag_ocaml_hush(spoke);
}

static void told_compact(intptr_t new_policy) {
    slice_begins();
    compact(new_policy);
    struct ag_ocaml_counters counters = {0};
    (void)ag_ocaml_counters_read(&counters);
    allogram_gc_end(major_heap, "compaction", in_use_bytes(&counters));
    ag_ocaml_hush(spoke);
}

void ag_ocaml_collections_follow(allogram_heap minor, allogram_heap major) {
    static const struct {
        const char *name;
        void (*function)(void);
    } hooks[] = {{"caml_minor_gc_begin_hook", minor_begins},
                 {"caml_minor_gc_end_hook", minor_ends},
                 {"caml_major_slice_begin_hook", slice_begins},
                 {"caml_major_slice_end_hook", slice_ends}};
    minor_heap = minor;
    major_heap = major;
    if (ag_ocaml.generation == AG_OCAML_4) {
        (void)ag_ocaml_detour("caml_finish_major_cycle", (void *)told_finish_cycle,
                              (void **)&finish_cycle);
        (void)ag_ocaml_detour("caml_compact_heap", (void *)told_compact, (void **)&compact);
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(hooks); i++) {
        void (**hook)(void) = ag_ocaml_find_data(hooks[i].name);
        if (hook && !*hook) {
            *hook = hooks[i].function;
        }
    }
}
