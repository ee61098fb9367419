/* arch.h: includes the unwinder's part for this CPU. The folder of each CPU has the same files:
 *
 *     frame_step_fast.h   defines the registers, the packed rule (32 bits: how to get from a frame
 *                         at one pc to its caller), and one step by a rule, as inline functions
 *     frame_rule.c/.h     makes the packed rule from a CFI row (a row of the DWARF call frame
 *                         table), or from code bytes if there is no row
 *     capture_entry.h     defines the assembler stub that passes (sp, rbp) of a call to C
 *
 * A port to another CPU keeps this scheme: one 32-bit rule per pc, and a frame pointer register
 * that may hold other data. */
#ifndef AG_ARCH_H
#define AG_ARCH_H

#if defined(__x86_64__)
#include "unwind/arch/x86_64/frame_rule.h"
#include "unwind/arch/x86_64/frame_step_fast.h"
#else
#error "no unwinder for this CPU yet: add a folder beside src/unwind/arch/x86_64"
#endif

#endif
