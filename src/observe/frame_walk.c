/* frame_walk.c: unwinds the stack of one sample, for `observe`, from the registers and a copy of
 * the top of the stack.
 *
 * 1. Rules. A row of the call frame information (CFI) describes for one pc how to find the caller:
 * the canonical frame address (CFA) of the frame that executes this pc, its return address, and the
 * caller's values of the callee-saved registers (in a signal frame: of all registers). The row of a
 * pc is looked up once and kept until the mapped files change; a program that runs for hours has
 * some thousand different pcs.
 *
 * 2. The stack. The kernel copied the top of the stack at the moment of the sample. Deeper words
 * are read from the observed process (the target) when a walk gets there, milliseconds later. These
 * words may have changed by then. So the last KiB of the copy is read again together with the
 * deeper words. If this part of the copy has changed, the program has returned from these frames in
 * the meantime, and the walk ends as cut.
 *
 * 3. Code without CFI (musl's libc, hand-written assembler). Three ways are tried, the most
 * reliable first: a word on the stack that is the return address of a direct call to the function
 * that contains pc; rbp, if it points to a plausible frame; the first word that is the return
 * address of any call. The result is right for a function that was called directly; a frame may be
 * missing if a function was reached by a tail call or a pointer.
 *
 * 4. The end. A frame is the outermost one in these cases:
 *     - its row says that it has no return address, or its return address is 0;
 *     - its pc is the first byte of a function, and no call ends before the pc: makecontext or
 *       another library of coroutines stored the pc as a return address;
 *     - it has no CFI, and its code is the entry of its ELF file;
 *     - it has no CFI, no caller is found, and rbp is 0, as the ABI requires in the outermost
 *       frame. */
#include "frame_walk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "remote/remote_memory.h"
#include "symbol/image_cfi.h"
#include "table/pointer_map.h"
#include "unwind/arch/arch.h"
#include "unwind/cfi_expression.h"
#include "unwind/eh_frame.h"

enum {
    REG_BP = ALLOGRAM_RBP,
    REG_SP = ALLOGRAM_RSP,
    REG_PC = ALLOGRAM_RIP,
    PRESERVED = 1 << 3 | 1 << 6 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15, /* callee-saved in the
                                                                          * x86-64 ABI */
    LATER_BYTES = 1 << 20, /* maximum read beyond the copy */
    OVERLAP_BYTES = 1024,  /* end of the copy, which is read again and compared */
    SCANNED_WORDS = 192,   /* if the frame's code has no CFI: number of stack words that are
                            * searched for a return address */
    /* in code without CFI: if rbp is further than this above rsp, it is assumed to contain data */
    GUESSED_FRAME_BYTES = 1 << 20,
    ENTRY_BYTES = 64,     /* code up to this distance from an ELF file's entry is outermost */
    CODE_BEFORE_CALL = 8, /* bytes before a return address that are searched for a call */
    RULES_MOST = 1 << 18, /* at this number, all kept rules are dropped */
};

struct ag_frame_rules {
    uint64_t address; /* of the instruction */
    bool has_row, is_signal_frame;
    bool is_last; /* the function ends right after `address` */
    struct ag_cfi_rule cfa, return_address;
    struct ag_cfi_rule registers[ALLOGRAM_REGISTERS];
};

/* ---- 1. rules -------------------------------------------------------------- */

static void forget_rules(struct ag_frame_walker *walker) {
    if (walker->rules != NULL) {
        ag_pointer_map_done(walker->rules, free);
        *walker->rules = (struct ag_pointer_map){0};
    }
}

static void frame_rules_fill(struct ag_frame_rules *rules, const struct ag_observed_image *image) {
    const uint64_t address = rules->address - image->bias;
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    if (!image->is_open || ag_image_cfi_find(image->cfi, address, REG_BP, &row, &entry) < 0) {
        return;
    }
    rules->has_row = true;
    rules->is_signal_frame = entry.is_signal_frame;
    rules->is_last = entry.end == address + 1;
    rules->cfa = row.cfa;
    rules->return_address = row.return_address;
    for (uint32_t reg = 0; reg < ALLOGRAM_REGISTERS; reg++) {
        if ((entry.is_signal_frame || (PRESERVED >> reg & 1) != 0) && reg != REG_PC &&
            ag_image_cfi_find(image->cfi, address, reg, &row, &entry) == 0) {
            rules->registers[reg] = row.wanted;
        }
    }
}

