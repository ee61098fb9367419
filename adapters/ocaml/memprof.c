/* memprof.c: runs Memprof, the OCaml runtime's own sampler of allocations, and records the blocks
 * that Memprof's callbacks receive. In sampled mode these are samples. In exact mode Memprof
 * samples each word; this is done only for programs that allocation_path.c does not observe.
 *
 * 1. Start. caml_memprof_start takes a rate, a depth and a record of five closures. These are OCaml
 * values; here they are static data, with headers that the collector ignores. The closures' code
 * has OCaml's calling convention (closures.S) and continues in C functions, which are ordinary
 * primitives for the runtime. These functions may be called in parallel by several domains (5.x),
 * must not raise, and allocate nothing.
 *
 * 2. Identity. OCaml moves its blocks, so an address does not identify a block. The
 * alloc callback returns Some m. The runtime passes m to the callbacks of the block's promotion and
 * death. m consists of a unique number and, in its lowest bits, the heap. The number times
 * AG_OCAML_ADDRESS_STEP is the block's address in the trace. Some is a block of two words. The
 * runtime reads it at once, so one block per thread is enough.
 *
 * 3. Memory outside. A custom block may own memory outside of OCaml's heap. Memprof reports this
 * memory with the source Custom. It comes from malloc and is recorded as a block of malloc, so this
 * file ignores the report. custom_memory.c gives the block of malloc its type. */
#include "memprof.h"

#include <string.h>

#include "allogram/allogram.h"
#include "base/skip.h"
#include "bytecode.h"
#include "callstack.h"
#include "collector_hooks.h"
#include "embed/host_events.h"
#include "embed/host_heaps.h"
#include "fibers.h"
#include "known_stacks.h"
#include "ocaml_heaps.h"
#include "record/block_choice.h"
#include "runtime_counters.h"
#include "suppress.h"

struct ag_ocaml_runtime ag_ocaml;
struct ag_ocaml_reported ag_ocaml_reported;

enum { WORD = 8 };
enum source { SOURCE_NORMAL, SOURCE_MARSHAL, SOURCE_CUSTOM };
static uint64_t interval_bytes; /* in a sampled recording */

/* Defined in closures.S. */
extern void ag_ocaml_entry_alloc_minor(void) AG_HIDDEN;
extern void ag_ocaml_entry_alloc_major(void) AG_HIDDEN;
extern void ag_ocaml_entry_promote(void) AG_HIDDEN;
extern void ag_ocaml_entry_dealloc_minor(void) AG_HIDDEN;
extern void ag_ocaml_entry_dealloc_major(void) AG_HIDDEN;
extern void *ag_ocaml_c_call AG_HIDDEN;
ag_ocaml_value ag_ocaml_alloc_minor(ag_ocaml_value info) AG_HIDDEN;
ag_ocaml_value ag_ocaml_alloc_major(ag_ocaml_value info) AG_HIDDEN;
ag_ocaml_value ag_ocaml_promote(ag_ocaml_value tracked) AG_HIDDEN;
ag_ocaml_value ag_ocaml_dealloc_minor(ag_ocaml_value tracked) AG_HIDDEN;
ag_ocaml_value ag_ocaml_dealloc_major(ag_ocaml_value tracked) AG_HIDDEN;

/* ---- blocks ---- */

/* The OCaml value Some m. */
static __thread struct {
    uint64_t header;
    ag_ocaml_value content;
} some __attribute__((tls_model("initial-exec")));

static ag_ocaml_value make_some(ag_ocaml_value content) {
    some.header = AG_OCAML_HEADER(1, 0);
    some.content = content;
    return (ag_ocaml_value)&some.content;
}

/* A thread reserves AT_ONCE numbers at a time, so that domains do not write to a shared cache line
 * for each block. */
static uint64_t next_number(void) {
    enum { AT_ONCE = 4096 };
    static _Atomic uint64_t taken = 1;
    static __thread uint64_t next __attribute__((tls_model("initial-exec")));
    static __thread uint64_t end __attribute__((tls_model("initial-exec")));
    if (next == end) {
        next = atomic_fetch_add_explicit(&taken, AT_ONCE, memory_order_relaxed);
        end = next + AT_ONCE;
    }
    return next++;
}

/* Counts the words that Memprof allocated for this call: the information (a header and four fields)
 * and the callstack. Blocks that were unmarshalled together share one callstack. */
