/* frame_step_fast.h (x86-64): steps from a frame to its caller by one 32-bit rule, the packed form
 * of a CFI row (a row of the DWARF call frame table).
 *
 *     rule   | offset / 8 : 20 | rbp slot : 9 | kind : 3 |      bit 31 .. bit 0
 *
 *     kind       CFA (= the caller's sp)                 caller's pc     caller's rbp
 *     SP         sp + offset                             *(CFA - 8)      slot
 *     BP         rbp + offset                            *(CFA - 8)      slot
 *     BP_DEREF   *(rbp + offset), offset signed          *(CFA - 8)      slot
 *     PLT        sp + 8, or sp + 16 if (pc - 1) & 15     *(CFA - 8)      rbp
 *                >= offset / 8 (a PLT entry that a signal interrupted)
 *     SIGNAL     *(sp + 160), from the kernel's ucontext *(sp + 168)+1   *(sp + 120)
 *     END        the outermost frame: no caller
 *     OTHER      offset / 8 is an enum ag_rule_other; FRAME_POINTER steps like BP with offset 16
 *
 *     slot         0: rbp is unchanged; AT_BP: *rbp; else *(CFA - 8 * slot)
 *
 * BP_DEREF is for functions that realign their stack: GCC's code for them stores the CFA (the
 * "dynamic realign argument pointer", DRAP) in the frame, at rbp + offset.
 *
 * For every frame, pc - 1 lies inside the instruction that the frame is executing
 * (base/stack_tree.h). Therefore the step out of a signal frame adds one.
 *
 * Budget: 3 ns per frame with warm caches, mostly for the loads. */
#ifndef AG_FRAME_STEP_FAST_H
#define AG_FRAME_STEP_FAST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum ag_rule_kind {
    AG_RULE_UNKNOWN = 0, /* the rule was not determined yet; a valid rule is never 0 */
    AG_RULE_SP,
    AG_RULE_BP,
    AG_RULE_BP_DEREF,
    AG_RULE_PLT,
    AG_RULE_SIGNAL,
    AG_RULE_END,
    AG_RULE_OTHER,
};
enum ag_rule_other {
    AG_OTHER_NONE = 0,          /* there is no rule; pc may not even be an address of code */
    AG_OTHER_FRAME_POINTER = 1, /* code without a CFI row: rbp is assumed to be a frame pointer */
    AG_OTHER_GENERAL = 2, /* the CFI row does not fit into 32 bits: general_step.c evaluates it */
    /* pc is the first byte of a function, and the function before it ends there, but not with a
     * call: the outermost frame of a coroutine, or code that a signal interrupted at pc - 1.
     * general_step.c distinguishes them. */
    AG_OTHER_START = 3,
};
enum {
    AG_RULE_SLOT_SAME = 0,
    AG_RULE_SLOT_AT_BP = 511,
    /* the greatest offset, in units of 8 bytes; the signed offset of BP_DEREF is limited to half of
     * this value above and below rbp */
    AG_RULE_OFFSET_MAX = (1 << 20) - 1,
    /* in code without a CFI row: if CFA - sp is greater, rbp is assumed to contain data */
    AG_GUESSED_FRAME_BYTES_MAX = 1 << 20,
    /* maximum number of words that one step reads besides the return address */
    AG_STEP_OTHER_WORDS_MAX = 2,
};
#define AG_RULE(kind, slot, offset8) \
    ((uint32_t)(kind) | (uint32_t)(slot) << 3 | ((uint32_t)(offset8)&AG_RULE_OFFSET_MAX) << 12)
#define AG_RULE_NOTHING AG_RULE(AG_RULE_OTHER, 0, AG_OTHER_NONE)
#define AG_RULE_FRAME_POINTER AG_RULE(AG_RULE_OTHER, /* slot: CFA - 16 */ 2, AG_OTHER_FRAME_POINTER)
#define AG_RULE_GENERAL AG_RULE(AG_RULE_OTHER, 0, AG_OTHER_GENERAL)
#define AG_RULE_START AG_RULE(AG_RULE_OTHER, 0, AG_OTHER_START)
/* Whether ag_general_step makes the step: whether the rule is GENERAL or START. */
#define AG_RULE_NEEDS_GENERAL(rule) \
    (((rule) & ~AG_RULE(0, 0, AG_OTHER_GENERAL ^ AG_OTHER_START)) == AG_RULE_GENERAL)
#define AG_RULE_KIND(rule) ((enum ag_rule_kind)((rule)&7))
#define AG_RULE_SLOT(rule) ((rule) >> 3 & 511)
#define AG_RULE_OFFSET8(rule) ((rule) >> 12)
#define AG_RULE_SIGNED_OFFSET8(rule) ((int32_t)(rule) >> 12)

/* offsets of fields of the kernel's ucontext_t from sp at the signal trampoline */
enum { AG_SIGNAL_RBP = 120, AG_SIGNAL_RSP = 160, AG_SIGNAL_RIP = 168 };

struct ag_registers { /* the registers of a frame, from which those of its caller are computed */
    uintptr_t pc, sp, rbp;
};

