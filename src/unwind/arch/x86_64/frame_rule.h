/* frame_rule.h (x86-64): from a CFI row, or from code bytes where there is none, to a packed rule.
 */
#ifndef AG_FRAME_RULE_H
#define AG_FRAME_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/arch/x86_64/frame_step_fast.h"
#include "unwind/eh_frame.h"

/* DWARF's numbers; a row must bring the frame pointer's rule */
enum { AG_DWARF_FRAME_POINTER = 6, AG_DWARF_STACK_POINTER = 7, AG_DWARF_RETURN_ADDRESS = 16 };

/* The rule of a row (its `wanted` being rbp's); OTHER/GENERAL when 32 bits do not hold it. */
uint32_t ag_frame_rule_pack(const struct ag_cfi_row *row, bool is_signal_frame);

/* The rule of a pc that no row covers, from the bytes of code around it: SIGNAL (a trampoline
 * without CFI, as musl's), OTHER/FRAME_POINTER (a call ends right before pc) or OTHER/NONE. Never
 * faults. */
uint32_t ag_frame_rule_guess(uintptr_t pc);

/* ---- for rows that do not fit -------------------------------------------- */

/* A register that a walk carries; false: it does not. */
bool ag_registers_get(const struct ag_registers *registers, uint32_t reg, uintptr_t *ret_value);

/* Must a function give the register back as it was? */
bool ag_register_is_preserved(uint32_t reg);

/* Where the kernel saved it, from sp at a signal trampoline; false: nowhere. */
bool ag_signal_register_offset(uint32_t reg, uintptr_t *ret_offset);

#endif
