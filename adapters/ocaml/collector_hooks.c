/* collector_hooks.c: records OCaml's collections, by the runtime's own hooks. The runtime calls the
 * hooks at the beginning and the end of each minor collection and of each slice of a major
 * collection, in the thread that collects. The hooks are variables of the runtime: a program that
 * stores its own functions there replaces the adapter's. Whole cycles of a major collection are
 * recorded by detours of the runtime's functions. */
#include "collector_hooks.h"

#include <stdatomic.h>

#include "embed/host_events.h"
#include "runtime_counters.h"
#include "suppress.h"

static allogram_heap minor_heap, major_heap;
static void (*at_minor_end)(void); /* NULL, except after an attach to a running program */
static _Atomic bool is_in_minor, is_in_slice;
/* Recording is suspended while Memprof, the runtime's sampler, works. A collection may begin
 * meanwhile, and allocates memory that the program keeps. So recording is resumed during the
 * collection. */
static __thread uintptr_t resumed_in_minor __attribute__((tls_model("initial-exec")));
static __thread uint64_t promoted_before_words __attribute__((tls_model("initial-exec")));
static __thread uintptr_t resumed_in_slice __attribute__((tls_model("initial-exec")));

static uint64_t in_use_bytes(const struct ag_ocaml_counters *counters) {
    return counters->heap_words > counters->free_words
               ? (counters->heap_words - counters->free_words) * 8
               : 0;
}

/* Ends with a tail call, so that the recorded stack begins at the caller of the hook. */
static void minor_begins(void) {
    struct ag_ocaml_counters counters = {0};
    atomic_store_explicit(&is_in_minor, true, memory_order_relaxed);
    resumed_in_minor = ag_ocaml_resume();
    (void)ag_ocaml_counters_read(&counters); /* 0: unknown */
    promoted_before_words = counters.promoted_words;
    allogram_gc_begin(minor_heap, 0, counters.minor_used_words * 8);
}

static void minor_ends(void) {
    struct ag_ocaml_counters counters = {0};
    atomic_store_explicit(&is_in_minor, false, memory_order_relaxed);
    if (AG_UNLIKELY(at_minor_end != NULL)) {
        at_minor_end();
    }
    const bool is_known = ag_ocaml_counters_read(&counters);
    const uint64_t promoted_bytes = (counters.promoted_words - promoted_before_words) * 8;
    if (allogram_mode_ & ALLOGRAM_TELLS_) {
        ag_host_gc_end(minor_heap, "minor", counters.minor_used_words * 8,
                       is_known ? &promoted_bytes : NULL);
    }
    ag_ocaml_suppress(resumed_in_minor);
}

static void slice_begins(void) {
    struct ag_ocaml_counters counters = {0};
    atomic_store_explicit(&is_in_slice, true, memory_order_relaxed);
    resumed_in_slice = ag_ocaml_resume();
    (void)ag_ocaml_counters_read(&counters);
    allogram_gc_begin(major_heap, 0, in_use_bytes(&counters));
}

static void slice_ends(void) {
    struct ag_ocaml_counters counters = {0};
    atomic_store_explicit(&is_in_slice, false, memory_order_relaxed);
    (void)ag_ocaml_counters_read(&counters);
    allogram_gc_end(major_heap, "major slice", in_use_bytes(&counters));
    ag_ocaml_suppress(resumed_in_slice);
}

/* The runtime has no hooks for functions that finish a whole cycle: Gc.full_major, Gc.compact,
 * Gc.major. So the runtime's functions that these call have detours. The minor collections and
 * slices inside of a whole cycle are recorded as well. */
struct cycle {
    struct ag_host_collection collection;
    uintptr_t resumed;
};

