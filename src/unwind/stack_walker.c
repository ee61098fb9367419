/* stack_walker.c: captures stacks in one of three ways: from the cache of whole stacks, by a walk
 * with a memo (the frames of the last walk), or by a plain walk. A node is the id of a stack in the
 * stack tree.
 *
 * 1. The verified memo
 *
 * An unwind is a pure function of the registers that it starts from (pc, sp, rbp), the stack words
 * that it reads, and the rules. So a walker remembers its last walk: the frames, outermost first,
 * and the stack words that the walk read at each frame. Suppose that the next walk reaches a frame
 * whose registers are equal to those of a remembered frame, and that every word that was read from
 * this frame outward still has its value. Then the rest of the stack is the remembered one, and its
 * node is known. This is correct whatever the program called, or returned from, between the two
 * walks.
 *
 *     frames   [0] outermost  [1]  ...  [known] the innermost that may still be right  ...
 *     words    the words that frame [0] read | those that frame [1] read | ...
 *
 * The words of a frame are the return address into its caller (the previous frame in the array),
 * and then the other words that the step to its caller read. These are saved values of rbp that
 * matter (section 2), stack pointers that a function saved before it realigned the stack, and words
 * of signal frames.
 *
 * The stack from frames[known] outward depends on the first AG_NEEDED_WORDS(frames[known].needs)
 * elements of words.
 *
 * The walk goes from the innermost frame outward. At each frame, it removes the remembered frames
 * that are further inside (their sp is lower). If the registers of the innermost remaining frame
 * match, it verifies the words; if not, it takes one step by rule and repeats. At the end the new
 * frames are appended. If a word differs, every remembered frame that depends on this word is
 * removed. Then the walk continues from the registers that it has computed itself, not from those
 * in the memo, because a remembered rbp may be stale (section 2).
 *
 * 2. Liveness of rbp
 *
 * In code compiled without frame pointers, rbp contains program data. If rbp, and the stack slots
 * in which it was saved, were compared, equal stacks would look different. rbp matters at a frame
 * only if a frame further out computes an address from it before a frame reloads it. One bit per
 * frame says whether it matters; the bit is known when the frames are appended, outermost first. If
 * the bit is clear, rbp is not compared, and the slot from which it is reloaded is not remembered.
 * The result is still exact.
 *
 * 3. Which memory is read
 *
 * A program may unmap memory above its stack pointer at any time: a pool of coroutines, for
 * example, divides one mapping in another way and puts guard pages where a stack was. A list of
 * mappings would not be correct, because the C library and raw system calls change mappings without
 * notice. But the program will return through its frames, so the memory of its frames is mapped.
 * Therefore:
 *
 *     a word may be read if it lies in a frame that is known to exist. The frame that called the
 *     allocation function exists. If a frame exists and its rule is from the compiler (not
 *     guessed), then the place of its return address exists too, and the return address leads to
 *     the next frame.
 *
 * So remembered words are compared one by one from the innermost frame outward, up to the first
 * word that differs. Each word was read by the rule of a frame, and the words that were compared
 * before it prove that this frame exists. (To compare four words with one branch was not faster,
 * and could read up to three words of a stack that does not exist anymore.)
 *
 * A guessed rule (AG_RULE_FRAME_POINTER, for generated code without CFI) does not prove that the
 * next frame exists. After the first guess of a walk, a word is read only if this walk has tested
 * its page by a system call (reach_guessed). The frames of such a walk are not remembered, even if
 * the walk seems to reach the outermost frame. A value of rbp that points to zeroed memory looks
 * like an outermost frame, and this memory may be unmapped at the next walk with the same pc, sp
 * and rbp.
 *
 * In addition, a step before the first guess reads only in the walker's readable range
 * (readable_range.h), because rules are sometimes wrong, above all those of assembler code. When
 * the range moves to another stack, the memo is dropped. If a walk goes from one stack to another,
 * only the frames on the last stack are remembered, because frames in the memo must be in the order
 * of their addresses.
 *
 * A signal frame does not prove that the interrupted frame exists: a handler on an alternate stack
 * may unmap the stack that it interrupted, and leave by siglongjmp. So after a signal frame the
 * range is empty, and this walk tests each page of the outer frames by a system call. The frames up
 * to the signal frame are not remembered.
 *
 * 4. Depth
 *
 * At most `depth` frames are kept; a deeper stack is cut. The memo of a complete stack can be used
 * if the matching remembered frames and the new frames are at most `depth` together. The memo of a
 * cut stack can be used only if these frames are exactly `depth` together, because its outermost
 * remembered frame must be the depth-th frame of the result. Otherwise the walk does not use the
 * memo and stops after `depth` frames; so the depth limits the cost of a capture in a deep
 * recursion. */
#include "unwind/stack_walker.h"

#include <stddef.h>
#include <string.h>

#include "base/pages.h"
#include "unwind/general_step.h"
#include "unwind/readable_range.h"
#include "unwind/stack_walker_fast.h"

enum { /* least and greatest number of captures that bypass the cache in a row */
       BYPASS_LENGTH_MIN = 64,
       BYPASS_LENGTH_MAX = 4096,
};
enum { GUESS_PAGES = 4 };

