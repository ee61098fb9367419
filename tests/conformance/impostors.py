#!/usr/bin/env python3
"""Programs that define symbols with the names of functions that allogram looks for in allocators and runtimes. In these programs the
symbols have another meaning: they are functions with other arguments, or data. A program must compute the same as without allogram, and its
allocations must be counted.

The names come from the adapters' sources: all strings and .def entries that look like a symbol of an allocator or of a
runtime."""

import glob
import os
import re
import subprocess
import sys

import recorded
import tap

ADAPTERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "adapters")
SYMBOL = re.compile(r"(?:lua|luaL|luaV|luaG|GC|i?jl|ios|caml|erts|erl|beam|moz|mi|je|_rjem|tc|scalable|rp)_?\w*\Z")
# Names of the C library, of C++ or of the loader, which a program may not define with another meaning.
STANDARD = re.compile(r"_Z|mmap|munmap|mremap|s?brk\Z|fork|vfork|_Fork|_?_?[eE]xit|quick_exit|clone|f?exec|posix_spawn|system\Z|popen\Z|dl\w+\Z|pthread|str|mem(?!align)|"
                      r"(malloc|calloc|realloc|free|memalign|aligned_alloc|posix_memalign|valloc|pvalloc|reallocarray)\Z")
# Functions that allogram calls to recognize a runtime. allogram calls GC_get_version if six other names of the collector are defined.
# If the result is not a known version, allogram uses none of the collector's names.
CALLED_TO_KNOW_IT = ["GC_get_version"]
SIX_WORDS = "struct six_words { long words[6]; };"  # passed on the stack
N_BLOCKS = 1000
OUTSIDE = 20  # blocks of the start-up code and of the C library, at most


def known_names():
    names = set()
    for path in glob.glob(os.path.join(ADAPTERS, "*", "*")):
        if not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        if path.endswith(".def"):
            names.update(re.findall(r"^AG_\w+\((\w+)", text, re.MULTILINE))
        names.update(word for word in re.findall(r'"(\w+)"', text) if SYMBOL.match(word) and len(word) > 5)
    return sorted(name for name in names if not STANDARD.match(name) and re.match(r"[A-Za-z_]\w{3,}\Z", name) and not name.isupper())


def function_source(names):
    """Returns C source that defines each name as a function of doubles and longs. The function adds a number that depends on every argument
    to a sum, so a changed argument or register changes the program's output."""
    lines = [SIX_WORDS, "double names_sum;"]
    for number, name in enumerate(names):
        lines.append("double %s(double a, long b, double c, long d, long e, long f, long g, long h, double i, long j, struct six_words k) "
                     "{ return names_sum += a + 2 * c + 3 * i + (double)(b ^ d ^ e ^ f ^ g ^ h) + 5 * j + 7 * k.words[0] + k.words[5] + %d; }" % (name, number))
    return "\n".join(lines)


def data_source(names, byte):
    return "\n".join("unsigned char %s[4096] = {[0 ... 4095] = %d};" % (name, byte) for name in names)


def main_source(names, are_functions):
    lines = [SIX_WORDS, "#include <stdio.h>", "#include <stdlib.h>", "#include <unistd.h>"]
    for name in names:
        lines.append(("double %s(double, long, double, long, long, long, long, long, double, long, struct six_words);" if are_functions else
                      "extern unsigned char %s[4096];") % name)
    lines.append("int main(int argc, char **argv) {\n    double sum = 0;\n    if (argc > 1) (void)!read(0, &sum, 1);\n"
                 "    for (int round = 0; round < 3; round++) {")
    for number, name in enumerate(names):
        if are_functions:
            lines.append("    sum += %s(1.5 + round, %d, 2.25, 3, 4, 5, 6, 7, sum / 1e6, 8 + round, (struct six_words){{9, [5] = round}});" % (name, number))
        else:
            lines.append("    for (int i = 0; i < 4096; i += 64) sum += %s[i] + round;" % name)
    lines.append("    }\n    for (int i = 0; i < %d; i++) { void *volatile p = malloc(100 + (size_t)i); free(p); }" % N_BLOCKS)
    lines.append('    char line[64]; (void)!write(1, line, (size_t)snprintf(line, sizeof line, "%a\\n", sum)); (void)argv;\n    return 3;\n}')
    return "\n".join(lines)


