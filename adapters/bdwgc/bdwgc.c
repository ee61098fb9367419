/* bdwgc.c: finds the Boehm-Demers-Weiser garbage collector (libgc) in the profiled process, as a
 * library of its own or linked into the program, and installs the hooks of the adapter (allogram's
 * code for the collector). The adapter relies on the collector's public interface: names,
 * arguments, events and statistics as gc.h of bdwgc 8.0 to 8.2 documents them. */
#include <link.h>
#include <string.h>

#include "base/join_text.h"
#include "base/short_wait.h"
#include "collector_calls.h"
#include "collector_cycle.h"
#include "collector_memory.h"
#include "embed/adapter.h"
#include "embed/host_heaps.h"
#include "hook/elf_symbols.h"
#include "hook/loaded_objects.h"
#include "hook/next_symbol.h"

#include "allogram/allogram.h"

static const char *const needed[] = {"GC_base",
                                     "GC_is_marked",
                                     "GC_size",
                                     "GC_get_total_bytes",
                                     "GC_get_version",
                                     "GC_get_prof_stats_unsafe",
                                     "GC_exclude_static_roots",
                                     "GC_thread_is_registered",
                                     "GC_get_my_stackbottom",
                                     "GC_get_all_interior_pointers"};
enum {
    N_NEEDED = AG_ARRAY_SIZE(needed),
    /* The last four functions may be absent: a linker leaves them out of a program that does not
     * call them. */
    N_INDISPENSABLE = N_NEEDED - 4,
    EXCLUDE = N_INDISPENSABLE, /* GC_exclude_static_roots */
    IS_REGISTERED = EXCLUDE + 1,
    MY_THREAD = EXCLUDE + 2,
    INTERIOR = EXCLUDE + 3,
    PLACES_MOST = 128,
};

/* Addresses of the functions that are needed, then of those that are hooked. */
struct places {
    struct ag_bdwgc_place place[PLACES_MOST];
    size_t n;
    bool in_program;
};

static const char *name_of(size_t at) {
    return at < N_NEEDED ? needed[at] : ag_bdwgc_call_name(at - N_NEEDED);
}

static int read_program_bias(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size; /* every glibc has the field that is read here */
    *(uintptr_t *)context = info->dlpi_addr;
    return 1; /* the first object is the program */
}

/* Looks the functions up in the program's own symbol table. */
static bool find_in_program(struct places *places) {
    const char *names[PLACES_MOST];
    struct ag_elf_symbol found[PLACES_MOST];
    struct ag_elf_symbols symbols;
    uintptr_t bias = 0;
    if (ag_elf_symbols_open("/proc/self/exe", &symbols) < 0) {
        return false;
    }
    for (size_t i = 0; i < places->n; i++) {
        names[i] = name_of(i);
    }
    (void)ag_objects_visit(read_program_bias, &bias);
    const size_t n_found = ag_elf_symbols_find(&symbols, names, places->n, found);
    for (size_t i = 0; i < places->n && n_found > 0; i++) {
        if (found[i].address != 0) {
            places->place[i].address = found[i].address + bias;
            places->place[i].bytes = found[i].size_bytes;
        }
    }
    ag_elf_symbols_close(&symbols);
    return n_found > 0;
}

static void find_by_loader(struct places *places) {
    for (size_t i = 0; i < places->n; i++) {
        struct ag_symbol_place place;
        if (places->place[i].address == 0 &&
            ag_symbol_find(name_of(i), AG_SYMBOL_FIRST, NULL, &place)) {
            places->place[i].address = (uintptr_t)place.address;
        }
    }
}

/* Returns false if the collector is not in this process. */
static bool find_collector(struct places *places) {
    struct ag_symbol_place place;
    places->n = N_NEEDED + ag_bdwgc_n_calls();
    const bool is_known = ag_symbol_find("GC_malloc", AG_SYMBOL_FIRST, NULL, &place);
    const bool is_library = is_known && !place.in_executable;
    places->in_program = !is_library;
    if (!is_library && !find_in_program(places) && !is_known) {
        return false;
    }
    if (is_known) {
        find_by_loader(places);
    }
    for (size_t i = N_NEEDED; i < places->n; i++) {
        if (strcmp(name_of(i), "GC_malloc") == 0) {
            return places->place[i].address != 0;
        }
    }
    return false;
}

static char version[24], note[200];

static void write_version(unsigned number) {
    const unsigned parts[] = {number >> 16 & 255, number >> 8 & 255, number & 255};
    size_t at = 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(parts); i++) {
        if (i > 0) {
            version[at++] = '.';
        }
        for (unsigned power = 100; power > 0; power /= 10) {
            if (parts[i] >= power || power == 1) {
                version[at++] = (char)('0' + parts[i] / power % 10);
            }
        }
    }
    version[at] = '\0';
}

