/* frame_rule.h (x86-64): makes a packed rule from a CFI row, or from code bytes if there is no
 * row. */
#ifndef AG_FRAME_RULE_H
#define AG_FRAME_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/arch/x86_64/frame_step_fast.h"
#include "unwind/eh_frame.h"

/* DWARF's register numbers */
enum { AG_DWARF_FRAME_POINTER = 6, AG_DWARF_STACK_POINTER = 7, AG_DWARF_RETURN_ADDRESS = 16 };

/* Packs a row into 32 bits. The row must have been computed for rbp: row->wanted is the rule of
 * rbp. Returns AG_RULE_GENERAL if the row does not fit. */
uint32_t ag_frame_rule_pack(const struct ag_cfi_row *row, bool is_signal_frame);

/* Guesses the rule of a pc that no row covers from the bytes of code around pc: of kind SIGNAL (a
 * signal trampoline without CFI, as musl's), AG_RULE_FRAME_POINTER (a call ends right before pc) or
 * AG_RULE_NOTHING. Never faults. */
uint32_t ag_frame_rule_guess(uintptr_t pc);

/* ---- for the general step (general_step.c) ------------------------------- */

/* Reads a register that a walk carries from frame to frame: pc, sp, rbp; false: another one. */
bool ag_registers_get(const struct ag_registers *registers, uint32_t reg, uintptr_t *ret_value);

/* Whether a function has to preserve the register. */
bool ag_register_is_preserved(uint32_t reg);

/* Where the kernel saved the register, relative to sp at a signal trampoline; false: not saved. */
bool ag_signal_register_offset(uint32_t reg, uintptr_t *ret_offset);

#endif
