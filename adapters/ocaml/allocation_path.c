/* allocation_path.c: records every block of a native OCaml program where the runtime allocates it.
 *
 * 1. Small blocks. OCaml code allocates by lowering the young pointer, which is in a register. If
 * the pointer is then below young_limit, OCaml code calls caml_call_gc; C code calls
 * caml_alloc_small_dispatch. The runtime raises young_limit when it needs such a call. Memprof, the
 * runtime's sampler, has a trigger of its own: young_limit is never below it. The adapter sets
 * Memprof's trigger to one word below the end of the minor heap, which is above every block. So
 * each allocation makes the call. The runtime's own requests set young_limit to the end of the heap
 * (OCaml 4) or to the largest number (OCaml 5). So the hooks of both functions can distinguish a
 * call that only the adapter's trigger causes from a call that the runtime needs:
 *
 *     young_limit is the adapter's value, and the      the call is only the adapter's: the hook
 *     young pointer is not below young_trigger         records the block and returns at once
 *     otherwise                                        the runtime's function runs
 *
 * In the second case the runtime's function collects, or runs what is pending, as it does without
 * the adapter. Then it calls Memprof's function for the allocated block. The hook of Memprof's
 * function records the block. So the program collects at the same allocations as without the
 * adapter.
 *
 * 2. Combined allocations. The compiler may allocate several blocks by one subtraction. The frame
 * descriptor of the call's return address has their sizes, and for each the address of its debug
 * information, which is recorded as the innermost frame (callstack.c, section 4).
 *
 * 3. Other blocks. The runtime calls functions of Memprof for blocks that are allocated in the
 * major heap and for unmarshalled blocks, whether Memprof was started or not. The adapter hooks
 * these functions.
 *
 * 4. Deaths. The runtime also calls Memprof at the end of each minor collection, when the major
 * heap has been marked, and in a compaction (block_lives.c). OCaml 5 runs code in parallel in
 * several domains. There the call at the end of a minor collection comes too early, because other
 * domains may still promote blocks of this domain. So in OCaml 5 the hook is on a function that is
 * called after all domains have finished.
 *
 * 5. Stacks. The walk (ocaml_frames.c) begins at the return address into OCaml code: of the call of
 * caml_call_gc, or of the call of C code. The frames of the runtime's C code, which are inside of
 * the OCaml frame, are not part of a block's stack.
 *
 * 6. Other readers of young_limit. In OCaml 5 C code compares the young pointer with young_limit to
 * find out whether something is pending, and then calls caml_handle_gc_interrupt, which may begin a
 * collection early. The hooks of caml_handle_gc_interrupt and caml_check_urgent_gc return at once
 * if the runtime has requested nothing.
 *
 * 7. The adapter's stack. An OCaml 4 program may recurse until the system's stack is full, and then
 * receives the exception Stack_overflow. The runtime raises the exception only if the fault is in
 * OCaml code or in its own assembly code. So hooks that record run on a stack of the adapter. All
 * OCaml code of a process of OCaml 4 runs under one lock, so one stack is enough. Its mapping is so
 * large that no other stack is near (section 3 of record/stream.c). In OCaml 5 C code runs on
 * another stack than OCaml code anyway, and the hook of caml_call_gc uses that C stack. */
#include "allocation_path.h"

#include <string.h>

#include "base/own_memory.h"
#include "block_lives.h"
#include "collector_hooks.h"
#include "embed/host_events.h"
#include "embed/host_heaps.h"
#include "hook/detour.h"
#include "ocaml_frames.h"
#include "record/block_choice.h"
#include "record/event_fast.h"

enum { WORD = 8 };

/* Offsets into the domain's state, from runtime/caml/domain_state.tbl. */
struct layout {
    uint16_t young_pointer, young_start, young_end, young_trigger, minor_heap_words;
    uint16_t memprof_trigger; /* OCaml 5 */
};
enum {
    YOUNG_LIMIT = 0,
    BOTTOM_OF_STACK_4 = 208,
    LAST_RETURN_ADDRESS_4 = 216,
    CURRENT_STACK_5 = 40
};
static const struct layout layout_4 = {8, 48, 56, 72, 80, 0};    /* 4.13.1, 4.14.2 */
static const struct layout layout_5 = {8, 16, 24, 32, 272, 472}; /* 5.3.0 */
enum { DO_TRACK = 1, FROM_OCAML = 2 }; /* enum caml_alloc_small_flags of runtime/caml/memory.h */

/* Functions and variables of the runtime. */
static struct {
    uintptr_t *memprof_trigger; /* OCaml 4: caml_memprof_young_trigger */
    const uint64_t *unmarked;   /* OCaml 5: bits of the header, caml_global_heap_state.UNMARKED */
    void (*update_young_limit)(void);                      /* OCaml 4 */
    void (*reset_young_limit)(const unsigned char *state); /* OCaml 5 */
    void (*invert_root)(ag_ocaml_value block, ag_ocaml_value *place);
} runtime;