static struct cycle cycle_begins(const uintptr_t *sp, uintptr_t rbp) {
    struct ag_ocaml_counters counters = {0};
    struct cycle cycle = {.resumed = ag_ocaml_resume()};
    (void)ag_ocaml_counters_read(&counters);
    if (allogram_mode_ & ALLOGRAM_TELLS_) {
        ag_host_get_ready();
        cycle.collection.stack = ag_record_stack(sp, rbp);
        cycle.collection.start_raw = ag_host_elapsed_raw();
        cycle.collection.heap_before_bytes = in_use_bytes(&counters);
    }
    return cycle;
}

static void cycle_ends(struct cycle *cycle, const char *kind) {
    struct ag_ocaml_counters counters = {0};
    (void)ag_ocaml_counters_read(&counters);
    if (cycle->collection.stack != 0 && allogram_mode_ & ALLOGRAM_TELLS_) {
        cycle->collection.end_raw = ag_host_elapsed_raw();
        cycle->collection.heap_after_bytes = in_use_bytes(&counters);
        ag_host_report_collection(major_heap, &cycle->collection, kind);
    }
    ag_ocaml_suppress(cycle->resumed);
}

static void (*finish_cycle_4)(void);
static void (*finish_cycle_5)(int is_compaction);
static void (*compact)(intptr_t new_policy);

static void hooked_finish_cycle_4(void) {
    struct cycle cycle = cycle_begins(AG_KEPT_CALLER_SP(), AG_KEPT_CALLER_RBP());
    finish_cycle_4();
    cycle_ends(&cycle, "major");
}

static void hooked_finish_cycle_5(int is_compaction) {
    struct cycle cycle = cycle_begins(AG_KEPT_CALLER_SP(), AG_KEPT_CALLER_RBP());
    finish_cycle_5(is_compaction);
    cycle_ends(&cycle, is_compaction ? "compaction" : "major");
}

static void hooked_compact(intptr_t new_policy) {
    struct cycle cycle = cycle_begins(AG_KEPT_CALLER_SP(), AG_KEPT_CALLER_RBP());
    compact(new_policy);
    cycle_ends(&cycle, "compaction");
}

static const struct {
    const char *name;
    void (*function)(void);
} hooks[] = {{"caml_minor_gc_begin_hook", minor_begins},
             {"caml_minor_gc_end_hook", minor_ends},
             {"caml_major_slice_begin_hook", slice_begins},
             {"caml_major_slice_end_hook", slice_ends}};

bool ag_ocaml_hooks_are_free(void) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(hooks); i++) {
        void (**hook)(void) = ag_ocaml_find_data(hooks[i].name);
        if (!hook || *hook) {
            return false;
        }
    }
    return true;
}

void ag_ocaml_hooks_take_back(void) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(hooks); i++) {
        void (**hook)(void) = ag_ocaml_find_data(hooks[i].name);
        if (hook && *hook == hooks[i].function) {
            *hook = NULL;
        }
    }
}

bool ag_ocaml_is_collecting(void) {
    return atomic_load_explicit(&is_in_minor, memory_order_relaxed) ||
           atomic_load_explicit(&is_in_slice, memory_order_relaxed);
}

void ag_ocaml_follow_minor_ends(void (*function)(void)) {
    at_minor_end = function;
}

void ag_ocaml_collections_follow(allogram_heap minor, allogram_heap major) {
    minor_heap = minor;
    major_heap = major;
    if (ag_ocaml.generation == AG_OCAML_4) {
        (void)ag_ocaml_detour("caml_finish_major_cycle", ag_kept_call_void,
                              (void *)hooked_finish_cycle_4, (void **)&finish_cycle_4);
        (void)ag_ocaml_detour("caml_compact_heap", ag_kept_call_void, (void *)hooked_compact,
                              (void **)&compact);
    } else {
        (void)ag_ocaml_detour("caml_finish_major_cycle", ag_kept_call_void,
                              (void *)hooked_finish_cycle_5, (void **)&finish_cycle_5);
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(hooks); i++) {
        void (**hook)(void) = ag_ocaml_find_data(hooks[i].name);
        if (hook && !*hook) {
            *hook = hooks[i].function;
        }
    }
}
