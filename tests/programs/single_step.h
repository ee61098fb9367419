/* single_step.h: runs code with the CPU's trap flag set, so that SIGTRAP comes after every single
 * instruction. */
#ifndef SINGLE_STEP_H
#define SINGLE_STEP_H

enum { TRAP_FLAG = 0x100 };

static inline __attribute__((always_inline)) void step(void) {
    __asm__ volatile("sub $128, %%rsp; pushf; orl %0, (%%rsp); popf; add $128, %%rsp"
                     :
                     : "i"(TRAP_FLAG)
                     : "memory", "cc");
}

static inline __attribute__((always_inline)) void step_no_more(void) {
    __asm__ volatile("sub $128, %%rsp; pushf; andl %0, (%%rsp); popf; add $128, %%rsp"
                     :
                     : "i"(~TRAP_FLAG)
                     : "memory", "cc");
}

#endif
