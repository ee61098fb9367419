#!/usr/bin/env python3
"""`run --delay`, `--duration` and `--signal` choose the time in which events are recorded. The program (commanded.c) allocates and frees on
command, so the exact contents of the trace are known."""

import os
import signal
import sys
import time

import recorded
import snapshots
import tap

SEEN_S = 0.1 # seconds within which the writer (the process that writes the traces) reacts to a signal, also on a busy machine


def wait_until(moment):
    time.sleep(max(0, moment - time.monotonic()))


def toggle(commanded):
    commanded.process.send_signal(signal.SIGUSR1)
    time.sleep(SEEN_S)


def own_at_end(tools, commanded, failures):
    failures.expect("status", commanded.finish(), 0)
    failures.expect("standard error", commanded.said(), "")
    snapshots.is_whole(tools, commanded.trace, failures)
    return snapshots.own(tools, commanded.trace)


def sums(allocated_blocks, allocated_bytes, freed_blocks, in_use_bytes):
    return {"allocated_blocks": allocated_blocks, "allocated_bytes": allocated_bytes, "freed_blocks": freed_blocks,
            "in_use_bytes": in_use_bytes}


def a_signal_pauses_and_resumes(tools, *options):
    """During a pause no allocation is recorded. Frees of blocks that were allocated before the pause are recorded, so the bytes in use are
    right."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder, "--signal=USR1", *options)
        commanded.do("alloc 10 100")
        toggle(commanded)
        commanded.do("alloc 2000 200", "free 2005")
        toggle(commanded)
        commanded.do("alloc 7 50")
        failures.expect("sums at the end", own_at_end(tools, commanded, failures), sums(17, 1350, 5, 850))
        ghosts = recorded.report(tools, commanded.trace)["ghost_frees"]
        failures.require("ghost frees (frees of blocks that were not recorded): %d" % ghosts, ghosts == (0 if options else 2000))
    return failures


def a_pause_of_samples(tools):
    return a_signal_pauses_and_resumes(tools, "--mode=sample", "--interval=1")


def a_signal_begins(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder, "--delay=1h", "--signal=SIGUSR1")
        commanded.do("alloc 1000 100", "free 10")
        toggle(commanded)
        commanded.do("free 10", "alloc 3 70")
        failures.expect("sums at the end", own_at_end(tools, commanded, failures), sums(3, 210, 0, 210))
        failures.expect("ghost frees (frees of blocks that were not recorded)", recorded.report(tools, commanded.trace)["ghost_frees"], 10)
    return failures


def a_delay_passes(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        begun = time.monotonic()
        commanded = snapshots.Commanded(tools, folder, "--delay=1500ms")
        commanded.do("alloc 1000 100")
        if time.monotonic() - begun > 1.4:
            commanded.finish()
            return failures # the machine was so slow that the delay is over: nothing can be tested
        wait_until(time.monotonic() + 1.5 + SEEN_S)
        commanded.do("alloc 3 70")
        failures.expect("sums at the end", own_at_end(tools, commanded, failures), sums(3, 210, 0, 210))
    return failures


def a_duration_passes(tools):
    """The trace ends when the duration ends, and contains the bytes in use at this moment. The program continues, and its exit status does not
    change."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        begun = time.monotonic()
        commanded = snapshots.Commanded(tools, folder, "--duration=1.5")
        commanded.do("alloc 10 100", "free 2")
        if time.monotonic() - begun > 1.4:
            commanded.finish()
            return failures # the machine was so slow that the duration is over: nothing can be tested
        wait_until(time.monotonic() + 1.5 + SEEN_S)
        commanded.do("alloc 1000 30", "free 1008")
        failures.expect("sums at the end", own_at_end(tools, commanded, failures), sums(10, 1000, 2, 800))
    return failures


def children_wait_too(tools):
    failures = tap.Failures()
    with recorded.Folder() as folder:
        outcome, traces = recorded.record(tools, ["/bin/sh", "-c", tools.program("million_blocks") + "; exit 7"], folder, options=["--delay=1h"])
        failures.expect("status", outcome.status, 7)
        for trace in traces:
            failures.expect("blocks of " + os.path.basename(trace), recorded.report(tools, trace)["allocated_blocks"], 0)
            failures.expect("status of check", recorded.check(tools, trace)[0], 0)
    return failures


def what_stays_is_in_the_curve(tools):
    """A program allocates a block and then sleeps. In the timeline, the block must be in use during the whole sleep. This is tested with the timeline
    from the index of the trace, and with the timeline that is computed from the events (with --from)."""
    failures = tap.Failures()
    with recorded.Folder() as folder:
        commanded = snapshots.Commanded(tools, folder)
        time.sleep(SEEN_S)
        commanded.do("alloc 1 50000000")
        time.sleep(5 * SEEN_S)
        commanded.do("alloc 10 100")
        time.sleep(2 * SEEN_S)
        commanded.do("free 11")
        time.sleep(2 * SEEN_S)
        failures.expect("status", commanded.finish(), 0)
        for options in ((), ("--from=1ns",)):
            points = recorded.report(tools, commanded.trace, "--view=timeline", *options)["points"]
            there = [point["in_use_bytes"] >= 50000000 for point in points]
            first, last = there.index(True), len(there) - there[::-1].index(True) - 1
            failures.fail_unless("%s: the block is not in use at all points between its allocation and its free: %s" % (options, there), all(there[first:last]))
            spans = [points[b]["time_ns"] - points[a]["time_ns"] for a, b in ((0, first), (first, last), (last, -1))]
            # The limits are below the sleeps, because the start takes a moment, and the recorder writes times only now and then.
            least = [1e9 * SEEN_S * n for n in (0.2, 6.8, 1.8)]
            failures.require("%s: the times before, with and after the block are long enough: %s ns" % (options, spans), all(a >= b for a, b in zip(spans, least)))
    return failures


def wrong_words_are_refused(tools):
    failures = tap.Failures()
    for words in (["--delay=soon"], ["--duration=0"], ["--duration="], ["--signal=KILL"], ["--signal=USR1", "--dump-at=signal=USR1"]):
        outcome = recorded.run([tools.allogram, "run", *words, "--", "true"])
        failures.expect("status of %s" % words, outcome.status, 125)
        failures.expect("lines of %s" % words, len(outcome.stderr.decode().splitlines()), 1)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    cases = (a_signal_pauses_and_resumes, a_pause_of_samples, a_signal_begins, a_delay_passes, a_duration_passes, children_wait_too,
             what_stays_is_in_the_curve, wrong_words_are_refused)
    results = tap.Plan(len(cases))
    for case in cases:
        results.run(case.__name__.replace("_", " "), lambda case=case: case(tools))
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