/* ---- making a walker ----------------------------------------------------- */
static uint32_t clamp_depth(uint32_t depth) {
    return depth < 1 ? 1 : depth > AG_DEPTH_MAX ? AG_DEPTH_MAX : depth;
}

/* Places the arrays after the walker. Returns the bytes of the walker and its arrays. If walker is
 * NULL, only computes the size. */
static size_t lay_out(struct ag_walker *walker, uint32_t depth) {
    const size_t n_others = depth * (size_t)AG_STEP_OTHER_WORDS_MAX + 1;
    const struct {
        size_t offset_in_walker, bytes, before;
    } arrays[] = {
        {offsetof(struct ag_walker, frames), depth * sizeof(struct ag_known_frame), 0},
        {offsetof(struct ag_walker, words), (depth + n_others) * sizeof(struct ag_stack_word), 0},
        {offsetof(struct ag_walker, new_frames), depth * sizeof(struct ag_new_frame),
         sizeof(struct ag_new_frame)},
        {offsetof(struct ag_walker, new_returns), depth * sizeof(struct ag_stack_word), 0},
        {offsetof(struct ag_walker, new_others), n_others * sizeof(struct ag_stack_word), 0},
    };
    size_t at = sizeof *walker;
    for (size_t i = 0; i < AG_ARRAY_SIZE(arrays); i++) {
        at += arrays[i].before;
        if (walker != NULL) {
            *(void **)((char *)walker + arrays[i].offset_in_walker) = (char *)walker + at;
        }
        at += (arrays[i].bytes + AG_CACHE_LINE - 1) & ~(size_t)(AG_CACHE_LINE - 1);
    }
    return at;
}

size_t ag_walker_bytes(uint32_t depth) {
    return lay_out(NULL, clamp_depth(depth));
}

struct ag_walker *ag_walker_init(void *memory, uint32_t depth) {
    struct ag_walker *walker = memory;
    walker->depth = clamp_depth(depth);
    walker->credit = AG_CACHE_CREDIT_START;
    walker->bypass_length = BYPASS_LENGTH_MIN;
    (void)lay_out(walker, walker->depth);
    return walker;
}

/* An entry of zeros is empty, so the caches may be cleared at any moment. If an entry is cleared
 * while a capture compares or fills it, in the worst case the result is node 0 (AG_ROOT_COMPLETE, a
 * stack without frames). */
void *ag_walker_caches(struct ag_walker *walker, size_t *ret_bytes) {
    const uintptr_t low = ag_page_after((uintptr_t)walker->near_pcs);
    const uintptr_t high = ag_page_of((uintptr_t)(walker + 1));
    *ret_bytes = high - low;
    return (void *)low;
}

/* ---- reading the stack --------------------------------------------------- */
struct reader { /* the state of one walk's reads: records the words that the walk read */
    struct ag_readable_range *stack;
    /* the last word that was read with role AG_WORD_RETURN_ADDRESS */
    struct ag_stack_word return_word;
    /* where the next word that is read with role AG_WORD_OTHER is stored */
    struct ag_stack_word *other;
    bool has_moved;        /* the walk has moved to another stack since this flag was cleared */
    bool has_read_guessed; /* a word after a guess was read */
    uint32_t next_page;
    /* after the first guess: the last pages that this walk found readable; next_page selects the
     * one to replace */
    uintptr_t pages[GUESS_PAGES];
};

AG_COLD static bool reach(struct reader *reader, uintptr_t address) {
    const enum ag_readable_result result = ag_readable_range_extend(reader->stack, address);
    reader->has_moved |= result == AG_READABLE_MOVED;
    return result != AG_READABLE_NOT;
}

AG_FAST uintptr_t read_word(struct reader *reader, uintptr_t address, enum ag_word_role role,
                            bool keeps_others) {
    const uintptr_t *word = (const uintptr_t *)address;
    const uintptr_t value = *word;
    if (role == AG_WORD_RETURN_ADDRESS) {
        reader->return_word = (struct ag_stack_word){word, value};
    } else if (keeps_others) {
        *reader->other++ = (struct ag_stack_word){word, value};
    }
    return value;
}

AG_FAST bool read_and_keep(void *context, uintptr_t address, enum ag_word_role role,
                           uintptr_t *ret_value) {
    struct reader *reader = context;
    if (AG_UNLIKELY(!ag_readable_range_has(reader->stack, address)) && !reach(reader, address)) {
        return false;
    }
    *ret_value = read_word(reader, address, role, /* keeps_others= */ true);
    return true;
}

/* Reads like read_and_keep, but records only return addresses. For steps that are not
 * remembered. */
AG_FAST bool read_only(void *context, uintptr_t address, enum ag_word_role role,
                       uintptr_t *ret_value) {
    struct reader *reader = context;
    if (AG_UNLIKELY(!ag_readable_range_has(reader->stack, address)) && !reach(reader, address)) {
        return false;
    }
    *ret_value = read_word(reader, address, role, /* keeps_others= */ false);
    return true;
}

/* Called before the first guess of a walk, which finds the caller of the frame at sp. At this
 * moment, only the page from which the pc of this frame was read is known to be readable. */
AG_COLD static void guess_begins(struct reader *reader, uintptr_t sp) {
    for (uint32_t i = 0; i < GUESS_PAGES; i++) {
        reader->pages[i] = ag_page_of(sp - sizeof(uintptr_t));
    }
}

