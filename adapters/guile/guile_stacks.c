/* guile_stacks.c: adds the frames of Scheme procedures to the recorded stacks, between the native
 * frames.
 *
 * 1. The VM stack. guile_runtime.h describes the frames, which are linked from the innermost to the
 * outermost. The stack belongs to its thread, and is read by this thread only, so it does not
 * change during a walk.
 *
 * 2. The native frames that run Scheme code. C code calls Scheme code through scm_call_n, which
 * pushes a frame that executes a certain instruction, the boot code, and then runs the VM in a
 * native frame. So the frames of the VM stack between two boot frames belong to one call of
 * scm_call_n:
 *
 *     native                  frames of the VM stack
 *       scm_cons, GC_...
 *       [compiled code]         build  loop  main     (boot)
 *       vm_regular_engine
 *       scm_call_n
 *       scm_primitive_load      top level             (boot)
 *       vm_regular_engine
 *       scm_call_n
 *
 * 3. The outermost frame of a thread's stack is a boot frame. From it the adapter learns the
 * address of the boot code, and compares the layout of Guile's structs with the expected one. If
 * something differs, no frames are added from then on, and the runtime's note says so.
 *
 * 4. When a VM stack has to grow, Guile maps a larger one, copies the frames, and unmaps the old
 * one before it stores the new address. Until then a signal handler must not read the old stack.
 * So the hook of munmap notes which stack is gone.
 *
 * 5. Before Guile can run Scheme code, its C code makes the built-in procedures and data, some
 * 10,000 blocks. Their stacks get a frame with the name "start of Guile", called by the outermost
 * function of libguile (scm_boot_guile, scm_init_guile, scm_with_guile). */
#include "guile_stacks.h"

#include <stdatomic.h>
#include <stddef.h>

#include "allogram/allogram.h"
#include "base/pages.h"
#include "guile_code.h"
#include "guile_files.h"
#include "guile_jit.h"
#include "guile_memo.h"
#include "guile_runtime.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"
#include "record/managed_frames.h"
#include "record/self_check.h"
#include "unwind/readable_range.h"

enum { WORD = sizeof(uintptr_t) };

static __thread struct {
    uintptr_t
        checked;    /* the struct scm_thread that was compared with the expected layout; 0: none */
    uintptr_t gone; /* the lowest address of a VM stack that is being unmapped; 0: none */
    bool is_begun;  /* begin_thread was called in this thread */
    /* the native frames of the walk that uses the memo; NULL: no walk uses it */
    const struct ag_walked_frame *walked;
    struct ag_guile_memo memo;
} own __attribute__((tls_model("initial-exec")));

static _Atomic uintptr_t boot_code; /* 0: not known yet */

/* ---- the start ---- */

typedef int unmap_fn(void *address, size_t bytes);
static unmap_fn *next_munmap;

static int hooked_munmap(void *address, size_t bytes) {
    own.gone = (uintptr_t)address;
    return next_munmap(address, bytes);
}

void ag_guile_stacks_start(uintptr_t variable) {
    struct ag_symbol_place place;
    void *unused = NULL;
    ag_guile.thread_distance = variable - (uintptr_t)&own;
    if (ag_symbol_find("munmap", AG_SYMBOL_FIRST, NULL, &place)) {
        next_munmap = (unmap_fn *)(uintptr_t)place.address;
        (void)ag_import_replace((const void *)ag_guile.call_low, "munmap",
                                (void *)(uintptr_t)hooked_munmap, &unused);
    }
}

/* ---- checking the layout ---- */

struct stack {
    uintptr_t pc, frame, low, high;
};

static struct stack stack_of(uintptr_t thread) {
    return (struct stack){.pc = ag_guile_word(thread + AG_GUILE_IP),
                          .frame = ag_guile_word(thread + AG_GUILE_FP),
                          .low = ag_guile_word(thread + AG_GUILE_STACK_BOTTOM),
                          .high = ag_guile_word(thread + AG_GUILE_STACK_TOP)};
}

/* Whether the three words of a frame are in the stack. */
static bool has_frame(const struct stack *stack) {
    return stack->frame % WORD == 0 && stack->frame > stack->low &&
           stack->frame <= stack->high - AG_GUILE_FRAME_WORDS * WORD;
}

/* Goes to the caller. Returns false if there is none, or the link is damaged. */
static bool go_to_caller(struct stack *stack) {
    const uintptr_t words = ag_guile_word(stack->frame + AG_GUILE_FRAME_LINK * WORD);
    if (words < AG_GUILE_FRAME_WORDS || words > (stack->high - stack->frame) / WORD) {
        return false;
    }
    stack->pc = ag_guile_word(stack->frame + AG_GUILE_FRAME_RETURN * WORD);
    stack->frame += words * WORD;
    return true;
}

static bool is_boot_code(uintptr_t pc) {
    uint32_t instruction = 1;
    return pc - ag_guile.low < ag_guile.high - ag_guile.low &&
           ag_readable_copy(&instruction, pc, sizeof(instruction)) &&
           instruction == 0; /* the instruction `halt` */
}