/* Returns the rules of an address in IMAGE (NULL: the address is in no image). NULL: none, or there
 * is no memory. */
static const struct ag_frame_rules *rules_of(struct ag_frame_walker *walker,
                                             const struct ag_observed_image *image,
                                             uint64_t address) {
    if (image == NULL) {
        return NULL;
    }
    if (walker->rules == NULL && (walker->rules = calloc(1, sizeof *walker->rules)) == NULL) {
        return NULL;
    }
    if (walker->generation != walker->images->generation ||
        walker->rules->map.count >= RULES_MOST) {
        forget_rules(walker);
        walker->generation = walker->images->generation;
    }
    struct ag_frame_rules *rules = ag_pointer_map_find(walker->rules, address);
    if (rules == NULL && (rules = calloc(1, sizeof *rules)) != NULL) {
        rules->address = address;
        frame_rules_fill(rules, image);
        if (ag_pointer_map_put(walker->rules, address, rules) < 0) {
            free(rules);
            return NULL;
        }
    }
    return rules;
}

void ag_frame_walker_done(struct ag_frame_walker *walker) {
    forget_rules(walker);
    free(walker->rules);
    walker->rules = NULL;
}

/* ---- 2. the stack ---------------------------------------------------------- */

static void read_later(struct ag_stack_copy *stack) {
    const size_t overlap = stack->n_bytes < OVERLAP_BYTES ? stack->n_bytes : OVERLAP_BYTES;
    const uint64_t from = stack->address + stack->n_bytes - overlap;
    stack->later_tried = true;
    uint8_t *bytes = stack->pid != 0 ? malloc(LATER_BYTES) : NULL;
    const ssize_t n =
        bytes != NULL ? ag_remote_memory_read_some(stack->pid, from, bytes, LATER_BYTES) : -1;
    if (n <= (ssize_t)overlap ||
        memcmp(bytes, stack->bytes + stack->n_bytes - overlap, overlap) != 0) {
        free(bytes);
        return;
    }
    memmove(bytes, bytes + overlap, (size_t)n - overlap);
    stack->later = bytes;
    stack->n_later = (size_t)n - overlap;
}

void ag_stack_copy_done(struct ag_stack_copy *stack) {
    free(stack->later);
    stack->later = NULL;
    stack->n_later = 0;
}

static bool read_word(void *context, uintptr_t address, uintptr_t *ret_value) {
    struct ag_stack_copy *stack = context;
    const uint64_t offset = address - stack->address;
    if (address < stack->address || address % sizeof(uint64_t) != 0) {
        return false;
    }
    if (offset <= UINT32_MAX && offset + sizeof(uint64_t) <= stack->n_bytes) {
        memcpy(ret_value, stack->bytes + offset, sizeof *ret_value);
        return true;
    }
    if (offset >= (uint64_t)stack->n_bytes + LATER_BYTES || offset < stack->n_bytes) {
        return false;
    }
    if (!stack->later_tried) {
        read_later(stack);
    }
    if (offset - stack->n_bytes + sizeof(uint64_t) > stack->n_later) {
        return false;
    }
    memcpy(ret_value, stack->later + (offset - stack->n_bytes), sizeof *ret_value);
    return true;
}

/* ---- a step by a row --------------------------------------------------------- */
struct step {
    const struct allogram_registers *from;
    uint64_t address; /* address of the instruction that the frame executes */
    struct ag_stack_copy *stack;
};

static bool read_register(void *context, uint32_t reg, uintptr_t *ret_value) {
    const struct step *step = context;
    if (reg >= ALLOGRAM_REGISTERS || (step->from->known >> reg & 1) == 0) {
        return false;
    }
    *ret_value = reg == REG_PC ? step->address : step->from->value[reg];
    return true;
}

static bool read_step_word(void *context, uintptr_t address, uintptr_t *ret_value) {
    const struct step *step = context;
    return read_word(step->stack, address, ret_value);
}

static bool evaluate_rule(struct step *step, const struct ag_cfi_rule *rule, const uintptr_t *cfa,
                          uintptr_t *ret_value) {
    const struct ag_cfi_machine machine = {read_register, read_step_word, step};
    return ag_cfi_expression_evaluate(rule->expression, rule->expression_bytes, cfa, &machine,
                                      ret_value);
}