/* Whether the word can be read. Tests its page by a system call, unless the page is one of the last
 * pages that this walk found readable since its first guess. */
static bool reach_guessed(struct reader *reader, uintptr_t address) {
    const uintptr_t page = ag_page_of(address);
    reader->has_read_guessed = true;
    for (uint32_t i = 0; i < GUESS_PAGES; i++) {
        if (reader->pages[i] == page) {
            return address % sizeof(uintptr_t) == 0;
        }
    }
    if (!ag_readable_word(address)) {
        return false;
    }
    reader->pages[reader->next_page++ % GUESS_PAGES] = page;
    return true;
}

/* Reads like read_and_keep, after a guess. */
static bool read_guessed(void *context, uintptr_t address, enum ag_word_role role,
                         uintptr_t *ret_value) {
    struct reader *reader = context;
    if (!reach_guessed(reader, address)) {
        return false;
    }
    *ret_value = read_word(reader, address, role, /* keeps_others= */ true);
    return true;
}

/* Reads like read_only, after a guess. */
static bool read_only_guessed(void *context, uintptr_t address, enum ag_word_role role,
                              uintptr_t *ret_value) {
    struct reader *reader = context;
    if (!reach_guessed(reader, address)) {
        return false;
    }
    *ret_value = read_word(reader, address, role, /* keeps_others= */ false);
    return true;
}

/* ---- near pcs ------------------------------------------------------------ */

AG_FAST uint32_t near_place(uintptr_t pc) {
    return (uint32_t)(pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - AG_NEAR_BITS));
}

/* The rule of a pc if it is in the walker's own cache, else 0. */
AG_FAST uint32_t near_rule(const struct ag_walker *walker, uintptr_t pc) {
    const uint32_t place = near_place(pc);
    const struct ag_near_pc *near = &walker->near_pcs[place];
    if (AG_LIKELY(near->pc == pc)) {
        return AG_PC_RULE(near->value);
    }
    near = &walker->near_pcs[place ^ 1];
    return near->pc == pc ? AG_PC_RULE(near->value) : 0;
}

/* ---- the memo ------------------------------------------------------------ */

/* Compares the first n words with the stack, from the last to the first, until a word differs.
 * Returns the index of this word plus 1; 0: all words are equal. Does not read the words before
 * it. */
AG_FAST uint32_t words_verify(const struct ag_stack_word *words, uint32_t n) {
    const struct ag_stack_word *end = words + n;
    for (; end - words >= 4; end -= 4) {
        if (AG_UNLIKELY(!ag_stack_word_is(end[-1].address, end[-1].value) ||
                        !ag_stack_word_is(end[-2].address, end[-2].value) ||
                        !ag_stack_word_is(end[-3].address, end[-3].value) ||
                        !ag_stack_word_is(end[-4].address, end[-4].value))) {
            break;
        }
    }
    while (end > words && ag_stack_word_is(end[-1].address, end[-1].value)) {
        end--;
    }
    return (uint32_t)(end - words);
}

/* Does the same as words_verify in a walk that has guessed, where the frames to which the words
 * belong may not exist; so it tests that each word can be read. */
static uint32_t verify_guessed(const struct ag_stack_word *words, uint32_t n,
                               struct reader *reader) {
    while (n > 0) {
        const struct ag_stack_word *word = &words[n - 1];
        if (!reach_guessed(reader, (uintptr_t)word->address) ||
            !ag_stack_word_is(word->address, word->value)) {
            return n;
        }
        n--;
    }
    return 0;
}

/* The result of a walk. */
struct outcome {
    enum ag_root root; /* how the walk ended, if known < 0 */
    int32_t known;     /* index of the remembered frame that matched; -1: none */
    /* new_frames[0 .. forgotten] are not remembered, because they lie on another stack than the
     * outer ones or depend on words that are not kept; -1: all are remembered */
    int32_t forgotten;
    uint32_t n_new;
    struct ag_stack_word return_word; /* the word from which the pc of frames[known] was read */
    bool has_guessed;                 /* the caller of a frame was found by a guessed rule */
    bool is_lost;                     /* there is no memory for the result */
};

/* Whether the rest of the stack from these registers outward is frames[known .. 0]. If not,
 * outcome->known becomes the innermost remembered frame that may still be right (-1: none). */
AG_FAST bool memo_match(const struct ag_walker *walker, const struct ag_registers *registers,
                        struct reader *reader, struct outcome *outcome) {
    const struct ag_known_frame *frames = walker->frames;
    int32_t known = outcome->known;
    while (known >= 0 && frames[known].registers.sp < registers->sp) {
        known--;
    }
    outcome->known = known;
    if (known < 0 || frames[known].registers.sp != registers->sp ||
        frames[known].registers.pc != registers->pc ||
        (AG_NEEDS_RBP(frames[known].needs) && frames[known].registers.rbp != registers->rbp)) {
        return false;
    }
    const uint32_t n_frames = (uint32_t)known + 1 + outcome->n_new;
    if (AG_UNLIKELY(walker->is_cut ? n_frames != walker->depth : n_frames > walker->depth)) {
        outcome->known = -1;
        return false;
    }
    const uint32_t n_words = AG_NEEDED_WORDS(frames[known].needs);
    const uint32_t differing = AG_UNLIKELY(outcome->has_guessed)
                                   ? verify_guessed(walker->words, n_words, reader)
                                   : words_verify(walker->words, n_words);
    if (AG_LIKELY(differing == 0)) {
        return true;
    }
    while (known >= 0 && AG_NEEDED_WORDS(frames[known].needs) >= differing) {
        known--;
    }
    outcome->known = known;
    return false;
}

