/* raw_syscall.h: system calls without side effects on the profiled program: they do not change
 * errno, are no cancellation points and call no symbol that can be interposed.
 *
 * The functions return the kernel's result: a value, or a negative errno in [-4095, -1]. This file
 * is for x86-64; a port to another CPU adds a file of this name in an arch folder. */
#ifndef AG_RAW_SYSCALL_H
#define AG_RAW_SYSCALL_H

#include <sys/syscall.h>

#include "base/compiler.h"

AG_FAST long ag_syscall6(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

AG_FAST long ag_syscall3(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

AG_FAST long ag_syscall2(long number, long a, long b) {
    return ag_syscall3(number, a, b, 0);
}

AG_FAST long ag_syscall1(long number, long a) {
    return ag_syscall3(number, a, 0, 0);
}

AG_FAST int ag_syscall_failed(long result) {
    return result < 0 && result >= -4095;
}

#endif