static bool find_cfa(struct step *step, const struct ag_cfi_rule *rule, uintptr_t *ret_cfa) {
    uintptr_t base;
    if (rule->kind == AG_CFI_IS_EXPRESSION) {
        return evaluate_rule(step, rule, NULL, ret_cfa);
    }
    if (rule->kind != AG_CFI_IN_REGISTER || !read_register(step, rule->reg, &base)) {
        return false;
    }
    *ret_cfa = base + (uintptr_t)rule->offset;
    return true;
}

/* Finds the caller's value of register `reg` by RULE. Returns false if the value is unknown. */
static bool frame_rule_apply(struct step *step, const struct ag_cfi_rule *rule, uintptr_t cfa,
                             uint32_t reg, uintptr_t *ret_value) {
    uintptr_t address;
    switch ((enum ag_cfi_rule_kind)rule->kind) {
    case AG_CFI_SAME:
        return read_register(step, reg, ret_value);
    case AG_CFI_UNDEFINED:
        return false;
    case AG_CFI_AT_CFA:
        return read_word(step->stack, cfa + (uintptr_t)rule->offset, ret_value);
    case AG_CFI_IS_CFA:
        *ret_value = cfa + (uintptr_t)rule->offset;
        return true;
    case AG_CFI_IN_REGISTER:
        return read_register(step, rule->reg, ret_value);
    case AG_CFI_AT_EXPRESSION:
        return evaluate_rule(step, rule, &cfa, &address) &&
               read_word(step->stack, address, ret_value);
    case AG_CFI_IS_EXPRESSION:
        return evaluate_rule(step, rule, &cfa, ret_value);
    }
    return false;
}

enum outcome { STEP_CALLER, STEP_END, STEP_FAILED, STEP_CUT };

/* Whether a stack address is beyond what could be read. */
static bool is_beyond(const struct ag_stack_copy *stack, uint64_t address) {
    return address >= stack->address + stack->n_bytes + stack->n_later;
}

static enum outcome step_by_row(struct step *step, const struct ag_frame_rules *rules,
                                struct allogram_native_frame *ret_caller) {
    uintptr_t cfa, pc, value;
    if (rules->return_address.kind == AG_CFI_UNDEFINED) {
        return STEP_END;
    }
    if (!find_cfa(step, &rules->cfa, &cfa)) {
        return STEP_FAILED;
    }
    if (rules->return_address.kind == AG_CFI_SAME ||
        !frame_rule_apply(step, &rules->return_address, cfa, REG_PC, &pc)) {
        return is_beyond(step->stack, cfa) ? STEP_CUT : STEP_FAILED;
    }
    struct allogram_native_frame caller = {.pc = pc, .sp = cfa, .is_exact = rules->is_signal_frame};
    for (uint32_t reg = 0; reg < ALLOGRAM_REGISTERS; reg++) {
        const bool is_kept = rules->is_signal_frame || (PRESERVED >> reg & 1) != 0;
        if (is_kept && reg != REG_PC && reg != REG_SP &&
            frame_rule_apply(step, &rules->registers[reg], cfa, reg, &value)) {
            caller.registers.value[reg] = value;
            caller.registers.known |= 1u << reg;
        }
    }
    if (rules->is_signal_frame && rules->registers[REG_SP].kind != AG_CFI_SAME &&
        frame_rule_apply(step, &rules->registers[REG_SP], cfa, REG_SP, &value)) {
        caller.sp = value;
    } else if (cfa < step->from->value[REG_SP] || cfa % sizeof(uint64_t) != 0) {
        return STEP_FAILED;
    }
    *ret_caller = caller;
    return STEP_CALLER;
}

/* ---- 3. without a row ------------------------------------------------------- */

/* The kind of the call instruction that ends right before a return address. */
enum call { CALL_NONE, CALL_DIRECT, CALL_INDIRECT };

static enum call find_call(const uint8_t code[CODE_BEFORE_CALL], uint64_t return_address,
                           uint64_t *ret_target) {
    if (code[3] == 0xe8) { /* call rel32 */
        int32_t distance;
        memcpy(&distance, code + 4, sizeof distance);
        *ret_target = return_address + (uint64_t)(int64_t)distance;
        return CALL_DIRECT;
    }
    return ag_is_indirect_call(code + CODE_BEFORE_CALL) ? CALL_INDIRECT : CALL_NONE;
}

