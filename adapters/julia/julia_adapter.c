/* julia_adapter.c: finds out whether Julia is in the process and whether its release is supported,
 * and installs the adapter.
 *
 * All that the adapter relies on was verified with a running 1.5.3; the supported releases are in
 * julia_releases.def. Julia 1.6 and later load their code after the start, from another library.
 * The Julia heaps of these releases are not recorded; the report says so. */
#include <string.h>

#include "base/join_text.h"
#include "base/pages.h"
#include "embed/adapter.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"
#include "julia_blocks.h"
#include "julia_calls.h"
#include "julia_code.h"
#include "julia_imports.h"
#include "julia_objects.h"
#include "julia_types.h"

struct ag_julia_functions ag_julia;
struct ag_address_bits ag_julia_blocks;
allogram_heap ag_julia_heaps[AG_JULIA_HEAPS];
__thread struct ag_julia_thread *ag_julia_own;
_Atomic(struct ag_julia_thread *) ag_julia_threads;
static uint32_t recorded_pid;

/* A forked child's trace begins empty. The deaths of blocks that the parent recorded are not
 * recorded in the child's trace, and the functions of generated code have to be defined in it
 * again. */
AG_COLD static bool go_on_in_child(void) {
    if (recorded_pid == 0) {
        return false; /* the adapter does not act yet */
    }
    ag_julia_record_from_now();
    ag_julia_objects_forget();
    ag_julia_code_name_again();
    return true;
}

bool ag_julia_is_recorded(void) {
    return (allogram_mode_ & ALLOGRAM_TELLS_) != 0 && ag_recorder_is_active() &&
           (AG_LIKELY(ag_recorder.pid == recorded_pid) || go_on_in_child());
}

AG_COLD struct ag_julia_thread *ag_julia_thread_begin(void) {
    struct ag_julia_thread *thread = ag_pages_map(sizeof(*thread));
    if (!thread) {
        return NULL;
    }
    ag_julia_own = thread;
    struct ag_julia_thread *first = atomic_load_explicit(&ag_julia_threads, memory_order_relaxed);
    do {
        thread->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&ag_julia_threads, &first, thread,
                                                    memory_order_release, memory_order_relaxed));
    return thread;
}

/* ---- which release ---- */

static const struct release {
    const char *first, *last, *library, *doors;
    bool is_verified;
} releases[] = {
#define AG_JULIA_RELEASE(first, last, library, doors, is_verified) \
    {first, last, library, doors, is_verified},
#include "julia_releases.def"
#undef AG_JULIA_RELEASE
};

/* Converts "1.5.3" to a number that grows with the release; 0: VERSION is no release, or has text
 * after the patch number ("-DEV"). */
static uint32_t number_of(const char *version) {
    uint32_t number = 0;
    for (int part = 0; part < 3; part++) {
        uint32_t value = 0;
        if (*version < '0' || *version > '9') {
            return 0;
        }
        for (; *version >= '0' && *version <= '9' && value < 1000; version++) {
            value = value * 10 + (uint32_t)(*version - '0');
        }
        number = number * 1000 + value;
        if (part < 2 && *version++ != '.') {
            return 0;
        }
    }
    return *version == '\0' ? number : 0;
}

static const struct release *find_release(const char *version) {
    const uint32_t number = number_of(version);
    for (size_t i = 0; i < AG_ARRAY_SIZE(releases); i++) {
        if (number >= number_of(releases[i].first) && number <= number_of(releases[i].last)) {
            return &releases[i];
        }
    }
    return NULL;
}

static char version[32], note[320];

static void write_note(const char *first, const char *second, const char *third) {
    const char *const parts[] = {first, second, third, NULL};
    ag_join_text(note, sizeof(note), parts);
}

static void *julia_symbol_find(const char *name, enum ag_symbol_scope scope) {
    struct ag_symbol_place place;
    return ag_symbol_find(name, scope, NULL, &place) ? place.address : NULL;
}

/* Finds the functions and variables of Julia that the adapter needs. Returns the name of the first
 * one that is missing; NULL: none is. */
