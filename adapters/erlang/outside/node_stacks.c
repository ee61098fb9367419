/* node_stacks.c: reads the stacks of Erlang processes from the memory of a node, and joins Erlang
 * frames with the native frames of a sample. Used by the inspector of Erlang nodes (node.c).
 *
 * 1. An Erlang stack. It grows down inside the process' heap block: [top, heap end). Its words are
 * terms, whose two low bits are never both zero, and continuation pointers: return addresses, which
 * are aligned so that their two low bits are zero. Nothing else marks a frame. So each word whose
 * two low bits are zero and that points into generated code is a frame. When frame pointers are on
 * (erts_frame_layout is 1, after +JPperf or +JPfp), saved frame pointers lie between these words;
 * they point into no code. The outermost word returns to code that ends the process. The next frame
 * inward is the process' first function.
 *
 * 2. The innermost frame. If a function runs, the pc is in it. If the function called native code,
 * or a fragment (shared code of the JIT), the stack's first word returns to the function; such a
 * return address need not be aligned. A process that does not run continues at its saved
 * instruction, which is not on the stack.
 *
 * 3. Threads. A normal scheduler runs generated code on the Erlang stack itself, so a sample that
 * was taken in generated code has a copy of the Erlang stack. For native code the scheduler
 * switches to the thread's own stack, where unwinding ends at generated code, which keeps the
 * process in r13. The top of the Erlang stack is saved either in the process or in rbp. The
 * instruction that restores the stack shows which of these two is valid; the other one is an old
 * value. A dirty scheduler never runs generated code: its process is in the scheduler's structure,
 * which is found by the thread's name.
 *
 * 4. Time. Words that are not in the sample were captured in the interrupt that took the sample, if
 * the kernel allows that (node_capture.c). Otherwise they are read later. Words that were read
 * later are used if the process still has the same heap after the reading; otherwise the stack ends
 * where the known words end. */
#include "node_stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "node_capture.h"

enum {
    WORDS_MOST = 1 << 16,  /* maximum number of words of a stack that are read: 512 KiB */
    FRAMES_MOST = 1 << 14, /* maximum number of frames that are reported */
    TAG_MASK = 3,          /* 0: a continuation pointer */
};

/* A scheduler runs a process for about a millisecond at a time. If a sample waited for the observer
 * many times longer, no words are read for it later, because the thread may run another process by
 * then. */
static const uint64_t late_most_ns = 50 * 1000 * 1000;

static bool is_word_address(uint64_t address) {
    return address != 0 && address % 8 == 0;
}

/* ---- the stack of a process -------------------------------------------------------------- */

/* Reports a frame. ADDRESS lies in the executing instruction, not after it. */
static void report_function(const struct node_function *function, uint64_t address,
                            struct allogram_stack *stack) {
    struct allogram_managed_frame frame = {.function = function->name};
    (void)node_function_line(function, address, &frame.file, &frame.line); // unknown: no line
    allogram_stack_managed(stack, &frame);
}

static const struct node_function *caller_at(const struct node *node, uint64_t word) {
    return (word & TAG_MASK) == 0 && word != 0 ? node_code_find(&node->code, word - 1) : NULL;
}

/* Reports the function that contains the instruction at which a process will continue. */
static void report_instruction(const struct node *node, uint64_t instruction,
                               struct allogram_stack *stack) {
    const struct node_function *function = node_code_find(&node->code, instruction);
    if (function != NULL && !node_function_is_plumbing(function)) {
        /* INSTRUCTION is mostly the return address of a call; at the start of a function, no
         * instruction precedes it */
        report_function(function, instruction - (instruction > function->low), stack);
    }
}

/* Reports the innermost frame, unless it is reported already. Returns true if the first word of the
 * stack was used for the frame. */
static bool report_innermost(const struct node *node, const struct node_moment *moment,
                             struct allogram_stack *stack) {
    const uint64_t first = moment->n_words > 0 ? moment->words[0] : 0;
    const struct node_function *caller = first != 0 ? node_code_find(&node->code, first - 1) : NULL;
    switch (moment->innermost) {
    case NODE_TOP_REPORTED:
        return false;
    case NODE_TOP_CALLED:
        if (caller != NULL && !node_function_is_plumbing(caller)) {
            report_function(caller, first - 1, stack);
            return true;
        }
        report_instruction(node, moment->instruction, stack);
        return false;
    case NODE_TOP_RESTS:
        if (first != moment->instruction) {
            report_instruction(node, moment->instruction, stack);
        }
        return false;
    }
    return false;
}

