/* frame_rule.h (x86-64): from a CFI row, or from code bytes where there is none, to a packed rule.
 */
#ifndef AG_FRAME_RULE_H
#define AG_FRAME_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/eh_frame.h"

enum { AG_DWARF_FRAME_POINTER = 6 }; /* rbp: the register whose rule a row must bring */

/* The rule of a row (its `wanted` being rbp's); OTHER/GENERAL when 32 bits do not hold it. */
uint32_t ag_frame_rule_pack(const struct ag_cfi_row *row);

/* The rule of a pc that no row covers, from the bytes of code around it: SIGNAL (a trampoline
 * without CFI, as musl's), OTHER/FRAME_POINTER (a call ends right before pc) or OTHER/NONE. Never
 * faults. */
uint32_t ag_frame_rule_guess(uintptr_t pc);

#endif
