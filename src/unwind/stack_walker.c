/* stack_walker.c: the walk with a memory, and the walk without.
 *
 * 1. The verified memo
 *
 * An unwind is a pure function: of the registers it starts from (pc, sp, rbp), of the stack words
 * it reads, and of the rules. So a walker remembers its last walk: its frames, outermost first, and
 * the words that they read. When the next walk comes to a frame whose registers equal a remembered
 * one, and every word that was read from there outward still has its value, then the rest of the
 * stack is the remembered one, and its node is known. Nothing is assumed about calls and returns in
 * between.
 *
 *     frames   [0] outermost  [1]  ...  [known] the innermost that may still be right  ...
 *     words    those of frames[0], then those of frames[1], ...
 *     n_words  of frames[i]: how many words frames [0..i] read together
 *
 * The walk goes from the innermost frame outward. At each frame: pop remembered frames that are
 * younger (their sp is lower); if the registers match, verify the words; else take one step by rule
 * and come again. At the end the new frames are appended. When a word differs, every frame that
 * depends on it is popped, and the walk goes on from the live registers: the remembered rbp may be
 * stale (see 2), so nothing is resumed from the memo.
 *
 * 2. Liveness of rbp
 *
 * Compiled without frame pointers, rbp holds program data: comparing it, and the slots it was saved
 * in, would make equal stacks look different. rbp matters at a frame only if a frame further out
 * computes something from it before some frame reloads it. That is known when the frames are
 * appended, outermost first: one bit per frame. Where it is clear, rbp is not compared and the slot
 * that reloads it is not remembered. Still exact.
 *
 * 3. Which memory is read
 *
 * Only what lies in the walker's readable range (readable_range.h). All remembered words lie in it:
 * when the range moves to another stack the memo is dropped, and of a walk that crosses stacks (a
 * handler on a signal stack) only the frames of the last stack are remembered. So words may be
 * verified in blocks, in any order.
 *
 * 4. Depth
 *
 * At most `depth` frames are kept. A memo of a complete stack serves as long as remembered and new
 * frames together fit; a memo of a cut stack serves when they are exactly `depth` again (its
 * outermost frame is the depth-th). Else the walk is plain, and stops after `depth` frames: the
 * cost of a capture in a recursion is bounded by the depth, not by the recursion. */
#include "unwind/stack_walker.h"

#include <sys/mman.h>

#include "base/raw_syscall.h"
#include "unwind/readable_range.h"
#include "unwind/stack_walker_fast.h"

enum { /* captures */
       BYPASS_LENGTH_MIN = 64,
       BYPASS_LENGTH_MAX = 4096,
};

/* ---- life ---------------------------------------------------------------- */
static size_t round_up(size_t bytes) {
    return (bytes + AG_CACHE_LINE - 1) & ~(size_t)(AG_CACHE_LINE - 1);
}

static uint32_t clamp_depth(uint32_t depth) {
    return depth < 1 ? 1 : depth > AG_DEPTH_MAX ? AG_DEPTH_MAX : depth;
}

size_t ag_walker_bytes(uint32_t depth) {
    const size_t n = clamp_depth(depth);
    return round_up(sizeof(struct ag_walker)) + round_up(n * sizeof(struct ag_known_frame)) +
           round_up(n * sizeof(struct ag_new_frame)) +
           2 * round_up(n * AG_STEP_WORDS_MAX * sizeof(struct ag_stack_word));
}

struct ag_walker *ag_walker_init(void *memory, uint32_t depth) {
    const size_t n = clamp_depth(depth);
    struct ag_walker *walker = memory;
    char *at = (char *)memory + round_up(sizeof *walker);
    walker->depth = (uint32_t)n;
    walker->credit = AG_CACHE_CREDIT_START;
    walker->bypass_length = BYPASS_LENGTH_MIN;
    walker->frames = (struct ag_known_frame *)at;
    at += round_up(n * sizeof(struct ag_known_frame));
    walker->words = (struct ag_stack_word *)at;
    at += round_up(n * AG_STEP_WORDS_MAX * sizeof(struct ag_stack_word));
    walker->new_frames = (struct ag_new_frame *)at;
    at += round_up(n * sizeof(struct ag_new_frame));
    walker->new_words = (struct ag_stack_word *)at;
    return walker;
}

