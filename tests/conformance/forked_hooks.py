#!/usr/bin/env python3
"""A signal handler interrupts a hook (a function of allogram that the program calls in place of an allocation function) and forks,
so that both processes return into the hook. The child must run as without allogram, and must have a trace of its own. The child must not
write into its parent's chunk (the part of the recording's shared memory to which a thread writes its events), so the parent's counts are
exact."""

import sys

import recorded
import tap

FORKS = 120
CHILD_ROUNDS = 2000
MODES = {"exact": [], "sampled": ["--mode=sample", "--interval=64"]}


def look_at_child(failures, tools, trace, is_exact, n_first):
    summary = recorded.report(tools, trace)
    status, verdict = recorded.check(tools, trace)
    failures.expect("a child: status of check, whole, lost events", (status, verdict.get("whole"), summary["lost_events"]["total"]), (0, True, 0))
    if is_exact:  # the block that was being allocated at the fork is in the trace of the parent or in that of the child
        blocks = summary["allocated_blocks"] - n_first
        failures.require("a child has one block for each of its rounds, give or take one: %d" % blocks, CHILD_ROUNDS - 1 <= blocks <= CHILD_ROUNDS + 1)


def fork_often(tools, mode, *arguments):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        command = [tools.program("fork_in_handler"), arguments[0], str(FORKS), *arguments[1:]]
        outcome, traces = recorded.record(tools, command, folder, MODES[mode])
        failures.expect("status", (outcome.status, outcome.stderr), (0, b""))
        words = outcome.stdout.split()
        if failures or len(words) != 4:
            return failures or ["the program printed %r" % outcome.stdout]
        rounds, n_bad = int(words[1]), int(words[3])
        failures.expect("children with a wrong status", n_bad, 0)
        failures.expect("number of traces", len(traces), 1 + FORKS)
        parent = recorded.report(tools, traces[0])
        failures.expect("parent: lost", parent["lost_events"]["total"], 0)
        if mode == "exact":
            for key in ("allocated_blocks", "freed_blocks"):
                failures.expect("parent: " + key, parent[key], rounds)
            # frees of blocks whose allocation is not in the trace
            failures.expect("parent: ghost frees", parent["ghost_frees"], 0)
        for trace in traces[1::10]:
            look_at_child(failures, tools, trace, mode == "exact", len(arguments) - 1)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    cases = [(mode, how) for mode in MODES for how in (["fork"], ["fork", "allocate"], ["_Fork"], ["raw"], ["raw", "allocate"])]
    plan = tap.Plan(len(cases))
    for mode, how in cases:
        plan.run("%s, %s" % (mode, " and ".join(how)), lambda mode=mode, how=how: fork_often(tools, mode, *how))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