static _Atomic bool is_on;
static const struct layout *layout;

AG_FAST uintptr_t state_word(const unsigned char *state, size_t offset) {
    return *(const volatile uintptr_t *)(state + offset);
}

AG_FAST bool is_recording(void) {
    return atomic_load_explicit(&is_on, memory_order_relaxed);
}

static bool is_telling(void) {
    return is_recording() && allogram_mode_ & ALLOGRAM_TELLS_;
}

/* ---- domains ---- */

enum { DOMAINS_MOST = 128, PLACES_BITS = 10 };
enum { IS_FREE = 0, IS_ORPHAN = 1, IS_BUSY = 2 }; /* values of domain.state that are no address */
struct domain {
    /* the address of the domain's state; IS_ORPHAN: the domain has ended, and its blocks may live;
     * IS_BUSY: a thread works on the blocks of an ended domain */
    _Atomic uintptr_t state;
    struct ag_ocaml_lives lives;
    /* the young pointer with which caml_alloc_small_dispatch began */
    uintptr_t dispatched;
    bool is_untracked; /* caml_alloc_small_dispatch allocates a block that is not to be recorded */
    struct ag_ocaml_walk walk;
    struct { /* a cache of the stacks of combined allocations; see with_place */
        uintptr_t place;
        uint32_t recording, stack, result;
    } places[1 << PLACES_BITS];
};
static struct domain *_Atomic domains[DOMAINS_MOST]; /* OCaml 4 has one domain */

static bool claim_domain(struct domain *domain, uintptr_t from, uintptr_t to) {
    return domain && atomic_compare_exchange_strong_explicit(
                         &domain->state, &from, to, memory_order_acquire, memory_order_relaxed);
}

/* Only threads of a domain look the domain up, and the threads of a domain run one at a time. */
AG_COLD static struct domain *find_domain(uintptr_t state, bool may_be_new) {
    struct domain *found = NULL;
    for (size_t i = 0; i < DOMAINS_MOST && !found; i++) {
        struct domain *there = atomic_load_explicit(&domains[i], memory_order_acquire);
        if (there && atomic_load_explicit(&there->state, memory_order_relaxed) == state) {
            found = there;
        }
    }
    for (size_t i = 0; i < DOMAINS_MOST && !found && may_be_new; i++) {
        struct domain *there = atomic_load_explicit(&domains[i], memory_order_acquire);
        if (!there) {
            struct domain *made = ag_own_memory_take(sizeof(*made));
            if (!made) {
                return NULL;
            }
            if (!atomic_compare_exchange_strong_explicit(
                    &domains[i], &there, made, memory_order_acq_rel, memory_order_acquire)) {
                ag_own_memory_give(made);
            } else {
                there = made;
            }
        }
        if (claim_domain(there, IS_FREE, state) || claim_domain(there, IS_ORPHAN, state)) {
            found = there;
        }
    }
    return found;
}

AG_FAST struct domain *look_domain_up(const unsigned char *state, bool may_be_new) {
    static __thread struct {
        const unsigned char *state;
        struct domain *domain;
    } own __attribute__((tls_model("initial-exec")));
    if (AG_UNLIKELY(own.state != state ||
                    atomic_load_explicit(&own.domain->state, memory_order_relaxed) !=
                        (uintptr_t)state)) {
        own.domain = find_domain((uintptr_t)state, may_be_new);
        own.state = own.domain ? state : NULL;
    }
    return own.domain;
}

/* The domain with this state, which may be new. NULL: there are too many domains. */
AG_FAST struct domain *domain_of(const unsigned char *state) {
    return look_domain_up(state, /* may_be_new= */ true);
}

/* As domain_of, but NULL for a domain that has no blocks, or has ended: its thread may still take
 * part in collections after caml_memprof_delete_domain. */
AG_FAST struct domain *known_domain(const unsigned char *state) {
    return look_domain_up(state, /* may_be_new= */ false);
}

/* ---- recording ---- */

/* The stack of the OCaml code whose return address is at SP. */
AG_FAST uint32_t stack_at(struct domain *domain, const uintptr_t *sp, uintptr_t rbp) {
    const uint32_t stack = ag_ocaml_walk(&domain->walk, sp);
    return AG_LIKELY(stack != AG_OCAML_NO_STACK) ? stack : ag_ocaml_native_stack(sp, rbp);
}