/* Whether FUNCTION is the one to which the outermost word of every stack returns. */
static bool is_bottom(const struct node_function *function) {
    return strncmp(function->name, "erts_beamasm:normal_exit", 24) == 0;
}

enum node_top node_top_of(uint32_t state) {
    return (state & NODE_STATE_RUNNING) != 0 ? NODE_TOP_CALLED : NODE_TOP_RESTS;
}

enum allogram_stack_verdict node_report_moment(struct node *node, const struct node_moment *moment,
                                               struct allogram_stack *stack) {
    size_t n_reported = 0;
    bool has_frame = false;
    for (size_t i = report_innermost(node, moment, stack); i < moment->n_words; i++) {
        const struct node_function *function = caller_at(node, moment->words[i]);
        if (function == NULL) {
            continue;
        }
        has_frame = true;
        if (is_bottom(function)) {
            return ALLOGRAM_STACK_COMPLETE;
        }
        if (!node_function_is_plumbing(function) && n_reported++ < FRAMES_MOST) {
            report_function(function, moment->words[i] - 1, stack);
        }
    }
    return has_frame ? ALLOGRAM_STACK_INCOMPLETE : ALLOGRAM_STACK_STALE;
}

/* Reads the words of [top, heap end), at most WORDS_MOST, as they are in memory now; the caller
 * frees them. */
static int read_words(struct node *node, struct node_moment *moment, uint64_t **ret_words) {
    const uint64_t n_all = (moment->heap_end - moment->top) / 8;
    const size_t n = n_all < WORDS_MOST ? (size_t)n_all : WORDS_MOST;
    uint64_t *words = malloc(n * sizeof *words + 1);
    if (words == NULL) {
        return -1;
    }
    if (allogram_target_read(node->target, moment->top, words, n * sizeof *words) < 0) {
        free(words);
        return -1;
    }
    moment->words = words;
    moment->n_words = n;
    *ret_words = words;
    return 0;
}

static struct node_moment moment_of(const struct node *node, const struct node_process *process) {
    return (struct node_moment){
        .process = process->address,
        .heap = node_process_word(process, node->layout->process_heap),
        .heap_end = node_process_word(process, node->layout->process_heap_end),
        .instruction = node_process_word(process, node->layout->process_instruction),
        .state = (uint32_t)node_process_word(process, node->layout->process_state),
        .innermost = NODE_TOP_RESTS,
        .top = node_process_word(process, node->layout->process_stack_top),
    };
}

static bool is_same_moment(const struct node_moment *a, const struct node_moment *b) {
    return a->heap == b->heap && a->heap_end == b->heap_end && a->top == b->top &&
           a->instruction == b->instruction;
}

int node_stack_of_waiting(struct node *node, const struct node_process *process,
                          struct allogram_stack *stack) {
    struct node_moment moment = moment_of(node, process);
    struct node_process again;
    uint64_t *words;
    if (read_words(node, &moment, &words) < 0) {
        return -1;
    }
    int r = -1;
    if (node_read_process(node, process->address, &again) == 0) {
        const struct node_moment after = moment_of(node, &again);
        if (is_same_moment(&moment, &after)) {
            r = node_report_moment(node, &moment, stack) == ALLOGRAM_STACK_STALE ? -1 : 0;
        }
    }
    free(words);
    return r;
}

/* ---- the stack of a sample ---------------------------------------------------------------- */

/* The kinds of scheduler threads by their names, which the kernel truncates to 15 characters. */
static const struct {
    const char *format; /* %n: to check that the format matches the whole name */
    enum node_scheduler_kind kind;
} thread_names[] = {
    {"erts_sched_%u%n", NODE_SCHEDULER_NORMAL}, {"erts_dcpus_%u%n", NODE_SCHEDULER_CPU},
    {"erts_dios_%u%n", NODE_SCHEDULER_IO},      {"%u_scheduler%n", NODE_SCHEDULER_NORMAL},
    {"%u_dirty_cpu_sch%n", NODE_SCHEDULER_CPU}, {"%u_dirty_io_sche%n", NODE_SCHEDULER_IO},
    {"%u_dirty_io_sch%n", NODE_SCHEDULER_IO},   {"%u_dirty_cpu_sc%n", NODE_SCHEDULER_CPU},
};