AG_FAST uint64_t find_pc(struct ag_walker *walker, struct ag_unwind_space *space, uintptr_t pc) {
    const uint32_t place = near_place(pc);
    if (AG_LIKELY(walker->near_pcs[place].pc == pc)) {
        return walker->near_pcs[place].value;
    }
    if (AG_LIKELY(walker->near_pcs[place ^ 1].pc == pc)) {
        return walker->near_pcs[place ^ 1].value;
    }
    const uint64_t value = ag_pc_find_fast(space, pc);
    if (AG_PC_SITE(value) != 0) {
        walker->near_pcs[place ^ 1] = walker->near_pcs[place];
        walker->near_pcs[place] = (struct ag_near_pc){.pc = pc, .value = value};
    }
    return value;
}

/* Interns new_frames[n_new - 1 .. first_frame] and appends them to the memo after frames[known].
 * Returns the node of the innermost frame. Frames up to index `forgotten` are interned, but not
 * remembered. */
AG_FAST uint32_t memo_append(struct ag_walker *walker, struct ag_unwind_space *space,
                             const struct outcome *outcome, uint32_t first_frame) {
    const int32_t known = outcome->known;
    uint32_t node = known >= 0 ? walker->frames[known].node : outcome->root;
    uint32_t needs = known >= 0 ? walker->frames[known].needs : 0;
    uint32_t n_frames = (uint32_t)(known + 1);
    /* from this walk, not from the memo: frames[known] may have made another call since the
     * previous walk */
    struct ag_stack_word return_word = outcome->return_word;
    for (int32_t i = (int32_t)outcome->n_new - 1; i >= (int32_t)first_frame; i--) {
        const struct ag_new_frame *frame = &walker->new_frames[i];
        const uint32_t rule = AG_PC_RULE(frame->value);
        node = ag_node_intern_fast(&space->tree, node, AG_PC_SITE(frame->value));
        if (AG_UNLIKELY(node == 0)) {
            node = AG_ROOT_NOT_KEPT;
            break;
        }
        if (AG_UNLIKELY(i <= outcome->forgotten)) {
            continue;
        }
        const uint32_t first = frame[-1].n_others; // lay_out put an entry before new_frames[0]
        uint32_t end = frame->n_others, n_words = AG_NEEDED_WORDS(needs);
        const bool caller_reads_rbp = AG_NEEDS_RBP(needs);
        if (n_frames > 0) {
            walker->words[n_words++] = return_word;
        }
        /* A reloaded rbp that does not matter is not remembered. But the last word of the outermost
         * frame (n_frames is 0) is kept, because this word may have stopped the walk. */
        if (end > first && !caller_reads_rbp && ag_rule_reloads_rbp(rule) && n_frames > 0) {
            end--;
        }
        while (end > first) { // reversed, so that the word that was read first is compared first
            walker->words[n_words++] = walker->new_others[--end];
        }
        needs = AG_NEEDS(n_words, ag_rule_reads_rbp(rule, caller_reads_rbp));
        return_word = walker->new_returns[i];
        walker->frames[n_frames++] = (struct ag_known_frame){frame->registers, node, needs};
    }
    walker->n_frames = n_frames;
    return node;
}

/* Steps by a guessed rule, or by any rule after the first guess of a walk. */
AG_COLD static enum ag_step_result step_guessed(struct ag_walker *walker,
                                                struct ag_unwind_space *space, uint32_t rule,
                                                struct ag_registers *registers,
                                                struct reader *reader, struct outcome *outcome) {
    if (!outcome->has_guessed) {
        outcome->has_guessed = true;
        guess_begins(reader, registers->sp);
    }
    if (!AG_RULE_NEEDS_GENERAL(rule)) {
        return ag_frame_step_fast(registers, rule, read_guessed, reader);
    }
    outcome->forgotten = (int32_t)outcome->n_new - 1;
    return ag_general_step(space, walker->new_frames, outcome->n_new - 1, read_only_guessed, reader,
                           registers);
}

/* The value of the outermost frame whose rule is START. Its site is that of pc + 1, because the
 * frame belongs to the function that starts at pc, and not to that of pc - 1. */
AG_COLD static uint64_t start_value(struct ag_unwind_space *space, uintptr_t pc, uint64_t value) {
    const uint32_t site = AG_PC_SITE(ag_pc_find_fast(space, pc + 1));
    return site != 0 ? AG_PC_VALUE(site, AG_PC_RULE(value)) : value;
}