/* STACK with the innermost frame replaced by PLACE, an address of debug information. */
static uint32_t with_place(struct domain *domain, uint32_t stack, uintptr_t place) {
    const uint32_t recording = ag_stacks_recording();
    const size_t at = ((stack ^ place / 4) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - PLACES_BITS);
    uintptr_t pc = 0;
    uint32_t caller = 0;
    if (domain->places[at].place != place || domain->places[at].stack != stack ||
        domain->places[at].recording != recording) {
        domain->places[at].place = place;
        domain->places[at].stack = stack;
        domain->places[at].recording = recording;
        domain->places[at].result =
            ag_stack_top(stack, &pc, &caller) ? ag_stack_push_data(caller, place) : stack;
    }
    return domain->places[at].result;
}

AG_FAST void record_block(struct domain *domain, enum ag_ocaml_heap heap, uintptr_t header,
                          uint64_t words, uint32_t stack) {
    const bool is_young = heap == AG_OCAML_MINOR || heap == AG_OCAML_MARSHAL_MINOR;
    domain->lives.words += words + 1;
    if (!ag_host_heap(ag_ocaml_heaps[heap]) ||
        !ag_block_choice_selects(ag_ocaml_heaps[heap], words * WORD, AG_BLOCK_TYPE_UNKNOWN)) {
        return;
    }
    const uint64_t number = is_young ? ag_ocaml_lives_add_young(&domain->lives, heap, header)
                                     : ag_ocaml_lives_add_old(&domain->lives, heap, header);
    const struct ag_reported_block block = {.stack = stack,
                                            .via = ag_ocaml_heaps[heap],
                                            .address = number * AG_OCAML_ADDRESS_STEP,
                                            .bytes = words * WORD};
    struct ag_thread *thread = ag_thread_current;
    if (AG_LIKELY(ag_ocaml_thread_is_open(thread))) {
        ag_thread_set_gate(thread, AG_OCAML_GATE() | AG_GATE_APPENDING);
        ag_stream_append_alloc_fast(thread, block.stack, block.address, block.bytes, block.via);
        ag_thread_set_gate(thread, AG_GATE_OPEN);
    } else {
        ag_host_get_ready();
        ag_record_reported_alloc(&block);
    }
}

/* Records the blocks of a combined allocation in the order in which the program fills them: the
 * last one first. headers: the address of the first block's header. */
static void record_combined(struct domain *domain, const struct ag_ocaml_frame *descriptor,
                            uintptr_t headers, uint32_t stack) {
    const uint8_t *lengths = ag_ocaml_lengths(descriptor);
    const unsigned n = lengths[0];
    uintptr_t header = headers;
    for (unsigned i = 0; i < n; i++) {
        header += ((uintptr_t)lengths[1 + i] + 2) * WORD;
    }
    for (unsigned i = n; i > 0; i--) {
        const uint64_t words = (uint64_t)lengths[i] + 1;
        const uintptr_t place = n > 1 ? ag_ocaml_debug_information(descriptor, i - 1) : 0;
        header -= (words + 1) * WORD;
        record_block(domain, AG_OCAML_MINOR, header, words,
                     place ? with_place(domain, stack, place) : stack);
    }
}

/* Whether the runtime was called only because of the adapter's trigger. */
AG_FAST bool is_only_ours(const unsigned char *state, uintptr_t young_pointer) {
    return is_recording() &&
           state_word(state, YOUNG_LIMIT) == state_word(state, layout->young_end) - WORD &&
           young_pointer >= state_word(state, layout->young_trigger);
}

/* Called from call_gc.S. sp: address of the return address into OCaml code. Returns whether
 * caml_call_gc has nothing to do. */
bool ag_ocaml_allocated(const uintptr_t *sp, uintptr_t rbp, uintptr_t young_pointer,
                        const unsigned char *state) AG_HIDDEN;
bool ag_ocaml_allocated(const uintptr_t *sp, uintptr_t rbp, uintptr_t young_pointer,
                        const unsigned char *state) {
    if (!is_only_ours(state, young_pointer)) {
        return false;
    }
    const struct ag_ocaml_frame *descriptor = ag_ocaml_find_frame(*sp);
    struct domain *domain = domain_of(state);
    if (!descriptor || !ag_ocaml_has_allocations(descriptor) || !domain) {
        return false;
    }
    if (is_telling() && ag_ocaml_lengths(descriptor)[0] > 0) { /* 0: a safe point, from 4.14 on */
        record_combined(domain, descriptor, young_pointer, stack_at(domain, sp, rbp));
    }
    return true;
}

/* The address of the return address into the OCaml code that called C code; NULL: there is none. */
static const uintptr_t *place_of_call(const unsigned char *state) {
    if (ag_ocaml.generation == AG_OCAML_4) {
        const uintptr_t *bottom = (const uintptr_t *)state_word(state, BOTTOM_OF_STACK_4);
        return bottom && bottom[-1] == state_word(state, LAST_RETURN_ADDRESS_4) ? bottom - 1 : NULL;
    }
    const uintptr_t *stack = (const uintptr_t *)state_word(state, CURRENT_STACK_5);
    const uintptr_t *sp = stack ? (const uintptr_t *)stack[0] : NULL;
    return sp && ag_ocaml_find_frame(*sp) ? sp : NULL;
}

