#!/usr/bin/env python3
"""A program reports the frames of its own virtual machine with allogram.h; in the recorded stacks, these frames must be between the right
native frames. Each case tests one rule of allogram.h, alone with liballogram and under `allogram run`."""

import re
import sys

import recorded
import tap

# The frames of stacks that a test expects, innermost first. Frames of scripts are `function:line`.
RUN = ["on_click:12", "dispatch:80", "main:3", "interpret"]
ONE = ["make_block", *RUN, "one_run"]
TWO = ["make_block", "paint:5", "interpret_paint", "draw", "paint_natively", *RUN]
STACKS = { # case: (blocks, innermost frames) of each stack of the heap
    "one_run": [(1, ONE)],
    "two_runs": [(1, [*TWO, "two_runs"])],
    "no_run": [(1, ["make_block", "no_run"])],
    "walk_removed": [(1, ["make_block", "interpret", "walk_removed"])],
    "together": [(1, ["paint:7", "dispatch:8", "make_three", *RUN]), (1, ["paint:7", "dispatch:8", "make_three", "together"]),
                 (1, ["make_three", *RUN]), (1, ["make_three", "together"]), (1, ["paint:7", "make_three", *RUN]),
                 (1, ["paint:7", "make_three", "together"])],
    "strange_frames": [(1, ["[no registered function]", "[no registered function]:1", "make_block", "strange_frames"])],
    "threads": [(1, [*TWO, "threads"]), (4, ["make_block", *RUN, "run_one"])],
    "forked": [(1, ["make_block", "fork_in_script", *RUN, "forked"])],
}
CUT_DEPTH = 256


def own_frames(frames):
    names = []
    for frame in frames:
        is_script = frame["runtime"] == "script" or frame["function"].startswith("[no ")
        line = ":%d" % frame["line"] if is_script and frame["line"] else ""
        names.append(re.sub(r"^\[script\] ", "", frame["function"]) + line)
    return names


def stacks_of(tools, trace, sizes=(100, 1, 2, 3)):
    """The stacks of the blocks that the program itself allocates; these blocks are recognized by their sizes."""
    found = recorded.report(tools, trace, "--view=leaks", "--limit=0")["stacks"]
    return [(row["in_use_blocks"], own_frames(row["frames"])) for row in found
            if row["in_use_bytes"] / max(row["in_use_blocks"], 1) in sizes]


def in_order(got, wanted):
    """Sorts the stacks. If a stack begins with a wanted stack, its outer frames are dropped, because their names depend on the release of
    the C library."""
    return sorted((blocks, frames[:length]) for blocks, frames in got
                  for length in {len(names) for count, names in wanted if frames[:len(names)] == names} or {len(frames)})


def compare(what, got, wanted, failures):
    failures.expect(what, in_order(got, wanted), sorted(wanted))


def run_case(tools, case, is_under_run, folder, failures, options=()):
    command = [tools.program("host_frames"), case]
    if is_under_run:
        outcome, traces = recorded.record(tools, command, folder, options)
    else:
        outcome = recorded.run(command, cwd=folder)
        traces = outcome.stdout.decode().split("\n")[-2:-1]
    failures.expect("status", outcome.status, 0)
    failures.require("the program reports no error", b"wrong" not in outcome.stdout)
    for trace in traces:
        failures.expect("status of check", recorded.check(tools, trace)[0], 0)
        failures.expect("lost events", recorded.report(tools, trace)["lost_events"]["total"], 0)
    return traces


def is_interleaved(tools, case, is_under_run):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        traces = run_case(tools, case, is_under_run, folder, failures)
        compare(case, stacks_of(tools, traces[0]), STACKS[case], failures)
        if case == "forked" and is_under_run:
            failures.expect("number of traces", len(traces), 2)
            compare("stacks of the child", stacks_of(tools, traces[1]), STACKS[case], failures)
    return failures


def is_cut(tools, is_under_run):
    """The recorder keeps the innermost frames of a stack of 1000 frames."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run_case(tools, "deep", is_under_run, folder, failures)[0]
        stack = stacks_of(tools, trace)[0][1]
        failures.expect("frames", stack, ["make_block", *("paint:%d" % line for line in range(1000, 1000 - CUT_DEPTH + 1, -1))])
        failures.require("the stack counts as cut", recorded.report(tools, trace)["truncated_stacks"] >= 1)
    return failures


def frames_in_handler(tools, is_under_run):
    """A signal handler interrupts native code that a script called. The stack of a block that the handler allocates contains the handler's
    frames, and then the frames of the script."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run_case(tools, "signal_handler", is_under_run, folder, failures)[0]
        stack = stacks_of(tools, trace)[0][1]
        own = [name for name in stack if name in ("make_block", "on_signal", "raise_it") or name in RUN]
        failures.expect("frames", own, ["make_block", "on_signal", "raise_it", *RUN])
    return failures


def frames_of_malloc(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run_case(tools, "by_malloc", True, folder, failures)[0]
        stacks = [frames for _, frames in stacks_of(tools, trace, (12345,)) if frames[0] == "make_by_malloc"]
        failures.expect("stacks of malloc's blocks", [frames[:6] for frames in stacks], [["make_by_malloc", *RUN, "by_malloc"]])
        views = recorded.run([tools.allogram, "report", "--view=leaks", trace]).stdout.decode()
        failures.require("the text shows runtime, file and line of a script frame: " + views, re.search(r"\[script\] on_click +app\.script:12\n", views))
    return failures


def frames_of_samples(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run_case(tools, "two_runs", True, folder, failures, ("--mode=sample", "--interval=1"))[0]
        stacks = stacks_of(tools, trace)
        failures.expect("frames", [frames[:len(TWO)] for _, frames in stacks], [TWO])
    return failures


def frames_of_collections(tools, is_under_run):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        trace = run_case(tools, "collection", is_under_run, folder, failures)[0]
        causes = recorded.report(tools, trace, "--view=gc", "--blame")["blame"]
        failures.expect("functions that caused the collection", [(row["function"].split()[-1], row["collections"]) for row in causes], [("on_click", 1)])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    results = tap.Plan(2 * (len(STACKS) + 3) + 2)
    for is_under_run in (False, True):
        where = "under run" if is_under_run else "alone"
        for case in STACKS:
            results.run("%s: %s" % (where, case), lambda case=case: is_interleaved(tools, case, is_under_run))
        results.run(where + ": deep", lambda: is_cut(tools, is_under_run))
        results.run(where + ": in a signal handler", lambda: frames_in_handler(tools, is_under_run))
        results.run(where + ": collections", lambda: frames_of_collections(tools, is_under_run))
    results.run("malloc inside of a script", lambda: frames_of_malloc(tools))
    results.run("sampled", lambda: frames_of_samples(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
