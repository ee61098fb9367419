/* ocaml_attach.c: finds out whether an OCaml runtime is in this process, and which one, and
 * installs the adapter.
 *
 * ocamlopt exports all symbols of a program, so a stripped program has them too. The adapter
 * recognizes the kind of Memprof, OCaml's own sampler of allocations (4.11 to 4.14, or 5.3 and
 * later), by functions that only that kind has.
 *
 * Every block of a native program of 4.13, 4.14 and 5.3 is recorded where the runtime allocates it
 * (allocation_path.c). Memprof is used for sampled recordings, and for all other programs.
 *
 * At the start of a program, the runtime calls caml_sys_init when it is initialized and before any
 * OCaml code runs. A detour of that function starts the recording. Detours of Memprof's own start
 * and stop functions leave a program that uses Memprof itself undisturbed: the adapter ends its own
 * recording before the program's Memprof begins.
 *
 * In a running program, the recording is started at the end of a minor collection, for which the
 * runtime has a hook: the minor heap is empty then, and the runtime is in no function that the
 * start would disturb. The recording is ended at the end of a minor collection too, or, in a
 * program that does not allocate any more, while all threads are stopped. This works for OCaml 4,
 * whose Memprof keeps no reference to the trackers after its end. Memprof of OCaml 5 refers to the
 * trackers until the collector notices that Memprof has ended. */
#include <errno.h>

#include "allocation_path.h"
#include "bytecode.h"
#include "collector_hooks.h"
#include "custom_memory.h"
#include "embed/adapter.h"
#include "fibers.h"
#include "heap_memory.h"
#include "hook/detour.h"
#include "hook/next_symbol.h"
#include "memprof.h"
#include "ocaml_heaps.h"
#include "runtime_counters.h"
#include "suppress.h"

void *ag_ocaml_c_call;

static void (*sys_init)(char *program, char **arguments);
static ag_ocaml_value (*memprof_start)(ag_ocaml_value, ag_ocaml_value, ag_ocaml_value);
static ag_ocaml_value (*memprof_stop)(ag_ocaml_value);
static struct ag_ocaml_counters at_start;
static bool has_start;          /* at_start is filled */
static const char *why_refused; /* why recording could not begin; NULL: it could */

void *ag_ocaml_find(const char *name) {
    struct ag_symbol_place place;
    return ag_symbol_find(name, AG_SYMBOL_FIRST, NULL, &place) ? place.address : NULL;
}

/* The second search finds data that assembly code defines, because symbols of such data have no
 * type. */
void *ag_ocaml_find_data(const char *name) {
    struct ag_symbol_place place;
    const bool is_found = ag_symbol_find(name, AG_SYMBOL_FIRST_DATA, NULL, &place) ||
                          ag_symbol_find(name, AG_SYMBOL_FIRST, NULL, &place);
    return is_found ? place.address : NULL;
}

/* ---- installing the adapter ---- */

static const char differs[] = "its runtime differs from that of the official releases";
static const char has_its_own[] = "the program runs a Gc.Memprof of its own";

static bool records_blocks(void) {
    return ag_ocaml.is_observed ? ag_ocaml_path_is_on() : ag_ocaml_memprof_is_ours();
}

static const char *find_release(const char **ret_version);

/* Records in the trace that the runtime is not recorded, and why. */
static void refuse(const char *note) {
    struct ag_runtime_definition refused = {.name = "ocaml", .version = "", .note = note};
    (void)find_release(&refused.version);
    ag_record_runtime(&refused);
}

static bool begin_recording(void) {
    if (!ag_ocaml.is_observed) {
        ag_ocaml_memprof_begin();
        return true;
    }
    return ag_ocaml_path_begin();
}

static void sys_init_and_begin(char *program, char **arguments) {
    sys_init(program, arguments);
    const bool is_calibrated = ag_ocaml_counters_calibrate();
    if (ag_ocaml.is_bytecode) {
        /* A collection may begin meanwhile. Its memory is recorded (collector_hooks.c). */
        ag_ocaml_suppress(/* resumed= */ 1);
        ag_ocaml_bytecode_load_debug_info();
        (void)ag_ocaml_resume();
    }
    if (!begin_recording()) {
        why_refused = differs;
        refuse(differs);
        return;
    }
    /* Read after the start: in 5.3 the memory that Memprof needs for itself is a block of OCaml. */
    has_start = is_calibrated && ag_ocaml_counters_read(&at_start);
}