/* Steps one frame outward. Returns whether the walk continues. */
AG_FAST bool step_out(struct ag_walker *walker, struct ag_unwind_space *space,
                      struct ag_registers *registers, struct reader *reader,
                      struct outcome *outcome) {
    if (AG_UNLIKELY(outcome->n_new == walker->depth)) {
        outcome->root = AG_ROOT_CUT;
        return false;
    }
    const uint64_t value = find_pc(walker, space, registers->pc);
    if (AG_UNLIKELY(AG_PC_SITE(value) == 0)) {
        outcome->root = AG_ROOT_INCOMPLETE;
        outcome->is_lost = AG_PC_RULE(value) != AG_RULE_NOTHING;
        return false;
    }
    struct ag_new_frame *frame = &walker->new_frames[outcome->n_new];
    walker->new_returns[outcome->n_new++] = reader->return_word;
    frame->registers = *registers;
    frame->value = value;
    reader->return_word.address = NULL;
    enum ag_step_result result;
    const uint32_t rule = AG_PC_RULE(value);
    if (AG_UNLIKELY(outcome->has_guessed || rule == AG_RULE_FRAME_POINTER)) {
        result = step_guessed(walker, space, rule, registers, reader, outcome);
    } else if (AG_LIKELY(!AG_RULE_NEEDS_GENERAL(rule))) {
        result = ag_frame_step_fast(registers, rule, read_and_keep, reader);
    } else {
        result = ag_general_step(space, walker->new_frames, outcome->n_new - 1, read_only, reader,
                                 registers);
        /* The reads of a general step are not recorded, so the frames from the innermost to this
         * one are not remembered. The step from an outermost frame reads nothing. */
        if (result != AG_STEP_END) {
            outcome->forgotten = (int32_t)outcome->n_new - 1;
        } else {
            frame->value = start_value(space, registers->pc, value);
        }
    }
    frame->n_others = (uint32_t)(reader->other - walker->new_others);
    if (AG_UNLIKELY(AG_RULE_KIND(rule) == AG_RULE_SIGNAL)) {
        /* The interrupted code may be on another stack, which the handler may have unmapped. */
        *reader->stack = (struct ag_readable_range){.low = 0};
        reader->has_moved = true;
    }
    if (AG_UNLIKELY(reader->has_moved)) {
        reader->has_moved = false;
        outcome->forgotten = (int32_t)outcome->n_new - 1;
        outcome->known = -1;
    }
    if (AG_LIKELY(result == AG_STEP_CALLER && registers->pc != 0)) {
        return true;
    }
    outcome->root = result == AG_STEP_FAILED ? AG_ROOT_INCOMPLETE : AG_ROOT_COMPLETE;
    return false;
}

/* Walks from the registers outward until a frame of the memo matches, or the walk ends. Returns
 * false if there is no memory for the result. The stack found is new_frames[0 .. n_new - 1],
 * innermost first, then frames[known .. 0]. */
AG_FAST bool find_frames(struct ag_walker *walker, struct ag_unwind_space *space,
                         struct ag_registers registers, struct outcome *ret_outcome) {
    struct reader reader = {
        .stack = &walker->stack,
        .return_word = {(const uintptr_t *)registers.sp - 1, registers.pc},
        .other = walker->new_others,
    };
    struct outcome outcome = {.known = (int32_t)walker->n_frames - 1, .forgotten = -1};
    while (!memo_match(walker, &registers, &reader, &outcome)) {
        if (AG_LIKELY(step_out(walker, space, &registers, &reader, &outcome))) {
            continue;
        }
        if (outcome.is_lost) {
            walker->n_frames = 0;
            return false;
        }
        /* If a return address was read that leads to no frame, the end of the stack depends on this
         * word, so it is remembered. */
        if (outcome.root != AG_ROOT_CUT && reader.return_word.address != NULL &&
            outcome.n_new > 0) {
            *reader.other++ = reader.return_word;
            walker->new_frames[outcome.n_new - 1].n_others++;
        }
        walker->is_cut = outcome.root == AG_ROOT_CUT;
        outcome.known = -1;
        break;
    }
    if (AG_UNLIKELY(reader.has_read_guessed)) {
        outcome.forgotten = (int32_t)outcome.n_new - 1;
    }
    outcome.return_word = reader.return_word;
    *ret_outcome = outcome;
    return true;
}

static uint32_t walk_and_intern(struct ag_walker *walker, struct ag_unwind_space *space,
                                struct ag_registers registers, struct outcome *ret_outcome) {
    return find_frames(walker, space, registers, ret_outcome)
               ? memo_append(walker, space, ret_outcome, /* first_frame= */ 0)
               : (uint32_t)AG_ROOT_NOT_KEPT;
}

/* ---- the cache of whole stacks ------------------------------------------- */

/* Computes a key from pc, sp and the next return addresses, up to the first pc whose rule is not in
 * near_pcs. Only rules from the compiler are followed, not guessed ones, so the words that are read
 * lie in frames that exist. */
