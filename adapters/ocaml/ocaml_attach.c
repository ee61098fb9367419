/* ocaml_attach.c: is an OCaml runtime in this process, which one, and where its adapter steps in.
 *
 * ocamlopt exports all symbols of a program, so a stripped one has them too. Which Memprof it has
 * is told by the names of the functions that only that one has: 4.11 to 4.14, or 5.3 and later.
 *
 * The moment: caml_sys_init is called when the runtime stands and before the first line of the
 * program, its libraries included. A detour there starts Memprof. Another one on Memprof's own
 * start and stop leaves a program that uses them itself alone: ours ends before its own begins. */
#include "bytecode.h"
#include "collector_hooks.h"
#include "embed/adapter.h"
#include "fibers.h"
#include "heap_memory.h"
#include "hook/detour.h"
#include "hook/next_symbol.h"
#include "memprof.h"
#include "runtime_counters.h"

void *ag_ocaml_c_call;

static void (*sys_init)(char *program, char **arguments);
static ag_ocaml_value (*memprof_start)(ag_ocaml_value, ag_ocaml_value, ag_ocaml_value);
static ag_ocaml_value (*memprof_stop)(ag_ocaml_value);
static struct ag_ocaml_counters at_start;
static bool has_start; /* of the counters */

void *ag_ocaml_find(const char *name) {
    struct ag_symbol_place place;
    return ag_symbol_find(name, AG_SYMBOL_FIRST, NULL, &place) ? place.address : NULL;
}

void *ag_ocaml_find_data(const char *name) {
    struct ag_symbol_place place;
    const bool is_found = ag_symbol_find(name, AG_SYMBOL_FIRST_DATA, NULL, &place) ||
                          ag_symbol_find(name, AG_SYMBOL_FIRST, NULL, &place); /* an assembler's */
    return is_found ? place.address : NULL;
}

/* ---- where the adapter steps in ---- */

static void sys_init_and_begin(char *program, char **arguments) {
    sys_init(program, arguments);
    if (ag_ocaml.is_bytecode) {
        const uintptr_t suspended = ag_record_suspend();
        ag_ocaml_bytecode_load_debug_info();
        ag_record_resume(suspended);
    }
    const bool is_calibrated = ag_ocaml_counters_calibrate();
    ag_ocaml_memprof_begin();
    /* From here on: in 5.3 what Memprof needs for itself is a block of OCaml's. */
    has_start = is_calibrated && ag_ocaml_counters_read(&at_start);
}

static void leave_to_the_program(void) {
    if (ag_ocaml_memprof_is_ours()) {
        ag_ocaml_memprof_end();
    }
}

static ag_ocaml_value program_starts(ag_ocaml_value lambda, ag_ocaml_value depth,
                                     ag_ocaml_value trackers) {
    leave_to_the_program();
    return memprof_start(lambda, depth, trackers);
}

static ag_ocaml_value program_stops(ag_ocaml_value unit) {
    leave_to_the_program();
    return memprof_stop(unit);
}

bool ag_ocaml_detour(const char *name, void *replacement, void **ret_original) {
    static struct ag_detour detours[32];
    static size_t n_detours;
    void *target = ag_ocaml_find(name);
    return target && n_detours < AG_ARRAY_SIZE(detours) &&
           ag_detour_install(&detours[n_detours++], target, 0, replacement, ret_original) == 0;
}

/* ---- which runtime ---- */

/* The modules' code: pairs of first and last address, 0 at the end. The runtime's stubs are one of
 * them in OCaml 5, with C code between them and the modules. */
static void find_segments(void) {
    const uintptr_t(*segments)[2] = ag_ocaml_find_data("caml_code_segments");
    ag_ocaml.code_low = UINTPTR_MAX;
    for (; segments && (*segments)[0] != 0; segments++) {
        const uintptr_t low = (*segments)[0], high = (*segments)[1];
        if (low <= ag_ocaml.stubs_low && ag_ocaml.stubs_low < high) {
            continue;
        }
        ag_ocaml.code_low = low < ag_ocaml.code_low ? low : ag_ocaml.code_low;
        ag_ocaml.code_high = high > ag_ocaml.code_high ? high : ag_ocaml.code_high;
    }
    if (ag_ocaml.code_low > ag_ocaml.code_high) {
        ag_ocaml.code_low = ag_ocaml.code_high = 0;
    }
}

