/* frame_rule.h (x86-64): makes a packed rule, 32 bits that say how to get from a frame to its
 * caller. The rule is made from a CFI row (a row of the DWARF call frame table), or from code bytes
 * if there is no row. */
#ifndef AG_FRAME_RULE_H
#define AG_FRAME_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/arch/x86_64/frame_step_fast.h"
#include "unwind/eh_frame.h"

/* DWARF's register numbers */
enum { AG_DWARF_FRAME_POINTER = 6, AG_DWARF_STACK_POINTER = 7, AG_DWARF_RETURN_ADDRESS = 16 };

/* Packs a CFI row into a rule. row->wanted must be the row's rule for the register rbp. Returns
 * AG_RULE_GENERAL if the row does not fit into 32 bits. */
uint32_t ag_frame_rule_pack(const struct ag_cfi_row *row, bool is_signal_frame);

/* For a pc that no row covers: guesses the rule from the bytes of code around pc. The result is a
 * rule of the kind AG_RULE_SIGNAL (for a signal trampoline without CFI, like that of musl),
 * AG_RULE_FRAME_POINTER (if a call ends directly before pc) or AG_RULE_NOTHING. Never faults. */
uint32_t ag_frame_rule_guess(uintptr_t pc);

/* Whether pc is at the start of a signal trampoline: the code to which a signal handler returns,
 * which calls rt_sigreturn. Never faults. */
bool ag_is_signal_trampoline(uintptr_t pc);

/* Whether an indirect call instruction ends at END. The 7 bytes before END are readable. */
bool ag_is_indirect_call(const uint8_t *end);

/* Whether a call instruction ends directly before pc. A direct call counts only if it calls code in
 * [low, high), so that other code is seldom taken for a call. Never faults. */
bool ag_frame_follows_call(uintptr_t pc, uintptr_t low, uintptr_t high);

/* ---- for general_step.c (steps by rows that do not fit into 32 bits) ----- */

/* Reads a register whose value a walk computes for each frame: sp, rbp, or rip as pc - 1. Returns
 * false for all other registers. */
bool ag_registers_get(const struct ag_registers *registers, uint32_t reg, uintptr_t *ret_value);

/* Whether the ABI requires a function to preserve the register. */
bool ag_register_is_preserved(uint32_t reg);

/* Finds where the kernel saved the register of interrupted code: the offset in bytes from sp at the
 * signal trampoline. Returns false if the kernel does not save the register. */
bool ag_signal_register_offset(uint32_t reg, uintptr_t *ret_offset);

#endif
