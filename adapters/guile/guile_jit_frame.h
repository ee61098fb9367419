/* guile_jit_frame.h: the native frame of code that Guile's JIT compiler made, for one CPU. */
#ifndef AG_GUILE_JIT_FRAME_H
#define AG_GUILE_JIT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_GUILE_TABLES_BYTES = 48 };

/* Writes a .eh_frame section of AG_GUILE_TABLES_BYTES for the code in [low, low + bytes). Returns
 * the offset of the FDE, which is the entry for this range. */
int32_t ag_guile_jit_describe(void *ret_tables, uintptr_t low, size_t bytes);
/* Whether the code by which C code enters compiled code is at this address, and makes the frame
 * that ag_guile_jit_describe describes. */
bool ag_guile_jit_is_entry(uintptr_t address);

#endif
