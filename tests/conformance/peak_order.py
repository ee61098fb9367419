#!/usr/bin/env python3
"""Tests the order of events between threads. The threads of the test program take strict turns, so its peak is known. If each event has a
time stamp (ALLOGRAM_STAMP_EVERY=1), the reported peak may be wrong by at most one event of each thread. With the usual stamps, about one
each millisecond, the reported range of the peak must contain the true peak, in every run."""

import os
import sys

import counted
import recorded
import tap

RUNS = 20 if os.environ.get("AG_TEST_SCALE") == "full" else 4
LARGEST = 1000 # bytes of the largest block, so one event changes the peak by at most this number


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
    """A thread may lose the CPU between an event and its time stamp, so of the time resolutions of all runs only the best is checked."""
    failures = tap.Failures()
    resolutions = []
    for peak, (low, high), trace in ranges(tools, {"ALLOGRAM_STAMP_EVERY": "1"}):
        failures.fail_unless("range %d..%d does not hold %d" % (low, high, truth), low <= truth <= high)
        failures.fail_unless("peak %d, should be %d, give or take one event of each thread" % (peak, truth), abs(peak - truth) <= 2 * LARGEST)
        resolutions.append(trace["time_resolution_ns"])
    failures.require("a time resolution is less than 1 ms: %s ns" % resolutions, min(resolutions) < 1_000_000)
    return failures


def dead_threads(tools):
    """When a thread has ended, the time of its last events is known: they happened before the thread's last time stamp, and not at an
    unknown time up to the end of the process. So the range of the peak is small."""
    failures = tap.Failures()
    for _ in range(RUNS):
        with recorded.Folder() as folder:
            _, traces = recorded.record(tools, [tools.program("short_threads")], folder)
            summary = recorded.report(tools, traces[0])
            low, high = summary["peak_bytes_range"]
            failures.require("the range %d..%d ends at no more than three times the peak %d" % (low, high, summary["peak_bytes"]), high <= 3 * summary["peak_bytes"])
    return failures


def main():
    tools = recorded.tools_of_arguments()
    truth = true_peak(tools)
    results = tap.Plan(3)
    results.run("usual stamps: the range contains the true peak", lambda: usual_stamps(tools, truth))
    results.run("a stamp at every event: the peak is right", lambda: stamp_at_every_event(tools, truth))
    results.run("300 short threads: the range of the peak is small", lambda: dead_threads(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
