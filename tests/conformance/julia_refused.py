#!/usr/bin/env python3
"""julia_refused --build BUILD: allogram does not record the blocks of Julia releases that were not verified, and the summary says so. Prints TAP."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import recorded  # noqa: E402
import tap  # noqa: E402

CASES = {  # version: (program, words of the note)
    "1.5.4": ("fake_julia", "with 1.5.3 only"),
    "1.5.3-DEV": ("fake_julia", "with 1.5.3 only"),
    "1.4.1": ("fake_julia", "with 1.5.3 only"),
    "1.12.0": ("fake_julia", "ijl_gc_small_alloc"),
    "nonsense": ("fake_julia", "with 1.5.3 only"),
    "1.9.4": ("fake_julia_loader", "1.6 or later"),
    "1.5.3": ("fake_julia", "it has no "),
}


def refused(tools, version, program, words):
    failures = tap.Failures()
    command, variables = [tools.program(program)], {"FAKE_JULIA": version}
    plain = recorded.run(command, env=variables)
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, command, folder, env=variables)
        failures.expect("output", (outcome.stdout, outcome.stderr, outcome.status), (plain.stdout, plain.stderr, 3))
        summary = recorded.report(tools, traces[-1])
        julia = [runtime for runtime in summary["runtimes"] if runtime["name"] == "julia"]
        failures.expect("hooked", [runtime["hooked"] for runtime in julia], [False])
        failures.require("note: " + str(julia), len(julia) == 1 and words in julia[0]["note"])
        failures.require("malloc is recorded", summary["allocated_blocks"] >= 1)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(len(CASES))
    for version, (program, words) in CASES.items():
        plan.run(f"{version} of {program}",
                 lambda version=version, program=program, words=words: refused(tools, version, program, words))
    sys.exit(plan.status())


main()