/* ---- reading the stack --------------------------------------------------- */
struct reader { /* of one walk: keeps what it read when `word` is not NULL */
    struct ag_readable_range *stack;
    struct ag_stack_word *word; /* where the next one goes */
    bool has_moved;             /* to another stack, since this was cleared */
};

AG_COLD static bool reach(struct reader *reader, uintptr_t address) {
    const enum ag_readable_result result = ag_readable_range_extend(reader->stack, address);
    reader->has_moved |= result == AG_READABLE_MOVED;
    return result != AG_READABLE_NOT;
}

AG_FAST bool read_and_keep(void *context, uintptr_t address, uintptr_t *ret_value) {
    struct reader *reader = context;
    if (AG_UNLIKELY(!ag_readable_range_has(reader->stack, address)) && !reach(reader, address)) {
        return false;
    }
    const uintptr_t *word = (const uintptr_t *)address;
    const uintptr_t value = *word;
    *reader->word++ = (struct ag_stack_word){word, value};
    *ret_value = value;
    return true;
}

AG_FAST bool read_only(void *context, uintptr_t address, uintptr_t *ret_value) {
    struct reader *reader = context;
    if (AG_UNLIKELY(!ag_readable_range_has(reader->stack, address)) && !reach(reader, address)) {
        return false;
    }
    *ret_value = *(const uintptr_t *)address;
    return true;
}

/* ---- the memo ------------------------------------------------------------ */

/* Compares the first n words with the stack, the youngest first; returns how many there are up to
 * and including the youngest that differs, 0 when all are equal. */
AG_FAST uint32_t verify(const struct ag_stack_word *words, uint32_t n) {
    while (n >= 4) {
        const struct ag_stack_word *block = words + n;
        const uintptr_t difference =
            (*block[-1].address ^ block[-1].value) | (*block[-2].address ^ block[-2].value) |
            (*block[-3].address ^ block[-3].value) | (*block[-4].address ^ block[-4].value);
        if (AG_UNLIKELY(difference != 0)) {
            break;
        }
        n -= 4;
    }
    while (n > 0 && *words[n - 1].address == words[n - 1].value) {
        n--;
    }
    return n;
}

/* Appends the new frames to the memo behind frames[known] and interns them; returns the node of the
 * innermost. Frames up to new_frames[switched] stand on another stack than the outer ones: they are
 * interned, not remembered. */
static uint32_t append(struct ag_walker *walker, struct ag_unwind_space *space, int32_t known,
                       uint32_t n_new, int32_t switched, enum ag_root root) {
    uint32_t node = root, n_words = 0;
    bool reads_rbp = false;
    if (known >= 0) {
        node = walker->frames[known].node;
        n_words = walker->frames[known].n_words;
        reads_rbp = walker->frames[known].reads_rbp;
    }
    uint32_t n_frames = (uint32_t)(known + 1);
    for (int32_t i = (int32_t)n_new - 1; i >= 0; i--) {
        const struct ag_new_frame *frame = &walker->new_frames[i];
        node = ag_node_intern_fast(&space->tree, node, frame->site);
        if (AG_UNLIKELY(node == 0)) {
            break;
        }
        if (AG_UNLIKELY(i <= switched)) {
            continue;
        }
        const uint32_t first_word = i > 0 ? frame[-1].n_words : 0;
        uint32_t end_word = frame->n_words;
        if (!reads_rbp && ag_rule_last_word_is_rbp(frame->rule, end_word - first_word)) {
            end_word--;
        }
        while (end_word > first_word) { // youngest last
            walker->words[n_words++] = walker->new_words[--end_word];
        }
        reads_rbp = ag_rule_reads_rbp(frame->rule, reads_rbp);
        walker->frames[n_frames++] = (struct ag_known_frame){
            .registers = frame->registers,
            .node = node,
            .n_words = n_words,
            .reads_rbp = reads_rbp,
        };
    }
    walker->n_frames = n_frames;
    return node;
}

/* Is the rest of the stack from these registers outward frames[known] and older? If not, returns
 * the youngest remembered frame that may still be right (-1: none) in ret_known. */
