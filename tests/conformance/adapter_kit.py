#!/usr/bin/env python3
"""Tests rules that hold for every adapter (the code of allogram that records one runtime), with a C program that uses allogram.h and with
each installed release of Lua; tests/roots/julia_kit_in_root.py tests them with Julia. For each runtime there is a Guest, a program that
runs the test cases in this runtime. The guest counts its own allocations and prints the counts. A rule compares the trace with these
counts. No rule depends on a particular runtime."""

import argparse
import os
import re
import sys

import recorded
import tap

SCRIPT = recorded.source_of("lua_cases.lua")
OUTERMOST = ("main chunk", "top-level scope")  # names that runtimes give to the outermost frame of a script


class Guest:
    """A program that takes part in the tests. heap: the name of the runtime's heap in the trace; runtime: the name that the trace
    gives to the runtime's frames; frames: the expected frames of the case `frames`, innermost first: frames of the runtime as
    name:line, native frames by name (other frames may lie between two expected frames); native: the expected frames of the case
    `native_memory`; is_adapter: an adapter of allogram records the runtime (False: the program calls allogram.h itself); is_whole: the
    guest counts all blocks of its heap by type (False: only the blocks of types that the guest defines); source: only frames of this
    file are compared with a line (None: all frames of the runtime are); program: the program that the command finally executes (None:
    the command itself); ghosts: the highest number of ghost frees that the trace may have. A ghost free is the free of a block that
    the runtime allocated before the recording began."""

    def __init__(self, name, heap, runtime, command, frames, native, is_adapter=True, is_whole=True, source=None, program=None, ghosts=0):
        self.name, self.heap, self.runtime, self.command = name, heap, runtime, command
        self.frames, self.native, self.is_adapter, self.is_whole = frames, native, is_adapter, is_whole
        self.source, self.program, self.ghosts = source, program, ghosts

    def is_here(self):
        built = os.environ.get("RUNTIMES")  # meson sets it to the adapters that are built; if it is not set, all count as built
        return os.path.exists(self.command[0]) and (not self.is_adapter or built is None or self.runtime in built.split())


def guests(tools):
    frames = ["leaf:%d" % line_of("return function() return n end"), "by_native:%d" % (line_of("local function by_native") + 1),
              "call_back", "caller:%d" % line_of("call_back(by_native)"), "frames:%d" % (line_of("function frames()") + 1)]
    native = ["take_native", "ask:%d" % line_of("take_native(54321)"), "native_memory:%d" % (line_of("take_native(54321)") + 1)]
    return [
        Guest("allogram.h", "guest", "guest", [tools.program("reporting_guest")], ["leaf:47", "by_native:50", "run_leaf", "call_back",
              "caller:54", "frames:58", "run_frames"], ["ask", "frames:109", "native_memory"], is_adapter=False),
        Guest("lua (shared)", "lua", "lua", [tools.program("lua_guest"), SCRIPT], frames, native),
        Guest("lua (static)", "lua", "lua", [tools.program("lua_guest_static"), SCRIPT], frames, native),
        Guest("lua 5.3 (shared)", "lua", "lua", [tools.program("lua_guest_5_3"), SCRIPT], frames, native),
        Guest("lua 5.2 (shared)", "lua", "lua", [tools.program("lua_guest_5_2"), SCRIPT], frames, native),
        Guest("lua 5.5 (shared)", "lua", "lua", [tools.program("lua_guest_5_5"), SCRIPT], frames, native),
        Guest("lua 5.5 (static)", "lua", "lua", [tools.program("lua_guest_static_5_5"), SCRIPT], frames, native),
        Guest("lua 5.1 (shared)", "lua", "lua", [tools.program("lua_guest_5_1"), SCRIPT], frames, native),
        Guest("lua 5.1 (static)", "lua", "lua", [tools.program("lua_guest_static_5_1"), SCRIPT], frames, native),
        Guest("lua 5.3 (static)", "lua", "lua", [tools.program("lua_guest_static_5_3"), SCRIPT], frames, native),
    ]


def line_of(text):
    return recorded.line_of("lua_cases.lua", text)


# ---- reading ----

def truths_of(outcome, failures):
    truths = recorded.truths_of(outcome, failures)
    failures.require("the guest prints its counts: %r" % outcome.stderr, truths)
    return truths


def record(tools, guest, case, folder, failures, options=(), status=0):
    outcome, traces = recorded.record(tools, [*guest.command, case], folder, options)
    failures.expect("status", outcome.status, status)
    summaries = [(trace, recorded.report(tools, trace)) for trace in traces]
    if guest.program is not None:
        summaries = [(trace, summary) for trace, summary in summaries if os.path.basename(summary["trace"]["exe"]) == guest.program]
        traces = [trace for trace, _ in summaries]
    for trace, summary in summaries:
        failures.expect("status of check", recorded.check(tools, trace)[0], 0)
        failures.expect("lost events", summary["lost_events"]["total"], 0)
        if trace == traces[0]: # only in the parent's trace, because a child frees blocks that its parent allocated
            failures.fail_unless("frees of unknown blocks: %d" % summary["ghost_frees"], summary["ghost_frees"] <= guest.ghosts)
    return outcome, traces