/* The stack of the OCaml code that called C code. sp and rbp: the registers of a frame of that C
 * code. */
static uint32_t stack_of_caller(const unsigned char *state, const uintptr_t *sp, uintptr_t rbp) {
    const uintptr_t *place = place_of_call(state);
    struct domain *domain = domain_of(state);
    return place && domain ? stack_at(domain, place, 0) : ag_ocaml_native_stack(sp, rbp);
}

/* ---- blocks that C code allocates ---- */

static void record_young(const unsigned char *state, uintptr_t words, const uint8_t *lengths,
                         uint32_t stack) {
    struct domain *domain = domain_of(state);
    const uintptr_t headers = state_word(state, layout->young_pointer);
    const uintptr_t *place = lengths ? place_of_call(state) : NULL;
    const struct ag_ocaml_frame *descriptor = place ? ag_ocaml_find_frame(*place) : NULL;
    if (domain && domain->is_untracked) {
        domain->is_untracked = false;
    } else if (domain && descriptor && ag_ocaml_lengths(descriptor) + 1 == lengths) {
        record_combined(domain, descriptor, headers, stack);
    } else if (domain) {
        record_block(domain, AG_OCAML_MINOR, headers, words, stack);
    }
}

static bool is_young(const unsigned char *state, uintptr_t header) {
    return header >= state_word(state, layout->young_start) &&
           header < state_word(state, layout->young_end);
}

static void record_other(const unsigned char *state, uintptr_t header, uint64_t words,
                         bool is_unmarshalled, uint32_t stack) {
    const enum ag_ocaml_heap heap = !is_unmarshalled          ? AG_OCAML_MAJOR
                                    : is_young(state, header) ? AG_OCAML_MARSHAL_MINOR
                                                              : AG_OCAML_MARSHAL;
    struct domain *domain = domain_of(state);
    if (domain) {
        record_block(domain, heap, header, words, stack);
    }
}

/* ---- hooks ---- */

/* Each hook runs before the function that has the detour. While the program itself does not use
 * Memprof, Memprof's functions only set the trigger to the runtime's own value. Each hook of a
 * function that may do this has a second part, which runs after the function and raises the trigger
 * again. If a hook without a second part returns true, the function does not run. */

static uint32_t stack_of_call(const unsigned char *state, const struct ag_kept_call *call) {
    return stack_of_caller(state, &call->return_address, call->rbp);
}

/* Sets the result of a function that is not to run. */
static bool returns(struct ag_kept_call *call, uintptr_t result) {
    call->result = result;
    call->result_2 = call->arguments[2];
    return true;
}

static struct domain *collecting_domain(const unsigned char *state) {
    if (!is_recording()) {
        return NULL;
    }
    ag_host_get_ready();
    return known_domain(state);
}

static void place_young(const unsigned char *state) {
    struct domain *domain = domain_of(state);
    if (domain) {
        ag_ocaml_lives_place_young(&domain->lives, state_word(state, layout->young_start),
                                   state_word(state, layout->young_end));
    }
}

static uintptr_t raised_trigger(const unsigned char *state) {
    return state_word(state, layout->young_end) - WORD;
}

/* caml_alloc_small_dispatch([state,] words, flags, ...). */
static bool small_dispatch(struct ag_kept_call *call) {
    uintptr_t *arguments = call->arguments + (ag_ocaml.generation == AG_OCAML_5);
    const uintptr_t words = arguments[0], flags = arguments[1];
    const unsigned char *state = ag_ocaml_own_state();
    const uintptr_t young_pointer = state_word(state, layout->young_pointer);
    struct domain *domain = is_recording() ? domain_of(state) : NULL;
    if (!domain) {
        return false;
    }
    if (flags & FROM_OCAML || !is_only_ours(state, young_pointer)) {
        domain->dispatched = young_pointer + (words + 1) * WORD;
        domain->is_untracked = !(flags & DO_TRACK);
        arguments[1] |= DO_TRACK; /* otherwise the function would renew Memprof's trigger */
        return false;
    }
    if (flags & DO_TRACK && is_telling()) {
        record_block(domain, AG_OCAML_MINOR, young_pointer, words, stack_of_call(state, call));
    }
    return returns(call, call->rax);
}

/* ---- hooks of OCaml 4 ---- */

/* Makes all allocations of the minor heap call the runtime. */
static void raise_trigger_4(void) {
    const unsigned char *state = ag_ocaml_own_state();
    place_young(state);
    *runtime.memprof_trigger = raised_trigger(state);
    runtime.update_young_limit();
}

static bool is_to_be_raised(struct ag_kept_call *call) {
    (void)call;
    return is_recording();
}

