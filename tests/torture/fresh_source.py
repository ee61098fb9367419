"""Generates C code for a torture program (see run_torture.py): functions that call each other, and sites (functions that allocate).

All programs have the same acts (host/), the functions that a program executes as steps. The generated code adds stack frames of all kinds:
arguments of every class, structs by value, variable arrays, values in any register that live across a call, jumps, loops, and functions that
the compiler may split, clone and inline. The result of the code depends only on the seed. The code is compiled with random flags, in a third of
the programs together with the program's own allocator (host/own_malloc.c).
"""

import random

SITE, SITES = 48, 48
MOST_CALLS = 300  # calls between generated functions in one run of the act `fresh`

FLAGS = ["-fomit-frame-pointer", "-fno-omit-frame-pointer", "-fno-plt", "-fstack-clash-protection", "-fcf-protection=full", "-funroll-loops",
         "-fno-asynchronous-unwind-tables", "-fstack-protector-strong", "-mno-red-zone", "-fno-inline", "-ffunction-sections", "-mstackrealign",
         "-fno-shrink-wrap", "-fno-optimize-sibling-calls", "-ftree-vectorize", "-fno-tree-tail-merge", "-fno-ipa-ra", "-fipa-pta",
         "-fno-jump-tables", "-march=x86-64-v2"]
ONLY_GCC = {"-fno-shrink-wrap", "-fno-tree-tail-merge", "-fno-ipa-ra", "-fipa-pta"}

HEAD = """
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "sites.h"

typedef double two_doubles __attribute__((vector_size(16)));
struct small { uint32_t a, b; };
struct large { uint64_t words[9]; double d; };
static __thread int calls_left;
static uint64_t bits_of(double d) { uint64_t bits; memcpy(&bits, &d, sizeof bits); return bits; }
"""