def types_in(tools, trace, names, *options):
    """The type "any" has the sums of all types: a guest that does not know the types of its blocks counts all of them as "any"."""
    keys = ("allocated_blocks", "allocated_bytes", "in_use_blocks")
    rows = {row["type"]: row for row in recorded.report(tools, trace, "--view=types", "--limit=0", *options)["types"]}
    rows["any"] = {key: sum(row[key] for name, row in rows.items() if name) for key in keys}
    return {name: [rows[name][key] for key in keys] for name in names if name in rows}


def compare(tools, trace, truth, failures):
    failures.expect("counts by type", types_in(tools, trace, truth["types"]), truth["types"])
    by_events = types_in(tools, trace, truth["types"], "--from=1ns", "--older")
    failures.expect("types, computed from the events", {name: row[:2] for name, row in by_events.items()},
                    {name: row[:2] for name, row in truth["types"].items()})


def heap_in(tools, trace, name):
    rows = {row["name"]: row for row in recorded.report(tools, trace, "--view=heaps")["heaps"]}
    return rows.get(name)


def frames_of(guest, stack):
    names = []
    for frame in stack["frames"]:
        name = re.sub(r"^\[\w+\] ", "", frame["function"])
        has_line = frame["runtime"] == guest.runtime and (guest.source is None or
                                                          os.path.basename(frame["file"] or "") == guest.source)
        names.append("%s:%d" % (name, frame["line"]) if has_line else name)
    return names


def stacks_with(tools, guest, trace, frame):
    found = recorded.report(tools, trace, "--view=peak", "--limit=0", "--focus=" + frame)["stacks"]
    return [frames_of(guest, stack) for stack in found]


def traced_stacks(tools, runtime, command):
    """Runs traced_blocks.lua. The stacks of its strings must be those that the script read by debug.getinfo when it made the strings.
    Stacks are compared as the lines of the Lua functions."""
    failures = tap.Failures()
    script = recorded.source_of("traced_blocks.lua")
    traced = recorded.line_of("traced_blocks.lua", "-- the traced block")
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [*command, script], folder)
        failures.expect("status, complaints", (outcome.status, outcome.stderr.decode()), (0, ""))
        wanted = {tuple(int(number) for number in text.split()[1:]) for text in outcome.stdout.decode().splitlines()}
        found = set()
        for stack in recorded.report(tools, traces[0], "--view=peak", "--limit=0", "--focus=note")["stacks"]:
            lines = tuple(frame["line"] for frame in stack["frames"] if frame["runtime"] == runtime)
            found |= {lines[1:]} if lines[:1] == (traced,) else set()
            failures.expect("state of a stack", stack["state"], "complete")
        failures.require("the script made stacks: %d" % len(wanted), len(wanted) > 50)
        failures.expect("stacks that are not in the trace", wanted - found, set())
        failures.expect("stacks that only the trace has", found - wanted, set())
    return failures


def is_in_order(stack, wanted):
    rest = iter(stack)
    return all(any(name == frame for frame in rest) for name in wanted)


# ---- the rules ----

def counts_are_exact(tools, guest, case):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = record(tools, guest, case, folder, failures)
        for truth in truths_of(outcome, failures):
            compare(tools, traces[0], truth, failures)
            heap = heap_in(tools, traces[0], guest.heap)
            if guest.is_whole:
                failures.expect("allocated bytes of the heap", (heap["allocated_bytes"],), (sum(row[1] for row in truth["types"].values()),))
    return failures


def every_block_dies(tools, guest):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = record(tools, guest, "deaths", folder, failures)
        heap = heap_in(tools, traces[0], guest.heap)
        if guest.is_whole:
            failures.expect("blocks, bytes in use", (heap["in_use_blocks"], heap["in_use_bytes"]), (0, 0))
        for truth in truths_of(outcome, failures):
            compare(tools, traces[0], truth, failures)
    return failures