static const char *find_functions(void) {
    static const struct {
        const char *name;
        void **place;
        enum ag_symbol_scope scope;
    } wanted[] = {
#define AG_JULIA_FUNCTION(name, result, arguments) \
    {#name, (void **)&ag_julia.name, AG_SYMBOL_FIRST},
#include "julia_functions.def"
#undef AG_JULIA_FUNCTION
        {"jl_main_module", (void **)&ag_julia.jl_main_module, AG_SYMBOL_FIRST_DATA},
        {"jl_any_type", (void **)&ag_julia.jl_any_type, AG_SYMBOL_FIRST_DATA},
        {"jl_string_type", (void **)&ag_julia.jl_string_type, AG_SYMBOL_FIRST_DATA},
    };
    for (size_t i = 0; i < AG_ARRAY_SIZE(wanted); i++) {
        *wanted[i].place = julia_symbol_find(wanted[i].name, wanted[i].scope);
        if (!*wanted[i].place) {
            return wanted[i].name;
        }
    }
    const uintptr_t get_ptls =
        ag_import_find((const void *)ag_julia.jl_gc_num, "jl_get_ptls_states");
    ag_julia.get_ptls = (void *(*)(void))get_ptls;
    return get_ptls != 0 ? NULL : "jl_get_ptls_states";
}

static void register_heaps(void) {
    static const char *const names[AG_JULIA_HEAPS][2] = {{"julia pool", "pool"},
                                                         {"julia big", "big"},
                                                         {"julia std", "std"},
                                                         {"julia task stacks", "stack"}};
    for (size_t i = 0; i < AG_JULIA_HEAPS; i++) {
        const struct allogram_heap_options options = {.size = sizeof(options),
                                                      .name = names[i][0],
                                                      .allocator = names[i][1],
                                                      .runtime = "julia",
                                                      .domain = ALLOGRAM_CPU,
                                                      .is_backing = i == AG_JULIA_STACKS};
        ag_julia_heaps[i] = allogram_register_heap(&options);
    }
}

static bool is_known_release(void) {
    if (!julia_symbol_find("LLVMExtraAddAllocOptPass", AG_SYMBOL_FIRST)) {
        write_note("Julia 1.6 or later is not supported; the adapter was tested with 1.5.3 only",
                   "", "");
        return false; /* the library is a loader, which must not be called yet */
    }
    const char *(*ver_string)(void) =
        (const char *(*)(void))julia_symbol_find("jl_ver_string", AG_SYMBOL_FIRST);
    if (ver_string) {
        const char *text = ver_string();
        memcpy(version, text, strnlen(text, sizeof(version) - 1));
    }
    const struct release *release = find_release(version);
    if (release && release->is_verified) {
        return true;
    }
    write_note("this release of Julia is not supported; the adapter was tested with 1.5.3 only",
               release ? "; it would have to hook " : "", release ? release->doors : "");
    return false;
}

enum ag_adapter_answer ag_julia_recognise(struct ag_runtime_definition *ret_runtime) {
    if (!julia_symbol_find("jl_gc_counted_malloc", AG_SYMBOL_FIRST)) {
        return AG_ADAPTER_ABSENT;
    }
    ret_runtime->version = version;
    ret_runtime->note = note;
    if (!is_known_release()) {
        return AG_ADAPTER_REFUSED;
    }
    const char *absent = find_functions();
    if (absent) {
        write_note("it has no ", absent, "");
        return AG_ADAPTER_REFUSED;
    }
    if (ag_address_bits_start(&ag_julia_blocks, AG_JULIA_BLOCKS, /* forgets_on_fork= */ false) <
            0 ||
        ag_julia_types_start() < 0) {
        write_note("out of memory", "", "");
        return AG_ADAPTER_REFUSED;
    }
    register_heaps();
    return AG_ADAPTER_ACTS;
}

bool ag_julia_follow(void) {
    const char *reason = "", *name = "";
    if (ag_julia_calls_follow(&reason, &name) < 0) {
        write_note("", name, reason);
        return false;
    }
    if (ag_julia_imports_follow((const void *)ag_julia.jl_gc_num, &name) < 0) {
        ag_julia_calls_leave();
        write_note("it does not call ", name, " as 1.5.3 does");
        return false;
    }
    return true;
}

static enum ag_adapter_answer attach(struct ag_runtime_definition *ret_runtime) {
    const enum ag_adapter_answer answer = ag_julia_recognise(ret_runtime);
    if (answer != AG_ADAPTER_ACTS) {
        return answer;
    }
    if (!ag_julia_follow()) {
        return AG_ADAPTER_REFUSED;
    }
    recorded_pid = ag_recorder.pid;
    return AG_ADAPTER_ACTS;
}

/* ---- coverage: how much of what Julia counts was recorded ---- */

static struct counts {
    /* allocations that Julia counted; calls that the adapter counted; calls that the adapter itself
     * made */
    uint64_t counted, calls, own_calls;
} left_out, at_pause; /* left_out: the calls outside of recordings; at_pause: the counts at the
                       * beginning of the current pause */
static bool is_paused;

static struct counts counts_now(void) {
    const struct ag_julia_gc_num num = ag_julia.jl_gc_num();
    struct counts counts = {.counted = num.poolalloc + num.bigalloc + num.malloc + num.realloc};
    ag_julia_calls_sum(&counts.calls, &counts.own_calls);
    return counts;
}

void ag_julia_record_from_now(void) {
    left_out = counts_now();
    recorded_pid = ag_recorder.pid;
}

void ag_julia_record_pauses(bool pauses) {
    const struct counts counts = counts_now();
    if (pauses) {
        at_pause = counts;
    } else {
        left_out.counted += counts.counted - at_pause.counted;
        left_out.calls += counts.calls - at_pause.calls;
        left_out.own_calls += counts.own_calls - at_pause.own_calls;
    }
    is_paused = pauses;
}

/* Sets the numbers of coverage, in blocks: those that jl_gc_num counts, and the recorded ones. */
void ag_julia_end(struct ag_runtime_definition *ret_runtime) {
    if (ag_recorder.pid != recorded_pid) {
        return; /* a forked child knows only its own blocks */
    }
    struct ag_julia_thread *thread = atomic_load_explicit(&ag_julia_threads, memory_order_acquire);
    for (; thread; thread = thread->next) {
        ag_julia_restored(thread);
    }
    ag_julia_report_memory();
    if (ag_recorder_is_sampling()) {
        return; /* a sampled recording has only the samples */
    }
    const struct counts counts = is_paused ? at_pause : counts_now();
    const uint64_t counted = counts.counted - left_out.counted;
    const uint64_t own_calls = counts.own_calls - left_out.own_calls;
    ret_runtime->reported = counts.calls - left_out.calls;
    ret_runtime->counted = counted > own_calls ? counted - own_calls : 0;
}

const struct ag_adapter ag_adapter_julia AG_HIDDEN = {.attach = attach, .end = ag_julia_end};
