#!/usr/bin/env python3
"""A return address usually follows a call, so it belongs to the function that contains the byte before it. This test has an exception: a
coroutine whose first function returns to the first byte of `starts_here`, as makecontext arranges it. The byte before it belongs to
`ends_before`, which contains no call. So no call pushed this return address, and the stack must end with `starts_here` and be complete. If
a signal interrupts the last instruction of `ends_before`, the stack must continue to the callers of `ends_before`."""

import json
import os
import subprocess
import sys

import recorded
import tap

SOURCE = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

/* `ends_before` ends where `starts_here` begins, and not with a call. */
__asm__(".text\\n"
        ".globl ends_before, starts_here\\n"
        ".type ends_before, @function\\n"
        ".type starts_here, @function\\n"
        "ends_before:\\n .cfi_startproc\\n subq $88, %rsp\\n .cfi_adjust_cfa_offset 88\\n addq $88, %rsp\\n"
        " .cfi_adjust_cfa_offset -88\\n nop\\n " LAST "\\n .cfi_endproc\\n .size ends_before, . - ends_before\\n"
        "starts_here:\\n .cfi_startproc\\n subq $8, %rsp\\n .cfi_adjust_cfa_offset 8\\n movl $1, %edi\\n call exit\\n hlt\\n"
        " .cfi_endproc\\n .size starts_here, . - starts_here\\n");
void ends_before(void);
extern char starts_here[];

static ucontext_t main_context, coroutine;
static uintptr_t stack[8192];
static void *volatile block;

static volatile int spins;
static volatile unsigned long n_turns;

__attribute__((noinline)) static void allocate(int n) { block = malloc(n); }
__attribute__((noinline)) static void spin(void) { for (; spins; n_turns++) {} }

static void first_function(void) {
    for (;;) {
        spin();
        allocate(3001);
        if (swapcontext(&coroutine, &main_context) != 0) abort();
    }
}

/* Starts the coroutine as makecontext does, with `starts_here` in place of __start_context. */
__attribute__((noinline)) static void run_coroutine(int rounds) {
    getcontext(&coroutine);
    /* words that a wrong walk would take for return addresses */
    for (size_t i = 0; i < sizeof(stack) / sizeof(stack[0]); i++) stack[i] = (uintptr_t)stack + 8 * i;
    uintptr_t *top = &stack[8192 - 64];
    top = (uintptr_t *)((uintptr_t)top / 16 * 16 + 8);
    *top = (uintptr_t)starts_here;
    coroutine.uc_mcontext.gregs[REG_RSP] = (greg_t)top;
    coroutine.uc_mcontext.gregs[REG_RBP] = 1;
    coroutine.uc_mcontext.gregs[REG_RIP] = (greg_t)first_function;
    for (int i = 0; i < rounds; i++) {
        if (swapcontext(&main_context, &coroutine) != 0) abort();
    }
}

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    const uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (pc + 1 == (uintptr_t)starts_here) allocate(3002);
}

/* Executes ends_before in single steps. */
__attribute__((noinline)) static void step(void) {
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    __asm__ volatile("subq $128, %%rsp\\n pushfq\\n orq $0x100, (%%rsp)\\n popfq\\n addq $128, %%rsp" ::: "memory", "cc");
    ends_before();
    __asm__ volatile("subq $128, %%rsp\\n pushfq\\n andq $~0x100, (%%rsp)\\n popfq\\n addq $128, %%rsp" ::: "memory", "cc");
}

int main(int argc, char **argv) {
    (void)argv;
    spins = argc > 1;
    if (spins) puts("spins"), fflush(stdout);
    run_coroutine(50);
    if (STEPS) for (int i = 0; i < 20; i++) step();
    run_coroutine(50);
    puts("done");
    return 0;
}
"""


def stacks(tools, trace, size):
    rows = recorded.report(tools, trace, "--view=leaks", "--limit=0", "--fold=none")["stacks"]
    return sorted((row["in_use_blocks"], [frame["function"] for frame in row["frames"]]) for row in rows
                  if row["in_use_bytes"] == size * row["in_use_blocks"])


def build(folder, last, steps):
    program = os.path.join(folder, "coroutine")
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-no-pie", '-DLAST="%s"' % last, "-DSTEPS=%d" % steps, "-x", "c", "-",
                    "-o", program], input=SOURCE.encode(), check=True, timeout=60)
    return program


def ends_there(tools, last, steps):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = build(folder, last, steps)
        outcome, traces = recorded.record(tools, [program], folder)
        failures.expect("status and output", (outcome.status, outcome.stdout), (0, b"done\n"))
        failures.expect("incomplete stacks", recorded.report(tools, traces[0])["incomplete_stacks"], 0)
        failures.expect("stacks of the coroutine", stacks(tools, traces[0], 3001), [(100, ["allocate", "first_function", "starts_here"])])
        if steps:
            interrupted = [(n, frames[:2], frames[-1] in ("_start", "main")) for n, frames in stacks(tools, traces[0], 3002)]
            failures.expect("stacks of the handler", interrupted, [(20, ["allocate", "on_trap"], True)])
            inner = stacks(tools, traces[0], 3002)[0][1]
            failures.require("the handler's stack leads to the interrupted function's caller: %s" % inner, "step" in inner and "main" in inner)
        checks = recorded.stack_checks(tools, traces[0])
        failures.expect("failed checks of stacks", checks[1], 0)
    return failures


def observed(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        with subprocess.Popen([build(folder, "ret", 0), "spin"], stdout=subprocess.PIPE) as program:
            try:
                program.stdout.readline()
                outcome = recorded.run([tools.allogram, "observe", str(program.pid), "--duration=0.5", "--rate=499", "--json"])
            finally:
                program.kill()
        failures.expect("status: %s" % outcome.stderr, outcome.status, 0)
        result = json.loads(outcome.stdout)
        failures.require("there are samples: %d" % result["samples"], result["samples"] >= 10)
        failures.expect("complete stacks", result["complete_stacks"], result["samples"])
        totals = {row["function"]: row["total"] for row in result["functions"]}
        failures.expect("samples of the function at the start, and of the one before it",
                        (totals.get("starts_here"), totals.get("ends_before")), (result["samples"], None))
    return failures


def may_observe(tools):
    """Whether the kernel permits perf events here."""
    return recorded.run([tools.allogram, "observe", str(os.getpid()), "--duration=0.1"]).status == 0


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    plan = tap.Plan(4)
    plan.run("after a function that ends with ret", lambda: ends_there(tools, "ret", 0))
    plan.run("after a function that ends with jmp", lambda: ends_there(tools, "jmp ends_before", 0))
    plan.run("a signal interrupts the last instruction before the start", lambda: ends_there(tools, "ret", 1))
    if may_observe(tools):
        plan.run("observed from outside", lambda: observed(tools))
    else:
        plan.skip("observed from outside", "the kernel does not permit perf events here")
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