static void leave_to_the_program(void) {
    if (ag_ocaml.is_observed) {
        ag_ocaml_path_end();
    } else if (ag_ocaml_memprof_is_ours()) {
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

bool ag_ocaml_detour(const char *name, const unsigned char *call, void *replacement,
                     void **ret_original) {
    static struct ag_detour detours[48];
    static size_t n_detours;
    void *target = ag_ocaml_find(name);
    return target && n_detours < AG_ARRAY_SIZE(detours) &&
           ag_detour_install_kept(&detours[n_detours++], target, 0, call, (uintptr_t)replacement,
                                  ret_original) == 0;
}

/* ---- finding the runtime ---- */

/* Finds the modules' code in caml_code_segments: pairs of first and last address, 0 at the end. In
 * OCaml 5 the runtime's stubs are one of the pairs; it is skipped, because C code lies between the
 * stubs and the modules. */
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

/* Whether the release is later than 5.3, and so untested. The symbols are in the branch trunk,
 * 5.4.0+dev0, and not in the branch 5.3 (runtime/domain.c, gc_stats.c); the last one is a primitive
 * that is new in 5.4. */
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

/* Returns NULL if the release is supported, else the reason. */
static const char *find_release(const char **ret_version) {
    const bool is_4 = ag_ocaml_find("caml_memprof_track_young") != NULL;
    const bool is_5 = ag_ocaml_find("caml_memprof_sample_young") != NULL;
    ag_ocaml.generation = is_5 ? AG_OCAML_5 : AG_OCAML_4;
    if (!is_4 && !is_5) {
        return "its runtime has no Memprof (4.10 and older, 5.0 to 5.2)";
    }
    if (is_5 && is_later_release()) {
        *ret_version = "5.4 or later";
        return "OCaml 5.4 and later are not supported";
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

static const char cannot_be_called[] = "functions of its runtime cannot be found or hooked";

static bool follow_memprof(void) {
    return find_code() &&
           ag_ocaml_detour("caml_memprof_start", ag_kept_call, (void *)program_starts,
                           (void **)&memprof_start) &&
           ag_ocaml_detour("caml_memprof_stop", ag_kept_call, (void *)program_stops,
                           (void **)&memprof_stop);
}

/* Installs all other detours. */
static bool prepare(void) {
    ag_ocaml_counters_prepare(); /* finds the domain's state */
    ag_ocaml.is_observed = !ag_recorder_is_sampling() && ag_ocaml_path_is_known();
    ag_ocaml_heaps_register();
    ag_ocaml_custom_memory_follow();
    ag_ocaml_collections_follow(ag_ocaml_heaps[AG_OCAML_MINOR], ag_ocaml_heaps[AG_OCAML_MAJOR]);
    ag_ocaml_memory_follow(ag_ocaml_heaps[AG_OCAML_MINOR], ag_ocaml_heaps[AG_OCAML_MAJOR]);
    ag_ocaml.memprof_start = memprof_start;
    ag_ocaml.memprof_stop = memprof_stop;
    if (ag_ocaml.is_observed) {
        return ag_ocaml_path_follow();
    }
    ag_ocaml_memprof_prepare();
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
    if (!follow_memprof() || !ag_ocaml_detour("caml_sys_init", ag_kept_call_void,
                                              (void *)sys_init_and_begin, (void **)&sys_init)) {
        ret_runtime->note = cannot_be_called;
        return AG_ADAPTER_REFUSED;
    }
    if (!prepare()) {
        ret_runtime->note = cannot_be_called;
        return AG_ADAPTER_REFUSED;
    }
    if (ag_ocaml.generation == AG_OCAML_5 && !ag_ocaml_large_blocks_follow()) {
        ret_runtime->note =
            "blocks of more than 128 words are recorded twice, as blocks of OCaml and of malloc";
    }
    return AG_ADAPTER_ACTS;
}

/* ---- in a program that is running ---- */

static enum {
    NOT_LATE,
    WAITS,
    RUNS,
    IS_OVER,
    IS_REFUSED
} late_state; /* protected by the runtime's lock */
static void at_minor_end(void) {
    if (ag_adapters_are_leaving()) {
        if (late_state < IS_OVER && !ag_ocaml_is_in_memprof()) {
            leave_to_the_program();
            late_state = IS_OVER;
            ag_adapter_has_left();
        }
    } else if (late_state == WAITS) {
        if (ag_ocaml_memprof_is_free()) {
            (void)ag_ocaml_counters_calibrate();
            why_refused = begin_recording() ? NULL : differs;
        } else {
            why_refused = has_its_own;
        }
        late_state = why_refused ? IS_REFUSED : RUNS;
        if (why_refused) {
            refuse(why_refused);
            ag_adapter_has_left();
        }
    }
}

/* Names the code in which no thread may have a frame when stand() is called: these functions change
 * the list of global roots, and so does the end of Memprof. */
static void name_quiet(struct ag_late_start *ret_start) {
    static const char *const names[] = {"caml_register_generational_global_root",
                                        "caml_remove_generational_global_root",
                                        "caml_modify_generational_global_root"};
    _Static_assert(AG_ARRAY_SIZE(names) <= AG_LATE_RANGES_MOST,
                   "there is a range for each function");
    size_t n = 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(names); i++) {
        struct ag_symbol_place place;
        if (ag_symbol_find(names[i], AG_SYMBOL_FIRST, NULL, &place)) {
            const uintptr_t low = (uintptr_t)place.address;
            ret_start->quiet[n++] = (struct ag_late_range){low, low + place.bytes};
        }
    }
}

static const char *find_late_obstacle(const char **ret_version) {
    const char *why_not = find_release(ret_version);
    if (why_not) {
        return why_not;
    }
    if (ag_ocaml.generation == AG_OCAML_5) {
        return "OCaml 5 can only be recorded from its start; start the program with allogram run";
    }
    if (!ag_ocaml_find("caml_c_call")) {
        return "OCaml bytecode can only be recorded from its start; start the program with "
               "allogram run";
    }
    return ag_ocaml_hooks_are_free() ? NULL : "the program uses the collector's hooks itself";
}

static enum ag_adapter_answer attach_late(struct ag_runtime_definition *ret_runtime,
                                          struct ag_late_start *ret_start) {
    if (!ag_ocaml_find("caml_sys_init")) {
        return AG_ADAPTER_ABSENT;
    }
    ret_runtime->note = find_late_obstacle(&ret_runtime->version);
    if (ret_runtime->note) {
        return AG_ADAPTER_REFUSED;
    }
    if (!follow_memprof()) {
        ret_runtime->note = cannot_be_called;
        return AG_ADAPTER_REFUSED;
    }
    if (!prepare() || !ag_ocaml_suppress_is_whole()) { /* the prepared detours stay unused */
        ag_ocaml_hooks_take_back();
        ret_runtime->note = cannot_be_called;
        return AG_ADAPTER_REFUSED;
    }
    name_quiet(ret_start);
    ret_start->has_to_leave = true;
    ret_runtime->note = "recorded from the first minor collection after the attach on";
    late_state = WAITS;
    return AG_ADAPTER_ACTS;
}

static int stand(bool is_on) {
    void (*request)(void) = (void (*)(void))(uintptr_t)ag_ocaml_find("caml_request_minor_gc");
    if (is_on) {
        ag_ocaml_follow_minor_ends(at_minor_end);
        if (request) {
            request(); /* a signal handler may call it too; the collection runs at the next
                        * allocation */
        }
        return 0;
    }
    if (records_blocks() && ag_ocaml_is_collecting()) {
        return -EBUSY;
    }
    leave_to_the_program();
    late_state = late_state == IS_REFUSED ? IS_REFUSED : IS_OVER;
    ag_ocaml_follow_minor_ends(NULL);
    ag_ocaml_hooks_take_back();
    return 0;
}

/* ---- the end ---- */

/* Sets the numbers of coverage, in bytes with headers: the recorded bytes, and those that the
 * runtime counted since the start without the bytes that Memprof allocated for its callbacks. */
static void ocaml_end(struct ag_runtime_definition *ret_runtime) {
    struct ag_ocaml_counters now;
    if (why_refused) {
        ret_runtime->is_hooked = false;
        ret_runtime->note = why_refused;
        return;
    }
    const uint64_t words =
        ag_ocaml.is_observed ? ag_ocaml_path_words()
                             : atomic_load_explicit(&ag_ocaml_reported.words, memory_order_relaxed);
    ag_ocaml_memory_report();
    if (late_state == NOT_LATE && !records_blocks() && words > 0) {
        ret_runtime->note =
            "not recorded from the moment when the program started a Gc.Memprof of its own";
        return;
    }
    if (!ag_recorder_is_sampling() && has_start && ag_ocaml_counters_read(&now)) {
        ret_runtime->reported = 8 * words;
        ret_runtime->counted =
            8 * (now.allocated_words - at_start.allocated_words -
                 atomic_load_explicit(&ag_ocaml_reported.own_words, memory_order_relaxed) -
                 ag_ocaml_fibers_own_words());
    }
}

static const struct ag_late_adapter late = {.attach = attach_late, .stand = stand};
const struct ag_adapter ag_adapter_ocaml AG_HIDDEN = {
    .attach = attach, .end = ocaml_end, .late = &late};
