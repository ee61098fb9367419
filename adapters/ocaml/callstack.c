/* callstack.c: makes the stack of an OCaml block, for native programs: joins the callstack that
 * Memprof gives (Memprof is the runtime's own sampler) with the native frames of a stack walk.
 *
 * 1. Two sources. Memprof gives the OCaml frames as they were at the allocation, without the C
 * frames in between. The stack walk from the callback has all frames, but as they are when the
 * callback runs. If OCaml code allocated, the callback runs at once, and the walk is
 *
 *     callback | caml_start_program | Memprof, the collector | caml_call_gc | OCaml, C, OCaml ...
 *
 * (innermost frame first). The frames after caml_call_gc are the block's stack. The code of the
 * runtime's assembly stubs is one range. So the stub through which OCaml code called the runtime is
 * the first one after the stubs of the callback itself (caml_start_program, and in OCaml 5 also
 * caml_c_call).
 *
 * 2. Later callbacks. If C code allocates, the callback runs later, when OCaml code can be called:
 * some functions have returned by then, others have been called. But Memprof takes its callstack at
 * the allocation, by a function that it calls only for samples. A hook of that function also walks
 * the stack at the allocation, and keeps the stack under a key made of Memprof's callstack
 * (known_stacks.h) until the callback gets the same callstack. If the cache has lost the stack by
 * then, it is joined from Memprof's callstack and the callback's walk, which have their outermost
 * frames in common. From the outer end to the first return address that differs, the frames come
 * from the walk, including C frames. The frames inside of them come from Memprof's callstack.
 *
 * 3. Walks that end early. After some exception handlers OCaml 4's unwind tables are wrong by a few
 * words (seen in Stdlib.Scanf of 4.13). Memprof uses its own tables, which are right in these
 * cases. So if the walk did not reach its end, the OCaml frames are Memprof's, and the stack counts
 * as incomplete because of the missing C frames.
 *
 * 4. Slots. Each entry (slot) of Memprof's callstack is an address with bit 0 set. It is the
 * address of a frame descriptor, which begins with the return address; or, if bit 1 is set as well,
 * the address of debug information. Only the innermost slot can be of the second kind: the compiler
 * combined several allocations, and each has its own place in the source. In that case the address
 * of the debug information is recorded as the frame, and ocaml_decoder.c finds the source position
 * from it. */
#include "callstack.h"

#include "allogram/allogram.h"
#include "base/stack_tree.h"
#include "collector_hooks.h"
#include "embed/host_events.h"
#include "known_stacks.h"
#include "suppress.h"

AG_FAST bool is_place(ag_ocaml_value slot) {
    return slot & 2;
}

AG_FAST uintptr_t slot_address(ag_ocaml_value slot) {
    return (uintptr_t)slot & ~(uintptr_t)3;
}

AG_FAST uintptr_t slot_return_address(ag_ocaml_value slot) {
    return *(const uintptr_t *)slot_address(slot);
}

/* Whether PC is the return address of the slot. OCaml 5 marks its stubs as frames of signals, so
 * the walk takes the pc of a stub's caller for an exact address, and adds 1 to get a return
 * address. */
AG_FAST bool is_of(uintptr_t pc, ag_ocaml_value slot) {
    return !is_place(slot) && pc - slot_return_address(slot) <= 1;
}

static uint32_t push_slot(uint32_t caller, ag_ocaml_value slot) {
    return is_place(slot) ? ag_stack_push_data(caller, slot_address(slot))
                          : ag_stack_push(caller, slot_return_address(slot));
}

/* The frame after the stubs through which OCaml code called the runtime; n_frames: there is
 * none. */
static uint32_t behind_the_stubs(const struct ag_walk_view *walked) {
    enum { FRAMES_MOST = 32 };
    uint32_t i = 0;
    if (walked->n_frames == 0 || !ag_ocaml_is_stub(ag_walk_view_pc(walked, 0))) {
        return walked->n_frames; /* not the expected order of frames */
    }
    while (i < walked->n_frames && ag_ocaml_is_stub(ag_walk_view_pc(walked, i))) {
        i++; /* the stubs that called the callback */
    }
    bool was_stub = false;
    for (const uint32_t end = i + FRAMES_MOST; i < end && i < walked->n_frames; i++) {
        const bool is_stub = ag_ocaml_is_stub(ag_walk_view_pc(walked, i));
        if (was_stub && !is_stub) {
            return i;
        }
        was_stub = is_stub;
    }
    return walked->n_frames;
}

AG_FAST bool is_incomplete(const struct ag_walk_view *walked) {
    return walked->root == AG_ROOT_INCOMPLETE || walked->root == AG_ROOT_NOT_KEPT;
}

/* A stack that is being assembled: the walked frames that the stack keeps, and the slots to be
 * pushed inside of these frames. */
struct choice {
    const ag_ocaml_value *slots;
    size_t n_slots;  /* in: number of Memprof's slots; out: number of slots to be pushed */
    uintptr_t place; /* out: debug information to be pushed; 0: none */
    bool is_later;   /* in: the callback runs later than the allocation */
    bool is_walked;  /* out: the walk reached its end */
    bool is_cut;     /* out: no walked frame is kept, because the walk or the slots may be cut */
    uint32_t known;  /* in: the stack that was kept when C code allocated; 0: none. out: 0 if OCaml
                      * code allocated, because the walk then has the stack */
};