AG_FAST uint64_t stack_key(const struct ag_walker *walker, const struct ag_unwind_space *space,
                           const uintptr_t *sp, uintptr_t rbp) {
    uintptr_t pc = *sp, cfa = (uintptr_t)(sp + 1);
    uint64_t key = pc + cfa * UINT64_C(0xc2b2ae3d27d4eb4f);
    if (AG_UNLIKELY(walker->generation !=
                    atomic_load_explicit(&space->generation, memory_order_acquire))) {
        return key; // the cached rules may be those of unloaded code
    }
    for (int i = 0; i < AG_CACHED_KEY_RETURNS; i++) {
        const uint32_t rule = near_rule(walker, pc);
        if (AG_LIKELY(AG_RULE_KIND(rule) == AG_RULE_SP)) {
            cfa += (uintptr_t)AG_RULE_OFFSET8(rule) << 3;
        } else if (AG_RULE_KIND(rule) == AG_RULE_BP) {
            cfa = rbp + ((uintptr_t)AG_RULE_OFFSET8(rule) << 3);
        } else {
            break;
        }
        if (AG_UNLIKELY(!ag_readable_range_has(&walker->stack, cfa - 8))) {
            break;
        }
        pc = *(const uintptr_t *)(cfa - 8);
        key = (key ^ pc) * UINT64_C(0x9e3779b97f4a7c15);
        const uint32_t slot = AG_RULE_SLOT(rule);
        if (AG_UNLIKELY(slot == AG_RULE_SLOT_AT_BP)) {
            break;
        }
        if (slot != AG_RULE_SLOT_SAME) {
            rbp = *(const uintptr_t *)(cfa - 8 * (uintptr_t)slot);
        }
    }
    return key;
}

static uint16_t place_in_lines(uint32_t index) {
    return (uint16_t)(index * (sizeof(struct ag_cached_stack) / AG_CACHE_LINE));
}

/* Adds words to the entry, from the last to the first. Returns false if they do not fit. */
static bool fill_words(struct ag_cached_stack *entry, const uintptr_t *sp,
                       const struct ag_stack_word *words, uint32_t n_words, uint32_t *n_filled) {
    if (*n_filled + n_words > AG_CACHED_BLOCKS * 4) {
        return false;
    }
    while (n_words > 0) {
        const struct ag_stack_word *word = &words[--n_words];
        struct ag_cached_words *block = &entry->blocks[*n_filled / 4];
        const uintptr_t offset = (uintptr_t)(word->address - sp);
        if (offset > UINT16_MAX) {
            return false;
        }
        block->offsets[*n_filled % 4] = (uint16_t)offset;
        block->values[(*n_filled)++ % 4] = word->value;
    }
    return true;
}

/* Copies the stack in the memo, which is that of the last walk, into the entry. Returns false if it
 * does not fit. */
static bool cached_stack_fill(const struct ag_walker *walker, struct ag_cached_stack *entry,
                              const uintptr_t *sp, uintptr_t rbp, uint32_t node) {
    const uint32_t known = walker->n_frames - 1;
    const struct ag_known_frame *frame = &walker->frames[known];
    uint32_t n_words = 0;
    entry->sp = 0;
    if (frame->registers.sp != (uintptr_t)(sp + 1) ||
        !fill_words(entry, sp, walker->words, AG_NEEDED_WORDS(frame->needs), &n_words)) {
        return false;
    }
    for (; n_words % 4 != 0; n_words++) {
        struct ag_cached_words *block = &entry->blocks[n_words / 4];
        block->offsets[n_words % 4] = block->offsets[0];
        block->values[n_words % 4] = block->values[0];
    }
    entry->blocks_bytes = (uint32_t)(n_words / 4 * sizeof entry->blocks[0]);
    entry->pc = *sp;
    entry->rbp = rbp;
    entry->reads_rbp = AG_NEEDS_RBP(frame->needs);
    entry->node = node;
    entry->generation = walker->generation;
    entry->sp = (uintptr_t)sp;
    return true;
}

/* Reduces the cache's credit after a miss. Without credit, the cache is bypassed for some
 * captures. */
static void charge_miss(struct ag_walker *walker) {
    if (walker->credit >= AG_CACHE_CREDIT_MAX) { // the cache was useful since the last bypass
        walker->bypass_length = BYPASS_LENGTH_MIN;
    }
    walker->credit -= AG_CACHE_MISS_COST;
    if (walker->credit > 0) {
        return;
    }
    walker->bypass = walker->bypass_length;
    if (walker->bypass_length < BYPASS_LENGTH_MAX) {
        walker->bypass_length *= 2;
    }
}

/* Whether the stack is that of the last walk. This is the case for half of the captures of a
 * program that fills a container. */
AG_FAST bool is_last_stack(const struct ag_walker *walker, const struct ag_unwind_space *space,
                           const uintptr_t *sp, uintptr_t rbp) {
    if (AG_UNLIKELY(
            walker->n_frames == 0 || (walker->is_cut && walker->n_frames != walker->depth) ||
            walker->generation != atomic_load_explicit(&space->generation, memory_order_acquire))) {
        return false;
    }
    const uint32_t last = walker->n_frames - 1;
    const struct ag_known_frame *frame = &walker->frames[last];
    return frame->registers.sp == (uintptr_t)(sp + 1) && frame->registers.pc == *sp &&
           (!AG_NEEDS_RBP(frame->needs) || frame->registers.rbp == rbp) &&
           words_verify(walker->words, AG_NEEDED_WORDS(frame->needs)) == 0;
}

/* Called before a walk: drops the memo if the space's generation has changed, or if the readable
 * range has moved, because then the memo may be that of another stack. */
