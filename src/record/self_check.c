/* self_check.c: compares each captured stack with the one that another unwinder finds. The pcs are
 * compared from the innermost frame outward. The stacks differ if two pcs differ, or if one stack
 * ends where the other continues, unless the captured stack ends at the configured depth.
 *
 * The lists of pcs are in one scratch area of the process, so only one check runs at a time; stacks
 * of other threads are not checked meanwhile. This is enough for a debug mode. */
#include "self_check.h"

#include "base/pages.h"
#include "base/vector_state.h"
#include "unwind/unwind_space.h"

enum { MAX_FRAMES = 65536 };

static struct {
    ag_judge_fn *judge;
    uint64_t *own_pcs;    /* MAX_FRAMES elements */
    uintptr_t *other_pcs; /* MAX_FRAMES elements, after own_pcs */
    _Atomic int is_taken; /* whether the scratch area is in use */
} self_check;

void ag_self_check_start(ag_judge_fn *judge) {
    uintptr_t *pcs = ag_pages_map(2 * MAX_FRAMES * sizeof(*pcs));
    if (pcs) {
        self_check.own_pcs = pcs;
        self_check.other_pcs = pcs + MAX_FRAMES;
        self_check.judge = judge;
    }
}

bool ag_self_check_is_on(void) {
    return self_check.judge != NULL;
}

static bool is_same_stack(uint32_t stack, int count) {
    enum ag_root root;
    const int frames = ag_stack_tree_frames(&ag_recorder.space->tree, stack, MAX_FRAMES,
                                            self_check.own_pcs, &root);
    const int common = frames < count ? frames : count;
    for (int i = 0; i < common; i++) {
        if (self_check.own_pcs[i] != self_check.other_pcs[i]) {
            return false;
        }
    }
    return frames == count || (frames < count && root == AG_ROOT_CUT);
}

void ag_self_check_count(bool is_same) {
    struct ag_process_slot *slot = ag_recorder.slot;
    atomic_fetch_add_explicit(&slot->stack_checks, 1, memory_order_relaxed);
    if (!is_same) {
        atomic_fetch_add_explicit(&slot->failed_stack_checks, 1, memory_order_relaxed);
    }
}

struct question {
    const uintptr_t *sp;
    int n_pcs;
};

static void call_other_unwinder(void *context) {
    struct question *question = context;
    question->n_pcs = self_check.judge(question->sp, self_check.other_pcs, MAX_FRAMES);
}

void ag_self_check_stack(uint32_t stack, const uintptr_t *sp) {
    if (atomic_exchange_explicit(&self_check.is_taken, 1, memory_order_acquire)) {
        return;
    }
    struct question question = {.sp = sp};
    ag_call_keeping_vectors(call_other_unwinder, &question);
    const int count = question.n_pcs;
    if (count > 0) {
        ag_self_check_count(is_same_stack(stack, count));
    }
    atomic_store_explicit(&self_check.is_taken, 0, memory_order_release);
}
