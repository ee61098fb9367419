/* played_target.c: a target process made of memory and symbols that a test wrote; see
 * played_target.h. */
#include "played_target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

uint64_t played_place(struct allogram_target *target, size_t n_bytes) {
    const size_t at = (target->used + 63) & ~(size_t)63;
    if (at + n_bytes > PLAYED_BYTES) {
        return 0;
    }
    target->used = at + n_bytes;
    return PLAYED_BASE + at;
}

void *played_bytes(struct allogram_target *target, uint64_t address) {
    return target->memory + (address - PLAYED_BASE);
}

void played_set(struct allogram_target *target, uint64_t address, uint64_t word) {
    memcpy(played_bytes(target, address), &word, sizeof word);
}

void played_set_32(struct allogram_target *target, uint64_t address, uint32_t value) {
    memcpy(played_bytes(target, address), &value, sizeof value);
}

uint64_t played_symbol(struct allogram_target *target, const char *name, size_t n_bytes) {
    const uint64_t address = played_place(target, n_bytes);
    target->symbols[target->n_symbols].name = name;
    target->symbols[target->n_symbols++].symbol = (struct allogram_target_symbol){address, n_bytes};
    return address;
}

int allogram_target_pid(const struct allogram_target *target) {
    (void)target;
    return 1;
}

int allogram_target_read(struct allogram_target *target, uint64_t address, void *ret_bytes,
                         size_t n_bytes) {
    target->n_reads++;
    if (address < PLAYED_BASE || n_bytes > PLAYED_BYTES ||
        address - PLAYED_BASE > PLAYED_BYTES - n_bytes) {
        return -EFAULT;
    }
    memcpy(ret_bytes, target->memory + (address - PLAYED_BASE), n_bytes);
    return 0;
}

int allogram_target_read_text(struct allogram_target *target, uint64_t address, char *ret_text,
                              size_t limit) {
    for (size_t i = 0; i + 1 < limit; i++) {
        const int r = allogram_target_read(target, address + i, ret_text + i, 1);
        if (r < 0 || ret_text[i] == '\0') {
            return r;
        }
    }
    ret_text[limit - 1] = '\0';
    return 0;
}

int allogram_target_symbol(struct allogram_target *target, const char *name,
                           struct allogram_target_symbol *ret_symbol) {
    for (size_t i = 0; i < target->n_symbols; i++) {
        if (strcmp(target->symbols[i].name, name) == 0) {
            *ret_symbol = target->symbols[i].symbol;
            return 0;
        }
    }
    return -ENOENT;
}

int allogram_target_file(struct allogram_target *target, uint64_t address, char *ret_path,
                         size_t limit, uint64_t *ret_offset) {
    (void)target, (void)address, (void)ret_path, (void)limit, (void)ret_offset;
    return -ENOENT;
}

/* Visits the object files of generated code, which are in a linked list in the played memory. An
 * entry is three words: the address of the next entry, the address of the file, and the number of
 * bytes of the file. */
int allogram_target_code_entries(struct allogram_target *target, allogram_code_entry_fn *visit,
                                 void *context) {
    struct allogram_target_symbol list;
    uint64_t words[3];
    if (allogram_target_symbol(target, "played_code", &list) < 0) {
        return -ENOENT;
    }
    for (uint64_t at = list.address, i = 0; at != 0 && i < 100; at = words[0], i++) {
        uint8_t file[4096];
        if (allogram_target_read(target, at, words, sizeof words) < 0 || words[2] > sizeof file ||
            allogram_target_read(target, words[1], file, words[2]) < 0) {
            return -EBADMSG;
        }
        if (!visit(context, at, file, words[2])) {
            return 0;
        }
    }
    return 0;
}

uint64_t allogram_target_code_stamp(struct allogram_target *target) {
    (void)target;
    return 1;
}

AG_PRINTF(4, 5)
static void append(char *text, size_t limit, size_t *len, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text + *len, limit - *len, format, arguments);
    va_end(arguments);
    *len += n > 0 && (size_t)n < limit - *len ? (size_t)n : 0;
}

void allogram_stack_native(struct allogram_stack *stack, size_t frame) {
    stack->n_frames++;
    append(stack->text, sizeof stack->text, &stack->len, "native %zu\n", frame);
}

void allogram_stack_managed(struct allogram_stack *stack,
                            const struct allogram_managed_frame *frame) {
    stack->n_frames++;
    append(stack->text, sizeof stack->text, &stack->len, "%s %s:%u\n", frame->function,
           frame->file != NULL ? frame->file : "-", (unsigned)frame->line);
}

void allogram_stack_incomplete(struct allogram_stack *stack) {
    (void)stack;
}

struct allogram_stack *allogram_answers_stack(struct allogram_answers *answers) {
    answers->stack.len = answers->stack.n_frames = 0;
    answers->stack.text[0] = '\0';
    return &answers->stack;
}

void played_begin(struct allogram_answers *answers) {
    answers->len = answers->n_reported = 0;
    answers->n_lost = 0;
    answers->text[0] = '\0';
    (void)allogram_answers_stack(answers);
}

void allogram_answers_process(struct allogram_answers *answers,
                              const struct allogram_process *process,
                              const struct allogram_stack *stack) {
    answers->n_reported++;
    append(answers->text, sizeof answers->text, &answers->len,
           "%s %s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " frames %zu\n", process->id,
           process->name != NULL ? process->name : "-",
           process->current_function != NULL ? process->current_function : "-", process->heap_words,
           process->stack_words, process->queue, stack != NULL ? stack->n_frames : 0);
}

void allogram_answers_allocator(struct allogram_answers *answers,
                                const struct allogram_allocator *allocator) {
    answers->n_reported++;
    append(answers->text, sizeof answers->text, &answers->len,
           "%s %u %" PRIu64 " %" PRIu64 " carriers %zu\n", allocator->name, allocator->instance,
           allocator->carriers_bytes, allocator->blocks_bytes, allocator->n_carriers);
}

void allogram_answers_collection(struct allogram_answers *answers,
                                 const struct allogram_collection *collection,
                                 const struct allogram_stack *stack) {
    answers->n_reported++;
    append(answers->text, sizeof answers->text, &answers->len,
           "%s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " frames %zu\n",
           collection->kind, collection->process != NULL ? collection->process : "-",
           collection->pause_ns, collection->heap_before_bytes, collection->heap_after_bytes,
           collection->needed_bytes, collection->allocated_bytes,
           stack != NULL ? stack->n_frames : 0);
}

void allogram_answers_collections_seen(struct allogram_answers *answers, uint64_t n) {
    (void)answers;
    (void)n; /* no test uses this number */
}

void allogram_answers_lost(struct allogram_answers *answers, uint64_t n, const char *cause) {
    (void)cause;
    answers->n_lost += n;
}