AG_FAST struct ag_registers begin_walk(struct ag_walker *walker, struct ag_unwind_space *space,
                                       const uintptr_t *sp, uintptr_t rbp) {
    const uint32_t generation = atomic_load_explicit(&space->generation, memory_order_acquire);
    if (AG_UNLIKELY(walker->generation != generation)) {
        walker->generation = generation;
        walker->n_frames = 0;
        memset(walker->near_pcs, 0, sizeof walker->near_pcs);
    }
    if (AG_UNLIKELY(!ag_readable_range_has(&walker->stack, (uintptr_t)sp)) &&
        ag_readable_range_enter(&walker->stack, (uintptr_t)sp) == AG_READABLE_MOVED) {
        walker->n_frames = 0;
    }
    return (struct ag_registers){.pc = *sp, .sp = (uintptr_t)(sp + 1), .rbp = rbp};
}

/* Captures a stack by a walk with the memo. */
static uint32_t capture_by_walk(struct ag_walker *walker, struct ag_unwind_space *space,
                                const uintptr_t *sp, uintptr_t rbp, struct outcome *ret_outcome) {
    return walk_and_intern(walker, space, begin_walk(walker, space, sp, rbp), ret_outcome);
}

/* Returns the entry in the node's set that contains the stack, or that may be filled with it. NULL:
 * both entries stay; but if the next miss in this set is the same stack, an entry is replaced. */
static struct ag_cached_stack *choose_place(struct ag_walker *walker, uint32_t node) {
    const uint32_t set = node * UINT32_C(0x9e3779b1) >> (32 - AG_CACHED_SETS_BITS);
    struct ag_cached_stack *entries = &walker->cache[set * 2];
    for (int i = 0; i < 2; i++) {
        if (entries[i].sp == 0 || entries[i].generation != walker->generation ||
            entries[i].node == node) {
            return &entries[i];
        }
    }
    const uint32_t next = walker->missed[set] >> 31;
    if (walker->missed[set] << 1 != node << 1) {
        walker->missed[set] = next << 31 | node;
        return NULL;
    }
    walker->missed[set] = (next ^ 1) << 31;
    return &entries[next];
}

/* Called after a cache miss and a walk: stores the stack in the cache, or, if the cache contains
 * it, records its place for the next prediction. Costs no credit if a free entry was filled. */
static void cache_learn(struct ag_walker *walker, struct ag_unwind_space *space, uint16_t by_key[2],
                        const uintptr_t *sp, uintptr_t rbp, uint32_t node, uint16_t *expected) {
    walker->last = node;
    struct ag_cached_stack *entry =
        node >= AG_NODE_FIRST && walker->n_frames > 0 ? choose_place(walker, node) : NULL;
    if (entry == NULL) {
        charge_miss(walker);
        return;
    }
    const bool is_free = entry->sp == 0 || entry->generation != walker->generation;
    const bool is_there = ag_cached_stack_is(entry, space, sp, rbp);
    if (!is_there && !cached_stack_fill(walker, entry, sp, rbp, node)) {
        charge_miss(walker);
        return;
    }
    if (!is_free) {
        charge_miss(walker);
    }
    const uint16_t place = place_in_lines((uint32_t)(entry - walker->cache));
    by_key[1] = by_key[0];
    walker->last = *expected = by_key[0] = place;
}

AG_NOINLINE uint32_t ag_walker_capture_slow(struct ag_walker *walker, struct ag_unwind_space *space,
                                            const uintptr_t *sp, uintptr_t rbp,
                                            uint16_t *expected) {
    struct outcome outcome = {0};
    if (expected == NULL) {
        if (--walker->bypass == 0) {
            walker->credit = AG_CACHE_CREDIT_START;
        }
        if (is_last_stack(walker, space, sp, rbp)) {
            return walker->last = walker->frames[walker->n_frames - 1].node;
        }
        return walker->last = capture_by_walk(walker, space, sp, rbp, &outcome);
    }
    const uint64_t key = stack_key(walker, space, sp, rbp);
    const uint32_t set = (uint32_t)(key >> (64 - AG_CACHED_SETS_BITS));
    uint16_t *by_key = walker->by_key[set];
    for (uint32_t i = 0; i < 2; i++) {
        const struct ag_cached_stack *entry = ag_cached_stack_at(walker, by_key[i]);
        if (ag_cached_stack_is(entry, space, sp, rbp)) {
            walker->credit += walker->credit < AG_CACHE_CREDIT_MAX;
            walker->last = *expected = by_key[i];
            return entry->node;
        }
    }
    const uint32_t node = capture_by_walk(walker, space, sp, rbp, &outcome);
    cache_learn(walker, space, by_key, sp, rbp, node, expected);
    return node;
}

uint32_t ag_walker_capture(struct ag_walker *walker, struct ag_unwind_space *space,
                           const uintptr_t *sp, uintptr_t rbp) {
    return ag_walker_capture_fast(walker, space, sp, rbp);
}

struct found_frames {
    const struct ag_walker *walker;
    const struct outcome *outcome;
};

static uintptr_t pc_of_found(const struct ag_walk_view *view, uint32_t i) {
    const struct found_frames *found = view->frames;
    const uint32_t n_new = found->outcome->n_new;
    return i < n_new
               ? found->walker->new_frames[i].registers.pc
               : found->walker->frames[found->outcome->known - (int32_t)(i - n_new)].registers.pc;
}