enum ag_step_result {
    AG_STEP_CALLER, /* the registers are now those of the caller */
    AG_STEP_END,    /* this is the outermost frame */
    AG_STEP_FAILED, /* no rule, or the rule led to an unreadable or impossible address */
};

/* The purpose for which a step reads a word. A walk that caches words treats return addresses and
 * other words differently. */
enum ag_word_role { AG_WORD_RETURN_ADDRESS, AG_WORD_OTHER };

/* Reads one word of the stack; false: unreadable. The functions of stack_walker.c load the word
 * after they have checked that it can be read. */
typedef bool ag_read_word_fn(void *context, uintptr_t address, enum ag_word_role role,
                             uintptr_t *ret_value);

/* Every caller passes a constant as `read`, so that the compiler inlines it. */
AG_FAST enum ag_step_result ag_frame_step_fast(struct ag_registers *registers, uint32_t rule,
                                               ag_read_word_fn *read, void *context) {
    const uint32_t slot = AG_RULE_SLOT(rule);
    uintptr_t cfa;
    switch (AG_RULE_KIND(rule)) {
    case AG_RULE_SP:
        cfa = registers->sp + ((uintptr_t)AG_RULE_OFFSET8(rule) << 3);
        break;
    case AG_RULE_BP:
        cfa = registers->rbp + ((uintptr_t)AG_RULE_OFFSET8(rule) << 3);
        break;
    case AG_RULE_BP_DEREF:
        if (!read(context, registers->rbp + (uintptr_t)((intptr_t)AG_RULE_SIGNED_OFFSET8(rule) * 8),
                  AG_WORD_OTHER, &cfa)) {
            return AG_STEP_FAILED;
        }
        break;
    case AG_RULE_PLT:
        cfa = registers->sp + 8 + (((registers->pc - 1) & 15) >= AG_RULE_OFFSET8(rule) ? 8 : 0);
        break;
    case AG_RULE_SIGNAL: {
        struct ag_registers caller;
        const uintptr_t at = registers->sp;
        if (!read(context, at + AG_SIGNAL_RSP, AG_WORD_OTHER, &caller.sp) ||
            !read(context, at + AG_SIGNAL_RBP, AG_WORD_OTHER, &caller.rbp) ||
            !read(context, at + AG_SIGNAL_RIP, AG_WORD_RETURN_ADDRESS, &caller.pc)) {
            return AG_STEP_FAILED;
        }
        caller.pc++;
        *registers = caller;
        return AG_STEP_CALLER;
    }
    case AG_RULE_END:
        return AG_STEP_END;
    case AG_RULE_OTHER:
        if (rule != AG_RULE_FRAME_POINTER) {
            return AG_STEP_FAILED;
        }
        if (registers->rbp == 0) { // by the ABI, rbp is 0 in the outermost frame; ld.so sets it
            return AG_STEP_END;
        }
        cfa = registers->rbp + 16;
        if (cfa - registers->sp > AG_GUESSED_FRAME_BYTES_MAX) {
            return AG_STEP_FAILED;
        }
        break;
    case AG_RULE_UNKNOWN:
    default:
        return AG_STEP_FAILED;
    }
    uintptr_t caller_pc, caller_rbp = registers->rbp;
    if (AG_UNLIKELY(cfa <= registers->sp || (cfa & 7) != 0) ||
        !read(context, cfa - 8, AG_WORD_RETURN_ADDRESS, &caller_pc)) {
        return AG_STEP_FAILED;
    }
    if (slot != AG_RULE_SLOT_SAME) {
        const uintptr_t at = slot == AG_RULE_SLOT_AT_BP ? registers->rbp : cfa - 8 * slot;
        if (!read(context, at, AG_WORD_OTHER, &caller_rbp)) {
            return AG_STEP_FAILED;
        }
    }
    *registers = (struct ag_registers){.pc = caller_pc, .sp = cfa, .rbp = caller_rbp};
    return AG_STEP_CALLER;
}

/* ---- liveness of rbp ------------------------------------------------------ */

/* Whether the walk from a frame with this rule outward depends on rbp. caller_reads_rbp: whether
 * the walk from its caller outward depends on rbp. */
AG_FAST bool ag_rule_reads_rbp(uint32_t rule, bool caller_reads_rbp) {
    switch (AG_RULE_KIND(rule)) {
    case AG_RULE_BP:
    case AG_RULE_BP_DEREF:
        return true;
    case AG_RULE_SP:
        return AG_RULE_SLOT(rule) == AG_RULE_SLOT_AT_BP ||
               (AG_RULE_SLOT(rule) == AG_RULE_SLOT_SAME && caller_reads_rbp);
    case AG_RULE_PLT:
        return caller_reads_rbp;
    case AG_RULE_SIGNAL:
    case AG_RULE_END:
    case AG_RULE_UNKNOWN:
        return false;
    case AG_RULE_OTHER:
        return rule == AG_RULE_FRAME_POINTER;
    }
    return true;
}

/* Whether the last word that the step reads is the caller's rbp (with role AG_WORD_OTHER). Such a
 * word need not be cached if the walk from the caller outward does not depend on rbp. */
AG_FAST bool ag_rule_reloads_rbp(uint32_t rule) {
    return AG_RULE_SLOT(rule) != AG_RULE_SLOT_SAME;
}

#endif
