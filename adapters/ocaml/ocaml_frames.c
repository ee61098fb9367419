/* ocaml_frames.c: finds the stack of OCaml code in a native program.
 *
 * 1. Three parts. A stack consists, from the inside outward, of OCaml frames, whose sizes the
 * runtime's frame descriptors give; of the boundary, which is the frame of the runtime's code that
 * called OCaml code; and of the frames outside of the boundary. The frame descriptors are right
 * where OCaml 4's unwind tables are wrong by a few words: after some exception handlers (seen in
 * Stdlib.Scanf of 4.13).
 *
 *     boundary             outside of it
 *     caml_start_program   the C code that called OCaml code; the recorder's walker finds its
 *                          frames. In OCaml 5 they lie on another stack, to which the boundary's
 *                          frame has a pointer
 *     caml_runstack        OCaml 5: the parent, which runs a computation under an effect handler on
 *                          a fiber, a stack of its own; its frames are found in the same way
 *
 * 2. The memo. The last walk is kept. When a new walk reaches the place of a frame of the last
 * walk, all return addresses of the last walk from there outward are compared with the stack. The
 * kept places are still places of return addresses, because the code at each unchanged return
 * address has the same frame size. The part outside of the boundary is found anew for each stack,
 * by the recorder's walker, which has a cache of its own. If a return address has changed, the walk
 * continues there, and may reach a known frame again.
 *
 * 3. Depth. A stack with more frames than the recording keeps is cut: if OCaml's frames alone are
 * enough, the stack consists of the innermost OCaml frames; otherwise the recorder's walker walks
 * the stack. The places of the last cut stack's frames are kept. A cache has the cut stacks by a
 * hash of their return addresses. The hash has 64 bits; the chance that two of a million stacks
 * have the same hash is 1 in 30 million. */
#include "ocaml_frames.h"

#include <string.h>

#include "collector_hooks.h"
#include "embed/host_events.h"
#include "hook/next_symbol.h"

struct frame_table_5 { /* struct caml_frame_descrs of 5.3 */
    int32_t n_descriptors;
    uint32_t mask;
    const struct ag_ocaml_frame *const *descriptors;
};
static struct {
    const struct ag_ocaml_frame *const *const *descriptors; /* caml_frame_descriptors: a hash */
    const uintptr_t *mask_4;
    const uint32_t *mask_5;
    uintptr_t start_low, start_bytes; /* caml_start_program */
    uintptr_t run_low, run_bytes;     /* caml_runstack */
} runtime;

static void find_range(const char *name, uintptr_t *ret_low, uintptr_t *ret_bytes) {
    struct ag_symbol_place place;
    if (ag_symbol_find(name, AG_SYMBOL_FIRST, NULL, &place)) {
        *ret_low = (uintptr_t)place.address;
        *ret_bytes = place.bytes;
    }
}

bool ag_ocaml_frames_find(void) {
    find_range("caml_start_program", &runtime.start_low, &runtime.start_bytes);
    if (ag_ocaml.generation == AG_OCAML_4) {
        runtime.descriptors = ag_ocaml_find_data("caml_frame_descriptors");
        runtime.mask_4 = ag_ocaml_find_data("caml_frame_descriptors_mask");
        return runtime.descriptors && runtime.mask_4 && runtime.start_bytes > 0;
    }
    const struct frame_table_5 *(*find_table)(void) =
        (const struct frame_table_5 *(*)(void))ag_ocaml_find("caml_get_frame_descrs");
    const struct frame_table_5 *table = find_table ? find_table() : NULL;
    if (table) {
        runtime.descriptors = &table->descriptors;
        runtime.mask_5 = &table->mask;
    }
    find_range("caml_runstack", &runtime.run_low, &runtime.run_bytes);
    return table && runtime.start_bytes > 0 && runtime.run_bytes > 0;
}

const struct ag_ocaml_frame *ag_ocaml_find_frame(uintptr_t return_address) {
    const struct ag_ocaml_frame *const *table = *runtime.descriptors;
    const uintptr_t mask = runtime.mask_4 ? *runtime.mask_4 : *runtime.mask_5;
    if (!table) {
        return NULL; /* the runtime has not started */
    }
    for (uintptr_t at = return_address >> 3 & mask; table[at]; at = (at + 1) & mask) {
        if (table[at]->return_address == return_address) {
            return table[at];
        }
    }
    return NULL;
}

uint32_t ag_ocaml_native_stack(const uintptr_t *sp, uintptr_t rbp) {
    struct ag_thread *thread = ag_thread_current;
    if (AG_UNLIKELY(!ag_ocaml_thread_is_open(thread))) {
        ag_host_get_ready();
        return ag_record_stack(sp, rbp);
    }
    ag_thread_set_gate(thread, AG_OCAML_GATE());
    const uint32_t stack = ag_walker_capture_fast(thread->walker, ag_recorder.space, sp, rbp);
    ag_thread_set_gate(thread, AG_GATE_OPEN);
    return stack;
}