uint32_t ag_walker_capture_outer(struct ag_walker *walker, struct ag_unwind_space *space,
                                 const uintptr_t *sp, uintptr_t rbp, ag_walk_choose *choose,
                                 void *context) {
    struct outcome outcome = {0};
    if (!find_frames(walker, space, begin_walk(walker, space, sp, rbp), &outcome)) {
        return AG_ROOT_NOT_KEPT;
    }
    const struct found_frames found = {walker, &outcome};
    struct ag_walk_view view = {.n_frames = outcome.n_new + (uint32_t)(outcome.known + 1),
                                .root = outcome.root,
                                .frames = &found,
                                .pc = pc_of_found};
    if (outcome.known >= 0) {
        uint32_t node = walker->frames[0].node, parent = node, site = 0;
        (void)ag_stack_tree_node(&space->tree, node, &parent, &site);
        view.root = (enum ag_root)parent;
    }
    const uint32_t n_inner = choose(context, &view);
    if (n_inner <= outcome.n_new) {
        return memo_append(walker, space, &outcome, n_inner);
    }
    walker->n_frames = (uint32_t)(outcome.known + 1);
    return n_inner < view.n_frames
               ? walker->frames[outcome.known - (int32_t)(n_inner - outcome.n_new)].node
               : (uint32_t)view.root;
}

uint32_t ag_walker_capture_frames(struct ag_walker *walker, struct ag_unwind_space *space,
                                  const uintptr_t *sp, uintptr_t rbp,
                                  struct ag_walked_frame *ret_frames, uint32_t *ret_n_frames,
                                  enum ag_root *ret_root) {
    struct outcome outcome = {0};
    const uint32_t innermost = capture_by_walk(walker, space, sp, rbp, &outcome);
    uint32_t node = innermost, n_frames = 0;
    while (node >= AG_NODE_FIRST && n_frames < walker->depth) {
        const uint64_t word =
            atomic_load_explicit(&ag_node_at(&space->tree, node)->word, memory_order_relaxed);
        const struct ag_registers *registers =
            n_frames < outcome.n_new
                ? &walker->new_frames[n_frames].registers
                : &walker->frames[outcome.known - (int32_t)(n_frames - outcome.n_new)].registers;
        ret_frames[n_frames++] = (struct ag_walked_frame){
            .pc = registers->pc, .sp = registers->sp, .site = (uint32_t)word};
        node = (uint32_t)(word >> 32);
    }
    *ret_n_frames = n_frames;
    *ret_root = (enum ag_root)node;
    return innermost;
}

/* ---- the plain walk ------------------------------------------------------ */

/* Walks without a memo and fills `frames`. Returns the number of frames (0 for AG_ROOT_NOT_KEPT).
 * *ret_root: how the walk ended. */
static uint32_t walk_plain(struct ag_unwind_space *space, struct ag_registers registers,
                           struct ag_new_frame *frames, enum ag_root *ret_root) {
    struct ag_readable_range stack = {0};
    (void)ag_readable_range_enter(&stack, registers.sp - sizeof(uintptr_t));
    struct reader reader = {.stack = &stack};
    uint32_t n_frames = 0;
    *ret_root = AG_ROOT_CUT;
    while (n_frames < space->depth) {
        const uint64_t value = ag_pc_find_fast(space, registers.pc);
        if (AG_PC_SITE(value) == 0) {
            const bool is_lost = AG_PC_RULE(value) != AG_RULE_NOTHING;
            *ret_root = is_lost ? AG_ROOT_NOT_KEPT : AG_ROOT_INCOMPLETE;
            return is_lost ? 0 : n_frames;
        }
        frames[n_frames++] = (struct ag_new_frame){.registers = registers, .value = value};
        const enum ag_step_result result =
            !AG_RULE_NEEDS_GENERAL(AG_PC_RULE(value))
                ? ag_frame_step_fast(&registers, AG_PC_RULE(value), read_only, &reader)
                : ag_general_step(space, frames, n_frames - 1, read_only, &reader, &registers);
        if (result == AG_STEP_END && AG_PC_RULE(value) == AG_RULE_START) {
            frames[n_frames - 1].value = start_value(space, registers.pc, value);
        }
        if (result != AG_STEP_CALLER || registers.pc == 0) {
            *ret_root = result == AG_STEP_FAILED ? AG_ROOT_INCOMPLETE : AG_ROOT_COMPLETE;
            return n_frames;
        }
    }
    return n_frames;
}

uint32_t ag_walk_plain(struct ag_unwind_space *space, const uintptr_t *sp, uintptr_t rbp) {
    const size_t scratch_bytes = space->depth * sizeof(struct ag_new_frame);
    struct ag_new_frame *frames = ag_pages_map(scratch_bytes);
    if (!frames) {
        return AG_ROOT_NOT_KEPT;
    }
    const struct ag_registers registers = {.pc = *sp, .sp = (uintptr_t)(sp + 1), .rbp = rbp};
    enum ag_root root;
    uint32_t n_frames = walk_plain(space, registers, frames, &root);
    uint32_t node = root;
    while (n_frames > 0) {
        node = ag_node_intern_fast(&space->tree, node, AG_PC_SITE(frames[--n_frames].value));
        if (node == 0) {
            node = AG_ROOT_NOT_KEPT;
            break;
        }
    }
    ag_pages_unmap(frames, scratch_bytes);
    return node;
}

bool ag_walker_self_check(struct ag_unwind_space *space, const uintptr_t *sp, uintptr_t rbp,
                          uint32_t node) {
    return ag_walk_plain(space, sp, rbp) == node;
}
