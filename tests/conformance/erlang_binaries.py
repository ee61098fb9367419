#!/usr/bin/env python3
"""Binaries outside of the heaps of Erlang processes, recorded by `allogram run`. The node runs binary_makers.erl, which makes binaries on
command. The bytes in use must be erlang:memory(binary) of the same moment, and the blocks of each function must be those that it made."""

import sys
import tempfile

import erlang_counted
import recorded
import tap
from erlang_survival import Node

PROGRAM = "binary_makers"
# binary:copy/2 makes a block of 128 bytes when it yields.
YIELDS_MOST, YIELD_BYTES = 10, 128
# A block consists of the allocator's header of 8 bytes, the binary's header of 24 (OTP 25) or 32 bytes, and the binary. Its size is rounded up
# to a multiple of 8, and may include a remainder that is too small for another block.
MORE_LEAST, MORE_MOST = 32, 80


def heap_of(tools, trace):
    """The row of the heap "binaries"."""
    return next(row for row in recorded.report(tools, trace, "--view=heaps")["heaps"] if row["name"] == "binaries")


def blocks_of(tools, trace, kind="total"):
    """Returns {function: metrics} of the blocks that Erlang functions made. KIND "own": the function itself; "total": the function or its
    callees."""
    return {row["function"]: row[kind] for row in recorded.report(tools, trace, "--view=sites", "--runtime=beam")["sites"]
            if row["runtime"] == "beam"}


def sums_are_the_emulators(erlang):
    """Compares the bytes in use of the heap "binaries" in a dump with erlang:memory(binary). They may differ by 0.1 %, because the node
    reads erlang:memory(binary) before it sends its answer, and the dump is taken after the answer."""
    failures = tap.Failures()
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder, program=PROGRAM)
        node.answer("binary"), node.answer("processes")  # so that all code is loaded
        for commands in (["keep 1000 500"], ["grow 50000"], ["drop 1000 3000", "drop 20 3000000"], ["share 1000000", "keep 2000 70"], ["forget"]):
            node.command(*commands)
            emulators = int(node.answer("binary"))
            dump = node.ask("dump", failures)
            heap = heap_of(erlang.tools, dump)
            if abs(emulators - heap["in_use_bytes"]) > emulators / 1000:  # which functions have more than in a run that passes?
                for function, own in sorted(blocks_of(erlang.tools, dump, "own").items()):
                    print("#     %s: %d blocks, %d bytes in use" % (function, own["in_use_blocks"], own["in_use_bytes"]))
            print("# after %s: erlang:memory(binary) %d, in use %d" % (commands, emulators, heap["in_use_bytes"]))
            failures.require("after %s: erlang:memory(binary) is %d, in use are %d bytes" % (commands, emulators, heap["in_use_bytes"]),
                             abs(emulators - heap["in_use_bytes"]) <= emulators / 1000)
        failures.expect("status", node.finish(), 0)
        status, verdict = recorded.check(erlang.tools, node.trace())
        failures.expect("status of check, whole", (status, verdict["whole"]), (0, True))
        ghosts = recorded.report(erlang.tools, node.trace(), "--view=blocks", "--state=ghost", "--limit=0")["blocks"]
        failures.expect("frees of binaries that were not recorded", [row for row in ghosts if row["tag"]["allocator"] == "binary_alloc"], [])
    return failures


def creators_are_known(erlang):
    failures = tap.Failures()

    def made(blocks, function, n, n_bytes, in_use):
        row = blocks.get(PROGRAM + ":" + function, {"allocated_blocks": 0, "in_use_blocks": 0, "allocated_bytes": 0})
        n_yields = row["allocated_blocks"] - n
        failures.require("%s: %d blocks, should be %d" % (function, row["allocated_blocks"], n), 0 <= n_yields <= YIELDS_MOST)
        failures.expect("%s: blocks in use" % function, row["in_use_blocks"], in_use)
        more = row["allocated_bytes"] - n * n_bytes - n_yields * YIELD_BYTES
        failures.require("%s: %d bytes more than its binaries have" % (function, more), n * MORE_LEAST <= more <= n * MORE_MOST)

    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder, program=PROGRAM)
        node.command("keep 1000 500", "drop 300 3000", "share 1000000", "grow 50000")
        dump = node.ask("dump", failures)
        node.command("forget")
        failures.expect("status", node.finish(), 0)
        for trace, is_kept in ((dump, True), (node.trace(), False)):
            blocks = blocks_of(erlang.tools, trace)
            made(blocks, "kept/2", 1000, 500, 1000 if is_kept else 0)
            made(blocks, "dropped/1", 300, 3000, 0)
            made(blocks, "shared/1", 1, 1000000, 1)
            grown = blocks_of(erlang.tools, trace, "own").get(PROGRAM + ":grown/2", {})
            failures.expect("grown/2: blocks in use", grown.get("in_use_blocks"), 1 if is_kept else 0)
            # the emulator reserves room for more appends
            failures.require("grown/2: bytes in use: %s" % grown, (500000 <= grown.get("in_use_bytes", 0) <= 1100000) == is_kept)
            failures.require("grown/2 reallocated its binary: %s" % grown, grown.get("allocated_blocks", 0) > 5)
            failures.require("worker/2 called these functions", blocks.get(PROGRAM + ":worker/2", {}).get("allocated_blocks", 0) >= 1301)
    return failures


