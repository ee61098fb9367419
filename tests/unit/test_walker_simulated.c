/* test_walker_simulated.c: the stack walker on a stack that the test builds itself, so that every
 * frame is known.
 *
 * A simulated program calls functions and returns at random. The functions have every kind of
 * unwind rule: sp-relative with rbp untouched, saved or full of program data; frame pointers;
 * frames that realign the stack (DRAP); signal frames that switch to another stack. The program
 * overwrites all memory and registers that a walk must not depend on. Every captured stack is
 * compared with the list of calls. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/populate.h"
#include "unwind/stack_walker.h"
#include "unwind/unwind_space.h"

enum {
    STACK_WORDS = 1 << 16,
    FUNCTIONS = 40,
    CALLS_MAX = 3000,
    PC_BASE = 0x401000,
    MAIN_PC = 0x400100, /* the pc of the outermost frame, whose rule is END */
    TRAMPOLINE_PC = 0x400200,
};
enum kind { SP_ONLY, SP_SAVES_RBP, FRAME_POINTER, DRAP, KINDS };

static struct {
    struct ag_unwind_space *space;
    struct ag_walker *walker;
    void *tree;
    uint32_t depth;
} unwinder;

/* The simulated machine. */
static uintptr_t *stack, *other_stack;
static uintptr_t sp, rbp;
static struct call {
    uintptr_t pc;      /* the pc of the call that this frame makes */
    uintptr_t sp, rbp; /* the registers of the caller, restored by the return */
    bool is_signal;
} calls[CALLS_MAX];
static int n_calls;
static uint64_t random_state;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % bound;
}

static int no_image(void *context, uintptr_t pc, ag_image_use_fn *use, void *use_context) {
    (void)context, (void)pc, (void)use, (void)use_context;
    return -ENOENT;
}

/* Adds a rule to the unwinder's table, as if it had been read from call frame information. */
static void know(uintptr_t pc, uint32_t rule) {
    struct ag_pc_entry *bucket =
        &unwinder.space
             ->pcs[ag_stack_tree_bucket(ag_stack_tree_hash(pc), AG_PC_FIRST_BITS, AG_PC_BUCKET)];
    while (bucket->pc != 0 && bucket->pc != pc) {
        bucket++;
    }
    unwinder.space->uses_level[0] = true;
    unwinder.space->has_imageless = true;
    bucket->pc = pc;
    bucket->value = AG_PC_VALUE(ag_site_intern(&unwinder.space->tree, pc, 0), rule);
}

/* Function f has frames of 4 + f % 13 words and the kind f % KINDS. */
static uint32_t frame_words(uint32_t f) {
    return 4 + f % 13;
}
static uint32_t rule_of(uint32_t f) {
    switch ((enum kind)(f % KINDS)) {
    case SP_ONLY:
        return AG_RULE(AG_RULE_SP, AG_RULE_SLOT_SAME, frame_words(f));
    case SP_SAVES_RBP:
        return AG_RULE(AG_RULE_SP, 2, frame_words(f));
    case FRAME_POINTER:
        return AG_RULE(AG_RULE_BP, 2, 2);
    case DRAP:
        return AG_RULE(AG_RULE_BP_DEREF, AG_RULE_SLOT_AT_BP, (uint64_t)-1);
    case KINDS:
        break;
    }
    return 0;
}

static uintptr_t *word(uintptr_t address) {
    return (uintptr_t *)address;
}