AG_FAST bool match(const struct ag_walker *walker, const struct ag_registers *registers,
                   uint32_t n_new, int32_t *ret_known) {
    const struct ag_known_frame *frames = walker->frames;
    int32_t known = *ret_known;
    while (known >= 0 && frames[known].registers.sp < registers->sp) {
        known--;
    }
    *ret_known = known;
    if (known < 0 || frames[known].registers.sp != registers->sp ||
        frames[known].registers.pc != registers->pc ||
        (frames[known].reads_rbp && frames[known].registers.rbp != registers->rbp)) {
        return false;
    }
    const uint32_t n_frames = (uint32_t)known + 1 + n_new;
    if (AG_UNLIKELY(walker->is_cut ? n_frames != walker->depth : n_frames > walker->depth)) {
        *ret_known = -1;
        return false;
    }
    const uint32_t differing = verify(walker->words, frames[known].n_words);
    if (AG_LIKELY(differing == 0)) {
        return true;
    }
    while (known >= 0 && frames[known].n_words >= differing) {
        known--;
    }
    *ret_known = known;
    return false;
}

static uint32_t walk(struct ag_walker *walker, struct ag_unwind_space *space,
                     struct ag_registers registers) {
    struct reader reader = {.stack = &walker->stack, .word = walker->new_words};
    int32_t known = (int32_t)walker->n_frames - 1, switched = -1;
    uint32_t n_new = 0;
    enum ag_root root = AG_ROOT_COMPLETE;
    while (!match(walker, &registers, n_new, &known)) {
        if (AG_UNLIKELY(n_new == walker->depth)) {
            root = AG_ROOT_CUT;
            known = -1;
            break;
        }
        const uint64_t value = ag_pc_find_fast(space, registers.pc);
        if (AG_UNLIKELY(AG_PC_SITE(value) == 0)) {
            if (AG_PC_RULE(value) != AG_RULE_NOTHING || n_new == 0) {
                walker->n_frames = 0;
                return 0;
            }
            root = AG_ROOT_INCOMPLETE;
            known = -1;
            break;
        }
        struct ag_new_frame *frame = &walker->new_frames[n_new++];
        frame->registers = registers;
        frame->site = AG_PC_SITE(value);
        frame->rule = AG_PC_RULE(value);
        const enum ag_step_result result =
            ag_frame_step_fast(&registers, frame->rule, read_and_keep, &reader);
        frame->n_words = (uint32_t)(reader.word - walker->new_words);
        if (AG_UNLIKELY(reader.has_moved)) {
            reader.has_moved = false;
            switched = (int32_t)n_new - 1;
            known = -1;
        }
        if (AG_UNLIKELY(result != AG_STEP_CALLER || registers.pc == 0)) {
            root = result == AG_STEP_FAILED ? AG_ROOT_INCOMPLETE : AG_ROOT_COMPLETE;
            known = -1;
            break;
        }
    }
    if (known < 0) {
        walker->is_cut = root == AG_ROOT_CUT;
    }
    return append(walker, space, known, n_new, switched, root);
}

/* ---- the cache of whole stacks ------------------------------------------- */

/* Takes the stack that the memo has just learnt into the entry. */
static void fill(const struct ag_walker *walker, struct ag_cached_stack *entry, const uintptr_t *sp,
                 uintptr_t rbp, uint32_t node) {
    const struct ag_known_frame *frame = &walker->frames[walker->n_frames - 1];
    const uint32_t n = frame->n_words;
    entry->sp = 0;
    if (n == 0 || n > AG_CACHED_WORDS || frame->registers.sp != (uintptr_t)(sp + 1)) {
        return;
    }
    uint32_t highest = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct ag_stack_word *word = &walker->words[n - 1 - i];
        const uintptr_t offset = (uintptr_t)(word->address - sp);
        if (offset > UINT16_MAX) {
            return;
        }
        entry->offsets[i] = (uint16_t)offset;
        entry->values[i] = word->value;
        highest = offset > highest ? (uint32_t)offset : highest;
    }
    uint32_t n_padded = n;
    for (; n_padded % 4 != 0; n_padded++) {
        entry->offsets[n_padded] = entry->offsets[0];
        entry->values[n_padded] = entry->values[0];
    }
    entry->n_words = (uint16_t)n_padded;
    entry->span_bytes = (highest + 1) * (uint32_t)sizeof(uintptr_t);
    entry->pc = *sp;
    entry->rbp = rbp;
    entry->reads_rbp = frame->reads_rbp;
    entry->node = node;
    entry->generation = walker->generation;
    entry->sp = (uintptr_t)sp;
}

