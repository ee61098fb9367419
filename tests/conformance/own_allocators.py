#!/usr/bin/env python3
"""Programs whose allocator is in the same source file as its callers (programs/allocators/own_allocator.c), built in many ways. Their
results must be the same without allogram and in each kind of recording: exact, sampled, and with the stacks of frees. Every block must
be counted.

The compiler sees which registers and which part of the stack such an allocator changes, so the code of the callers may rely on all other
registers and the rest of the stack. The recorder must therefore not change more than the allocator does. Further cases: allocators whose
functions have other names, in a library or in the program (other_entries.c); a library that calls its own malloc; an allocator that
signals interrupt; glibc's debugging of malloc; and a free_sized that calls free."""

import os
import re
import shutil
import subprocess
import sys

import recorded
import tap

SOURCE = recorded.source_of("own_allocator.c")
EVERYWHERE = ["-fno-builtin", "-w", "-DINLINING=noinline"]
WHOLE_PROGRAM = ["-flto", "-fno-pie", "-no-pie"]
UNALIGNED = ["-fno-ipa-stack-alignment", "-fno-omit-frame-pointer"]
WIDE = ["-mavx2", "-flto"]
VECTORS = {True: "-DVECTOR_BYTES=32", False: "-DVECTOR_BYTES=16"}  # key: the program is built with AVX2
BUILDS = (
    [["gcc", level, *more] for level in ("-O0", "-O1", "-O2", "-O3", "-Os") for more in ([], WHOLE_PROGRAM)] +
    [["gcc", level, *more] for level in ("-O2", "-O3") for more in (UNALIGNED, WIDE)] +
    [["clang", *more] for more in (["-O0"], ["-O2"], ["-O3", "-flto", "-fuse-ld=lld"])])
ATTACHED = [["gcc", "-O2"], ["gcc", "-O2", *UNALIGNED], ["gcc", "-O3", *WHOLE_PROGRAM]]
MODES = (["--mode=exact"], ["--mode=sample", "--interval=1KiB"], ["--mode=exact", "--free-stacks"])
ROUNDS = "300"
OUTSIDE = 20  # blocks of the start-up code and of the C library, at most


def has_avx2():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return re.search(r"^flags.*\bavx2\b", file.read(), re.MULTILINE) is not None


def build(folder, command):
    program = os.path.join(folder, "program")
    subprocess.run([command[0], *EVERYWHERE, VECTORS["-mavx2" in command], *command[1:], SOURCE, "-o", program], check=True, timeout=120)
    return program


def compare_counts(tools, trace, truth, failures):
    summary = recorded.report(tools, trace)
    failures.expect("ghost frees", summary["ghost_frees"], 0)
    for key in ("allocated_blocks", "freed_blocks"):
        failures.fail_unless("%s: %d, should be %d" % (key, summary[key], truth[key]), 0 <= summary[key] - truth[key] <= OUTSIDE)


def a_build(tools, command):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = build(folder, command)
        truth = os.path.join(folder, "truth")
        plain = recorded.run([program, ROUNDS], env={"TRUTH_FILE": truth})
        failures.expect("status of the plain run", plain.status, 0)
        for number, mode in enumerate(MODES):
            inner = os.path.join(folder, str(number))
            os.mkdir(inner)
            outcome, traces = recorded.record(tools, [program, ROUNDS], inner, options=mode)
            what = " ".join(mode)
            failures.expect("status, " + what, outcome.status, plain.status)
            failures.expect("output, " + what, outcome.stdout, plain.stdout)
            failures.expect("stderr, " + what, outcome.stderr, plain.stderr)
            failures.expect("traces, " + what, len(traces), 1)
            if "--mode=exact" in mode and traces:
                compare_counts(tools, traces[0], recorded.counts_in(truth), failures)
    return failures