static void start(uint32_t depth, uint64_t seed) {
    random_state = seed;
    unwinder.depth = depth;
    unwinder.tree = mmap(NULL, AG_TREE_BYTES, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *private = mmap(NULL, ag_unwind_space_bytes(), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unwinder.space = ag_unwind_space_init(private, unwinder.tree, AG_TREE_SIZES - 1, NULL, depth,
                                          ag_populate, no_image, NULL);
    assert_non_null(unwinder.space);
    void *memory = mmap(NULL, ag_walker_bytes(depth), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unwinder.walker = ag_walker_init(memory, depth);
    know(MAIN_PC, AG_RULE(AG_RULE_END, 0, 0));
    know(TRAMPOLINE_PC, AG_RULE(AG_RULE_SIGNAL, 0, 0));
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        for (uint32_t call = 0; call < 3; call++) {
            know(PC_BASE + f * 64 + call * 5 + 1, rule_of(f));
        }
    }
    /* inaccessible pages around the stacks: a read beyond them crashes */
    const size_t bytes = STACK_WORDS * sizeof(uintptr_t);
    char *pages = mmap(NULL, 2 * bytes + 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, bytes, PROT_READ | PROT_WRITE);
    mprotect(pages + 2 * 4096 + bytes, bytes, PROT_READ | PROT_WRITE);
    stack = (uintptr_t *)(pages + 4096);
    other_stack = (uintptr_t *)(pages + 2 * 4096 + bytes);
    n_calls = 1;
    calls[0] = (struct call){.pc = MAIN_PC};
    sp = (uintptr_t)(stack + STACK_WORDS - 8);
    rbp = 0x1234;
}

static void end(void) {
    munmap(unwinder.tree, AG_TREE_BYTES);
    munmap(unwinder.space, ag_unwind_space_bytes());
    munmap(unwinder.walker, ag_walker_bytes(unwinder.depth));
    uintptr_t *lower = stack < other_stack ? stack : other_stack;
    munmap((char *)lower - 4096, 2 * STACK_WORDS * sizeof(uintptr_t) + 3 * 4096);
}

/* The innermost function calls function f from its current pc. */
static void call(uint32_t f) {
    struct call *frame = &calls[n_calls];
    *frame = (struct call){.pc = PC_BASE + f * 64 + random_below(3) * 5 + 1, .sp = sp, .rbp = rbp};
    sp -= 8;
    *word(sp) = calls[n_calls - 1].pc;
    uintptr_t cfa = sp + 8;
    for (uint32_t i = 2; i <= frame_words(f); i++) {
        *word(cfa - 8 * i) = random_state ^ i; // locals
    }
    switch ((enum kind)(f % KINDS)) {
    case SP_ONLY:
        sp = cfa - 8 * frame_words(f);
        break;
    case SP_SAVES_RBP:
        *word(cfa - 16) = rbp;
        rbp = random_state; // program data
        sp = cfa - 8 * frame_words(f);
        break;
    case FRAME_POINTER:
        *word(cfa - 16) = rbp;
        rbp = cfa - 16;
        sp = rbp - 8 * (frame_words(f) + random_below(3)); // alloca
        break;
    case DRAP: { // the frame is realigned: the CFA is in a slot below the new rbp
        uintptr_t aligned = (cfa - 16) & ~(uintptr_t)63;
        *word(aligned - 8) = *word(sp); // gcc copies the return address, too
        aligned -= 16;
        *word(aligned) = rbp;
        *word(aligned - 8) = cfa;
        rbp = aligned;
        sp = aligned - 8 * (2 + random_below(20));
        break;
    }
    case KINDS:
        break;
    }
    n_calls++;
}

static void give_back(void) {
    n_calls--;
    sp = calls[n_calls].sp;
    rbp = calls[n_calls].rbp;
}

/* A signal interrupts the innermost function between two calls; its handler runs on the stack
 * `onto`, or on the current stack when NULL. */
static void interrupt(uintptr_t *onto) {
    uintptr_t interrupted = calls[n_calls - 1].pc;
    const struct call before = {.pc = interrupted, .sp = sp, .rbp = rbp};
    const uintptr_t context =
        (onto != NULL ? (uintptr_t)(onto + STACK_WORDS / 2) : sp - 1024) & ~(uintptr_t)15;
    *word(context + AG_SIGNAL_RIP) = interrupted - 1;
    *word(context + AG_SIGNAL_RSP) = sp;
    *word(context + AG_SIGNAL_RBP) = rbp;
    sp = context;
    calls[n_calls] = before;
    calls[n_calls].pc = TRAMPOLINE_PC;
    calls[n_calls].is_signal = true;
    n_calls++;
}

/* Captures the stack at a call of an allocation function by the innermost frame, and compares it
 * with the calls. */
static void check_capture(void) {
    const uintptr_t at = sp - 8;
    *word(at) = calls[n_calls - 1].pc;
    uint64_t pcs[CALLS_MAX];
    enum ag_root root;
    const uint32_t node = ag_walker_capture(unwinder.walker, unwinder.space, word(at), rbp);
    assert_int_not_equal(node, 0);
    const int n_frames = ag_stack_tree_frames(&unwinder.space->tree, node, CALLS_MAX, pcs, &root);
    const bool is_cut = n_calls > (int)unwinder.depth;
    assert_int_equal(n_frames, is_cut ? (int)unwinder.depth : n_calls);
    assert_int_equal(root, is_cut ? AG_ROOT_CUT : AG_ROOT_COMPLETE);
    for (int i = 0; i < n_frames; i++) {
        assert_int_equal(pcs[i], calls[n_calls - 1 - i].pc);
    }
    assert_true(ag_walker_self_check(unwinder.space, word(at), rbp, node));
}

static void run(int n_steps, int deepest, bool with_signals) {
    for (int step = 0; step < n_steps; step++) {
        const uint32_t dice = random_below(16);
        if (with_signals && dice == 0 && n_calls + 2 < deepest && !calls[n_calls - 1].is_signal) {
            const bool on_first_stack = sp - (uintptr_t)stack < STACK_WORDS * sizeof(uintptr_t);
            interrupt(on_first_stack && random_below(2) ? other_stack : NULL);
            call(random_below(FUNCTIONS));
        } else if (dice < 6 && n_calls < deepest) {
            call(random_below(FUNCTIONS));
        } else if (dice < 11 && n_calls > 1) {
            give_back();
        } else if (dice == 11 && n_calls > 1) { // longjmp or an exception: many frames end at once
            for (uint32_t n = random_below((uint32_t)n_calls); n > 0; n--) {
                give_back();
            }
        }
        check_capture();
    }
}

static void random_calls_within_depth(void **state) {
    (void)state;
    start(256, 1);
    run(60000, 60, false);
    end();
}
static void random_calls_deeper_than_depth(void **state) {
    (void)state;
    start(12, 2);
    run(60000, 30, false);
    end();
}
static void depth_of_one_keeps_one_frame(void **state) {
    (void)state;
    start(1, 3);
    run(3000, 10, false);
    end();
}
static void signals_on_this_and_on_another_stack(void **state) {
    (void)state;
    start(256, 4);
    run(60000, 40, true);
    end();
}
static void recursion_costs_no_more_than_depth(void **state) {
    (void)state;
    start(100, 5);
    while (n_calls < 2500) {
        call(1); // smallest frames that save rbp
    }
    for (int i = 0; i < 50; i++) {
        check_capture();
        call((uint32_t)i % 8);
    }
    end();
}

/* ---- damaged stacks ------------------------------------------------------ */
static void check_incomplete(int n_frames_kept) {
    const uintptr_t at = sp - 8;
    *word(at) = calls[n_calls - 1].pc;
    uint64_t pcs[CALLS_MAX];
    enum ag_root root;
    // first walked, then found in the memo (frames remembered from the last walk)
    for (int i = 0; i < 2; i++) {
        const uint32_t node = ag_walker_capture(unwinder.walker, unwinder.space, word(at), rbp);
        assert_int_equal(ag_stack_tree_frames(&unwinder.space->tree, node, CALLS_MAX, pcs, &root),
                         n_frames_kept);
        assert_int_equal(root, AG_ROOT_INCOMPLETE);
        assert_true(ag_walker_self_check(unwinder.space, word(at), rbp, node));
    }
}
static void return_address_that_is_no_code_ends_incomplete(void **state) {
    (void)state;
    start(256, 6);
    call(0);
    call(0);
    call(0);
    *word(calls[2].sp - 8) = 0x66666666;
    check_incomplete(2);
    *word(calls[2].sp - 8) = calls[1].pc;
    check_capture(); // although the memo has the damaged stack, the walk finds the repaired one
    end();
}
static void unreadable_frame_ends_incomplete(void **state) {
    (void)state;
    start(256, 7);
    call(0);
    call(FRAME_POINTER);
    call(0);
    rbp = 0x10;
    check_incomplete(2);
    rbp = UINTPTR_MAX - 15;
    check_incomplete(2);
    rbp = (uintptr_t)stack - 4096; // the guard page
    check_incomplete(2);
    rbp = sp + 3; // misaligned
    check_incomplete(2);
    end();
}
static void frame_that_goes_backwards_ends_incomplete(void **state) {
    (void)state;
    start(256, 8);
    call(FRAME_POINTER);
    call(0);
    rbp = sp - 64;
    check_incomplete(2);
    end();
}
static void forgotten_images_sites_are_new_ones(void **state) {
    (void)state;
    start(256, 9);
    call(0);
    call(1);
    check_capture();
    const uintptr_t at = sp - 8;
    const uint32_t node = ag_walker_capture(unwinder.walker, unwinder.space, word(at), rbp);
    ag_unwind_space_forget(unwinder.space, PC_BASE + 64, PC_BASE + 128); // function 1
    assert_int_equal(ag_walker_capture(unwinder.walker, unwinder.space, word(at), rbp),
                     AG_ROOT_INCOMPLETE); // no rule of the function is known now
    know(calls[2].pc, rule_of(1));
    const uint32_t later = ag_walker_capture(unwinder.walker, unwinder.space, word(at), rbp);
    assert_true(later >= AG_NODE_FIRST);
    assert_int_not_equal(later, node);
    check_capture();
    end();
}

/* ---- stacks in recycled memory --------------------------------------------- */

static uintptr_t top_page(void) {
    return (uintptr_t)(stack + STACK_WORDS) - 4096;
}
static void take_top_page_away(void) {
    assert_int_equal(mprotect(word(top_page()), 4096, PROT_NONE), 0);
}

/* Does what a pool of coroutines does when it divides its memory into new stacks (stack_walker.c,
 * section 3). Captures a stack, whose outermost frames lie in the top page, until the walker has
 * remembered it. Then ends the stack below that page, makes the page inaccessible, and captures
 * again. A read beyond the new end crashes. */
static void check_shortened_stack(int n_below) {
    start(256, 10);
    while (sp - 8 >= top_page()) {
        call(0);
    }
    // the first frame whose callee's return address is below the page
    const int outermost = n_calls - 1;
    for (int i = 0; i < n_below; i++) {
        call(0);
    }
    for (int i = 0; i < 5; i++) {
        check_capture();
    }
    calls[outermost].pc = MAIN_PC;
    *word(calls[outermost + 1].sp - 8) = MAIN_PC;
    const int n_gone = outermost;
    memmove(&calls[0], &calls[n_gone], (size_t)(n_calls - n_gone) * sizeof calls[0]);
    n_calls -= n_gone;
    take_top_page_away();
    for (int i = 0; i < 5; i++) {
        check_capture();
    }
    call(4);
    check_capture();
    end();
}
static void memory_beyond_a_shortened_stack_is_not_read(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        check_shortened_stack(20 + i);  // short enough for the walker's cache of whole stacks
        check_shortened_stack(120 + i); // too long for that cache: only the memo has the stack
    }
}
static void frames_are_guessed_in_mapped_memory_only(void **state) {
    (void)state;
    enum { GENERATED_PC = 0x7000000 };
    start(256, 11);
    while (sp - 8 >= top_page()) {
        call(0);
    }
    check_capture(); // the top page was readable once
    know(GENERATED_PC, AG_RULE_FRAME_POINTER);
    calls[n_calls - 1].pc = GENERATED_PC;
    sp -= 512;
    const uintptr_t frame = sp + 64;
    *word(frame) = 0;
    *word(frame + 8) = MAIN_PC;
    rbp = frame;
    calls[0] = calls[n_calls - 1];
    calls[1] = calls[0];
    calls[0].pc = MAIN_PC;
    n_calls = 2;
    for (int i = 0; i < 5; i++) {
        check_capture();
    }
    take_top_page_away();
    check_capture();
    rbp = top_page() + 64;
    check_incomplete(1);
    rbp = frame;
    check_capture();
    end();
}

/* rbp points to zeros, which look like the outermost frame; then their page is made
 * inaccessible. */
static void guessed_ends_are_not_remembered(void **state) {
    (void)state;
    enum { GENERATED_PC = 0x7000000 };
    start(256, 12);
    while (sp - 8 >= top_page()) {
        call(0);
    }
    check_capture();
    know(GENERATED_PC, AG_RULE_FRAME_POINTER);
    calls[0] = calls[n_calls - 1];
    calls[0].pc = GENERATED_PC;
    n_calls = 1;
    sp -= 512;
    rbp = top_page() + 64;
    *word(rbp) = 0;
    *word(rbp + 8) = 0;
    for (int i = 0; i < 5; i++) {
        check_capture();
    }
    take_top_page_away();
    check_incomplete(1);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_within_depth),
        cmocka_unit_test(random_calls_deeper_than_depth),
        cmocka_unit_test(depth_of_one_keeps_one_frame),
        cmocka_unit_test(signals_on_this_and_on_another_stack),
        cmocka_unit_test(recursion_costs_no_more_than_depth),
        cmocka_unit_test(return_address_that_is_no_code_ends_incomplete),
        cmocka_unit_test(unreadable_frame_ends_incomplete),
        cmocka_unit_test(frame_that_goes_backwards_ends_incomplete),
        cmocka_unit_test(forgotten_images_sites_are_new_ones),
        cmocka_unit_test(memory_beyond_a_shortened_stack_is_not_read),
        cmocka_unit_test(frames_are_guessed_in_mapped_memory_only),
        cmocka_unit_test(guessed_ends_are_not_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