static void after_renewal_4(struct ag_kept_call *call) {
    (void)call;
    raise_trigger_4();
}

static bool track_young(struct ag_kept_call *call) {
    const unsigned char *state = ag_ocaml_own_state();
    const uintptr_t *arguments = call->arguments; /* words, is from OCaml, blocks, lengths */
    if (is_telling()) {
        record_young(state, arguments[0], arguments[1] ? (const uint8_t *)arguments[3] : NULL,
                     stack_of_call(state, call));
    }
    return is_recording() && returns(call, call->rax);
}

static bool track_alloc_shr(struct ag_kept_call *call) {
    const unsigned char *state = ag_ocaml_own_state();
    const ag_ocaml_value block = (ag_ocaml_value)call->arguments[0];
    if (is_telling()) {
        record_other(state, (uintptr_t)block - WORD, ag_ocaml_words(block), false,
                     stack_of_call(state, call));
    }
    return false;
}

static bool track_interned(struct ag_kept_call *call) {
    const unsigned char *state = ag_ocaml_own_state();
    const uint64_t *header = (const uint64_t *)call->arguments[0];
    const uint64_t *end = (const uint64_t *)call->arguments[1];
    if (is_telling()) {
        const uint32_t stack = stack_of_call(state, call);
        for (; header < end; header += (*header >> 10) + 1) {
            record_other(state, (uintptr_t)header, *header >> 10, true, stack);
        }
    }
    return false;
}

static bool minor_update(struct ag_kept_call *call) {
    const unsigned char *state = ag_ocaml_own_state();
    struct domain *domain = collecting_domain(state);
    (void)call;
    if (domain) {
        ag_ocaml_lives_minor_ends(&domain->lives, state_word(state, layout->young_pointer));
    }
    return false;
}

static bool update_clean_phase(struct ag_kept_call *call) {
    struct domain *domain = collecting_domain(ag_ocaml_own_state());
    (void)call;
    if (domain) {
        ag_ocaml_lives_major_ends(&domain->lives, /* dead_bits: white */ 0);
    }
    return false;
}

static void invert(void *context, ag_ocaml_value *place) {
    (void)context;
    runtime.invert_root(*place, place);
}

static bool invert_tracked(struct ag_kept_call *call) {
    struct domain *domain = collecting_domain(ag_ocaml_own_state());
    (void)call;
    if (domain) {
        ag_ocaml_lives_visit_old(&domain->lives, invert, NULL);
    }
    return false;
}

/* ---- hooks of OCaml 5 ---- */

static void set_trigger_5(unsigned char *state, uintptr_t trigger) {
    *(volatile uintptr_t *)(state + layout->memprof_trigger) = trigger;
}

/* caml_memprof_set_trigger(state): called when the minor heap of the domain is made, resized or
 * emptied. */
static void after_set_trigger(struct ag_kept_call *call) {
    unsigned char *state = (unsigned char *)call->arguments[0];
    place_young(state);
    set_trigger_5(state, raised_trigger(state));
}

/* For functions into which the compiler may have inlined caml_memprof_set_trigger. */
static void raise_again_5(void) {
    unsigned char *state = (unsigned char *)(uintptr_t)ag_ocaml_own_state();
    if (state_word(state, layout->memprof_trigger) != raised_trigger(state)) {
        set_trigger_5(state, raised_trigger(state));
        runtime.reset_young_limit(state);
    }
}

static void after_renewal_5(struct ag_kept_call *call) {
    (void)call;
    raise_again_5();
}

static bool sample_young(struct ag_kept_call *call) {
    unsigned char *state = (unsigned char *)(uintptr_t)ag_ocaml_own_state();
    if (!is_recording() && state_word(state, layout->memprof_trigger) == raised_trigger(state)) {
        set_trigger_5(state, state_word(state, layout->young_start));
        runtime.reset_young_limit(state); /* recording has ended in another domain */
        return returns(call, call->rax);
    }
    return track_young(call);
}

static bool sample_block(struct ag_kept_call *call) {
    enum { SOURCE_NORMAL, SOURCE_MARSHAL };
    const unsigned char *state = ag_ocaml_own_state();
    const uintptr_t *arguments = call->arguments; /* block, words, sampled words, source */
    const int source = (int)arguments[3];
    if (is_telling() && (source == SOURCE_NORMAL || source == SOURCE_MARSHAL)) {
        record_other(state, arguments[0] - WORD, arguments[1], source == SOURCE_MARSHAL,
                     stack_of_call(state, call));
    }
    return false;
}

/* Called at the end of a minor collection, when all domains have finished. Before that, another
 * domain might still promote blocks of this domain. */
static bool update_last_minor(struct ag_kept_call *call) {
    struct domain *domain = collecting_domain((const unsigned char *)call->arguments[0]);
    if (domain) {
        ag_ocaml_lives_minor_ends(&domain->lives, /* young_pointer: unknown */ 0);
    }
    return false;
}