/* ---- outside of the boundary ---- */

/* The place of the next return address outward. */
AG_FAST const uintptr_t *outward(const uintptr_t *place, const struct ag_ocaml_frame *frame) {
    return place + (frame->frame_bytes & ~3u) / sizeof(*place);
}

static bool is_in(uintptr_t pc, uintptr_t low, uintptr_t bytes) {
    return pc - low < bytes;
}

/* The stack of caml_start_program, whose return address is at BOUNDARY, and of its callers. */
static uint32_t stack_of_start(struct ag_ocaml_walk *walk, const uintptr_t *boundary) {
    if (ag_ocaml.generation == AG_OCAML_4) {
        return ag_ocaml_native_stack(boundary, 0); /* rbp is restored from this frame */
    }
    /* Above the return address lies the exception handler of two words, then a pointer to the C
     * stack. On the C stack are a struct c_stack_link of three words, six saved registers, the last
     * two of which are rbp and rbx, and the return address (runtime/amd64.S). */
    const uintptr_t *link = (const uintptr_t *)boundary[1 + 2];
    const uint32_t caller = ag_ocaml_native_stack(link + 3 + 6, link[3 + 4]);
    if (AG_UNLIKELY(caller != walk->start_caller || *boundary != walk->start_pc)) {
        walk->start_caller = caller;
        walk->start_pc = *boundary;
        walk->start = ag_stack_push(caller, *boundary);
    }
    return walk->start;
}

/* The stack of a boundary in caml_runstack, which is not known from the last walk. */
AG_COLD static uint32_t stack_of_fibers(struct ag_ocaml_walk *walk, const uintptr_t *boundary) {
    uintptr_t *pcs = walk->pcs;
    size_t n = 0;
    const uintptr_t *place = boundary;
    while (!is_in(*place, runtime.start_low, runtime.start_bytes)) {
        const struct ag_ocaml_frame *frame = ag_ocaml_find_frame(*place);
        if (!frame || n == AG_OCAML_WALK_FRAMES) {
            return AG_OCAML_NO_STACK;
        }
        pcs[n++] = *place;
        if (frame->frame_bytes != AG_OCAML_BOUNDARY) {
            place = outward(place, frame);
            continue;
        }
        /* Above the return address lie four words, then the handler, whose fourth word is the
         * parent. The first word of the parent is the parent's stack pointer. */
        const uintptr_t *parent = (const uintptr_t *)place[1 + 4 + 3];
        if (!is_in(*place, runtime.run_low, runtime.run_bytes) || !parent) {
            return AG_OCAML_NO_STACK;
        }
        place = (const uintptr_t *)*parent;
    }
    uint32_t stack = stack_of_start(walk, place);
    while (n > 0) {
        stack = ag_stack_push(stack, pcs[--n]);
    }
    return stack;
}

/* The stack of the boundary's frame and everything outside of it. */
AG_FAST uint32_t stack_outside(struct ag_ocaml_walk *walk, const uintptr_t *boundary) {
    return AG_LIKELY(is_in(*boundary, runtime.start_low, runtime.start_bytes))
               ? stack_of_start(walk, boundary)
               : stack_of_fibers(walk, boundary);
}

static uint32_t count_frames(uint32_t stack) {
    uintptr_t pc = 0;
    uint32_t n = 0;
    while (stack >= AG_NODE_FIRST && ag_stack_top(stack, &pc, &stack)) {
        n++;
    }
    return n;
}

/* ---- the walk ---- */

/* The cut stack that consists of FRAMES, which are in order from the innermost one outward. */
static uint32_t make_cut(struct ag_ocaml_walk *walk, const struct ag_ocaml_walked *frames,
                         size_t n) {
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ frames[i].pc) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    struct ag_ocaml_cut *known = &walk->cuts[hash % AG_ARRAY_SIZE(walk->cuts)];
    if (known->hash != hash) {
        uint32_t stack = AG_ROOT_CUT;
        for (size_t i = n; i > 0; i--) {
            stack = ag_stack_push(stack, frames[i - 1].pc);
        }
        *known = (struct ag_ocaml_cut){.hash = hash, .stack = stack};
    }
    return known->stack;
}

/* The stack of the innermost frames alone; AG_OCAML_NO_STACK: there are not enough OCaml frames.
 * Frames that the last cut stack had at the same places need no frame descriptor. */
