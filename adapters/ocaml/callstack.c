/* callstack.c: see callstack.h.
 *
 * 1. Two halves. Memprof tells the OCaml frames at the moment of the allocation, without the C
 * frames in between. The walk from the callback has all frames, but of the moment at which the
 * callback runs. Where OCaml code allocated, that is the same moment:
 *
 *     callback | caml_start_program | Memprof, the collector | caml_call_gc | OCaml, C, OCaml ...
 *
 * and what stands behind caml_call_gc is the stack. The runtime's stubs in assembly lie together,
 * so the first of them behind the callback's own (caml_c_call, too, in OCaml 5) is the entry that
 * OCaml code came through.
 *
 * 2. Later callbacks. What C code allocates is told at the next moment at which OCaml code can be
 * called: some frames have returned by then, others have been called. But Memprof takes its
 * callstack at once, and only of samples: at that moment the stack is walked, too, and kept under
 * what Memprof found, until the callback comes with the same. Where it is not there any more, both
 * stacks have their outermost frames in common: return address by return address from the outer
 * end, as long as they agree, frames are taken from the walk, with the C frames between them; from
 * the first difference on they are Memprof's.
 *
 * 3. Walks that end early. Behind some exception handlers OCaml 4's unwind tables are wrong by a
 * few words (seen in Stdlib.Scanf of 4.13). Memprof goes by its own tables and is right there; so
 * where the walk did not reach its end, the OCaml frames are Memprof's, and the stack counts as
 * incomplete for the C frames around them.
 *
 * 4. Slots. Each entry of Memprof's callstack is an address with bit 0 set: of a frame descriptor,
 * which begins with the return address; or, with bit 1 as well, and two more than its address, of
 * debug information: the innermost one, where the compiler combined several allocations, so that
 * each has a place of its own. That address itself is recorded, for the decoder. */
#include "callstack.h"

#include "allogram/allogram.h"
#include "base/stack_tree.h"
#include "collector_hooks.h"
#include "embed/host_events.h"
#include "hush.h"
#include "known_stacks.h"

AG_FAST bool is_place(ag_ocaml_value slot) {
    return slot & 2;
}

AG_FAST uintptr_t slot_address(ag_ocaml_value slot) {
    return (uintptr_t)slot & ~(uintptr_t)3;
}

AG_FAST uintptr_t slot_return_address(ag_ocaml_value slot) {
    return *(const uintptr_t *)slot_address(slot);
}

/* The frame at PC is the slot's. OCaml 5 marks its stubs as frames that were interrupted; the walk
 * takes the pc of who called one for exact, and puts it one further, so that it names a call. */
AG_FAST bool is_of(uintptr_t pc, ag_ocaml_value slot) {
    return !is_place(slot) && pc - slot_return_address(slot) <= 1;
}

static uint32_t push_slot(uint32_t caller, ag_ocaml_value slot) {
    return is_place(slot) ? ag_stack_push_data(caller, slot_address(slot))
                          : ag_stack_push(caller, slot_return_address(slot));
}

/* The node behind the stubs that OCaml code came through, 0: there is none. */
static uint32_t behind_the_stubs(uint32_t walked) {
    enum { FRAMES_MOST = 32 };
    uintptr_t pc = 0;
    uint32_t node = walked, caller = 0;
    if (!ag_stack_top(node, &pc, &caller) || !ag_ocaml_is_stub(pc)) {
        return 0; /* not called as we thought */
    }
    while (ag_stack_top(node, &pc, &caller) &&
           ag_ocaml_is_stub(pc)) { /* those that called the callback */
        node = caller;
    }
    bool was_stub = false;
    for (int i = 0; i < FRAMES_MOST && ag_stack_top(node, &pc, &caller); i++) {
        if (was_stub && !ag_ocaml_is_stub(pc)) {
            return node;
        }
        was_stub = ag_ocaml_is_stub(pc);
        node = caller;
    }
    return 0;
}

/* The walk ended before its first frame. Asked of every walk, so the last answers are kept. */
static bool is_incomplete(uint32_t walked) {
    enum { CACHE_BITS = 12 };
    static _Atomic uint32_t answers[1 << CACHE_BITS]; /* node << 1 | incomplete */
    _Atomic uint32_t *answer = &answers[walked & ((1 << CACHE_BITS) - 1)];
    uint32_t known = atomic_load_explicit(answer, memory_order_relaxed);
    if (known >> 1 != walked || walked < AG_NODE_FIRST) {
        uintptr_t pc = 0;
        uint32_t node = walked, caller = 0;
        while (ag_stack_top(node, &pc, &caller)) {
            node = caller;
        }
        known = walked << 1 | (node == AG_ROOT_INCOMPLETE || node == AG_ROOT_NOT_KEPT);
        atomic_store_explicit(answer, known, memory_order_relaxed);
    }
    return known & 1;
}