/* Compares the layout. Returns what differs, or NULL: then *ret_is_ready is false if Guile is still
 * initializing the thread, whose stack could not be compared. */
static const char *check(uintptr_t thread, bool *ret_is_ready) {
    uintptr_t words[2];
    *ret_is_ready = false;
    const uintptr_t handle = ag_guile_word(thread + AG_GUILE_HANDLE);
    struct stack stack = stack_of(thread);
    if (handle % WORD != 0 || handle == 0 || stack.low == 0 || stack.frame == stack.high) {
        return NULL; /* Guile is initializing the thread */
    }
    if (!ag_readable_copy(words, handle, sizeof(words)) || words[1] != thread) {
        return "the thread's object has another offset than in this release";
    }
    if (stack.high - stack.low != ag_guile_word(thread + AG_GUILE_STACK_WORDS) * WORD ||
        !ag_readable_word(stack.low) || !ag_readable_word(stack.high - WORD)) {
        return "the VM stack has other offsets than in this release";
    }
    uintptr_t outermost = 0;
    while (has_frame(&stack)) {
        outermost = stack.pc;
        if (!go_to_caller(&stack)) {
            return "the VM stack has unknown frames";
        }
    }
    if (stack.frame != stack.high || !is_boot_code(outermost)) {
        return "the outermost frame of the VM stack is not that of this release";
    }
    uintptr_t known = 0;
    if (!atomic_compare_exchange_strong_explicit(&boot_code, &known, outermost,
                                                 memory_order_relaxed, memory_order_relaxed) &&
        known != outermost) {
        return "the VM stacks of two threads begin differently";
    }
    *ret_is_ready = true;
    return NULL;
}

AG_COLD static bool check_thread(uintptr_t thread) {
    bool is_ready = false;
    const char *disagreement = check(thread, &is_ready);
    if (disagreement) {
        ag_guile.disagreement = disagreement;
    }
    own.checked = is_ready ? thread : 0;
    return is_ready;
}

/* ---- the walk ---- */

/* Returns the `position` (record/managed_frames.h) of the frames that the next call of scm_call_n
 * executes. Searches the native frames from *INDEX outward, and advances *INDEX. The position is in
 * the native frame of the compiled code, if there is one, and otherwise in that of the function
 * that scm_call_n called. */
static uintptr_t next_position(const struct ag_walked_frame *natives, uint32_t n_natives,
                               uint32_t *index) {
    uintptr_t compiled = 0;
    for (uint32_t i = *index; i < n_natives; i++) {
        const uintptr_t pc = natives[i].pc;
        if (pc - ag_guile.call_low < ag_guile.call_high - ag_guile.call_low) {
            *index = i + 1;
            return compiled != 0 ? compiled : natives[i > 0 ? i - 1 : 0].sp;
        }
        const bool is_in_library = pc - ag_guile.low < ag_guile.high - ag_guile.low;
        if (compiled == 0 && !is_in_library && ag_guile_jit_has(pc)) {
            compiled = natives[i].sp;
        }
    }
    *index = n_natives;
    return natives[n_natives - 1].sp;
}

/* Reads the frames into the memo, until there are MOST procedures. */
static void read_frames(struct stack stack, uint32_t most) {
    const uintptr_t boot = atomic_load_explicit(&boot_code, memory_order_relaxed);
    struct ag_guile_memo *memo = &own.memo;
    uint32_t cursor = memo->n, n = 0;
    bool is_call = false; /* the pc is a return address */
    while (n < most && memo->n_read < memo->capacity && has_frame(&stack)) {
        const bool is_boot = stack.pc == boot;
        const uintptr_t pc = is_boot ? 0 : stack.pc - (is_call ? 1 : 0);
        n += ag_guile_memo_read_fast(memo, &cursor, pc, stack.high - stack.frame, stack.frame);
        is_call = !is_boot;
        if (!go_to_caller(&stack)) {
            break;
        }
    }
    ag_guile_memo_end(memo, stack.high);
}

/* Lists the runs of the memo. */
static uint32_t list_runs(const struct ag_walked_frame *natives, uint32_t n_natives,
                          struct ag_managed_frame *ret_frames, struct ag_frame_run **ret_runs,
                          uint32_t most) {
    uint32_t n = 0, index = 0;
    for (uint32_t i = own.memo.n_runs; i-- > 0 && n < most;) {
        const uintptr_t position = next_position(natives, n_natives, &index);
        if (own.memo.runs[i].n > 0) {
            ret_runs[n] = &own.memo.runs[i];
            ret_frames[n++] = (struct ag_managed_frame){.position = position};
        }
    }
    return n;
}

/* Lists the frames without the memo. */
static uint32_t list_frames(struct stack stack, const struct ag_walked_frame *natives,
                            uint32_t n_natives, struct ag_managed_frame *ret_frames,
                            uint32_t most) {
    const uintptr_t boot = atomic_load_explicit(&boot_code, memory_order_relaxed);
    uint32_t n = 0, index = 0;
    uintptr_t position = next_position(natives, n_natives, &index);
    bool is_call = false;
    while (n < most && has_frame(&stack)) {
        const bool is_boot = stack.pc == boot;
        const struct ag_guile_place place =
            is_boot ? (struct ag_guile_place){.function = 0}
                    : ag_guile_place_of(stack.pc - (is_call ? 1 : 0), stack.frame);
        if (place.function != 0) {
            ret_frames[n++] = (struct ag_managed_frame){
                .function = place.function, .line = place.line, .position = position};
        }
        if (is_boot) {
            position = next_position(natives, n_natives, &index);
        }
        is_call = !is_boot;
        if (!go_to_caller(&stack)) {
            break;
        }
    }
    return n;
}