static void write_note(const char *first, const char *second, const char *third) {
    const char *const parts[] = {first, second, third, NULL};
    ag_join_text(note, sizeof(note), parts);
}

static void note_lists(void) {
    char digits[24];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    for (uint64_t left = ag_bdwgc_listed_blocks(); left > 0; left /= 10) {
        digits[--at] = (char)('0' + left % 10);
    }
    if (digits[at] != '\0') {
        write_note(
            digits + at,
            " blocks were given to the program in lists; they are recorded at that moment, not "
            "when the program uses them",
            "");
    }
}

static bool is_known_version(unsigned number) {
    const unsigned major = number >> 16 & 255, minor = number >> 8 & 255;
    return major == 8 && minor <= 2;
}

static void take_needed(const struct places *places) {
    ag_bdwgc.base = (void *(*)(void *))places->place[0].address;
    ag_bdwgc.is_marked = (int (*)(const void *))places->place[1].address;
    ag_bdwgc.size = (size_t(*)(const void *))places->place[2].address;
    ag_bdwgc.total_bytes = (size_t(*)(void))places->place[3].address;
    ag_bdwgc.version = (unsigned (*)(void))places->place[4].address;
    ag_bdwgc.statistics = (size_t(*)(struct ag_bdwgc_statistics *, size_t))places->place[5].address;
    ag_bdwgc.is_registered = (int (*)(void))places->place[IS_REGISTERED].address;
    ag_bdwgc.my_thread = (void *(*)(void *))places->place[MY_THREAD].address;
    ag_bdwgc.adds_byte = (int (*)(void))places->place[INTERIOR].address;
}

/* Excludes the static memory of the agent (allogram's library) from collections. Otherwise every
 * collection would scan all of this memory for pointers. The scan takes time (a small heap is
 * collected thousands of times a second), and an address stored in this memory would keep a block
 * alive. The exclusion is permanent. The preloaded agent is never unloaded, so no other memory is
 * ever mapped at these addresses. */
static void hide_own_data(const struct places *places) {
    void (*exclude)(void *, void *) = (void (*)(void *, void *))places->place[EXCLUDE].address;
    struct ag_loaded_segment own;
    if (exclude && ag_objects_segment((uintptr_t)&note, &own)) {
        exclude((void *)own.low, (void *)own.high);
    }
}

static uint32_t recorded_pid;

static const char *missing(const struct places *places) {
    for (size_t i = 0; i < N_INDISPENSABLE; i++) {
        if (places->place[i].address == 0) {
            return needed[i];
        }
    }
    return NULL;
}

/* Finds the collector and installs the detours. */
static enum ag_adapter_answer hook(struct ag_runtime_definition *ret_runtime,
                                   struct places *places) {
    if (!find_collector(places)) {
        return AG_ADAPTER_ABSENT;
    }
    ret_runtime->version = version;
    ret_runtime->note = note;
    const char *absent = missing(places);
    if (absent) {
        write_note("it does not define ", absent, "");
        return AG_ADAPTER_REFUSED;
    }
    take_needed(places);
    write_version(ag_bdwgc.version());
    if (!is_known_version(ag_bdwgc.version())) {
        write_note("only versions 8.0 to 8.2 are supported, not ", version, "");
        return AG_ADAPTER_REFUSED;
    }
    const struct allogram_heap_options heap = {.size = sizeof(heap),
                                               .name = "bdwgc",
                                               .allocator = "bdwgc",
                                               .runtime = "bdwgc",
                                               .domain = ALLOGRAM_CPU};
    const char *reason = "", *name = "";
    if (ag_bdwgc_hook(places->place + N_NEEDED, places->in_program, &reason, &name) < 0) {
        write_note(name, name[0] ? " cannot be hooked: " : "", reason);
        return AG_ADAPTER_REFUSED;
    }
    ag_bdwgc_heap = allogram_register_heap(&heap);
    recorded_pid = ag_recorder.pid;
    return AG_ADAPTER_ACTS;
}

static enum ag_adapter_answer attach(struct ag_runtime_definition *ret_runtime) {
    struct places places = {.n = 0};
    const enum ag_adapter_answer answer = hook(ret_runtime, &places);
    if (answer == AG_ADAPTER_ACTS) {
        ag_bdwgc_memory_follow();
        ag_bdwgc_listen(ag_bdwgc_cycle_event);
        hide_own_data(&places);
    }
    return answer;
}

