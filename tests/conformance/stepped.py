#!/usr/bin/env python3
"""Runs a signal handler after each single instruction of a few calls (programs/allocators/stepped.c). The handler allocates, leaves by
siglongjmp, or forks. The calls are those of an allocator in the program, whose functions have detours (jumps to allogram's code); of an
allocator in a library, whose functions are interposed (the dynamic loader finds allogram's functions of the same names first); of mmap; and
of Lua. Every block must be recorded once, no free may be a ghost free (the free of a block whose allocation is not in the trace), and nothing
may hang."""

import collections
import os
import re
import sys

import recorded
import tap

EXACT, SAMPLED, FREES = ["--mode=exact"], ["--mode=sample", "--interval=1"], ["--mode=exact", "--free-stacks"]
OWN, LIBRARY, LUA = "stepped", "stepped_library", "stepped_lua"
TAKE = "take_new_chunk"  # a function of allogram's library that is called once in 2700 rounds of stepped
ACTS = ("malloc", "family", "operators", "mappings")
# Each fork makes a trace. Forks at all instructions of an allocation make 6,000 traces, which takes a minute of CPU time.
FORK_STRIDE = ("1", "1") if os.environ.get("AG_TEST_SCALE") == "full" else ("3", "7")
CASES = ([(OWN, act, ["return"], mode) for act in ACTS for mode in (EXACT, SAMPLED, FREES)] +
         [(LIBRARY, act, ["return"], mode) for act in ACTS for mode in (EXACT, SAMPLED)] +
         [(LUA, "lua", [how], mode) for how in ("return", "altstack") for mode in (EXACT, SAMPLED)] +
         [(OWN, act, ["altstack"], EXACT) for act in ACTS] +
         [(LIBRARY, "family", ["altstack"], EXACT)] +
         [(OWN, "malloc", ["twice", "97"], EXACT), (OWN, "operators", ["twice", "199"], EXACT), (LIBRARY, "malloc", ["twice", "97"], EXACT)] +
         [(OWN, act, ["jump", "61"], EXACT) for act in ("malloc", "operators")] + [(OWN, "malloc", ["coldjump", "61"], EXACT)] +
         [(OWN, "malloc", ["fork", stride], mode) for mode, stride in ((EXACT, FORK_STRIDE[0]), (SAMPLED, FORK_STRIDE[1]))] +
         [(OWN, "rounds", [how, TAKE], EXACT) for how in ("return", "fork")])
MOST_CHILDREN_READ = 30


def truth_of(text):
    truth = collections.Counter()
    for line in text.split("\n"):
        if "-" in line:
            first, last = map(int, line.split("-"))
            truth.update(range(first, last + 1))
        elif line:
            size, count = map(int, line.split())
            truth[size] += count
    return truth


def value_in_agent(tools, function):
    symbols = recorded.run(["nm", os.path.join(tools.build, "adapters/libc/liballogram-agent.so")]).stdout.decode()
    return re.search(r"^(\w+) t %s$" % function, symbols, re.MULTILINE).group(1)


def a_child(tools, trace):
    status, verdict = recorded.check(tools, trace)
    lost = recorded.report(tools, trace)["lost_events"]["total"]
    return [] if (status, verdict.get("whole"), lost) == (0, True, 0) else ["%s: %s, lost %d" % (trace, verdict, lost)]


def a_case(tools, program, act, how, mode):
    failures = tap.Failures()
    environment = {"WITHIN": value_in_agent(tools, TAKE)} if TAKE in how else {}
    command = [tools.program(program), act, *(word for word in how if word != TAKE)]
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, command, folder, options=mode, env=environment)
        failures.expect("status and stderr", (outcome.status, outcome.stderr), (0, b""))
        if "fork" in how:
            failures.fail_unless("only %d traces" % len(traces), len(traces) > 50)
            for trace in traces[1::1 + len(traces) // MOST_CHILDREN_READ]:
                failures += a_child(tools, trace)
        else:
            failures.expect("number of traces", len(traces), 1)
        if failures:
            return failures
        truth = truth_of(outcome.stdout.decode())
        failures.fail_unless("only %d blocks" % sum(truth.values()), "fork" in how or sum(truth.values()) > 20)
        dump = recorded.run([tools.allogram, "dump", traces[0]]).stdout
        found = collections.Counter(int(size) for size in re.findall(rb" alloc address=\S+ size=(\d+) ", dump))
        wrong = ["%d bytes: %d, should be %d" % (size, found[size], truth[size]) for size in sorted(truth | found)
                 if found[size] != truth[size] and (size in truth or size >= 20000)]
        failures.require("the blocks of each size are recorded; %d sizes differ: %s" % (len(wrong), "; ".join(wrong[:5])), not wrong)
        summary = recorded.report(tools, traces[0])
        failures.expect("lost events", summary["lost_events"]["total"], 0)
        failures.expect("ghost frees", summary["ghost_frees"], 0)
    return failures


def a_thread_that_left_deep_frames(tools):
    """A thread leaves 2 MiB of C frames and an allocation by siglongjmp. The stacks of its later allocations must still have Lua's functions."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("left_deep_lua")], folder)
        failures.expect("status and output", (outcome.status, outcome.stdout), (0, b"done\n"))
        rows = recorded.report(tools, traces[0], "--view=types", "--limit=0", "--focus=makes")["types"]
        failures.expect("tables", [row["allocated_blocks"] for row in rows if row["type"] == "table"], [1000])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(len(CASES) + 1)
    for program, act, how, mode in CASES:
        name = " ".join([program, act, *how, *mode])
        if not os.path.exists(tools.program(program)):
            plan.skip(name, program + " is not built: Lua is missing")
            continue
        plan.run(name, lambda case=(program, act, how, mode): a_case(tools, *case))
    if os.path.exists(tools.program("left_deep_lua")):
        plan.run("a thread that left deep frames", lambda: a_thread_that_left_deep_frames(tools))
    else:
        plan.skip("a thread that left deep frames", "left_deep_lua is not built: Lua is missing")
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