def attached_build(tools, command):
    """Attaches to the program while it sleeps, before it allocates."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = build(folder, command)
        truth, trace = os.path.join(folder, "truth"), os.path.join(folder, "t.allogram")
        plain = recorded.run([program, ROUNDS])
        with subprocess.Popen([program, ROUNDS, "3"], stdout=subprocess.PIPE, env={**os.environ, "TRUTH_FILE": truth}) as process:
            try:
                failures.expect("first line", process.stdout.readline(), b"ready\n")
                with subprocess.Popen([tools.allogram, "attach", str(process.pid), "--mode=exact", "-o", trace],
                                      stderr=subprocess.PIPE) as attach:
                    said = attach.stderr.readline()
                    failures.require("attach says that it attached: %r" % said, b"attached to" in said)
                    failures.expect("output", process.stdout.read(), plain.stdout)
                    failures.expect("status", process.wait(60), plain.status)
                    attach.stderr.read()
            finally:
                process.kill()
        if not failures:
            compare_counts(tools, trace, recorded.counts_in(truth), failures)
    return failures


# case: the allocator's name, the command that builds it or the path of its library, and where the allocator is: "linked" (a library that
# the program is linked with), "preloaded" (a library that is preloaded), "before" (a library that the shell preloads before allogram's library), or
# "inside" (the program).
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
ENTRIES = {
    "moz_arena in a library": ("moz_arena", ["gcc", "-O2"], "linked"),
    "moz_arena in a library that calls itself directly": ("moz_arena", ["gcc", "-O3", "-flto", "-fno-semantic-interposition", "-Wl,-Bsymbolic"], "linked"),
    "moz_arena in a library, preloaded": ("moz_arena", ["gcc", "-O0"], "preloaded"),
    "moz_arena in the program, stripped": ("moz_arena", ["gcc", "-O2", "-s"], "inside"),
    "moz_arena in the program, LTO": ("moz_arena", ["gcc", "-O3", "-flto", "-fno-inline"], "inside"),
    "jemalloc's library": ("jemalloc", LIBRARIES + "libjemalloc.so.2", "preloaded"),
    "mimalloc's library": ("mimalloc", LIBRARIES + "libmimalloc.so.2.0", "preloaded"),
    "jemalloc's library before the agent": ("jemalloc", LIBRARIES + "libjemalloc.so.2", "before"),
    "mimalloc's library before the agent": ("mimalloc", LIBRARIES + "libmimalloc.so.2.0", "before"),
    "tcmalloc's library before the agent": ("tcmalloc", LIBRARIES + "libtcmalloc_minimal.so.4", "before"),
    "tcmalloc's library": ("tcmalloc", LIBRARIES + "libtcmalloc_minimal.so.4", "preloaded"),
}
ENTRIES_TRUTH = {size: 100 for size in (1010, 2121, 4040, 9090, 6464, 3333)}  # bytes: blocks; no other block has these sizes


def build_entries(folder, allocator, how):
    """Returns the path of the program, and the environment variables that it needs."""
    program, library = os.path.join(folder, "program"), os.path.join(folder, "liballocator.so")
    everywhere = ["-fno-builtin", "-w", "-g"]
    caller = recorded.source_of("other_entries.c")
    if how == "inside":
        subprocess.run([*allocator, *everywhere, "-rdynamic", caller, recorded.source_of("arena_allocator.c"), "-o", program, "-ldl"],
                       check=True, timeout=120)
        return program, {}
    if isinstance(allocator, list):
        subprocess.run([*allocator, *everywhere, "-shared", "-fPIC", recorded.source_of("arena_allocator.c"), "-o", library], check=True, timeout=120)
    else:
        library = allocator
    linked = [library, "-Wl,--no-as-needed", "-Wl,-rpath," + folder] if how == "linked" else []
    subprocess.run(["gcc", "-O2", *everywhere, caller, "-o", program, *linked, "-ldl"], check=True, timeout=120)
    return program, {"LD_PRELOAD": library} if how == "preloaded" else {}


def blocks_of(tools, trace):
    """Returns {size in bytes: number of blocks} of the blocks that were allocated and freed."""
    found = {}
    for block in recorded.report(tools, trace, "--view=blocks")["blocks"]:
        if block["size"] in ENTRIES_TRUTH and block["state"] == "closed":
            found[block["size"]] = found.get(block["size"], 0) + 1
    return found


def other_entries(tools, family, allocator, how):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program, env = build_entries(folder, allocator, how)
        plain = recorded.run([program, family], env={"LD_PRELOAD": allocator} if how == "before" else env)
        failures.expect("status without allogram", plain.status, 0)
        for number, mode in enumerate((["--mode=exact"], ["--mode=sample", "--interval=1"])):
            inner = os.path.join(folder, str(number))
            os.mkdir(inner)
            command = [program, family]
            if how == "before":
                command = ["sh", "-c", 'LD_PRELOAD=$0:$LD_PRELOAD exec "$@"', allocator, *command]
            outcome, traces = recorded.record(tools, command, inner, options=mode, env=env)
            traces = [trace for trace in traces if recorded.report(tools, trace)["trace"]["command"][:1] == [program]]
            what = " ".join(mode)
            failures.expect("status, " + what, outcome.status, 0)
            failures.expect("output, " + what, outcome.stdout + outcome.stderr, plain.stdout + plain.stderr)
            summary = recorded.report(tools, traces[0])
            failures.expect("ghosts, " + what, summary["ghost_frees"], 0)
            if "--mode=exact" in mode:
                failures.expect("blocks", blocks_of(tools, traces[0]), ENTRIES_TRUTH)
    return failures


def counted_by_size(tools, trace, sizes):
    found = dict.fromkeys(sizes, 0)
    dump = recorded.run([tools.allogram, "dump", trace])
    for size in re.findall(rb" alloc address=\S+ size=(\d+) ", dump.stdout):
        if int(size) in found:
            found[int(size)] += 1
    return found


def interrupted(tools, mode):
    """Signal handlers interrupt the allocator, and call it or leave it by longjmp. Threads are cancelled inside of the allocator."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program = os.path.join(folder, "program")
        subprocess.run(["gcc", "-O2", *EVERYWHERE, recorded.source_of("interrupted_allocator.c"), "-o", program, "-pthread"], check=True, timeout=120)
        plain = recorded.run([program])
        truth = {int(size): int(count) for size, count in (line.split() for line in plain.stdout.splitlines())}
        outcome, traces = recorded.record(tools, [program], folder, options=mode)
        failures.expect("status and output", (outcome.status, outcome.stdout), (plain.status, plain.stdout))
        failures.expect("stderr", outcome.stderr, plain.stderr)
        found = counted_by_size(tools, traces[0], truth)
        failures.expect("blocks by size", found, truth)
        failures.expect("ghost frees (frees of blocks without a recorded allocation)", recorded.report(tools, traces[0])["ghost_frees"], 0)
    return failures