/* What only releases have that nobody has tried: those of the branch trunk, 5.4.0+dev0, that are
 * not in the branch 5.3 (runtime/domain.c, gc_stats.c), and a primitive that is new in 5.4. */
static bool is_later_release(void) {
    static const char *const of_later[] = {"caml_free_domains", "caml_free_gc_stats",
                                           "caml_stop_all_domains", "caml_atomic_load_field"};
    for (size_t i = 0; i < AG_ARRAY_SIZE(of_later); i++) {
        if (ag_ocaml_find(of_later[i])) {
            return true;
        }
    }
    return false;
}

/* NULL: it can be followed. */
static const char *find_release(const char **ret_version) {
    const bool is_4 = ag_ocaml_find("caml_memprof_track_young") != NULL;
    const bool is_5 = ag_ocaml_find("caml_memprof_sample_young") != NULL;
    ag_ocaml.generation = is_5 ? AG_OCAML_5 : AG_OCAML_4;
    if (!is_4 && !is_5) {
        return "its runtime has no Memprof (4.10 and older, 5.0 to 5.2)";
    }
    if (is_5 && is_later_release()) {
        *ret_version = "5.4 or later";
        return "5.4 and later are not known yet";
    }
    *ret_version = is_5 ? "5.3" : "4.11 to 4.14";
    return NULL;
}

static bool find_code(void) {
    ag_ocaml_c_call = ag_ocaml_find("caml_c_call");
    ag_ocaml.is_bytecode = !ag_ocaml_c_call;
    if (ag_ocaml.is_bytecode) {
        return ag_ocaml_bytecode_find();
    }
    ag_ocaml.stubs_low = (uintptr_t)ag_ocaml_find("caml_system__code_begin");
    ag_ocaml.stubs_high = (uintptr_t)ag_ocaml_find("caml_system__code_end");
    find_segments();
    return true;
}

static enum ag_adapter_answer attach(struct ag_runtime_definition *ret_runtime) {
    if (!ag_ocaml_find("caml_sys_init")) {
        return AG_ADAPTER_ABSENT;
    }
    const char *why_not = find_release(&ret_runtime->version);
    if (why_not) {
        ret_runtime->note = why_not;
        return AG_ADAPTER_REFUSED;
    }
    if (!find_code() ||
        !ag_ocaml_detour("caml_memprof_start", (void *)program_starts, (void **)&memprof_start) ||
        !ag_ocaml_detour("caml_memprof_stop", (void *)program_stops, (void **)&memprof_stop) ||
        !ag_ocaml_detour("caml_sys_init", (void *)sys_init_and_begin, (void **)&sys_init)) {
        ret_runtime->note = "its runtime cannot be called";
        return AG_ADAPTER_REFUSED;
    }
    ag_ocaml_counters_prepare();
    ag_ocaml_memprof_prepare();
    ag_ocaml.memprof_start = memprof_start;
    ag_ocaml.memprof_stop = memprof_stop;
    if (ag_ocaml.generation == AG_OCAML_5) { /* it frees them where nothing tells who does */
        ret_runtime->note = "blocks over 128 words count twice: OCaml's, and malloc's below them";
    }
    return AG_ADAPTER_ACTS;
}

/* Coverage, in bytes with headers: of what the runtime counted since the start, without what
 * Memprof allocated to call us. */
static void end(struct ag_runtime_definition *ret_runtime) {
    struct ag_ocaml_counters now;
    ag_ocaml_memory_tell();
    if (!ag_ocaml_memprof_is_ours() && ag_ocaml_told.words > 0) {
        ret_runtime->note =
            "the program has begun a Gc.Memprof of its own, and was left alone from then on";
        return;
    }
    if (!ag_recorder_is_sampling() && has_start && ag_ocaml_counters_read(&now)) {
        ret_runtime->told = 8 * atomic_load_explicit(&ag_ocaml_told.words, memory_order_relaxed);
        ret_runtime->counted =
            8 * (now.allocated_words - at_start.allocated_words -
                 atomic_load_explicit(&ag_ocaml_told.own_words, memory_order_relaxed) -
                 ag_ocaml_fibers_own_words());
    }
}

const struct ag_adapter ag_adapter_ocaml AG_HIDDEN = {.attach = attach, .end = end};
