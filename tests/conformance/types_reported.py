#!/usr/bin/env python3
"""Programs in C++ and Rust. A comment in each program has the number of blocks of each type, and of blocks without a type; the report must
have the same numbers. Reports derive the types from the names of functions of the standard library. The programs are built with and without
optimization; with optimization, these functions are inlined."""

import os
import re
import sys

import recorded
import tap

CASES = [(name + suffix, name + ending, main) for name, ending, main in (
    ("cxx_types", ".cc", "^main$"), ("cxx_rarer_types", ".cc", "^main$"), ("rust_types", ".rs", "::main$"),
    ("rust_rarer_types", ".rs", "::main$")) for suffix in ("", "_plain")]


def truth(source):
    """Reads {type: number of blocks} from the comment at the top of a program."""
    lines = (re.match(r" \* @type (.*) (\d+)$", line.rstrip("\n")) for line in open(recorded.source_of(source), encoding="utf-8"))
    return {match[1]: int(match[2]) for match in lines if match}


def counts(types):
    return {row["type"] or "untyped": row["allocated_blocks"] for row in types}


def compare_types(tools, program, source, main):
    failures = tap.Failures()
    wanted = truth(source)
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program(program)], folder)
        failures.expect("exit status", outcome.status, 0)
        types = recorded.report(tools, traces[0], "--view=types", "--focus=" + main)["types"]
        failures.expect("blocks by type", counts(types), wanted)
        for row in types:
            failures.fail_unless("%s: lifetime_ns has no maximum" % row["type"], row["lifetime_ns"]["max"] is not None)
        for name, blocks in sorted(wanted.items())[-4:]: # only the last four, because each takes two reports
            stacks = recorded.report(tools, traces[0], "--view=types", "--type=" + name, "--focus=" + main)["stacks"]
            failures.expect("blocks of the stacks of " + name, sum(stack["allocated_blocks"] for stack in stacks), blocks)
            bare = recorded.report(tools, traces[0], "--view=types", "--type=" + name.replace(" ", ""), "--focus=" + main)["stacks"]
            failures.expect("stacks, if --type= is given without blanks", bare, stacks)
        sites = recorded.report(tools, traces[0], "--view=sites", "--by=type", "--focus=" + main)["sites"]
        failures.expect("sites by type", {row["type"] or "untyped": row["own"]["allocated_blocks"] for row in sites}, wanted)
        whole = recorded.report(tools, traces[0], "--view=types")["types"]
        summary = recorded.report(tools, traces[0])
        failures.expect("sum of all types, compared with the summary", sum(row["allocated_blocks"] for row in whole), summary["allocated_blocks"])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    results = tap.Plan(len(CASES))
    for program, source, entry in CASES:
        if os.path.exists(tools.program(program)):
            results.run(program, lambda program=program, source=source, entry=entry: compare_types(tools, program, source, entry))
        else:
            results.skip(program, "no compiler for this program is installed")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