uint64_t node_current_process_word(const struct node *node, const char *thread_name) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(thread_names); i++) {
        unsigned number = 0;
        int end = 0;
        if (sscanf(thread_name, thread_names[i].format, &number, &end) != 1 || end == 0 ||
            thread_name[end] != '\0') {
            continue;
        }
        const enum node_scheduler_kind kind = thread_names[i].kind;
        if (number < 1 || number > node->schedulers[kind].n) {
            return 0;
        }
        return node->schedulers[kind].array +
               (uint64_t)(number - 1) * node->layout->scheduler_stride +
               node->layout->scheduler_process;
    }
    return 0;
}

/* The process that the scheduler of this thread runs; 0: none, or it is not a scheduler's
 * thread. */
static uint64_t process_of_thread(struct node *node, const char *name) {
    const uint64_t at = name != NULL ? node_current_process_word(node, name) : 0;
    uint64_t process;
    return at != 0 && allogram_target_read(node->target, at, &process, sizeof process) == 0
               ? process
               : 0;
}

static void report_native(size_t n, struct allogram_stack *stack) {
    for (size_t i = 0; i < n; i++) {
        allogram_stack_native(stack, i);
    }
}

/* The process of a sample, as far as it is known. */
struct sampled_process {
    uint64_t address;
    const struct node_captured *captured; /* captured at the sample; NULL: read now */
    struct node_moment moment;            /* .top: as stored in the process */
};

static bool is_plausible(const struct node_moment *moment) {
    return is_word_address(moment->heap) && is_word_address(moment->heap_end) &&
           is_word_address(moment->top) && moment->heap <= moment->heap_end &&
           moment->heap_end - moment->heap < (UINT64_C(1) << 46);
}

static bool look_at_process(struct node *node, const struct allogram_sample *sample,
                            uint64_t address, struct sampled_process *ret_process) {
    ret_process->address = address;
    ret_process->captured = node_capture_find(node, sample);
    if (ret_process->captured != NULL && ret_process->captured->process == address) {
        const struct node_captured *captured = ret_process->captured;
        ret_process->moment = (struct node_moment){.process = address,
                                                   .heap = captured->heap,
                                                   .heap_end = captured->heap_end,
                                                   .instruction = captured->instruction,
                                                   .state = captured->state,
                                                   .top = captured->stack_top};
        return is_plausible(&ret_process->moment);
    }
    ret_process->captured = NULL;
    struct node_process process;
    if (!is_word_address(address) || node_read_process(node, address, &process) < 0) {
        return false;
    }
    ret_process->moment = moment_of(node, &process);
    return is_plausible(&ret_process->moment);
}

/* Replaces words by BYTES, the contents of memory at ADDRESS, where the two overlap. */
static void overlay(struct node_moment *moment, uint64_t *words, uint64_t address,
                    const void *bytes, size_t n_bytes) {
    const uint64_t end = moment->top + moment->n_words * 8;
    const uint64_t low = address > moment->top ? address : moment->top,
                   high = address + n_bytes < end ? address + n_bytes : end;
    if (low < high) {
        memcpy((char *)words + (low - moment->top), (const char *)bytes + (low - address),
               (size_t)(high - low));
    }
}

/* Whether [low, high) lies in [address, address + n_bytes). */
static bool holds(uint64_t address, size_t n_bytes, uint64_t low, uint64_t high) {
    return address <= low && high <= address + n_bytes;
}

/* The number of words to be read from .top on; 0: they are no stack of this process. While a
 * collection changes from one heap to the other, the top may be in one heap and the end in the
 * other. Then all captured words are used, and the end is found among them. */
static size_t n_words_of(const struct node_moment *moment, const struct node_captured *captured) {
    if (moment->top >= moment->heap && moment->top <= moment->heap_end) {
        const uint64_t n = (moment->heap_end - moment->top) / 8;
        return n < WORDS_MOST ? (size_t)n : WORDS_MOST;
    }
    const uint64_t n_before =
        captured != NULL && moment->top >= captured->top ? (moment->top - captured->top) / 8 : 0;
    return captured != NULL && moment->top >= captured->top && n_before < captured->n_words
               ? captured->n_words - (size_t)n_before
               : 0;
}

/* Reads words that were neither sampled nor captured. Returns false if the sample is too old, or if
 * the process has another heap by now. */