def at_the_end_of_a_stack(tools):
    """A child allocates in its first function, on a stack after which another thread maps and unmaps memory. No child may crash."""
    failures, rounds = tap.Failures(), 5000
    with recorded.Folder() as folder:
        program = os.path.join(folder, "program")
        subprocess.run(["gcc", "-O2", *EVERYWHERE, recorded.source_of("end_of_stack.c"), "-o", program, "-pthread"], check=True, timeout=120)
        outcome, traces = recorded.record(tools, [program, str(rounds)], folder)
        failures.expect("status", outcome.status, 0)
        failures.expect("blocks of 64 bytes", counted_by_size(tools, traces[0], [64]), {64: 5 * rounds})
    return failures


# Allocates and frees 100 blocks each of 1111 bytes (malloc), 2222 (calloc), 3333 (malloc; each block is then reallocated to 4444) and 6464
# (aligned). Then it fills a block and the byte after the block with the value 1, and frees the block. Only glibc's debugging of malloc notices the
# overwritten byte: from the end of the memory it searches backwards for a mark, a byte that is computed from the block's address and is never 1.
# A byte that is not the mark is the distance to the next byte to examine. A value other than 1 could by chance be the mark.
DEBUGGED = r"""
#include <stdlib.h>
int main(void) {
    for (int i = 0; i < 100; i++) {
        void *aligned = NULL, *grown = malloc(3333);
        free(malloc(1111));
        free(calloc(1, 2222));
        free(realloc(grown, 4444));
        if (posix_memalign(&aligned, 64, 6464) != 0) {
            return 2;
        }
        free(aligned);
    }
    volatile char *block = malloc(24);
    for (int i = 0; i <= 24; i++) {
        block[i] = 1;
    }
    free((void *)block);
    return 0;
}
"""
DEBUGGED_TRUTH = {size: 100 for size in (1111, 2222, 3333, 4444, 6464)}