def stacks_are_complete(erlang):
    """The innermost frames of a stack are native, up to the machine code that the emulator generated; all outer frames are Erlang functions. A stack
    is complete if it goes down to the first Erlang function of the process. All stacks of two processes must be complete: of the worker, which is
    traced from its start, and of the process of -eval, whose outer functions (of the module init) were called before the tracing began."""
    failures = tap.Failures()
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder, program=PROGRAM)
        node.command("keep 1000 500", "drop 300 3000")
        node.answer("binary")
        failures.expect("status", node.finish(), 0)
        folded = recorded.run([erlang.tools.allogram, "export", node.trace(), "--to=folded", "--metric=allocated_blocks"]).stdout.decode()
    seen = {"kept/2": {}, "serve/1": {}}
    for line in folded.splitlines():
        stack, n_blocks = line.rsplit(" ", 1)
        frames = stack.split(";")
        functions = [frame.removeprefix("[beam] ") for frame in frames if frame.startswith("[beam] ")]
        for function, outermost in seen.items():
            if PROGRAM + ":" + function in functions:
                key = ("incomplete" if frames[0] == "[incomplete]" else "complete", functions[0])
                outermost[key] = outermost.get(key, 0) + int(n_blocks)
    print("# outermost functions: %s" % seen)
    failures.expect("outermost functions of the worker", set(seen["kept/2"]), {("complete", "erlang:apply/2")})
    failures.require("1,000 binaries of the worker: %s" % seen["kept/2"], sum(seen["kept/2"].values()) >= 1000)
    failures.require("outermost functions of the process of -eval: %s" % seen["serve/1"],
                     seen["serve/1"] and all(verdict == "complete" and function.startswith("init:") for verdict, function in seen["serve/1"]))
    return failures


def many_processes_at_once(erlang):
    """Each process makes 400 binaries. At the end, 57 of these 400 are in a table, and 54 in the two receiving processes that still live; 8
    of them are in both places."""
    failures = tap.Failures()
    n = 20
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder, program=PROGRAM)
        node.answer("binary")
        node.command("storm %d" % n)
        emulators = int(node.answer("binary"))
        dump = node.ask("dump", failures)
        failures.expect("status", node.finish(), 0)
        in_use = heap_of(erlang.tools, dump)["in_use_bytes"]
        failures.require("erlang:memory(binary) is %d, in use are %d bytes" % (emulators, in_use), abs(emulators - in_use) <= emulators / 1000)
        row = blocks_of(erlang.tools, dump).get(PROGRAM + ":stormy/1", {})
        failures.expect("blocks of stormy/1 in use", row.get("in_use_blocks"), n * (57 + 54 - 8))
        failures.require("blocks of stormy/1: %s" % row, n * 400 <= row.get("allocated_blocks", 0) <= n * 500)
    return failures


def only_binaries(erlang):
    """--filter=heap=binaries records nothing else."""
    failures = tap.Failures()
    with tempfile.TemporaryDirectory(dir=erlang.folder) as folder:
        node = Node(erlang, folder, "--filter=heap=binaries", program=PROGRAM)
        node.command("keep 1000 500")
        failures.expect("status", node.finish(), 0)
        heaps = recorded.report(erlang.tools, node.trace(), "--view=heaps")["heaps"]
        failures.expect("heaps with blocks", [row["name"] for row in heaps if row["allocated_blocks"]], ["binaries"])
        n = blocks_of(erlang.tools, node.trace()).get(PROGRAM + ":kept/2", {"allocated_blocks": 0})["allocated_blocks"]
        failures.require("kept/2: %d blocks" % n, 1000 <= n <= 1000 + YIELDS_MOST)
    return failures


CASES = [("the sum is that of the emulator", sums_are_the_emulators), ("functions that make binaries", creators_are_known),
         ("complete stacks", stacks_are_complete), ("many processes at once", many_processes_at_once),
         ("binaries alone", only_binaries)]


def main():
    return erlang_counted.run_cases(recorded.tools_of_arguments(), CASES, programs=(PROGRAM,))


if __name__ == "__main__":
    sys.exit(main())