/* Finds the outer frames in which the walk and Memprof's callstack agree. Returns the index of the
 * innermost of these walked frames, and sets choice->n_slots to the number of slots inside of
 * them. */
static uint32_t common_part(const struct ag_walk_view *walked, struct choice *choice) {
    uint32_t common = walked->n_frames;
    if (walked->root != AG_ROOT_COMPLETE || walked->n_frames >= AG_OCAML_FRAMES_MOST ||
        choice->n_slots == AG_OCAML_FRAMES_MOST) {
        choice->is_cut = !is_incomplete(walked);
        return common;
    }
    for (uint32_t i = walked->n_frames; i > 0 && choice->n_slots > 0; i--) {
        const uintptr_t pc = ag_walk_view_pc(walked, i - 1);
        if (is_of(pc, choice->slots[choice->n_slots - 1])) {
            common = i - 1;
            choice->n_slots--;
        } else if (ag_ocaml_is_code(pc)) {
            return i; /* this OCaml frame has continued since the allocation */
        }
    }
    return common;
}

static uint32_t choose(void *context, const struct ag_walk_view *walked) {
    struct choice *choice = context;
    choice->is_walked = !is_incomplete(walked);
    if (choice->is_later) {
        return choice->is_walked ? common_part(walked, choice) : walked->n_frames;
    }
    if (choice->n_slots == 0) {
        choice->known = 0;
        return 0;
    }
    const uint32_t allocating = choice->is_walked ? behind_the_stubs(walked) : walked->n_frames;
    if (allocating < walked->n_frames) {
        const bool is_debug_place = is_place(choice->slots[0]);
        if (is_debug_place || is_of(ag_walk_view_pc(walked, allocating), choice->slots[0])) {
            choice->place = is_debug_place ? slot_address(choice->slots[0]) : 0;
            choice->n_slots = 0;
            choice->known = 0;
            return allocating + is_debug_place;
        }
    }
    return choice->known ? walked->n_frames : common_part(walked, choice);
}

/* Walks the frames that begin at SP, keeps the outer frames that `choose` selects, and pushes the
 * slots of the choice inside of them. */
static uint32_t put_together(struct choice *choice, const uintptr_t *sp, uintptr_t rbp) {
    uint32_t stack = ag_record_stack_outer(sp, rbp, choose, choice);
    if (choice->known) {
        return choice->known;
    }
    if (choice->is_cut && stack == AG_ROOT_COMPLETE) {
        stack = AG_ROOT_CUT;
    }
    if (choice->place) {
        return ag_stack_push_data(stack, choice->place);
    }
    while (choice->n_slots > 0) {
        stack = push_slot(stack, choice->slots[--choice->n_slots]);
    }
    return stack;
}

/* ---- stacks kept when C code allocated ---- */

static void callstack_keep(const ag_ocaml_value *slots, size_t n_slots, const uintptr_t *sp,
                           uintptr_t rbp) {
    const uintptr_t resumed = ag_ocaml_resume();
    if (allogram_mode_ & ALLOGRAM_TELLS_) {
        ag_host_get_ready();
        struct choice choice = {.slots = slots, .n_slots = n_slots, .is_later = true};
        const uint32_t stack = put_together(&choice, sp, rbp);
        if (choice.is_walked) {
            ag_ocaml_remember_stack(ag_ocaml_stack_key(slots, n_slots, NULL), stack);
        }
    }
    ag_ocaml_suppress(resumed);
}

static intptr_t (*collect_4)(ag_ocaml_value **ret_slots, intptr_t *ret_capacity, intptr_t most,
                             int allocation);
static size_t (*collect_5)(size_t most, ag_ocaml_value **ret_slots, size_t *ret_capacity,
                           intptr_t allocation);

static intptr_t hooked_collect_4(ag_ocaml_value **ret_slots, intptr_t *ret_capacity, intptr_t most,
                                 int allocation) {
    const intptr_t n = collect_4(ret_slots, ret_capacity, most, allocation);
    if (allocation < 0 && n > 0) {
        callstack_keep(*ret_slots, (size_t)n, AG_KEPT_CALLER_SP(), AG_KEPT_CALLER_RBP());
    }
    return n;
}

static size_t hooked_collect_5(size_t most, ag_ocaml_value **ret_slots, size_t *ret_capacity,
                               intptr_t allocation) {
    const size_t n = collect_5(most, ret_slots, ret_capacity, allocation);
    if (allocation < 0 && n > 0) {
        callstack_keep(*ret_slots, n, AG_KEPT_CALLER_SP(), AG_KEPT_CALLER_RBP());
    }
    return n;
}

void ag_ocaml_callstacks_follow(void) {
    if (ag_ocaml.generation == AG_OCAML_4) {
        (void)ag_ocaml_detour("caml_collect_current_callstack", ag_kept_call,
                              (void *)hooked_collect_4, (void **)&collect_4);
    } else {
        (void)ag_ocaml_detour("caml_get_callstack", ag_kept_call, (void *)hooked_collect_5,
                              (void **)&collect_5);
    }
}

/* ---- one block's stack ---- */

uint32_t ag_ocaml_stack(ag_ocaml_value callstack, const uintptr_t *sp, uintptr_t rbp) {
    struct choice choice = {.slots = (const ag_ocaml_value *)callstack,
                            .n_slots = ag_ocaml_words(callstack)};
    choice.known = ag_ocaml_known_stack(ag_ocaml_stack_key(choice.slots, choice.n_slots, NULL));
    return put_together(&choice, sp, rbp);
}
