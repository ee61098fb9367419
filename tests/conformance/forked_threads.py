#!/usr/bin/env python3
"""Threads of forked children: threads that start all at the same time, threads that record events before the thread that returned from
fork does, and children that start and end while the writer (the process that writes the traces) does not run. When `run` returns, the
traces must contain all events of these threads and children."""

import os
import shutil
import subprocess
import sys

import recorded
import tap

BLOCKS, BLOCK_BYTES = 10, 60


def blocks_in(tools, trace):
    outcome = recorded.run([tools.allogram, "dump", trace])
    return outcome.stdout.count(b" size=%d " % BLOCK_BYTES) if outcome.status == 0 else outcome.stderr.decode(errors="replace")


def look_at_traces(failures, tools, traces, n_children, n_threads):
    failures.expect("number of traces", len(traces), 1 + n_children)
    found = [blocks_in(tools, trace) for trace in traces]
    wanted = (n_threads + 1) * BLOCKS
    failures.expect("numbers of blocks of the processes that do not have %d blocks" % wanted, [n for n in found if n != wanted], [])


def all_at_once(tools, how, n_children, n_threads):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, [tools.program("forked_threads"), how, str(n_children), str(n_threads)], folder,
                                          ["--mode=exact"])
        failures.expect("status", (outcome.status, outcome.stderr), (0, b""))
        look_at_traces(failures, tools, traces, n_children, n_threads)
    return failures


def unseen(tools, n_children):
    """All processes run on one CPU, and the writer gets no time on this CPU until the first process has ended."""
    failures = tap.Failures()
    cpu = min(os.sched_getaffinity(0))
    with recorded.Folder() as folder:
        outcome, _ = recorded.record(tools, ["chrt", "-f", "1", tools.program("forked_threads"), "fork", str(n_children), "1"], folder,
                                     ["--mode=exact"], preexec=lambda: os.sched_setaffinity(0, [cpu]))
        copies = os.path.join(folder, "copies")
        # Copy the traces as soon as `run` has returned, because a little later the traces would be whole in any case.
        shutil.copytree(folder, copies)
        failures.expect("status", (outcome.status, outcome.stderr), (0, b""))
        look_at_traces(failures, tools, recorded.traces_in(copies)[1:], n_children, 1)  # without the trace of chrt
    return failures


def main():
    tools = recorded.tools_of_arguments()
    plan = tap.Plan(4)
    for n_threads in (3, 8):
        plan.run("%d threads begin at once" % n_threads, lambda n_threads=n_threads: all_at_once(tools, "fork", 100, n_threads))
    plan.run("the child's own threads begin first", lambda: all_at_once(tools, "raw", 20, 1))
    name = "children that the writer did not see"
    if subprocess.run(["chrt", "-f", "1", "true"], capture_output=True, check=False).returncode != 0:
        plan.skip(name, "real-time scheduling is not permitted here")
    else:
        plan.run(name, lambda: unseen(tools, 60) or unseen(tools, 60))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
