#!/usr/bin/env python3
"""Tests of the memos of the adapters of Lua (lua_call_memo.c) and LuaJIT (luajit_frames.c). A memo keeps the last stack of a thread, so that the
next walk (a reading of Lua's calls) reads only the calls that have changed. Lua 5.1 has no memo. The cost of a block must not depend on the
depth of a recursion, and the stacks must be those that a walk of all calls finds."""

import os
import sys

import recorded
import tap

INTERPRETERS = [["/usr/bin/lua5.4"], ["/usr/bin/lua5.3"], ["/usr/bin/lua5.2"], ["/usr/bin/lua5.5"], ["/usr/bin/luajit", "-joff"], ["/usr/bin/luajit", "-Ohotloop=3"]]
SEEDS = 5 if os.environ.get("AG_TEST_SCALE") == "full" else 2
STEPS = 150


def deep_blocks_cost_as_much_as_others(tools, interpreter):
    """A block that is allocated 10,000 calls deep costs 1.0 to 1.8 times as much as a block that is allocated 10 calls deep. Without the
    memo it costs 8 to 10 times as much."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, _ = recorded.record(tools, [*interpreter, recorded.source_of("deep_blocks.lua")], folder)
        rows = [[float(value) for value in line.split()] for line in outcome.stdout.decode().splitlines()]
        failures.expect("lines", len(rows), 2)
        for shallow, deep in rows:
            failures.fail_unless("%.0f ns per block at a depth of 10 calls, %.0f ns at 10,000" % (shallow, deep), deep < 3 * shallow)
    return failures


def remembered_stacks_are_read_stacks(tools, interpreter, judge):
    """Records random programs. In the debug mode of record/self_check.h, the recorder repeats each walk of Lua's calls without the memo,
    builds each merged stack (native frames and Lua's calls) again frame by frame, and counts the differences. With --depth=20 most stacks are
    cut."""
    failures = tap.Failures()
    for seed in range(SEEDS):
        for options in ([], ["--depth=20"]):
            with recorded.Folder() as folder:
                command = [*interpreter, recorded.source_of("random_calls.lua"), str(seed), str(STEPS)]
                outcome, traces = recorded.record(tools, command, folder, options=options, env={"LD_PRELOAD": judge})
                failures.expect("output", outcome.stdout.decode(), "done\t%d\n" % seed)
                made, failed = recorded.stack_checks(tools, traces[0])
                blocks = recorded.report(tools, traces[0])["allocated_blocks"]
                failures.expect("seed %d %s: stacks that differ" % (seed, options), failed, 0)
                # each block has one check with libunwind; blocks of Lua have two more checks
                failures.fail_unless("%s checks of %d blocks: the stacks of Lua's blocks are not checked" % (made, blocks), made > 2 * blocks)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    judge = os.path.join(tools.build, "tests/judge/liballogram_judge.so")
    cases = {"remembered stacks are read stacks": lambda interpreter: remembered_stacks_are_read_stacks(tools, interpreter, judge),
             "deep blocks cost as much as others": lambda interpreter: deep_blocks_cost_as_much_as_others(tools, interpreter)}
    results = tap.Plan(len(cases) * len(INTERPRETERS))
    for interpreter in INTERPRETERS:
        for case_name, case in cases.items():
            name = "%s: %s" % (os.path.basename(" ".join(interpreter)), case_name)
            if not os.path.exists(interpreter[0]) or not os.path.exists(judge):
                results.skip(name, "no %s, or built without libunwind" % interpreter[0])
            else:
                results.run(name, lambda interpreter=interpreter, case=case: case(interpreter))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