def debugged(tools, how):
    """glibc's library for debugging of malloc, whose functions all have hidden symbol versions, is preloaded before or after the agent. All
    blocks are recorded, and the library works as without allogram."""
    failures = tap.Failures()
    library = "libc_malloc_debug.so.0"
    with recorded.Folder() as folder:
        source, program = os.path.join(folder, "debugged.c"), os.path.join(folder, "debugged")
        with open(source, "w", encoding="ascii") as file:
            file.write(DEBUGGED)
        subprocess.run(["gcc", "-O1", "-fno-builtin", "-w", source, "-o", program], check=True)
        for check, status in (("0", 0), ("3", 128 + 6)):
            env = {"MALLOC_CHECK_": check}
            plain = recorded.run([program], env={**env, "LD_PRELOAD": library})
            failures.expect("status without allogram", plain.status, status)
            command, preload = [program], {"LD_PRELOAD": library}
            if how == "before":
                command, preload = ["sh", "-c", 'LD_PRELOAD=$0:$LD_PRELOAD exec "$1"', library, program], {}
            inner = os.path.join(folder, check)
            os.mkdir(inner)
            outcome = recorded.run([tools.allogram, "run", "-o", os.path.join(inner, "t.%e.allogram"), "--", *command], env={**env, **preload})
            failures.expect("status", outcome.status, status)
            failures.require("the closing line says that nothing is lost: %r" % outcome.stderr, b"; nothing lost" in outcome.stderr)
            trace = os.path.join(inner, "t.debugged.allogram")
            failures.expect("blocks by size", counted_by_size(tools, trace, DEBUGGED_TRUTH), DEBUGGED_TRUTH)
            failures.expect("ghost frees", recorded.report(tools, trace)["ghost_frees"], 0)
    return failures


# The compiler may inline the allocator into its callers; calls of an inlined allocator cannot be recorded. Unless all blocks were
# recorded, the closing line must say what is not recorded.
INLINED = [["gcc", "-O2"], ["gcc", "-O2", "-DINLINING=always_inline"], ["gcc", "-O3"], ["gcc", "-O3", *WHOLE_PROGRAM]]