/* Keeps the books of the cache: a miss costs, and without credit there is a bypass. */
static void charge_miss(struct ag_walker *walker) {
    walker->credit -= AG_CACHE_MISS_COST;
    if (walker->credit > 0) {
        return;
    }
    walker->bypass = walker->bypass_length;
    if (walker->bypass_length < BYPASS_LENGTH_MAX) {
        walker->bypass_length *= 2;
    }
}

uint32_t ag_walker_capture_slow(struct ag_walker *walker, struct ag_unwind_space *space,
                                const uintptr_t *sp, uintptr_t rbp, struct ag_cached_stack *entry,
                                uint32_t key) {
    const uint32_t generation = atomic_load_explicit(&space->generation, memory_order_acquire);
    if (AG_UNLIKELY(walker->generation != generation)) {
        walker->generation = generation;
        walker->n_frames = 0;
    }
    if (AG_UNLIKELY(!ag_readable_range_has(&walker->stack, (uintptr_t)sp)) &&
        ag_readable_range_enter(&walker->stack, (uintptr_t)sp) == AG_READABLE_MOVED) {
        walker->n_frames = 0;
    }
    const struct ag_registers registers = {.pc = *sp, .sp = (uintptr_t)(sp + 1), .rbp = rbp};
    const uint32_t node = walk(walker, space, registers);
    if (entry == NULL) {
        if (--walker->bypass == 0) {
            walker->credit = AG_CACHE_CREDIT_START;
        }
        return node;
    }
    if (entry->missed_key == key && node != 0 && walker->n_frames > 0) {
        fill(walker, entry, sp, rbp, node);
    }
    entry->missed_key = key;
    charge_miss(walker);
    return node;
}

uint32_t ag_walker_capture(struct ag_walker *walker, struct ag_unwind_space *space,
                           const uintptr_t *sp, uintptr_t rbp) {
    return ag_walker_capture_fast(walker, space, sp, rbp);
}

/* ---- the plain walk ------------------------------------------------------ */
uint32_t ag_walk_plain(struct ag_unwind_space *space, const uintptr_t *sp, uintptr_t rbp) {
    const size_t scratch_bytes = space->depth * sizeof(uint32_t);
    const long mapped = ag_syscall6(SYS_mmap, 0, (long)scratch_bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ag_syscall_failed(mapped)) {
        return 0;
    }
    uint32_t *sites = (uint32_t *)mapped;
    struct ag_readable_range stack = {0};
    (void)ag_readable_range_enter(&stack, (uintptr_t)sp);
    struct reader reader = {.stack = &stack};
    struct ag_registers registers = {.pc = *sp, .sp = (uintptr_t)(sp + 1), .rbp = rbp};
    uint32_t n_sites = 0, node = AG_ROOT_CUT;
    while (n_sites < space->depth) {
        const uint64_t value = ag_pc_find_fast(space, registers.pc);
        if (AG_PC_SITE(value) == 0) {
            node = AG_ROOT_INCOMPLETE;
            if (AG_PC_RULE(value) != AG_RULE_NOTHING) {
                n_sites = 0;
            }
            break;
        }
        sites[n_sites++] = AG_PC_SITE(value);
        const enum ag_step_result result =
            ag_frame_step_fast(&registers, AG_PC_RULE(value), read_only, &reader);
        if (result != AG_STEP_CALLER || registers.pc == 0) {
            node = result == AG_STEP_FAILED ? AG_ROOT_INCOMPLETE : AG_ROOT_COMPLETE;
            break;
        }
    }
    if (n_sites == 0) {
        node = 0;
    }
    while (n_sites > 0) {
        node = ag_node_intern_fast(&space->tree, node, sites[--n_sites]);
        if (node == 0) {
            break;
        }
    }
    (void)ag_syscall2(SYS_munmap, mapped, (long)scratch_bytes); // cannot fail: it was just mapped
    return node;
}

bool ag_walker_self_check(struct ag_unwind_space *space, const uintptr_t *sp, uintptr_t rbp,
                          uint32_t node) {
    return ag_walk_plain(space, sp, rbp) == node;
}