/* In the debug mode of record/self_check.h: compares the frames of the runs with frames that are
 * read without the memo. */
AG_COLD static void check_runs(const struct stack *stack, const struct ag_walked_frame *natives,
                               uint32_t n_natives, const struct ag_managed_frame *frames,
                               struct ag_frame_run *const *runs, uint32_t n, uint32_t most) {
    struct ag_managed_frame *read = ag_pages_map(most * sizeof(*read));
    if (!read) {
        return;
    }
    const uint32_t n_read = list_frames(*stack, natives, n_natives, read, most);
    uint32_t at = 0;
    bool is_same = true;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = runs[i]->n; k-- > 0 && at < n_read; at++) {
            const struct ag_run_frame *frame = &runs[i]->frames[k];
            is_same = is_same && frame->function == read[at].function &&
                      frame->line == read[at].line && frames[i].position == read[at].position;
        }
    }
    ag_self_check_count(is_same && at == n_read);
    ag_pages_unmap(read, most * sizeof(*read));
}

static uint32_t walk_vm_stack(const struct ag_walked_frame *natives, uint32_t n_natives,
                              struct ag_managed_frame *ret_frames, struct ag_frame_run **ret_runs,
                              uint32_t most) {
    const uintptr_t thread = ag_guile_word((uintptr_t)&own + ag_guile.thread_distance);
    if (thread == 0 || ag_guile.disagreement || (thread != own.checked && !check_thread(thread))) {
        return 0;
    }
    const struct stack stack = stack_of(thread);
    if (own.gone == stack.low) {
        return 0;
    }
    own.gone = 0;
    ag_guile_jit_name_new();
    if (own.walked) { /* a signal handler interrupted the walk that uses the memo */
        return list_frames(stack, natives, n_natives, ret_frames, most);
    }
    own.walked = natives;
    atomic_signal_fence(memory_order_seq_cst);
    if (!ag_guile_memo_begin(&own.memo)) {
        return list_frames(stack, natives, n_natives, ret_frames, most);
    }
    read_frames(stack, most);
    const uint32_t n = list_runs(natives, n_natives, ret_frames, ret_runs, most);
    if (AG_UNLIKELY(ag_self_check_is_on())) {
        check_runs(&stack, natives, n_natives, ret_frames, ret_runs, n, most);
    }
    return n;
}

/* Stores the frame of Guile's start. Returns the number of frames: 0 if the thread is not in
 * libguile. */
AG_COLD static uint32_t add_start(const struct ag_walked_frame *natives, uint32_t n_natives,
                                  struct ag_managed_frame *ret_frame) {
    static _Atomic uint32_t start;
    uint32_t i = n_natives;
    while (i > 0 && natives[i - 1].pc - ag_guile.low >= ag_guile.high - ag_guile.low) {
        i--;
    }
    uint32_t function = atomic_load_explicit(&start, memory_order_relaxed);
    if (function == 0) {
        const struct allogram_function_options options = {
            .size = sizeof(options), .name = AG_GUILE_START, .runtime = "guile"};
        function = allogram_register_function(&options);
        atomic_store_explicit(&start, function, memory_order_relaxed);
    }
    if (i == 0 || function == 0) {
        return 0;
    }
    *ret_frame = (struct ag_managed_frame){.function = function, .position = natives[i - 1].sp};
    return 1;
}

static uint32_t guile_stacks_walk(void *context, const struct ag_walked_frame *natives,
                                  uint32_t n_natives, struct ag_managed_frame *ret_frames,
                                  struct ag_frame_run **ret_runs, uint32_t most) {
    (void)context;
    const uint32_t n = walk_vm_stack(natives, n_natives, ret_frames, ret_runs, most);
    const bool is_starting = ag_guile.is_initialized && *ag_guile.is_initialized == 0;
    return AG_UNLIKELY(is_starting) && n < most ? n + add_start(natives, n_natives, ret_frames + n)
                                                : n;
}

static void guile_stacks_end_walk(void *context, const struct ag_walked_frame *natives) {
    (void)context;
    if (own.walked == natives) {
        atomic_signal_fence(memory_order_seq_cst);
        own.walked = NULL;
    }
}

AG_COLD static void begin_thread(void) {
    const struct ag_frame_source source = {.walk = guile_stacks_walk,
                                           .end_walk = guile_stacks_end_walk};
    own.is_begun = true;
    (void)ag_frame_source_set(&own, &source); /* table full: the thread's stacks are native only */
}

void ag_guile_stacks_begin_thread(void) {
    if (AG_UNLIKELY(!own.is_begun)) {
        begin_thread();
    }
}