static bool read_late(struct node *node, const struct allogram_sample *sample,
                      const struct node_moment *moment, uint64_t *ret_words) {
    struct node_process process;
    if (sample->age_ns > late_most_ns ||
        allogram_target_read(node->target, moment->top, ret_words, moment->n_words * 8) < 0 ||
        node_read_process(node, moment->process, &process) < 0) {
        return false;
    }
    const struct node_moment now = moment_of(node, &process);
    return now.heap == moment->heap && now.heap_end == moment->heap_end;
}

/* The number of the innermost words that are known from the moment of the sample. */
static size_t n_words_known(const struct allogram_sample *sample,
                            const struct node_captured *captured,
                            const struct node_moment *moment) {
    const uint64_t top = moment->top;
    const uint64_t sampled_end = sample->stack_address + sample->stack_bytes,
                   captured_end = captured != NULL ? captured->top + captured->n_words * 8 : 0;
    uint64_t end = sample->stack_address <= top && top < sampled_end ? sampled_end : top;
    if (captured != NULL && captured->top <= top && end < captured_end) {
        end = captured_end;
    }
    return (size_t)((end - top) / 8) < moment->n_words ? (size_t)((end - top) / 8)
                                                       : moment->n_words;
}

/* Reports the stack from .top on. A word comes from the sample, else from the capture, else from
 * memory as it is now. */
static enum allogram_stack_verdict report_words(struct node *node,
                                                const struct allogram_sample *sample,
                                                const struct sampled_process *process,
                                                struct allogram_stack *stack) {
    struct node_moment moment = process->moment;
    const struct node_captured *captured = process->captured;
    if (captured != NULL && moment.innermost != NODE_TOP_REPORTED &&
        moment.top == moment.heap_end) {
        if ((moment.state & NODE_STATE_EXITING) == 0) {   /* else the process' last function has
                                                           * ended */
            (void)report_innermost(node, &moment, stack); /* a new process has an empty stack */
        }
        return ALLOGRAM_STACK_COMPLETE;
    }
    moment.n_words = is_word_address(moment.top) ? n_words_of(&moment, captured) : 0;
    uint64_t *words = moment.n_words > 0 ? malloc(moment.n_words * sizeof *words) : NULL;
    if (words == NULL) {
        return ALLOGRAM_STACK_STALE;
    }
    moment.words = words;
    const uint64_t top = moment.top, end = top + moment.n_words * 8;
    const bool is_sampled = holds(sample->stack_address, sample->stack_bytes, top, end),
               is_captured =
                   captured != NULL && holds(captured->top, captured->n_words * 8, top, end);
    enum allogram_stack_verdict verdict = ALLOGRAM_STACK_STALE;
    if (!is_sampled && !is_captured && !read_late(node, sample, &moment, words)) {
        moment.n_words = n_words_known(sample, captured, &moment);
    }
    if (moment.n_words != 0) {
        if (captured != NULL) {
            overlay(&moment, words, captured->top, captured->words, captured->n_words * 8);
        }
        overlay(&moment, words, sample->stack_address, sample->stack, sample->stack_bytes);
        verdict = node_report_moment(node, &moment, stack);
    }
    free(words);
    return verdict;
}

/* Whether the scheduler is between two processes, so that there is no stack of a process. */
static bool is_scheduling(const struct node_function *fragment) {
    return strncmp(fragment->name, "global::process_main", 20) == 0 ||
           strncmp(fragment->name, "global::context_switch", 22) == 0 ||
           strncmp(fragment->name, "global::do_schedule", 19) == 0;
}

/* When native code has returned to generated code, that code restores its stack by one of two
 * instructions, after at most a few others: `mov rsp, [r13 + stack top]` or `mov rsp, rbp`. */
enum stack_keeper { KEPT_NOWHERE, KEPT_BY_PROCESS, KEPT_IN_RBP };

static enum stack_keeper stack_keeper_at(struct node *node, uint64_t return_address) {
    uint8_t code[32];
    const uint8_t from_process[] = {0x49, 0x8b, 0x65, (uint8_t)node->layout->process_stack_top};
    static const uint8_t from_rbp[] = {0x48, 0x89, 0xec};
    if (allogram_target_read(node->target, return_address, code, sizeof code) < 0) {
        return KEPT_NOWHERE;
    }
    for (size_t i = 0; i + sizeof from_process <= sizeof code; i++) {
        if (memcmp(code + i, from_process, sizeof from_process) == 0) {
            return KEPT_BY_PROCESS;
        }
        if (memcmp(code + i, from_rbp, sizeof from_rbp) == 0) {
            return KEPT_IN_RBP;
        }
    }
    return KEPT_NOWHERE;
}

