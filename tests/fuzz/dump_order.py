#!/usr/bin/env python3
"""`allogram dump` must print lines in the order of their times, also if a program had many threads at the same time. Prints TAP.

    dump_order.py ALLOGRAM WORST_TRACES

Each trace has one or two chunks (units of the file) with the events of each stream (thread); the times of the chunks overlap."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
import tap  # noqa: E402

ALLOGRAM, WORST_TRACES = sys.argv[1:3]


def check(case, n_streams, n_lines):
    failures = tap.Failures()
    with tempfile.NamedTemporaryFile(prefix="dump_order.") as trace:
        subprocess.run([WORST_TRACES, case, str(n_streams), trace.name], check=True, stdout=subprocess.DEVNULL)
        dump = subprocess.run([ALLOGRAM, "dump", trace.name], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    failures.fail_unless("dump says that lines are out of order", "out of order" not in dump.stderr)
    lines = [line.split() for line in dump.stdout.splitlines() if line[0] != "-"]
    times = [float(line[0]) for line in lines]
    failures.expect("number of lines with a smaller time than the line before", sum(a > b for a, b in zip(times, times[1:])), 0)
    failures.expect("number of lines of streams", sum(line[1] != "-" for line in lines), n_lines)
    return failures


plan = tap.Plan(2)
plan.run("a trace of 3000 threads", lambda: check("many_streams", 3000, 3000 * 8))
plan.run("a trace of 1200 threads, with records in their chunks of events", lambda: check("open_records", 1200, 1200 * 5))
sys.exit(plan.status())