static enum call call_before(const struct ag_observed_images *images, uint64_t return_address,
                             uint64_t *ret_target) {
    const struct ag_observed_image *image = ag_observed_images_find(images, return_address - 1);
    uint8_t code[CODE_BEFORE_CALL];
    if (image == NULL || !image->is_open) {
        return CALL_NONE;
    }
    const uint64_t address = return_address - image->bias - sizeof code;
    const Elf64_Phdr *segment = ag_remote_elf_loaded(image->elf, address);
    if (segment == NULL || (segment->p_flags & PF_X) == 0 ||
        !ag_remote_elf_read(image->elf, segment->p_offset + (address - segment->p_vaddr), code,
                            sizeof code)) {
        return CALL_NONE;
    }
    return find_call(code, return_address, ret_target);
}

bool ag_is_after_call(pid_t pid, uint64_t address) {
    uint8_t code[CODE_BEFORE_CALL];
    uint64_t target;
    return ag_remote_memory_read(pid, address - sizeof code, code, sizeof code) == 0 &&
           find_call(code, address, &target) != CALL_NONE;
}

bool ag_is_restorer(pid_t pid, uint64_t address) {
    /* mov rax, SYS_rt_sigreturn; syscall */
    static const uint8_t restorer[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    uint8_t code[sizeof restorer];
    return ag_remote_memory_read(pid, address, code, sizeof code) == 0 &&
           memcmp(code, restorer, sizeof code) == 0;
}

/* Does what call_before does, for code that the target generated: it is in no file, only in the
 * target's memory. */
static bool is_after_generated_call(const struct ag_frame_walker *walker, const struct step *step,
                                    uint64_t return_address) {
    const struct ag_remote_mapping *mapping =
        ag_remote_maps_find(&walker->images->maps, return_address - 1);
    return mapping != NULL && (mapping->protection & PROT_EXEC) != 0 && step->stack->pid != 0 &&
           ag_is_after_call(step->stack->pid, return_address);
}

/* Returns the first address of the function that contains ADDRESS; 0: unknown. Both are addresses
 * in the target's memory. */
static uint64_t function_start(struct ag_observed_image *image, uint64_t address) {
    const struct ag_remote_symbol *function =
        image->is_open ? ag_remote_elf_function(image->elf, address - image->bias) : NULL;
    return function != NULL ? function->address + image->bias : 0;
}

struct guess {
    uint64_t at, pc; /* address and value of the return address; `at` 0: not found */
};

static struct guess scan_stack(struct ag_frame_walker *walker, struct step *step,
                               struct ag_observed_image *image) {
    const uint64_t start = function_start(image, step->address), sp = step->from->value[REG_SP];
    struct guess any = {0, 0};
    for (uint64_t i = 0; i < SCANNED_WORDS; i++) {
        const uint64_t at = sp + i * sizeof(uint64_t);
        uintptr_t word;
        uint64_t target = 0;
        if (!read_word(step->stack, at, &word)) {
            break;
        }
        const enum call call = call_before(walker->images, word, &target);
        if (call == CALL_DIRECT && start != 0 && target == start) {
            return (struct guess){at, word};
        }
        if (call != CALL_NONE && any.at == 0) {
            any = (struct guess){at, word};
        }
    }
    return any;
}

/* Assumes that rbp is a frame pointer: that it points to the saved rbp of the caller, which the
 * return address follows. */
static struct guess frame_pointer(struct ag_frame_walker *walker, struct step *step) {
    uintptr_t rbp, word;
    uint64_t target;
    if (!read_register(step, REG_BP, &rbp) || rbp < step->from->value[REG_SP] ||
        rbp - step->from->value[REG_SP] > GUESSED_FRAME_BYTES ||
        !read_word(step->stack, rbp + 8, &word)) {
        return (struct guess){0, 0};
    }
    const bool is_code = call_before(walker->images, word, &target) != CALL_NONE ||
                         (walker->owns != NULL && walker->owns(walker->owner, word)) ||
                         (ag_observed_images_find(walker->images, word - 1) == NULL &&
                          is_after_generated_call(walker, step, word));
    return is_code ? (struct guess){rbp + 8, word} : (struct guess){0, 0};
}

static enum outcome step_by_guess(struct ag_frame_walker *walker, struct step *step,
                                  struct ag_observed_image *image,
                                  struct allogram_native_frame *ret_caller) {
    const struct allogram_registers *from = step->from;
    const bool ends_here = (from->known >> REG_BP & 1) != 0 && from->value[REG_BP] == 0;
    struct guess guess = frame_pointer(walker, step);
    bool by_pointer = guess.at != 0;
    if (image != NULL) {
        const struct guess scanned = scan_stack(walker, step, image);
        uint64_t target = 0;
        const bool is_sure = scanned.at != 0 &&
                             call_before(walker->images, scanned.pc, &target) == CALL_DIRECT &&
                             target == function_start(image, step->address);
        if (is_sure || (guess.at == 0 && !ends_here)) {
            guess = scanned;
            by_pointer = false;
        }
    }
    if (guess.at == 0) {
        return ends_here ? STEP_END : STEP_FAILED;
    }
    struct allogram_native_frame caller = {.pc = guess.pc, .sp = guess.at + sizeof(uint64_t)};
    uintptr_t rbp = from->value[REG_BP];
    const bool is_kept = (from->known >> REG_BP & 1) != 0 &&
                         (rbp == 0 || rbp >= caller.sp || guess.at == from->value[REG_SP]);
    if (by_pointer ? read_word(step->stack, guess.at - sizeof(uint64_t), &rbp) : is_kept) {
        caller.registers.value[REG_BP] = rbp;
        caller.registers.known |= 1u << REG_BP;
    }
    if (guess.at == from->value[REG_SP]) { /* nothing was pushed: the callee-saved
                                            * registers have the caller's values */
        caller.registers.known |= from->known & PRESERVED;
        for (uint32_t reg = 0; reg < ALLOGRAM_REGISTERS; reg++) {
            caller.registers.value[reg] = from->value[reg];
        }
    }
    *ret_caller = caller;
    return STEP_CALLER;
}

/* ---- 4. the walk -------------------------------------------------------------- */

static bool is_entry(const struct ag_observed_image *image, uint64_t address) {
    return image->is_open && image->elf->entry != 0 &&
           address - image->bias - image->elf->entry < ENTRY_BYTES;
}

static bool is_code(const struct ag_frame_walker *walker, uint64_t address) {
    if (ag_observed_images_find(walker->images, address) != NULL) {
        return true;
    }
    const struct ag_remote_mapping *mapping = ag_remote_maps_find(&walker->images->maps, address);
    return (mapping != NULL && (mapping->protection & PROT_EXEC) != 0) ||
           (walker->owns != NULL && walker->owns(walker->owner, address));
}

static enum outcome find_caller(struct ag_frame_walker *walker, struct allogram_native_frame *frame,
                                struct ag_stack_copy *stack,
                                struct allogram_native_frame *ret_caller, bool *ret_by_row) {
    struct step step = {&frame->registers, frame->pc - !frame->is_exact, stack};
    struct ag_observed_image *image = ag_observed_images_find(walker->images, step.address);
    const struct ag_frame_rules *rules = rules_of(walker, image, step.address);
    enum outcome outcome = STEP_FAILED;
    *ret_by_row = false;
    if (image == NULL && ag_observed_images_is_trampoline(walker->images, step.address)) {
        return STEP_FAILED;
    }
    *ret_by_row = rules != NULL && rules->has_row;
    if (*ret_by_row) {
        outcome = step_by_row(&step, rules, ret_caller);
    } else {
        outcome = image != NULL && is_entry(image, step.address)
                      ? STEP_END
                      : step_by_guess(walker, &step, image, ret_caller);
    }
    if (outcome != STEP_CALLER || ret_caller->pc == 0) {
        return outcome == STEP_CALLER ? STEP_END : outcome;
    }
    /* a return address outside of code is wrong: the row is wrong, or the program switched
     * stacks */
    return is_code(walker, ret_caller->pc - !ret_caller->is_exact) ? STEP_CALLER : STEP_FAILED;
}

static enum allogram_walk_end end_of(enum outcome outcome) {
    switch (outcome) {
    case STEP_END:
        return ALLOGRAM_WALK_OUTERMOST;
    case STEP_CUT:
        return ALLOGRAM_WALK_CUT;
    case STEP_CALLER: /* there is no room for more frames */
        return ALLOGRAM_WALK_CUT;
    case STEP_FAILED:
        break;
    }
    return ALLOGRAM_WALK_UNKNOWN;
}

/* Whether a call ends right before pc. A direct call must lead to an image: bytes that only look
 * like a direct call seldom do. */
static bool is_after_call(const struct ag_observed_images *images, uint64_t pc) {
    uint64_t target = 0;
    const enum call call = call_before(images, pc, &target);
    return call == CALL_INDIRECT ||
           (call == CALL_DIRECT && ag_observed_images_find(images, target) != NULL);
}

/* Whether pc is the first byte of a function, and no call pushed it. */
static bool is_pushed_start(struct ag_frame_walker *walker, uint64_t pc) {
    const struct ag_observed_image *image = ag_observed_images_find(walker->images, pc);
    struct ag_observed_image *before = ag_observed_images_find(walker->images, pc - 1);
    const struct ag_frame_rules *rules = rules_of(walker, before, pc - 1);
    struct ag_cfi_entry entry;
    return image != NULL && image->is_open &&
           (rules == NULL || !rules->has_row || rules->is_last) &&
           ag_image_cfi_function(image->cfi, pc - image->bias, &entry) == 0 &&
           entry.function == pc - image->bias && !entry.is_signal_frame &&
           !is_after_call(walker->images, pc);
}

bool ag_frame_may_be_active(struct ag_frame_walker *walker, uint64_t pc, uint64_t sp, pid_t pid) {
    struct allogram_registers registers = {.known = 1u << REG_SP};
    registers.value[REG_SP] = sp;
    struct ag_stack_copy stack = {.address = sp, .bytes = (const uint8_t *)"", .pid = pid};
    struct step step = {&registers, pc - 1, &stack};
    struct allogram_native_frame caller;
    const struct ag_observed_image *image = ag_observed_images_find(walker->images, step.address);
    const struct ag_frame_rules *rules = rules_of(walker, image, step.address);
    if (rules == NULL || !rules->has_row || rules->cfa.kind != AG_CFI_IN_REGISTER ||
        rules->cfa.reg != REG_SP) {
        return true;
    }
    const enum outcome outcome = step_by_row(&step, rules, &caller);
    ag_stack_copy_done(&stack);
    return outcome == STEP_CALLER
               ? ag_is_after_call(pid, caller.pc) || ag_is_restorer(pid, caller.pc)
               : outcome != STEP_FAILED;
}

size_t ag_frame_walk(struct ag_frame_walker *walker, const struct allogram_registers *registers,
                     struct ag_stack_copy *stack, struct allogram_native_frame *ret_frames,
                     size_t limit, enum allogram_walk_end *ret_end) {
    size_t n = 0;
    walker->n_certain = 1;
    struct allogram_native_frame frame = {.pc = registers->value[REG_PC],
                                          .sp = registers->value[REG_SP],
                                          .is_exact = true,
                                          .registers = *registers};
    for (enum outcome outcome = STEP_CALLER;; n++) {
        frame.registers.value[REG_SP] = frame.sp;
        frame.registers.value[REG_PC] = frame.pc;
        frame.registers.known |= 1u << REG_SP | 1u << REG_PC;
        const uint64_t address = frame.pc - !frame.is_exact;
        if (!frame.is_exact && is_pushed_start(walker, frame.pc)) {
            frame.is_exact = true; /* its function is the one that starts at pc */
            ret_frames[n] = frame;
            *ret_end = ALLOGRAM_WALK_OUTERMOST;
            return n + 1;
        }
        frame.is_managed = ag_observed_images_find(walker->images, address) == NULL &&
                           walker->owns != NULL && walker->owns(walker->owner, address);
        ret_frames[n] = frame;
        if (frame.is_managed) {
            *ret_end = ALLOGRAM_WALK_MANAGED;
            return n + 1;
        }
        struct allogram_native_frame caller;
        bool by_row;
        outcome = find_caller(walker, &frame, stack, &caller, &by_row);
        if (outcome != STEP_CALLER || n + 1 == limit) {
            *ret_end = end_of(outcome);
            return n + 1;
        }
        walker->n_certain += by_row && walker->n_certain == n + 1;
        frame = caller;
    }
}