class Text:
    def __init__(self, seed):
        self.dice = random.Random("fresh %s" % seed)
        self.lines = [HEAD]
        self.functions = []  # (name, kinds of its arguments)
        self.n_sites = self.dice.choice([3, 8, 16, SITES])

    def emit(self, line):
        self.lines.append(line)

    def site(self, number):
        call = self.dice.choice(["malloc(n)", "malloc(n)", "malloc(n)", "calloc(1, n)", "realloc(NULL, n)"])
        keyword = self.dice.choice(["", "static ", "static "])
        self.emit("%s__attribute__((noinline, noclone, used)) void *fresh_site_%d(size_t n) {" % (keyword, number))
        if self.dice.random() < 0.3:
            self.emit("    volatile char frame[%d]; frame[0] = (char)n;" % self.dice.randrange(1, 300))
        self.emit("    truth_begin(%d, n); void *block = %s; OPAQUE(block); truth_done(%d, n, block); return block;\n}" % (number, call, number))

    def value(self, depth=0):
        dice = self.dice
        if depth > 2 or dice.random() < 0.4:
            return dice.choice(["x", "y", "z", "acc", "(uint64_t)i", str(dice.randrange(1, 1000))])
        return "(%s %s %s)" % (self.value(depth + 1), dice.choice("+-*^|&"), self.value(depth + 1))

    def argument(self, kind):
        return {
            "u64": "%s" % self.value(),
            "u32": "(uint32_t)%s" % self.value(),
            "double": "d * 0.5 + %d" % self.dice.randrange(9),
            "float": "(float)(d * 0.25)",
            "small": "(struct small){(uint32_t)x, (uint32_t)y}",
            "large": "(struct large){.words = {x, y, z}, .d = d}",
            "vector": "v * 0.5",
        }[kind]

    CTYPES = {"u64": "uint64_t", "u32": "uint32_t", "double": "double", "float": "float", "small": "struct small", "large": "struct large",
              "vector": "two_doubles"}
    USES = {"u64": "a%d", "u32": "a%d", "double": "bits_of(a%d)", "float": "(uint64_t)(int64_t)(a%d * 16)", "small": "(a%d.a + a%d.b)",
            "large": "(a%d.words[2] ^ bits_of(a%d.d))", "vector": "bits_of(a%d[0] + a%d[1])"}

    def statement(self, number, level, depth=0):
        dice, pad = self.dice, "    " * (depth + 1)
        kind = dice.randrange(12)
        if kind < 4:
            site = SITE + dice.randrange(self.n_sites)
            size = "%d + (size_t)(%s) %% %d" % (32 + dice.randrange(64), self.value(), 1 + dice.randrange(400))
            self.emit("%s{ const int k = %d; block_free(held[k]); held[k] = fresh_site_%d(%s); acc += ((uint64_t *)held[k])[1]; }" % (
                pad, dice.randrange(4), site, size))
        elif kind < 6:
            self.emit("%sd = d * %s + %d; v = v * 0.75 + d; x = %s;" % (pad, dice.choice(["0.5", "0.25", "-0.75"]), dice.randrange(5), self.value()))
        elif kind == 6:
            self.emit("%sy ^= %s; z += x << %d | x >> %d;" % (pad, self.value(), dice.randrange(1, 30), dice.randrange(1, 30)))
        elif kind == 7 and depth < 2:
            self.emit("%sfor (int i = 0; i < %d; i++) {" % (pad, dice.randrange(1, 4)))
            self.statement(number, level, depth + 1)
            self.emit("%s}" % pad)
        elif kind == 8 and depth < 2:
            self.emit("%sif (%s & %d) {" % (pad, self.value(), 1 << dice.randrange(3)))
            self.statement(number, level, depth + 1)
            self.emit("%s} else {" % pad)
            self.statement(number, level, depth + 1)
            self.emit("%s}" % pad)
        elif kind == 9:
            self.emit("%s{ size_t n = 8 + (size_t)(x %% %d); volatile char *room = alloca(n); room[n - 1] = (char)y; acc += (uint64_t)(unsigned char)room[n - 1]; }" % (
                pad, 1 + dice.randrange(60 if depth else 600)))
        elif kind == 10 and depth == 0:
            self.emit("%s{ uint64_t room[1 + x %% %d]; room[0] = y; OPAQUE(room[0]); acc ^= room[0]; }" % (pad, 1 + dice.randrange(40)))
        elif self.functions and depth < 2 and level > 0:
            name, kinds = dice.choice(self.functions[-4:])
            self.emit("%sif (left > 0 && calls_left-- > 0) { acc = mix(acc, %s(left - 1%s)); }" % (pad, name, "".join(", " + self.argument(kind) for kind in kinds)))
        else:
            self.emit("%sacc = mix(acc, %s);" % (pad, self.value()))

    def function(self, number):
        dice = self.dice
        kinds = [dice.choice(list(self.CTYPES)) for _ in range(dice.randrange(0, 9))]
        attributes = dice.choice(["", "", "__attribute__((noinline)) ", "__attribute__((cold)) ", "__attribute__((hot, noinline)) ",
                                  "__attribute__((aligned(64), noinline)) "])
        name = "fresh_%d" % number
        arguments = "".join(", %s a%d" % (self.CTYPES[kind], k) for k, kind in enumerate(kinds))
        self.emit("%s%suint64_t %s(int left%s) {" % (dice.choice(["static ", ""]), attributes, name, arguments))
        self.emit("    uint64_t acc = %d, x = %d, y = %d, z = %d; double d = %d.25; two_doubles v = {1, d}; const int i = left;" % (
            number, *[dice.randrange(1000) for _ in range(4)]))
        self.emit("    void *held[4] = {0};")
        for k, kind in enumerate(kinds):
            use = self.USES[kind]
            self.emit("    x = mix(x, (uint64_t)%s);" % (use % ((k,) * use.count("%d"))))
        n = dice.randrange(2, 9)
        has_jump = dice.random() < 0.15
        if has_jump:
            self.emit("    jmp_buf place; void *volatile kept = fresh_site_%d(64); volatile int n_jumps = 0;" % SITE)
            self.emit("    if (setjmp(place) < 2) { n_jumps = n_jumps + 1; block_free(kept); kept = fresh_site_%d(70); longjmp(place, n_jumps); }" % (SITE + 1))
            self.emit("    block_free(kept); return mix(x, (uint64_t)n_jumps);\n}")
        else:
            for _ in range(n):
                self.statement(number, number)
            self.emit("    for (int k = 0; k < 4; k++) { block_free(held[k]); }")
            self.emit("    return mix(acc ^ x, y + z + bits_of(d) + bits_of(v[0] + v[1]));\n}")
        self.functions.append((name, kinds))

    def make(self):
        for number in range(self.n_sites):
            self.site(SITE + number)
        for number in range(self.dice.randrange(3, 14)):
            self.function(number)
        name, kinds = self.functions[-1]
        self.emit("uint64_t act_fresh(const struct node *node, uint64_t seed) {")
        self.emit("    const uint64_t x = (uint64_t)node->numbers[0], y = seed, z = 3, acc = 4; const double d = 1.5; const two_doubles v = {2, 3}; const int i = 5;")
        self.emit("    calls_left = %d;" % MOST_CALLS)
        self.emit("    (void)x, (void)y, (void)z, (void)acc, (void)d, (void)v, (void)i;")
        self.emit("    return %s(4%s);\n}" % (name, "".join(", " + self.argument(kind) for kind in kinds)))
        return "\n".join(self.lines) + "\n"


class Recipe:
    """How the generated code is compiled: the compiler, the flags, and whether the program has its own allocator."""

    def __init__(self, seed):
        dice = random.Random("recipe %s" % seed)
        self.own_malloc = dice.random() < 0.35
        self.compiler = dice.choice(["gcc", "gcc", "clang"])
        flags = dice.sample(FLAGS, dice.randrange(0, 4))
        self.flags = ["-" + dice.choice(["O0", "O1", "O2", "O2", "O3", "Os"]), "-w", "-fno-strict-aliasing", "-ffp-contract=off",
                      *[flag for flag in flags if self.compiler == "gcc" or flag not in ONLY_GCC]]

    def text(self, seed):
        return ('#include "own_malloc.c"\n' if self.own_malloc else "") + Text(seed).make()