def inlined(tools, command, mode):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        program, truth = os.path.join(folder, "program"), os.path.join(folder, "truth")
        how = command if any("INLINING" in word for word in command) else [*command, "-DINLINING=unused"]
        subprocess.run([*how, "-fno-builtin", "-w", "-DVECTOR_BYTES=16", SOURCE, "-o", program], check=True, timeout=120)
        plain = recorded.run([program, "3000"], env={"TRUTH_FILE": truth})
        counts = recorded.counts_in(truth)
        outcome = recorded.run([tools.allogram, "run", "-o", os.path.join(folder, "t.%p.allogram"), *mode, "--", program, "3000"])
        failures.expect("status", outcome.status, plain.status)
        failures.expect("output", outcome.stdout, plain.stdout)
        summary = recorded.report(tools, recorded.traces_in(folder)[0])
        says_so = b"; not recorded: " in outcome.stderr
        is_whole = all(0 <= summary[key] - counts[key] <= OUTSIDE for key in ("allocated_blocks", "freed_blocks"))
        kinds = [finding["kind"] for finding in summary["findings"]]
        if mode == ["--mode=exact"]:
            failures.fail_unless("the closing line does not say that something is not recorded: %d of %d blocks, findings %s, %s" % (
                summary["allocated_blocks"], counts["allocated_blocks"], kinds, outcome.stderr), says_so or is_whole and not kinds)
            failures.fail_unless("the closing line says that something is not recorded, the report does not: %s" % outcome.stderr,
                                 not says_so or "unseen_frees" in kinds or not all(runtime["hooked"] for runtime in summary["runtimes"]))
    return failures


# A program that frees 100 blocks of 1111 bytes by the function free_sized of a library. Like that of glibc 2.43, this function only calls free. The
# library's calls are bound when it is loaded (-z now).
FREE_SIZED = "#include <stdlib.h>\nvoid free_sized(void *block, size_t size) { (void)size; free(block); }\n"
FREE_SIZED_CALLER = r"""
#include <stdlib.h>
void free_sized(void *block, size_t size);
int main(void) {
    for (int i = 0; i < 100; i++) {
        free_sized(malloc(1111), 1111);
    }
    return 0;
}
"""


def free_sized(tools, command):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for name, text in (("library.c", FREE_SIZED), ("program.c", FREE_SIZED_CALLER)):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)
        subprocess.run([*command, "-O2", "-fPIC", "-shared", "-Wl,-z,now", "library.c", "-o", "libsized.so"], cwd=folder, check=True)
        subprocess.run(["gcc", "-O2", "program.c", "-L.", "-lsized", "-Wl,-rpath," + folder, "-o", "program"], cwd=folder, check=True)
        outcome, traces = recorded.record(tools, [os.path.join(folder, "program")], folder)
        failures.expect("status", outcome.status, 0)
        blocks = [row for row in recorded.report(tools, traces[0], "--view=blocks")["blocks"] if row["size"] == 1111]
        failures.expect("blocks of 1111 bytes", [row["state"] for row in blocks], ["closed"] * 100)
        summary = recorded.report(tools, traces[0])
        failures.expect("ghost frees", summary["ghost_frees"], 0)
        failures.expect("note of libc", [runtime.get("note", "") for runtime in summary["runtimes"] if runtime["name"] == "libc"], [""])
    return failures


# A library with an allocator and with code that allocates, and a program that allocates, too. How the library is linked decides whether its own calls can
# be interposed.
CALLING_LIBRARY = r"""
#include <stdlib.h>
void library_work(void) {
    for (int i = 0; i < 100; i++) {
        void *aligned = NULL, *grown = malloc(3333);
        free(malloc(1111));
        free(calloc(1, 2222));
        free(realloc(grown, 4444));
        if (posix_memalign(&aligned, 64, 6464) == 0) {
            free(aligned);
        }
    }
}
"""
CALLING_PROGRAM = r"""
#include <stdlib.h>
void library_work(void);
int main(void) {
    library_work();
    for (int i = 0; i < 100; i++) {
        free(malloc(5555));
        free(calloc(1, 7777));
    }
    return 0;
}
"""
CALLING_TRUTH = {size: 100 for size in (1111, 2222, 3333, 4444, 5555, 6464, 7777)}
CALLING = [["-O2"], ["-O2", "-Wl,-Bsymbolic"], ["-O2", "-Wl,-Bsymbolic-functions"], ["-O3", "-flto", "-fno-inline", "-Wl,-Bsymbolic"]]