def nothing_is_counted_twice(tools, guest):
    """If the runtime obtains the memory of its blocks from malloc, this memory does not count a second time, as blocks of malloc."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = record(tools, guest, "counts", folder, failures)
        rows = recorded.report(tools, traces[0], "--view=sites", "--by=heap", "--limit=0",
                               *([] if guest.is_whole else ["--focus=^counts$"]))["sites"]
        malloc = sum(row["total"]["allocated_bytes"] for row in rows if row["function"] == "malloc")
        own = sum(row[1] for row in truths_of(outcome, failures)[0]["types"].values())
        failures.require("bytes of malloc %d, of the runtime's heap %d" % (malloc, own), malloc < own / 4)
    return failures


def frames_are_interleaved(tools, guest, case, wanted):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = record(tools, guest, case, folder, failures)
        stacks = stacks_with(tools, guest, traces[0], wanted[0].split(":")[0])
        failures.require("a stack has the frames %s in this order: %s" % (wanted, stacks), any(is_in_order(stack, wanted) for stack in stacks))
        exact = [name for name in wanted if ":" in name]
        for stack in stacks:
            failures.expect("frames of the runtime in a stack of the case", [name for name in stack if ":" in name and not name.startswith(OUTERMOST)], exact)
        summary = recorded.report(tools, traces[0])
        failures.expect("incomplete stacks", summary["incomplete_stacks"], 0)
    return failures


def a_forked_child_is_recorded(tools, guest):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = record(tools, guest, "forked", folder, failures)
        truths = truths_of(outcome, failures)
        failures.expect("numbers of traces, of lines with counts", (len(traces), len(truths)), (2, 2))
        by_pid = {recorded.report(tools, trace)["trace"]["pid"]: trace for trace in traces}
        child, parent = truths
        compare(tools, by_pid[parent["pid"]], parent, failures)
        stacks = stacks_with(tools, guest, by_pid[child["pid"]], "leaf")
        failures.require("a stack of the child has the expected innermost frame: %s" % stacks, any(guest.frames[0] in stack for stack in stacks))
    return failures


def an_end_loses_nothing(tools, guest, how, status):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = record(tools, guest, "ends_by_" + how, folder, failures, status=status)
        compare(tools, traces[0], truths_of(outcome, failures)[0], failures)
        if guest.is_adapter and "exit" in how: # the adapter ran when the process exited
            row = next(row for row in recorded.report(tools, traces[0])["runtimes"] if row["name"] == guest.runtime)
            failures.expect("coverage", row["coverage"], 1)
    return failures


def collections_are_reported(tools, guest):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        _, traces = record(tools, guest, "collections", folder, failures)
        rows = recorded.report(tools, traces[0], "--view=gc", "--limit=0")["collections"]
        failures.expect("full collections", len([row for row in rows if row["kind"] == "full"]), 3)
    return failures


def samples_of_one_byte_are_all(tools, guest):
    """At an interval of one byte nearly every block is a sample, so the estimated bytes of a type differ from the count by at most 2 % + 64."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = record(tools, guest, "counts", folder, failures, ("--mode=sample", "--interval=1"))
        truth = truths_of(outcome, failures)[0]["types"]
        for name, row in types_in(tools, traces[0], truth).items():
            failures.fail_unless("%s: %s, counted %s" % (name, row, truth[name]), abs(row[1] - truth[name][1]) <= 0.02 * truth[name][1] + 64)
    return failures


def with_none_the_runtime_is_not_recorded(tools, guest):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        plain = recorded.run([*guest.command, "counts"], cwd=folder)
        outcome, traces = record(tools, guest, "counts", folder, failures, ("--adapters=none",))
        failures.expect("counts that the program printed", truths_of(outcome, failures)[0]["types"], truths_of(plain, failures)[0]["types"])
        failures.expect("the runtime's heap without the adapter", heap_in(tools, traces[0], guest.heap), None)
        runtimes = recorded.report(tools, traces[0])["runtimes"]
        failures.expect("runtimes", [row["name"] for row in runtimes], ["libc"])
    return failures


def rules_of(tools, guest):
    rules = {
        "counts are exact: " + case: lambda case=case: counts_are_exact(tools, guest, case) for case in ("counts", "moves", "threads")
    }
    rules["every block dies"] = lambda: every_block_dies(tools, guest)
    rules["nothing is counted twice"] = lambda: nothing_is_counted_twice(tools, guest)
    rules["frames are interleaved"] = lambda: frames_are_interleaved(tools, guest, "frames", guest.frames)
    rules["native memory has its frames"] = lambda: frames_are_interleaved(tools, guest, "native_memory", guest.native)
    rules["a forked child is recorded"] = lambda: a_forked_child_is_recorded(tools, guest)
    for how, status in {"exit": 3, "_exit": 4, "quick_exit": 5, "abort": 128 + 6, "kill": 128 + 9}.items():
        rules["an end loses nothing: " + how] = lambda how=how, status=status: an_end_loses_nothing(tools, guest, how, status)
    rules["collections are reported"] = lambda: collections_are_reported(tools, guest)
    rules["samples of one byte are all"] = lambda: samples_of_one_byte_are_all(tools, guest)
    if guest.is_adapter:
        rules["with none the runtime is not recorded"] = lambda: with_none_the_runtime_is_not_recorded(tools, guest)
    return rules


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="a part of the names of rules")
    options = parser.parse_args()
    tools = recorded.Tools(options.build)
    recorded.hide_debug_files()
    rules = [(guest, name, rule) for guest in guests(tools) for name, rule in rules_of(tools, guest).items()
             if options.only in "%s: %s" % (guest.name, name)]
    results = tap.Plan(len(rules))
    for guest, name, rule in rules:
        name = "%s: %s" % (guest.name, name)
        if guest.is_here():
            results.run(name, rule)
        else:
            results.skip(name, "the runtime is not here")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