/* The top of the Erlang stack of a sample whose native frame FRAME is in generated code. */
static uint64_t stack_top_of(struct node *node, const struct allogram_native_frame *frame,
                             const struct node_moment *moment) {
    const uint64_t sp = frame->registers.value[ALLOGRAM_RSP],
                   saved = frame->registers.value[ALLOGRAM_RBP];
    if (sp >= moment->heap && sp <= moment->heap_end) {
        return sp;
    }
    const bool has_saved = (frame->registers.known >> ALLOGRAM_RBP & 1) != 0 &&
                           is_word_address(saved) && saved >= moment->heap &&
                           saved <= moment->heap_end;
    return has_saved && stack_keeper_at(node, frame->pc) == KEPT_IN_RBP ? saved : moment->top;
}

/* FUNCTION contains the pc of frames[n_native]; the frames before it are native. */
static enum allogram_stack_verdict report_generated(struct node *node,
                                                    const struct allogram_sample *sample,
                                                    size_t n_native,
                                                    const struct node_function *function,
                                                    struct allogram_stack *stack) {
    const struct allogram_native_frame *frame = &sample->frames[n_native];
    const uint64_t at = frame->pc - !frame->is_exact;
    struct sampled_process process;
    report_native(n_native, stack);
    if (is_scheduling(function)) {
        report_function(function, at, stack);
        return ALLOGRAM_STACK_COMPLETE;
    }
    if ((frame->registers.known >> ALLOGRAM_R13 & 1) == 0 ||
        !look_at_process(node, sample, frame->registers.value[ALLOGRAM_R13], &process)) {
        report_function(function, at, stack);
        return ALLOGRAM_STACK_INCOMPLETE;
    }
    process.moment.innermost = NODE_TOP_CALLED;
    if (!node_function_is_plumbing(function)) {
        process.moment.innermost = NODE_TOP_REPORTED;
        report_function(function, at, stack);
    }
    process.moment.top = stack_top_of(node, frame, &process.moment);
    return report_words(node, sample, &process, stack);
}

/* The number of native frames that belong to the process; the last one is the loop of the dirty
 * scheduler. */
static size_t frames_of_process(const struct node *node, const struct allogram_sample *sample) {
    for (size_t i = 0; i < sample->n_frames; i++) {
        if (sample->frames[i].pc - node->dirty_main.address < node->dirty_main.n_bytes) {
            return i + 1;
        }
    }
    return sample->n_frames;
}

/* The first frame in generated code; n_frames: none. */
static size_t find_generated(const struct node *node, const struct allogram_sample *sample,
                             const struct node_function **ret_function) {
    for (size_t i = 0; i < sample->n_frames; i++) {
        const struct allogram_native_frame *frame = &sample->frames[i];
        *ret_function = node_code_find(&node->code, frame->pc - !frame->is_exact);
        if (*ret_function != NULL || frame->is_managed) {
            return i;
        }
    }
    return sample->n_frames;
}

enum allogram_stack_verdict node_stack_of_sample(void *state, const struct allogram_sample *sample,
                                                 struct allogram_stack *stack) {
    struct node *node = state;
    const struct node_function *function = NULL;
    size_t at = find_generated(node, sample, &function);
    if (function == NULL && sample->walk_end != ALLOGRAM_WALK_OUTERMOST &&
        node_code_catch_up(node)) { /* the code may be new */
        at = find_generated(node, sample, &function);
    }
    if (function != NULL) {
        return report_generated(node, sample, at, function, stack);
    }
    if (at < sample->n_frames) {
        return ALLOGRAM_STACK_STALE; /* the code was unloaded since */
    }
    const struct node_captured *captured = node_capture_find(node, sample);
    const uint64_t address =
        captured != NULL ? captured->process : process_of_thread(node, sample->thread_name);
    struct sampled_process process;
    if (address == 0 || !look_at_process(node, sample, address, &process)) {
        return ALLOGRAM_STACK_NATIVE;
    }
    report_native(frames_of_process(node, sample), stack);
    process.moment.innermost = node_top_of(process.moment.state);
    return report_words(node, sample, &process, stack);
}