def calling_library(tools, command, how):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        for name, text in (("library.c", CALLING_LIBRARY), ("program.c", CALLING_PROGRAM)):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)
        library = os.path.join(folder, "libcalling.so")
        subprocess.run(["gcc", *EVERYWHERE, "-shared", "-fPIC", *command, "library.c", recorded.source_of("arena_allocator.c"), "-o", library],
                       cwd=folder, check=True, timeout=120)
        subprocess.run(["gcc", "-O1", "-fno-builtin", "program.c", library, "-Wl,-rpath," + folder, "-o", "program"], cwd=folder, check=True, timeout=120)
        for mode in (["--mode=exact"], ["--mode=sample", "--interval=1"]):
            inner = os.path.join(folder, mode[0])
            os.mkdir(inner)
            outcome, traces = recorded.record(tools, [os.path.join(folder, "program")], inner, options=mode,
                                              env={"LD_PRELOAD": library} if how == "preloaded" else {})
            failures.expect("status and output, " + mode[0], (outcome.status, outcome.stdout + outcome.stderr), (0, b""))
            summary = recorded.report(tools, traces[0])
            failures.expect("ghosts, " + mode[0], summary["ghost_frees"], 0)
            failures.expect("libc is hooked, " + mode[0], [row["hooked"] for row in summary["runtimes"] if row["name"] == "libc"], [True])
            if mode[0] == "--mode=exact":
                failures.expect("blocks by size", counted_by_size(tools, traces[0], CALLING_TRUTH), CALLING_TRUTH)
            else:
                failures.expect("blocks", summary["allocated_blocks"], sum(CALLING_TRUTH.values()))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(len(BUILDS) + len(ENTRIES) + len(CALLING) * 2 + len(ATTACHED) + 2 + 2 + len(INLINED) * 2 + 3 + 1)
    for name, (family, allocator, how) in ENTRIES.items():
        if isinstance(allocator, str) and not os.path.exists(allocator):
            plan.skip(name, allocator + " is not installed")
        else:
            plan.run(name, lambda case=(family, allocator, how): other_entries(tools, *case))
    for command in CALLING:
        for how in ("linked", "preloaded"):
            plan.run("a library that calls its own malloc, built with %s, %s" % (" ".join(command), how),
                     lambda command=command, how=how: calling_library(tools, command, how))
    for how in ("before", "after"):
        if subprocess.run(["ldconfig", "-p"], capture_output=True, check=False).stdout.find(b"libc_malloc_debug.so.0") < 0:
            plan.skip("glibc's debugging of malloc", "this glibc has no libc_malloc_debug.so.0")
        else:
            plan.run("glibc's debugging of malloc, preloaded %s the agent" % how, lambda how=how: debugged(tools, how))
    for command in INLINED:
        for mode in MODES[:2]:
            plan.run("inlined into its callers by %s, %s" % (" ".join(command), mode[0]),
                     lambda command=command, mode=mode: inlined(tools, command, mode))
    for command in (["gcc"], ["gcc", "-fno-plt"], ["gcc", "-fcf-protection"]):
        plan.run("free_sized that only calls free, built by " + " ".join(command), lambda command=command: free_sized(tools, command))
    for mode in (["--mode=exact"], ["--mode=sample", "--interval=1"]):
        plan.run("interrupted, " + " ".join(mode), lambda mode=mode: interrupted(tools, mode))
    plan.run("at the end of a stack", lambda: at_the_end_of_a_stack(tools))
    for command in ATTACHED:
        plan.run("attached, built by " + " ".join(command), lambda command=command: attached_build(tools, command))
    for command in BUILDS:
        name = "built by " + " ".join(command)
        if not shutil.which(command[0]):
            plan.skip(name, command[0] + " is not installed")
        elif "-mavx2" in command and not has_avx2():
            plan.skip(name, "this CPU has no AVX2")
        else:
            plan.run(name, lambda command=command: a_build(tools, command))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
