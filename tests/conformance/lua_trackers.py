#!/usr/bin/env python3
"""The rules of trackers (callbacks of a program for sampled blocks, allogram.h) with Lua as the allocator. Each rule that
embedded.py tests with the C API is tested again with the tables of a script. The Lua adapter reports the events; the
program starts trackers with allogram.h. Each rule is one test with the same name."""

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
    program = tools.program("lua_tracker_rules")
    rules = embedded.tracker_rules(tools)
    commands = {rule: [program, rule] for rule in rules}
    commands["exceptions"] = [tools.program("lua_tracker_exceptions")]
    results = tap.Plan(len(commands) + 1)
    if os.path.exists(program):
        results.run("the same rules", lambda: same_rules(tools, program))
    else:
        results.skip("the same rules", "no headers of Lua 5.4 here")
    for rule, command in commands.items():
        if os.path.exists(command[0]):
            results.run(rule, lambda command=command: embedded.rule_of_trackers(tools, command, is_under_run=True))
        else:
            results.skip(rule, "no headers of Lua 5.4 here, or no compiler of C++")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