static void count_own_words(enum source source, ag_ocaml_value callstack) {
    static __thread ag_ocaml_value last_shared __attribute__((tls_model("initial-exec")));
    const uint64_t depth = ag_ocaml_words(callstack);
    const bool is_shared = source == SOURCE_MARSHAL && callstack == last_shared;
    last_shared = source == SOURCE_MARSHAL ? callstack : 0;
    atomic_fetch_add_explicit(&ag_ocaml_reported.own_words,
                              5 + (depth > 0 && !is_shared ? depth + 1 : 0), memory_order_relaxed);
}

static uint32_t memprof_depth; /* maximum number of entries of a callstack */

static uint32_t stack_of(ag_ocaml_value callstack, const uintptr_t *sp, uintptr_t rbp) {
    const uint64_t key =
        ag_ocaml_stack_key((const ag_ocaml_value *)callstack, ag_ocaml_words(callstack), sp);
    uint32_t stack = ag_ocaml_known_stack(key);
    if (!stack) {
        uintptr_t *const hidden = ag_ocaml_fibers_enter();
        stack = ag_ocaml.is_bytecode ? ag_ocaml_bytecode_stack(callstack, sp, rbp)
                                     : ag_ocaml_stack(callstack, sp, rbp);
        ag_ocaml_fibers_leave(hidden);
        ag_ocaml_remember_stack(key, stack);
    }
    return stack;
}

static ag_ocaml_value report_alloc(ag_ocaml_value info, enum ag_ocaml_heap born,
                                   const uintptr_t *sp, uintptr_t rbp) {
    const enum source source = (enum source)ag_ocaml_number(ag_ocaml_field(info, 2));
    const uint64_t words = (uint64_t)ag_ocaml_number(ag_ocaml_field(info, 1));
    const ag_ocaml_value callstack = ag_ocaml_field(info, 3);
    count_own_words(source, callstack);
    if (source == SOURCE_CUSTOM || !(allogram_mode_ & ALLOGRAM_TELLS_)) {
        return ag_ocaml_integer(0); /* None: no further callbacks for this block */
    }
    const enum ag_ocaml_heap heap = source != SOURCE_MARSHAL ? born
                                    : born == AG_OCAML_MINOR ? AG_OCAML_MARSHAL_MINOR
                                                             : AG_OCAML_MARSHAL;
    atomic_fetch_add_explicit(&ag_ocaml_reported.words, words + 1, memory_order_relaxed);
    ag_ocaml_counters_see_domain();
    ag_host_get_ready();
    if (!ag_host_heap(ag_ocaml_heaps[heap]) ||
        !ag_block_choice_selects(ag_ocaml_heaps[heap], words * WORD, AG_BLOCK_TYPE_UNKNOWN)) {
        return ag_ocaml_integer(0);
    }
    const uint64_t number = next_number();
    const struct ag_reported_block block = {
        .stack = stack_of(callstack, sp, rbp),
        .via = ag_ocaml_heaps[heap],
        .address = number * AG_OCAML_ADDRESS_STEP,
        .bytes = words * WORD,
        .interval_bytes = interval_bytes,
    };
    ag_record_reported_alloc(&block);
    return make_some(ag_ocaml_integer((intptr_t)(number << AG_OCAML_HEAP_BITS | heap)));
}

static ag_ocaml_value allocated(ag_ocaml_value info, enum ag_ocaml_heap born, const uintptr_t *sp,
                                uintptr_t rbp) {
    const uintptr_t resumed = ag_ocaml_resume();
    const ag_ocaml_value result = report_alloc(info, born, sp, rbp);
    ag_ocaml_suppress(resumed);
    return result;
}

/* Reports the promotion or the death of a block: calls report_fn with its address and heap. */
static void report_end(ag_ocaml_value tracked,
                       void (*report_fn)(uintptr_t address, uint32_t heap)) {
    const uint64_t content = (uint64_t)ag_ocaml_number(tracked);
    const allogram_heap heap = ag_ocaml_heaps[content & ((1 << AG_OCAML_HEAP_BITS) - 1)];
    const uintptr_t resumed = ag_ocaml_resume();
    if (allogram_mode_ & ALLOGRAM_TELLS_) {
        ag_host_get_ready();
        report_fn((content >> AG_OCAML_HEAP_BITS) * AG_OCAML_ADDRESS_STEP, heap);
    }
    ag_ocaml_suppress(resumed);
}