/* The walked frames, innermost first; returns how many, and the root in *ret_root. */
static size_t list(uint32_t walked, uint32_t nodes[AG_OCAML_FRAMES_MOST], uint32_t *ret_root) {
    size_t n = 0;
    uintptr_t pc = 0;
    uint32_t node = walked, caller = 0;
    while (n < AG_OCAML_FRAMES_MOST && ag_stack_top(node, &pc, &caller)) {
        nodes[n++] = node;
        node = caller;
    }
    *ret_root = node < AG_NODE_FIRST ? node : (uint32_t)AG_ROOT_CUT;
    return n;
}

/* How far the two agree from their outer ends: the walked node, and how many slots are left. */
static uint32_t common_part(uint32_t walked, ag_ocaml_value callstack, size_t *n_slots) {
    uint32_t nodes[AG_OCAML_FRAMES_MOST];
    uint32_t root = AG_ROOT_INCOMPLETE;
    const size_t n = list(walked, nodes, &root);
    uint32_t common = root;
    if (root != AG_ROOT_COMPLETE || *n_slots == AG_OCAML_FRAMES_MOST) {
        return root == AG_ROOT_INCOMPLETE || root == AG_ROOT_NOT_KEPT ? root
                                                                      : (uint32_t)AG_ROOT_CUT;
    }
    for (size_t i = n; i > 0 && *n_slots > 0; i--) {
        const ag_ocaml_value slot = ag_ocaml_field(callstack, *n_slots - 1);
        uintptr_t pc = 0;
        uint32_t caller = 0;
        (void)ag_stack_top(nodes[i - 1], &pc, &caller);
        if (is_of(pc, slot)) {
            common = nodes[i - 1];
            --*n_slots;
        } else if (ag_ocaml_is_code(pc)) {
            return caller; /* the same activation elsewhere: C frames that called it stay */
        }
    }
    return common;
}

static uint32_t merged(uint32_t walked, ag_ocaml_value callstack, size_t n_slots) {
    uint32_t stack = common_part(walked, callstack, &n_slots);
    while (n_slots > 0) {
        stack = push_slot(stack, ag_ocaml_field(callstack, --n_slots));
    }
    return stack;
}

/* ---- what was walked when C code allocated ---- */

static void keep(const ag_ocaml_value *slots, size_t n_slots, const uintptr_t *sp, uintptr_t rbp) {
    const uintptr_t spoke = ag_ocaml_speak();
    if (allogram_mode_ & ALLOGRAM_TELLS_) {
        ag_host_get_ready();
        const uint32_t walked = ag_record_stack(sp, rbp);
        if (!is_incomplete(walked)) {
            ag_ocaml_remember_stack(ag_ocaml_stack_key(slots, n_slots, NULL),
                                    merged(walked, (ag_ocaml_value)slots, n_slots));
        }
    }
    ag_ocaml_hush(spoke);
}

static intptr_t (*collect_4)(ag_ocaml_value **ret_slots, intptr_t *ret_capacity, intptr_t most,
                             int allocation);
static size_t (*collect_5)(size_t most, ag_ocaml_value **ret_slots, size_t *ret_capacity,
                           intptr_t allocation);

static intptr_t told_collect_4(ag_ocaml_value **ret_slots, intptr_t *ret_capacity, intptr_t most,
                               int allocation) {
    const intptr_t n = collect_4(ret_slots, ret_capacity, most, allocation);
    if (allocation < 0 && n > 0) {
        keep(*ret_slots, (size_t)n, AG_KEPT_CALLER_SP(), AG_KEPT_CALLER_RBP());
    }
    return n;
}

static size_t told_collect_5(size_t most, ag_ocaml_value **ret_slots, size_t *ret_capacity,
                             intptr_t allocation) {
    const size_t n = collect_5(most, ret_slots, ret_capacity, allocation);
    if (allocation < 0 && n > 0) {
        keep(*ret_slots, n, AG_KEPT_CALLER_SP(), AG_KEPT_CALLER_RBP());
    }
    return n;
}

void ag_ocaml_callstacks_follow(void) {
    if (ag_ocaml.generation == AG_OCAML_4) {
        (void)ag_ocaml_detour("caml_collect_current_callstack", ag_kept_call,
                              (void *)told_collect_4, (void **)&collect_4);
    } else {
        (void)ag_ocaml_detour("caml_get_callstack", ag_kept_call, (void *)told_collect_5,
                              (void **)&collect_5);
    }
}

/* ---- one block's stack ---- */

uint32_t ag_ocaml_stack(uint32_t walked, ag_ocaml_value callstack) {
    const size_t n_slots = ag_ocaml_words(callstack);
    uintptr_t pc = 0;
    uint32_t caller = 0;
    if (n_slots == 0) {
        return walked;
    }
    const ag_ocaml_value first = ag_ocaml_field(callstack, 0);
    const uint32_t allocating = is_incomplete(walked) ? 0 : behind_the_stubs(walked);
    if (ag_stack_top(allocating, &pc, &caller)) {
        if (is_place(first)) {
            return ag_stack_push_data(caller, slot_address(first));
        }
        if (is_of(pc, first)) {
            return allocating;
        }
    }
    const uint32_t kept =
        ag_ocaml_known_stack(ag_ocaml_stack_key((const ag_ocaml_value *)callstack, n_slots, NULL));
    return kept ? kept : merged(walked, callstack, n_slots);
}