/* ---- attaching to a running program ----
 *
 * 1. The hooked functions of the collector may take its lock, and so may the function that sets the
 * listener. So the hooks are installed and removed while no thread has a frame of the collector's
 * library on its stack: then no thread holds the lock. This needs the address range of the
 * collector's code, so a collector that is linked into the program is not hooked.
 *
 * 2. The agent's data is not excluded from collections: the collector cannot undo an exclusion, and
 * memory that is mapped at the agent's addresses after the agent is unloaded would be excluded as
 * well.
 *
 * 3. The collector's total of allocated bytes includes blocks that it put into the free lists of
 * threads before the attach. Some of these blocks are handed out and recorded later. So the
 * recorded bytes are not compared with that total. */

static bool was_late;

static enum ag_adapter_answer attach_late(struct ag_runtime_definition *ret_runtime,
                                          struct ag_late_start *ret_start) {
    struct places places = {.n = 0};
    struct ag_symbol_place place;
    const bool is_known = ag_symbol_find("GC_malloc", AG_SYMBOL_FIRST, NULL, &place);
    if (!is_known || place.in_executable) {
        ret_runtime->note = "it is linked into the program, so it cannot be recorded after the "
                            "start; start the program with allogram run";
        return is_known || find_collector(&places) ? AG_ADAPTER_REFUSED : AG_ADAPTER_ABSENT;
    }
    const enum ag_adapter_answer answer = hook(ret_runtime, &places);
    struct ag_loaded_segment code = {.low = 0};
    if (answer == AG_ADAPTER_ACTS && !ag_objects_segment((uintptr_t)place.address, &code)) {
        return AG_ADAPTER_REFUSED; /* cannot happen: GC_malloc lies in a loaded object */
    }
    ret_start->quiet[0] = (struct ag_late_range){code.low, code.high};
    was_late = answer == AG_ADAPTER_ACTS;
    return answer;
}

static int stand(bool is_on) {
    if (is_on) {
        ag_bdwgc_listen_also(ag_bdwgc_cycle_event);
    } else {
        ag_bdwgc_listen(
            atomic_load_explicit(&ag_program_listener, memory_order_acquire)); /* may be NULL */
    }
    return 0;
}

/* ---- the end ---- */

/* The collector's own total of allocated bytes. GC_get_prof_stats_unsafe takes no lock. */
static uint64_t counted_bytes(void) {
    struct ag_bdwgc_statistics statistics = {0};
    (void)ag_bdwgc.statistics(&statistics, sizeof(statistics));
    return statistics.before_collection_bytes + statistics.since_collection_bytes;
}

/* The program's exit does not wait for other threads. Another thread may have a block that the
 * collector has counted and the adapter has not recorded yet. So the adapter waits up to 20 ms for
 * such blocks to be recorded. Blocks that other threads allocate meanwhile are not in TOTAL, so the
 * recorded bytes may exceed the total. */
static void count_at_end(struct ag_runtime_definition *ret_runtime) {
    enum { TRIES_MOST = 10, WAIT_NS = 2000000 };
    static bool has_counted;
    const uint64_t total = counted_bytes();
    uint64_t reported = 0, elsewhere = 0, waiting = 0;
    for (int i = 0; i < TRIES_MOST; i++) {
        waiting = has_counted ? 0 : ag_bdwgc_cycle_waiting_bytes();
        reported = ag_bdwgc_reported_bytes();
        elsewhere = ag_bdwgc_own_bytes() + ag_bdwgc_left_bytes() + waiting;
        if (has_counted || reported + elsewhere >= total) {
            break;
        }
        ag_short_wait(WAIT_NS);
    }
    if (!has_counted) {
        has_counted = true;
        ag_bdwgc_not_handed_out(waiting);
    }
    ret_runtime->counted = total > elsewhere ? total - elsewhere : 0;
    ret_runtime->reported = reported < ret_runtime->counted ? reported : ret_runtime->counted;
}

static void bdwgc_end(struct ag_runtime_definition *ret_runtime) {
    note_lists();
    if (ag_recorder.pid != recorded_pid) {
        return; /* the trace of a forked child lacks its parent's blocks */
    }
    ag_bdwgc_memory_report();
    if (ag_recorder_is_sampling() || was_late) {
        return; /* this recording does not have all blocks */
    }
    count_at_end(ret_runtime);
}

static const struct ag_late_adapter late = {.attach = attach_late, .stand = stand};
const struct ag_adapter ag_adapter_bdwgc AG_HIDDEN = {
    .attach = attach, .end = bdwgc_end, .late = &late};