AG_COLD static uint32_t cut_stack(struct ag_ocaml_walk *walk, const uintptr_t *sp) {
    const uint32_t depth =
        ag_recorder.depth < AG_OCAML_WALK_FRAMES ? ag_recorder.depth : AG_OCAML_WALK_FRAMES;
    struct ag_ocaml_walked *last = walk->cut[walk->cut_index];
    struct ag_ocaml_walked *frames = walk->cut[1 - walk->cut_index];
    const uint32_t n_last = walk->n_cut;
    const uintptr_t *place = sp;
    uint32_t at = 0; /* in LAST */
    walk->n_cut = 0;
    for (uint32_t n = 0; n < depth; n++) {
        const uintptr_t pc = *place;
        while (at < n_last && last[at].place < place) {
            at++;
        }
        frames[n] = (struct ag_ocaml_walked){.place = place, .pc = pc};
        if (at + 1 < n_last && last[at].place == place && last[at].pc == pc) {
            place = last[at + 1].place;
            continue;
        }
        const struct ag_ocaml_frame *frame = ag_ocaml_find_frame(pc);
        if (!frame || frame->frame_bytes == AG_OCAML_BOUNDARY) {
            return AG_OCAML_NO_STACK; /* the boundary: frames of C code would follow */
        }
        place = outward(place, frame);
    }
    walk->n_cut = depth;
    walk->cut_index = 1 - walk->cut_index;
    return make_cut(walk, frames, depth);
}

/* Compares the known frames, from index N_KNOWN - 1 outward, with the stack. Returns the index plus
 * one of the first frame that differs; 0: none differs. */
AG_FAST uint32_t first_difference(const struct ag_ocaml_walk *walk, uint32_t n_known) {
    for (uint32_t i = n_known; i > 0; i--) {
        if (AG_UNLIKELY(*walk->frames[i - 1].place != walk->frames[i - 1].pc)) {
            return i;
        }
    }
    return 0;
}

/* Finds the part from BOUNDARY outward. Returns false if it differs from that of the last walk;
 * then the stack nodes of all frames of the walk must be made again. */
AG_FAST bool is_outer_known(struct ag_ocaml_walk *walk, const uintptr_t *boundary) {
    const uint32_t outer = stack_outside(walk, boundary);
    if (AG_LIKELY(outer == walk->outer && boundary == walk->boundary)) {
        return true;
    }
    walk->n = 0;
    walk->outer = outer;
    walk->boundary = boundary;
    walk->outer_frames = outer == AG_OCAML_NO_STACK ? 0 : count_frames(outer);
    return false;
}

uint32_t ag_ocaml_walk(struct ag_ocaml_walk *walk, const uintptr_t *sp) {
    struct ag_ocaml_walked *fresh = walk->fresh;
    const uint32_t recording = ag_stacks_recording();
    if (AG_UNLIKELY(walk->recording != recording)) {
        walk->recording = recording;
        walk->n = 0;
        walk->boundary = NULL;
        walk->start_pc = 0;
        memset(walk->cuts, 0, sizeof(walk->cuts));
    }
    if (walk->n_cut > 0) { /* the last stack was cut, so the new stack may be cut too */
        const uint32_t stack = cut_stack(walk, sp);
        if (stack != AG_OCAML_NO_STACK) {
            return stack;
        }
    }
    uint32_t n_fresh = 0, n_known = walk->n;
    const uintptr_t *place = sp;
    for (;;) {
        const uintptr_t pc = *place;
        while (n_known > 0 && walk->frames[n_known - 1].place < place) {
            n_known--;
        }
        if (n_known > 0 && walk->frames[n_known - 1].place == place) {
            const uint32_t difference = first_difference(walk, n_known);
            if (AG_LIKELY(difference == 0 && is_outer_known(walk, walk->boundary))) {
                break;
            }
            n_known = difference > 0 ? difference - 1 : 0;
        }
        const struct ag_ocaml_frame *frame = ag_ocaml_find_frame(pc);
        if (AG_UNLIKELY(!frame)) {
            return AG_OCAML_NO_STACK;
        }
        if (frame->frame_bytes == AG_OCAML_BOUNDARY) {
            (void)is_outer_known(walk, place);
            n_known = 0;
            break;
        }
        if (AG_UNLIKELY(n_fresh == AG_OCAML_WALK_FRAMES || n_fresh >= ag_recorder.depth)) {
            return cut_stack(walk, sp);
        }
        fresh[n_fresh].place = place;
        fresh[n_fresh++].pc = pc;
        place = outward(place, frame);
    }
    walk->n = n_known;
    if (AG_UNLIKELY(walk->outer == AG_OCAML_NO_STACK)) {
        return AG_OCAML_NO_STACK;
    }
    if (AG_UNLIKELY(n_known + n_fresh + walk->outer_frames > ag_recorder.depth ||
                    n_known + n_fresh > AG_OCAML_WALK_FRAMES)) {
        return cut_stack(walk, sp);
    }
    uint32_t node = n_known > 0 ? walk->frames[n_known - 1].node : walk->outer;
    while (n_fresh > 0) {
        n_fresh--;
        node = ag_stack_push(node, fresh[n_fresh].pc);
        walk->frames[walk->n++] =
            (struct ag_ocaml_walked){fresh[n_fresh].place, fresh[n_fresh].pc, node};
    }
    return node;
}
