/* arch.h: picks the folder of the machine. Each folder has the same files:
 *
 *   frame_step_fast.h   registers, the packed rule, one step, which registers a rule reads; all
 * inline frame_rule.c/.h     a CFI row -> a packed rule; what code bytes say where there is no row
 *   capture_entry.h     the assembler stub that hands (sp, rbp) of a call to C
 *
 * Another CPU keeps the shape: one 32-bit rule per pc, a frame pointer that may or may not be live.
 */
#ifndef AG_ARCH_H
#define AG_ARCH_H

#if defined(__x86_64__)
#include "unwind/arch/x86_64/frame_rule.h"
#include "unwind/arch/x86_64/frame_step_fast.h"
#else
#error "no unwinder for this CPU yet: add a folder beside src/unwind/arch/x86_64"
#endif

#endif