def build(folder, names, kind, is_shared):
    are_functions = kind == "functions"
    parts = {"names.c": function_source(names) if are_functions else data_source(names, 0 if kind == "zeros" else 0xA7),
             "main.c": main_source(names, are_functions)}
    for name, text in parts.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    flags = ["gcc", "-O2", "-w", "-fno-builtin", "-D_GNU_SOURCE"]
    path = {name: os.path.join(folder, name) for name in (*parts, "libnames.so", "program")}
    if is_shared:
        subprocess.run([*flags, "-fPIC", "-shared", path["names.c"], "-o", path["libnames.so"]], check=True, timeout=120)
        subprocess.run([*flags, path["main.c"], path["libnames.so"], "-Wl,-rpath," + folder, "-o", path["program"]], check=True, timeout=120)
    else:
        subprocess.run([*flags, "-rdynamic", path["main.c"], path["names.c"], "-o", path["program"]], check=True, timeout=120)
    return path["program"]


def a_program(tools, kind, is_shared):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = build(folder, [name for name in known_names() if kind != "functions" or name not in CALLED_TO_KNOW_IT], kind, is_shared)
        plain = recorded.run([program])
        failures.expect("status without allogram", plain.status, 3)
        for number, mode in enumerate((["--mode=exact"], ["--mode=sample", "--interval=64"])):
            inner = os.path.join(folder, str(number))
            os.mkdir(inner)
            outcome, traces = recorded.record(tools, [program], inner, options=mode)
            what = " ".join(mode)
            failures.expect("status and output, " + what, (outcome.status, outcome.stdout), (plain.status, plain.stdout))
            failures.expect("stderr, " + what, outcome.stderr, plain.stderr)
            if "--mode=exact" in mode:
                compare_counts(tools, traces[0], kind, failures)
        trace = os.path.join(folder, "attached.allogram")
        with subprocess.Popen([program, "wait"], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
            try:
                with subprocess.Popen([tools.allogram, "attach", str(process.pid), "--mode=exact", "-o", trace], stderr=subprocess.PIPE) as attach:
                    said = [attach.stderr.readline()]
                    while b"attached to" not in said[-1] and said[-1]:
                        said.append(attach.stderr.readline())
                    failures.require("attach says that it attached: %r" % said, b"attached to" in said[-1])
                    process.stdin.close()  # the program waits until its standard input is closed
                    failures.expect("output, attached", process.stdout.read(), plain.stdout)
                    failures.expect("status, attached", process.wait(60), plain.status)
                    attach.stderr.read()
            finally:
                process.kill()
        if not failures:
            compare_counts(tools, trace, kind, failures)
    return failures


def compare_counts(tools, trace, kind, failures):
    """If the names are functions, allogram takes what they return for blocks, so the trace may have additional blocks. If the names are
    data, the counts must be right."""
    summary = recorded.report(tools, trace)
    surplus = summary["allocated_blocks"] - N_BLOCKS
    failures.require("all blocks are in the trace: %d in %s" % (summary["allocated_blocks"], os.path.basename(trace)), 0 <= surplus)
    if kind != "functions":
        failures.fail_unless("the trace has %d additional blocks" % surplus, surplus <= OUTSIDE)
        failures.expect("ghost frees", summary["ghost_frees"], 0)


# ISO C reserves none of these names, and a source file may have static functions of any name.
NAMESAKES = {"main.c": """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct connection { char *in, *out; };
double *valloc(int n) { return malloc((size_t)n * sizeof(double)); }
void cfree(struct connection *connection) { free(connection->in); free(connection->out); free(connection); }
void free_sized(void **blocks, size_t n) { for (size_t i = 0; i < n; i++) free(blocks[i]); }
int memalign(int value, int n) { return (value + n - 1) / n * n; }
long use_pool(void);
int main(int argc, char **argv) {
    long sum = argc > 1 ? read(0, argv[1], 1) : use_pool();
    for (int i = 0; i < 100; i++) {
        double *numbers = valloc(10);
        struct connection *connection = malloc(sizeof *connection);
        void *blocks[2] = {numbers, malloc(300)};
        connection->in = malloc(100);
        connection->out = malloc(200);
        numbers[9] = i;
        sum += (long)numbers[9] + memalign(i, 16);
        cfree(connection);
        free_sized(blocks, 2);
    }
    char text[32] = {0};
    for (int i = 0; sum > 0; sum /= 10) text[i++] = '0' + (char)(sum % 10);
    return write(1, text, strlen(text)) < 0;
}
""", "pool.c": """
typedef unsigned long size;
struct pool { char bytes[10000]; size used; } pool;
static __attribute__((noinline)) void *malloc(struct pool *in, size n) { in->used += n; return in->bytes + in->used - n; }
static __attribute__((noinline)) void free(struct pool *in, int how, void *block) { in->used -= (size)how + (block == 0); }
static __attribute__((noinline)) char *strndup(struct pool *in, int n) { return in->bytes + n; }
long use_pool(void) {
    for (int i = 0; i < 50; i++) free(&pool, 7, malloc(&pool, 10));
    return (long)pool.used + (strndup(&pool, 3) - pool.bytes);
}
"""}


# Renames two functions if they are in a library: functions of a library with the names valloc and memalign replace those of the C library in the
# whole program, and allogram would record their calls (limits.md).
OTHER_NAMES = ["-Dvalloc=own_valloc", "-Dmemalign=own_memalign"]


def namesakes_are_not_recorded(tools, is_shared):
    """The program has functions that only share their names with allocation functions, and counts its own blocks."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for name, text in NAMESAKES.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        program = os.path.join(folder, "program")
        sources = [os.path.join(folder, name) for name in NAMESAKES]
        if is_shared: # all functions are in a library
            library = os.path.join(folder, "libnames.so")
            with open(os.path.join(folder, "start.c"), "w", encoding="utf-8") as file:
                file.write("int start(int, char **);\nint main(int argc, char **argv) { return start(argc, argv); }\n")
            subprocess.run(["gcc", "-std=c11", "-O1", "-w", "-fno-builtin", "-fPIC", "-shared", "-Dmain=start", *OTHER_NAMES, *sources, "-o", library], check=True, timeout=120)
            sources = [os.path.join(folder, "start.c"), library, "-Wl,-rpath," + folder]
        subprocess.run(["gcc", "-std=c11", "-O1", "-w", "-fno-builtin", *sources, "-o", program], check=True, timeout=120)
        plain = recorded.run([program])
        outcome, traces = recorded.record(tools, [program], folder)
        failures.expect("status and output", (outcome.status, outcome.stdout), (plain.status, plain.stdout))
        summary = recorded.report(tools, traces[0])
        counts = [summary[key] for key in ("allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "ghost_frees")]
        failures.expect("blocks and bytes, freed blocks and bytes, ghosts", counts, [500, 69600, 500, 69600, 0])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(8)
    for kind in ("functions", "zeros", "noise"):
        for is_shared in (True, False):
            plan.run("%s in a %s" % (kind, "library" if is_shared else "program"), lambda case=(kind, is_shared): a_program(tools, *case))
    for is_shared in (True, False):
        plan.run("namesakes in a %s" % ("library" if is_shared else "program"), lambda shared=is_shared: namesakes_are_not_recorded(tools, shared))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