#define CALLER_SP() ((const uintptr_t *)__builtin_frame_address(0) + 1)
#define CALLER_RBP() (*(const uintptr_t *)__builtin_frame_address(0))

ag_ocaml_value ag_ocaml_alloc_minor(ag_ocaml_value info) {
    return allocated(info, AG_OCAML_MINOR, CALLER_SP(), CALLER_RBP());
}

ag_ocaml_value ag_ocaml_alloc_major(ag_ocaml_value info) {
    return allocated(info, AG_OCAML_MAJOR, CALLER_SP(), CALLER_RBP());
}

ag_ocaml_value ag_ocaml_promote(ag_ocaml_value tracked) {
    report_end(tracked, ag_record_reported_promote);
    return make_some(tracked);
}

ag_ocaml_value ag_ocaml_dealloc_minor(ag_ocaml_value tracked) {
    report_end(tracked, ag_record_reported_free);
    return ag_ocaml_integer(0);
}

ag_ocaml_value ag_ocaml_dealloc_major(ag_ocaml_value tracked) {
    report_end(tracked, ag_record_reported_free);
    return ag_ocaml_integer(0);
}

/* ---- start ---- */

/* 1 - exp(-x), by its power series: x is at most 8, so 40 terms are enough. */
static double chance(double x) {
    double sum = 0, term = x;
    for (int i = 2; i < 42; i++) {
        sum += term;
        term *= -x / i;
    }
    return sum;
}

/* In the order of the fields of Memprof's tracker. */
static const struct {
    void (*native)(void);
    ag_ocaml_function *bytecode;
} callbacks[] = {
    {ag_ocaml_entry_alloc_minor, ag_ocaml_alloc_minor},
    {ag_ocaml_entry_alloc_major, ag_ocaml_alloc_major},
    {ag_ocaml_entry_promote, ag_ocaml_promote},
    {ag_ocaml_entry_dealloc_minor, ag_ocaml_dealloc_minor},
    {ag_ocaml_entry_dealloc_major, ag_ocaml_dealloc_major},
};
static struct {
    uint64_t header;
    void *code;
    uint64_t arity; /* 1 argument; the closure's environment begins after this word */
} closures[AG_ARRAY_SIZE(callbacks)];
static struct {
    uint64_t header;
    void *fields[AG_ARRAY_SIZE(closures)];
} tracker;
static struct {
    uint64_t header;
    double number;
} rate;

static bool make_tracker(void) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(closures); i++) {
        closures[i].header = AG_OCAML_HEADER(2, AG_OCAML_TAG_CLOSURE);
        closures[i].code = ag_ocaml.is_bytecode ? ag_ocaml_bytecode_code(i, callbacks[i].bytecode)
                                                : (void *)callbacks[i].native;
        closures[i].arity = UINT64_C(1) << 56 | 2 << 1 | 1;
        tracker.fields[i] = (void *)&closures[i].code;
        if (!closures[i].code) {
            return false;
        }
    }
    tracker.header = AG_OCAML_HEADER(AG_ARRAY_SIZE(closures), 0);
    rate.header = AG_OCAML_HEADER(1, AG_OCAML_TAG_DOUBLE);
    rate.number = 1;
    return true;
}

/* A domain (the unit of parallelism of OCaml 5) allocates its result when all its OCaml code has
 * ended, so Memprof has no later moment for the callbacks. The domain then wakes the threads that
 * wait for it, by caml_ml_condition_broadcast. The hook of that function runs the callbacks. */
struct result {
    uintptr_t is_exception, data;
};
static struct result (*run_callbacks)(void);
static ag_ocaml_value (*broadcast)(ag_ocaml_value condition);

static ag_ocaml_value hooked_broadcast(ag_ocaml_value condition) {
    const ag_ocaml_value result = broadcast(condition);
    if (ag_ocaml_memprof_is_ours()) {
        (void)run_callbacks(); /* the adapter's callbacks raise nothing */
    }
    return result;
}

static void follow_ends_of_domains(void) {
    run_callbacks = (struct result(*)(void))ag_ocaml_find("caml_memprof_run_callbacks_res");
    if (run_callbacks) {
        (void)ag_ocaml_detour("caml_ml_condition_broadcast", ag_kept_call, (void *)hooked_broadcast,
                              (void **)&broadcast);
    }
}

