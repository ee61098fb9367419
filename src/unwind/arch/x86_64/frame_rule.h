/* frame_rule.h (x86-64): makes a packed rule from a CFI row, or from code bytes if there is no
 * row. */
#ifndef AG_FRAME_RULE_H
#define AG_FRAME_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/arch/x86_64/frame_step_fast.h"
#include "unwind/eh_frame.h"

/* DWARF's numbers; a row must include the rule of the frame pointer */
enum { AG_DWARF_FRAME_POINTER = 6, AG_DWARF_STACK_POINTER = 7, AG_DWARF_RETURN_ADDRESS = 16 };

/* The rule of a row (whose `wanted` is rbp's rule); OTHER/GENERAL if it does not fit into 32
 * bits. */
uint32_t ag_frame_rule_pack(const struct ag_cfi_row *row, bool is_signal_frame);

/* The rule of a pc that no row covers, from the bytes of code around it: SIGNAL (a trampoline
 * without CFI, as musl's), OTHER/FRAME_POINTER (a call ends right before pc) or OTHER/NONE. Never
 * faults. */
uint32_t ag_frame_rule_guess(uintptr_t pc);

/* ---- for rows that do not fit -------------------------------------------- */

/* Reads a register that a walk carries; false: it carries no such register. */
bool ag_registers_get(const struct ag_registers *registers, uint32_t reg, uintptr_t *ret_value);

/* Whether a function has to preserve the register. */
bool ag_register_is_preserved(uint32_t reg);

/* Where the kernel saved the register, relative to sp at a signal trampoline; false: not saved. */
bool ag_signal_register_offset(uint32_t reg, uintptr_t *ret_offset);

#endif
