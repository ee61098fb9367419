#!/usr/bin/env python3
"""Tests the order of events between threads: a program whose threads take strict turns has a known peak. With a time stamp at
every event (ALLOGRAM_STAMP_EVERY=1) the peak has to be exact to one event of each thread. With the usual stamps the reported
range has to contain the true peak, in every run."""

import os
import sys

import counted
import recorded
import tap

RUNS = 20 if os.environ.get("AG_TEST_SCALE") == "full" else 4
LARGEST = 1000  # bytes of the largest block: the most that one event can change the peak by


def true_peak(tools):
    with recorded.Folder() as folder:
        recorded.run([tools.program("thread_turns")], env=counted.environment(tools.judge, folder))
        return counted.read(folder)[0]["peak_bytes"]


def ranges(tools, env):
    for _ in range(RUNS):
        with recorded.Folder() as folder:
            _, traces = recorded.record(tools, [tools.program("thread_turns")], folder, env=env)
            summary = recorded.report(tools, traces[0])
            yield summary["peak_bytes"], summary["peak_bytes_range"], summary["trace"]


def usual_stamps(tools, truth):
    failures = tap.Failures()
    for peak, (low, high), _ in ranges(tools, {}):
        failures.fail_unless("range %d..%d does not hold %d" % (low, high, truth), low <= truth <= high)
        failures.fail_unless("peak %d is not in its range %d..%d" % (peak, low, high), low <= peak <= high)
    return failures


def stamp_at_every_event(tools, truth):
    failures = tap.Failures()
    for peak, (low, high), trace in ranges(tools, {"ALLOGRAM_STAMP_EVERY": "1"}):
        failures.fail_unless("range %d..%d does not hold %d" % (low, high, truth), low <= truth <= high)
        failures.fail_unless("peak %d, should be %d within an event of each thread" % (peak, truth), abs(peak - truth) <= 2 * LARGEST)
        failures.require("resolution %d ns" % trace["time_resolution_ns"], trace["time_resolution_ns"] < 1_000_000)
    return failures


def dead_threads(tools):
    """The events of a thread that ended lie between its own time stamps, not anywhere up to the end of the process."""
    failures = tap.Failures()
    for _ in range(RUNS):
        with recorded.Folder() as folder:
            _, traces = recorded.record(tools, [tools.program("short_threads")], folder)
            summary = recorded.report(tools, traces[0])
            low, high = summary["peak_bytes_range"]
            failures.require("range %d..%d around %d" % (low, high, summary["peak_bytes"]), high <= 3 * summary["peak_bytes"])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    truth = true_peak(tools)
    results = tap.Plan(3)
    results.run("usual stamps: the range holds the truth", lambda: usual_stamps(tools, truth))
    results.run("a stamp at every event: the peak is the truth", lambda: stamp_at_every_event(tools, truth))
    results.run("300 short threads: the range is that of those that lived at once", lambda: dead_threads(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
