/* arch.h: includes the folder of the machine. Each folder has the same files:
 *
 *     frame_step_fast.h   registers, the packed rule, one step, which registers a rule reads;
 *                         all inline
 *     frame_rule.c/.h     a CFI row -> a packed rule; a rule from the code bytes if there is no row
 *     capture_entry.h     the assembler stub that passes (sp, rbp) of a call to C
 *
 * A port to another CPU keeps the scheme: one 32-bit rule per pc, and a frame pointer that may or
 * may not be live. */
#ifndef AG_ARCH_H
#define AG_ARCH_H

#if defined(__x86_64__)
#include "unwind/arch/x86_64/frame_rule.h"
#include "unwind/arch/x86_64/frame_step_fast.h"
#else
#error "no unwinder for this CPU yet: add a folder beside src/unwind/arch/x86_64"
#endif

#endif
