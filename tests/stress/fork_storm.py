#!/usr/bin/env python3
"""Tests that processes which fork short-lived children very quickly are recorded completely.

Each process has a slot in the live file (the shared memory of the recording), and a new child begins with its parent's slot number. The
children start faster than slots become free. So a slot may be given to another process while a child still has the number of this slot.
Every process must have a complete trace, with exactly its own allocations."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
import recorded
import tap

FAMILIES = 4
CHILDREN = 600 if os.environ.get("AG_TEST_SCALE") == "full" else 40
BLOCKS, BYTES = 3, 72


def storm(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("fork_storm"), str(FAMILIES), str(CHILDREN)], folder)
        failures.expect("status", outcome.status, 0)
        failures.expect("standard error", outcome.stderr, b"")
        failures.expect("number of traces", len(traces), 1 + FAMILIES + FAMILIES * CHILDREN)
        n_children = 0
        for trace in traces:
            status, verdict = recorded.check(tools, trace)
            if status != 0 or verdict["lost_events"]["total"] != 0:
                failures.append("%s: check says %d, %s" % (os.path.basename(trace), status, verdict))
            own = {site["function"]: (site["own"]["allocated_blocks"], site["own"]["allocated_bytes"])
                   for site in recorded.report(tools, trace, "--view=sites")["sites"]}
            if not own:
                continue  # the processes that fork the children, and the first process, allocate nothing
            n_children += 1
            own = {function: counts for function, counts in own.items() if counts[0]}
            failures.expect(os.path.basename(trace), own, {"short_life": (BLOCKS, BYTES)})
        failures.expect("children", n_children, FAMILIES * CHILDREN)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    recorded.hide_debug_files()
    results = tap.Plan(1)
    results.run("%d x %d short children" % (FAMILIES, CHILDREN), lambda: storm(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