ag_ocaml_function *ag_ocaml_memprof_function(ag_ocaml_value closure) {
    const uintptr_t distance = (uintptr_t)closure - (uintptr_t)&closures[0].code;
    return distance < sizeof(closures) ? callbacks[distance / sizeof(closures[0])].bytecode : NULL;
}

void ag_ocaml_memprof_prepare(void) {
    ag_ocaml_suppress_follow();
    if (ag_ocaml.is_bytecode) {
        ag_ocaml_bytecode_follow();
    } else {
        ag_ocaml_callstacks_follow();
    }
    if (ag_ocaml.generation == AG_OCAML_4) {
        return;
    }
    follow_ends_of_domains();
    if (!ag_ocaml.is_bytecode) {
        ag_ocaml_fibers_follow((uintptr_t)closures,
                               (uintptr_t)(closures + AG_ARRAY_SIZE(closures)));
    }
}

static bool is_ours; /* the running Memprof is the adapter's; protected by the runtime's lock */

bool ag_ocaml_memprof_is_ours(void) {
    return is_ours;
}

void ag_ocaml_memprof_end(void) {
    const uintptr_t suspended = ag_record_suspend();
    is_ours = false;
    (void)ag_ocaml.memprof_stop(ag_ocaml_integer(0));
    ag_record_resume(suspended);
}

static void start_memprof(uint32_t depth) {
    (void)ag_ocaml.memprof_start((ag_ocaml_value)&rate.number, ag_ocaml_integer((intptr_t)depth),
                                 (ag_ocaml_value)&tracker.fields);
}

/* Memprof's random generator begins with the same number in every run, so each run would sample the
 * same words. Each start of Memprof draws a batch of numbers, so a random number of starts leads to
 * other samples. */
static void skip_random_numbers(uint64_t seed) {
    enum { STARTS = 512 };
    for (uint64_t i = ag_random_next(&seed) % STARTS; i > 0; i--) {
        start_memprof(1);
        (void)ag_ocaml.memprof_stop(ag_ocaml_integer(0));
    }
}

void ag_ocaml_memprof_begin(void) {
    memprof_depth =
        ag_recorder.depth < AG_OCAML_FRAMES_MOST ? ag_recorder.depth : AG_OCAML_FRAMES_MOST;
    const uintptr_t suspended = ag_record_suspend(); /* Memprof's memory is not recorded */
    if (!make_tracker()) {
        ag_record_resume(suspended);
        return;
    }
    if (ag_recorder_is_sampling()) {
        const uint64_t asked =
            atomic_load_explicit(&ag_recorder.header->interval_bytes, memory_order_relaxed);
        interval_bytes = asked > 0 ? asked : 1;
        rate.number = chance((double)WORD / (double)interval_bytes);
        skip_random_numbers(ag_recorder.header->seed);
    }
    is_ours = true;
    start_memprof(memprof_depth);
    ag_record_resume(suspended);
}

/* ---- in a program that runs ---- */

extern void ag_ocaml_entry_try_start(void) AG_HIDDEN;
ag_ocaml_value ag_ocaml_try_start(ag_ocaml_value unit) AG_HIDDEN;

/* If Memprof runs already, this function does not return: the runtime raises an exception. */
ag_ocaml_value ag_ocaml_try_start(ag_ocaml_value unit) {
    start_memprof(1);
    return unit;
}

bool ag_ocaml_memprof_is_free(void) {
    static struct {
        uint64_t header;
        void *code;
        uint64_t arity;
    } closure;
    ag_ocaml_value (*const callback)(ag_ocaml_value, ag_ocaml_value) = (ag_ocaml_value(*)(
        ag_ocaml_value, ag_ocaml_value))(uintptr_t)ag_ocaml_find("caml_callback_exn");
    const uintptr_t suspended = ag_record_suspend();
    bool is_free = callback && make_tracker();
    if (is_free) {
        closure.header = AG_OCAML_HEADER(2, AG_OCAML_TAG_CLOSURE);
        closure.code = (void *)(uintptr_t)ag_ocaml_entry_try_start;
        closure.arity = closures[0].arity;
        const ag_ocaml_value result = callback((ag_ocaml_value)&closure.code, ag_ocaml_integer(0));
        is_free = (result & 3) != 2; /* the mark of an exception */
        if (is_free) {
            (void)ag_ocaml.memprof_stop(ag_ocaml_integer(0));
        }
    }
    ag_record_resume(suspended);
    return is_free;
}