/* Calls FUNCTION with the blocks of the domain, and with those of domains that have ended. */
static void for_blocks(const unsigned char *state,
                       void (*function)(struct ag_ocaml_lives *lives, void *context),
                       void *context) {
    struct domain *domain = collecting_domain(state);
    if (domain) {
        function(&domain->lives, context);
    }
    for (size_t i = 0; domain && i < DOMAINS_MOST; i++) {
        struct domain *orphan = atomic_load_explicit(&domains[i], memory_order_acquire);
        if (claim_domain(orphan, IS_ORPHAN, IS_BUSY)) {
            function(&orphan->lives, context);
            atomic_store_explicit(&orphan->state, IS_ORPHAN, memory_order_release);
        }
    }
}

static void end_major(struct ag_ocaml_lives *lives, void *context) {
    (void)context;
    ag_ocaml_lives_major_ends(lives, *runtime.unmarked);
}

static bool after_major_gc(struct ag_kept_call *call) {
    for_blocks((const unsigned char *)call->arguments[0], end_major, NULL);
    return false;
}

typedef void scanning_action(void *context, ag_ocaml_value block, ag_ocaml_value *place);
struct scan {
    scanning_action *action;
    void *context;
};

static void scan_block(void *context, ag_ocaml_value *place) {
    const struct scan *scan = context;
    scan->action(scan->context, *place, place);
}

static void scan_blocks(struct ag_ocaml_lives *lives, void *context) {
    ag_ocaml_lives_visit_old(lives, scan_block, context);
}

static bool scan_roots(struct ag_kept_call *call) {
    const uintptr_t *arguments = call->arguments; /* action, flags, context, state, is weak */
    struct scan scan = {(scanning_action *)arguments[0], (void *)arguments[2]};
    if (arguments[4] & 0xff) {
        for_blocks((const unsigned char *)arguments[3], scan_blocks, &scan);
    }
    return false;
}

static bool delete_domain(struct ag_kept_call *call) {
    struct domain *domain =
        is_recording() ? known_domain((const unsigned char *)call->arguments[0]) : NULL;
    if (domain) {
        atomic_store_explicit(&domain->state, IS_ORPHAN, memory_order_release);
    }
    return false;
}

/* caml_handle_gc_interrupt(): the runtime calls it when young_limit is above the young pointer, and
 * at the beginning of caml_alloc_small_dispatch. */
static bool handle_gc_interrupt(struct ag_kept_call *call) {
    const unsigned char *state = ag_ocaml_own_state();
    const uintptr_t young_pointer = state_word(state, layout->young_pointer);
    struct domain *domain = is_recording() ? known_domain(state) : NULL;
    enum { ACTION_PENDING = 56 };
    return domain && domain->dispatched != young_pointer && is_only_ours(state, young_pointer) &&
           state_word(state, ACTION_PENDING) == 0 && returns(call, call->rax);
}

/* caml_check_urgent_gc(value), which returns its argument. */
static bool check_urgent_gc(struct ag_kept_call *call) {
    const unsigned char *state = ag_ocaml_own_state();
    return is_only_ours(state, state_word(state, layout->young_pointer)) &&
           returns(call, call->arguments[0]);
}

/* ---- start ---- */

/* Used by call_gc.S. */
extern const unsigned char ag_ocaml_call_gc_enter_4[] AG_HIDDEN;
extern const unsigned char ag_ocaml_call_gc_enter_5[] AG_HIDDEN;
extern const unsigned char ag_ocaml_hook_before[] AG_HIDDEN;
extern const unsigned char ag_ocaml_hook_around[] AG_HIDDEN;
extern void *ag_ocaml_call_gc AG_HIDDEN;       /* the original */
extern uintptr_t ag_ocaml_own_stack AG_HIDDEN; /* the high end of the adapter's stack; 0: there is
                                                * no stack, or it is in use */
void *ag_ocaml_call_gc;
uintptr_t ag_ocaml_own_stack;

