#!/usr/bin/env python3
"""Allocates on coroutines with stacks of 2.5 KiB, above a page that cannot be accessed, recorded from the start and attached, exact and sampled.
docs/reference/limits.md promises that the agent needs no more stack in a call. small_stack.c describes the situations. Each program must end as
usual, and the exact traces must have all its blocks."""

import os
import subprocess
import sys

import recorded
import tap

STACK_BYTES = 2560
SITUATIONS = ("pairs", "many", "family", "mappings", "thread", "fork", "libraries")
MODES = {"exact": ["--mode=exact"], "sampled": ["--mode=sample", "--interval=4096"]}


# All functions are bound at load, because the loader needs 3.2 KiB to bind one at its first call.
ENVIRONMENT = dict(os.environ, LD_BIND_NOW="1")


def command(tools, situation):
    return [tools.program("small_stack"), situation, str(STACK_BYTES)]


def own_blocks(tools, trace):
    sites = recorded.report(tools, trace, "--view=sites", "--limit=0")["sites"]
    return sum(row["own"]["allocated_blocks"] for row in sites if row["function"] == "allocate_pairs")


def started(tools, situation, mode):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, command(tools, situation), folder, MODES[mode], env=ENVIRONMENT)
        failures.expect("status", outcome.status, 0)
        if mode == "exact" and outcome.status == 0:
            # a forked child allocates fewer blocks than its parent
            failures.expect("blocks", max(own_blocks(tools, trace) for trace in traces), int(outcome.stdout))
    return failures


def attached(tools, situation, mode):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = os.path.join(folder, "trace.allogram")
        program = subprocess.Popen([*command(tools, situation), "wait"], env=ENVIRONMENT, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        program.stdout.readline()
        attachment = subprocess.Popen([tools.allogram, "attach", *MODES[mode], "-o", trace, str(program.pid)], stderr=subprocess.PIPE)
        said = attachment.stderr.readline()  # "attached to ..."
        output = program.communicate(b"\n", timeout=60)[0]
        attachment.communicate(timeout=60)
        failures.expect("status of the program; attach said %r" % said, program.returncode, 0)
        if mode == "exact" and program.returncode == 0:
            failures.expect("blocks", own_blocks(tools, trace), int(output))
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    plan = tap.Plan(len(SITUATIONS) * len(MODES) * 2)
    for mode in MODES:
        for situation in SITUATIONS:
            plan.run("%s, %s" % (situation, mode), lambda situation=situation, mode=mode: started(tools, situation, mode))
            plan.run("%s, %s, attached" % (situation, mode), lambda situation=situation, mode=mode: attached(tools, situation, mode))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
