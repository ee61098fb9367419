#!/usr/bin/env python3
"""Tests the rules of trackers with Lua as the allocator. A tracker is a set of functions of the program (allogram.h) that allogram calls
for sampled blocks. embedded.py tests each rule with blocks that a C program reports; this test repeats each rule, under the same name,
with tables of a Lua script, which allogram's Lua adapter reports."""

import os
import sys

import embedded
import recorded
import tap


def same_rules(tools, program):
    failures = tap.Failures()
    failures.expect("rules", recorded.run([program]).stdout.decode().split(), embedded.tracker_rules(tools))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    programs = {"Lua 5.4": tools.program("lua_tracker_rules"), "Lua 5.3": tools.program("lua_tracker_rules_5_3")}
    rules = embedded.tracker_rules(tools)
    commands = {"%s: %s" % (version, rule): [program, rule] for version, program in programs.items() for rule in rules}
    commands["exceptions"] = [tools.program("lua_tracker_exceptions")]
    results = tap.Plan(len(commands) + len(programs))
    for version, program in programs.items():
        name = version + ": the same rules"
        if os.path.exists(program):
            results.run(name, lambda program=program: same_rules(tools, program))
        else:
            results.skip(name, "no headers of %s here" % version)
    for rule, command in commands.items():
        if os.path.exists(command[0]):
            results.run(rule, lambda command=command: embedded.rule_of_trackers(tools, command, is_under_run=True))
        else:
            results.skip(rule, "no headers of this Lua here, or no compiler of C++")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