/* A function with a detour; the datum of the detour is the row's address. */
struct row {
    const char *name;
    bool (*begin)(struct ag_kept_call *call); /* called before the function. Without `end`: returns
                                               * true if the function is not to run. With `end`:
                                               * returns true if `end` is to be called */
    void (*end)(struct ag_kept_call *call);   /* called after the function; NULL: none */
    void *original;
};
static struct row rows_4[] = {
    {"caml_memprof_renew_minor_sample", is_to_be_raised, after_renewal_4, NULL},
    {"caml_memprof_set_suspended", is_to_be_raised, after_renewal_4, NULL},
    {"caml_memprof_enter_thread", is_to_be_raised, after_renewal_4, NULL},
    {"caml_memprof_track_young", track_young, NULL, NULL},
    {"caml_memprof_track_alloc_shr", track_alloc_shr, NULL, NULL},
    {"caml_memprof_track_interned", track_interned, NULL, NULL},
    {"caml_memprof_minor_update", minor_update, NULL, NULL},
    {"caml_memprof_update_clean_phase", update_clean_phase, NULL, NULL},
    {"caml_memprof_invert_tracked", invert_tracked, NULL, NULL},
    {"caml_alloc_small_dispatch", small_dispatch, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};
static struct row rows_5[] = {
    {"caml_memprof_set_trigger", is_to_be_raised, after_set_trigger, NULL},
    {"caml_memprof_update_suspended", is_to_be_raised, after_renewal_5, NULL},
    {"caml_memprof_enter_thread", is_to_be_raised, after_renewal_5, NULL},
    {"caml_memprof_sample_young", sample_young, NULL, NULL},
    {"caml_memprof_sample_block", sample_block, NULL, NULL},
    {"caml_final_update_last_minor", update_last_minor, NULL, NULL},
    {"caml_memprof_after_major_gc", after_major_gc, NULL, NULL},
    {"caml_memprof_scan_roots", scan_roots, NULL, NULL},
    {"caml_memprof_delete_domain", delete_domain, NULL, NULL},
    {"caml_alloc_small_dispatch", small_dispatch, NULL, NULL},
    {"caml_handle_gc_interrupt", handle_gc_interrupt, NULL, NULL},
    {"caml_check_urgent_gc", check_urgent_gc, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

static struct row *rows(void) {
    return ag_ocaml.generation == AG_OCAML_4 ? rows_4 : rows_5;
}

/* Called from call_gc.S. */
bool ag_ocaml_hook_begins(struct ag_kept_call *call) AG_HIDDEN;
void ag_ocaml_hook_ends(struct ag_kept_call *call) AG_HIDDEN;

bool ag_ocaml_hook_begins(struct ag_kept_call *call) {
    const struct row *row = (const struct row *)call->datum;
    call->original = (uintptr_t)row->original;
    return row->begin(call);
}

void ag_ocaml_hook_ends(struct ag_kept_call *call) {
    ((const struct row *)call->datum)->end(call);
}

/* The first instructions of caml_call_gc. In 4.13 and 4.14 they store the return address and the
 * stack pointer in the domain's state; then they save the registers, the young pointer in the
 * domain's state. In 4.12 only the place of the young pointer is another one. In 5.3 they store the
 * young pointer and take memory for the registers. */
static const unsigned char call_gc_4[] = {
    0x4c, 0x8b, 0x1c, 0x24, /* mov (%rsp), %r11 */
    0x4d, 0x89, 0x9e, LAST_RETURN_ADDRESS_4,
    0x00, 0x00, 0x00, /* mov %r11, (%r14) */
    0x4c, 0x8d, 0x5c, 0x24,
    0x08, /* lea 8(%rsp), %r11 */
    0x4d, 0x89, 0x9e, BOTTOM_OF_STACK_4,
    0x00, 0x00, 0x00, /* mov %r11, (%r14) */
};
static const unsigned char store_young_4[] = {0x4d, 0x89, 0x7e, 0x08}; /* mov %r15, 8(%r14) */
static const unsigned char call_gc_5[] = {
    0x4d, 0x89, 0x7e, 0x08, /* mov %r15, 8(%r14) */
    0x4d, 0x8b, 0x7e, 0x50, /* mov 0x50(%r14), %r15 */
    0x4d, 0x89, 0x5f, 0x58, /* mov %r11, 0x58(%r15) */
};

static bool find_4(void) {
    runtime.memprof_trigger = ag_ocaml_find_data("caml_memprof_young_trigger");
    runtime.update_young_limit = (void (*)(void))ag_ocaml_find("caml_update_young_limit");
    runtime.invert_root =
        (void (*)(ag_ocaml_value, ag_ocaml_value *))ag_ocaml_find("caml_invert_root");
    return ag_ocaml.state && runtime.memprof_trigger && runtime.update_young_limit &&
           runtime.invert_root;
}

/* Refuses the debug runtime, which checks that young_limit is not above the young pointer. */
static bool find_5(void) {
    const uint64_t *heap_state = ag_ocaml_find_data("caml_global_heap_state");
    runtime.reset_young_limit =
        (void (*)(const unsigned char *))ag_ocaml_find("caml_reset_young_limit");
    if (!heap_state || !runtime.reset_young_limit || !ag_ocaml.state_offset ||
        ag_ocaml_find("caml_failed_assert")) {
        return false;
    }
    runtime.unmarked = heap_state + 1;
    return true;
}

/* Whether caml_call_gc stores the young pointer at its place in 4.13 and 4.14, after the return
 * address, the stack pointer and the other registers. */
static bool stores_young_4(const unsigned char *call_gc) {
    enum { LATEST = 96 }; /* it is at 67 */
    for (size_t at = sizeof(call_gc_4); at < LATEST; at++) {
        if (memcmp(call_gc + at, store_young_4, sizeof(store_young_4)) == 0) {
            return true;
        }
    }
    return false;
}

bool ag_ocaml_path_is_known(void) {
    const bool is_4 = ag_ocaml.generation == AG_OCAML_4;
    const unsigned char *call_gc = ag_ocaml_find("caml_call_gc");
    layout = is_4 ? &layout_4 : &layout_5;
    if (ag_ocaml.is_bytecode || !call_gc || !ag_ocaml_frames_find() ||
        !(is_4 ? find_4() : find_5())) {
        return false;
    }
    for (const struct row *row = rows(); row->name; row++) {
        if (!ag_ocaml_find(row->name)) {
            return false;
        }
    }
    call_gc += memcmp(call_gc, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0; /* endbr64 */
    return is_4 ? memcmp(call_gc, call_gc_4, sizeof(call_gc_4)) == 0 && stores_young_4(call_gc)
                : memcmp(call_gc, call_gc_5, sizeof(call_gc_5)) == 0;
}

bool ag_ocaml_path_follow(void) {
    static struct ag_detour of_call_gc;
    enum { STACK_BYTES = 256 * 1024, MARGIN_BYTES = 1 << 20 };
    const bool is_4 = ag_ocaml.generation == AG_OCAML_4;
    char *stack = is_4 ? ag_own_memory_take(2 * MARGIN_BYTES + STACK_BYTES) : NULL;
    if (is_4 && !stack) {
        return false;
    }
    for (struct row *row = rows(); row->name; row++) {
        if (!ag_ocaml_detour(row->name, row->end ? ag_ocaml_hook_around : ag_ocaml_hook_before, row,
                             &row->original)) {
            return false;
        }
    }
    if (ag_detour_install(
            &of_call_gc, ag_ocaml_find("caml_call_gc"), 0,
            (void *)(uintptr_t)(is_4 ? ag_ocaml_call_gc_enter_4 : ag_ocaml_call_gc_enter_5),
            &ag_ocaml_call_gc) < 0) {
        return false;
    }
    ag_ocaml_own_stack = is_4 ? (uintptr_t)stack + MARGIN_BYTES + STACK_BYTES : 0;
    return true;
}

bool ag_ocaml_path_begin(void) {
    unsigned char *state = (unsigned char *)(uintptr_t)ag_ocaml_own_state();
    const uintptr_t start = state_word(state, layout->young_start);
    const uintptr_t end = state_word(state, layout->young_end);
    const uintptr_t trigger = state_word(state, layout->young_trigger);
    const uintptr_t limit = state_word(state, YOUNG_LIMIT);
    const uintptr_t pointer = state_word(state, layout->young_pointer);
    const uintptr_t memprof_trigger = ag_ocaml.generation == AG_OCAML_4
                                          ? *runtime.memprof_trigger
                                          : state_word(state, layout->memprof_trigger);
    const uintptr_t requested = ag_ocaml.generation == AG_OCAML_4 ? end : UINTPTR_MAX;
    if (start >= end || (end - start) / WORD != state_word(state, layout->minor_heap_words) ||
        trigger < start || trigger >= end || (trigger - start) % WORD != 0 || pointer < start ||
        pointer > end || (limit != trigger && limit != requested) || memprof_trigger != start ||
        !domain_of(state)) {
        return false;
    }
    atomic_store_explicit(&is_on, true, memory_order_relaxed);
    if (ag_ocaml.generation == AG_OCAML_4) {
        raise_trigger_4();
    } else {
        place_young(state);
        raise_again_5();
    }
    return true;
}

void ag_ocaml_path_end(void) {
    if (!is_recording()) {
        return;
    }
    unsigned char *state = (unsigned char *)(uintptr_t)ag_ocaml_own_state();
    atomic_store_explicit(&is_on, false, memory_order_relaxed);
    if (ag_ocaml.generation == AG_OCAML_4) {
        struct domain *domain = domain_of(state);
        *runtime.memprof_trigger = state_word(state, layout->young_start);
        runtime.update_young_limit();
        if (domain) {
            ag_ocaml_lives_forget(&domain->lives);
        }
    } else {
        set_trigger_5(state, state_word(state, layout->young_start));
        runtime.reset_young_limit(state);
    }
}

bool ag_ocaml_path_is_on(void) {
    return is_recording();
}

uint64_t ag_ocaml_path_words(void) {
    uint64_t words = 0;
    for (size_t i = 0; i < DOMAINS_MOST; i++) {
        const struct domain *domain = atomic_load_explicit(&domains[i], memory_order_acquire);
        words += domain ? domain->lives.words : 0;
    }
    return words;
}
